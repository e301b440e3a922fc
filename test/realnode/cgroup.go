//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// cgroupName is the one cgroup below the root that this package makes, in every hierarchy.
	cgroupName = "fleetwright-realnode"
)

// unified says that there is one hierarchy for all controllers: cgroup version 2.
func unified() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// hierarchies are the roots of the cgroup file systems: one for each controller with version 1, one with version 2.
func hierarchies() []string {
	if unified() {
		return []string{cgroupRoot}
	}
	found, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs")) // a constant pattern is never malformed
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// makeCgroup makes the cgroup of one machine in every hierarchy, ready for its kubelet.
func makeCgroup(machine string) error {
	for _, root := range hierarchies() {
		parent := root
		for _, part := range []string{cgroupName, machine} {
			dir := filepath.Join(parent, part)
			if err := makeOne(parent, dir); err != nil {
				return fmt.Errorf("make cgroup of machine %s: %w", machine, err)
			}
			parent = dir
		}
	}
	return nil
}

func makeOne(parent, dir string) error {
	if unified() {
		if err := delegate(parent); err != nil {
			return err
		}
	}
	err := os.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if unified() || filepath.Base(parent) == "unified" {
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // they start empty, and then the cgroup takes no process
		have, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			continue // another controller
		}
		if err := os.WriteFile(filepath.Join(dir, file), have, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// delegate hands the controllers of a version 2 cgroup to its children.
func delegate(dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(have)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes our cgroup and all below it, or the part of one machine, leaves first. Processes in it have to be gone;
// what cannot be removed stays, and a later run tries again.
func removeCgroups(machine string) {
	for _, root := range hierarchies() {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(root, cgroupName, machine), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // it may vanish while we look
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = syscall.Rmdir(dirs[i])
		}
	}
}
