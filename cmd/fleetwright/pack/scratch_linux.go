package pack

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// enter runs a command in user, mount and process namespaces of its own: there it may
// mount, and what it mounts and starts is gone with it. In its user namespace it is root over files, and not over the kernel: it
// cannot load modules, set the clock or reboot. The error is an *exec.ExitError when it ended with another code than 0.
func enter(cmd *exec.Cmd) error {
	if os.Geteuid() != 0 {
		return errors.New("make scratch host: steps change a host as root, so this needs root's rights (with sudo, say)")
	}
	everybody := []syscall.SysProcIDMap{{Size: 1<<32 - 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: everybody, GidMappings: everybody, GidMappingsEnableSetgroups: true, Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("make scratch host: %w (the kernel must allow user namespaces)", err)
	}
	return cmd.Wait()
}

// scratch is a host to try things on: a copy-on-write image of a root file system.
type scratch struct {
	// dir is where everything is mounted: root, and what was written to it in upper.
	dir, root, lower string
	// layers are the parts of the image.
	layers []layer
}

// layer is one directory of the image. One that has a mount below it cannot be the lower part of an overlay (the kernel does
// not let a user namespace look below mounts): its entries are, and its files are copies.
type layer struct {
	inside string
	upper  string // empty for a copy
}

// newScratch mounts one in dir. Only a process inside of namespaces of its own may call it.
func newScratch(dir, lower string) (*scratch, error) {
	s := &scratch{dir: dir, root: filepath.Join(dir, "root"), lower: lower}
	if err := s.mount(); err != nil {
		return nil, fmt.Errorf("make scratch host: %w", err)
	}
	return s, nil
}

func (s *scratch) mount() error {
	if err := change("", "/", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	if err := mount("tmpfs", s.dir, "mode=0755"); err != nil {
		return err
	}
	if err := os.Mkdir(s.root, 0o755); err != nil {
		return err
	}
	if err := s.copyDir("/"); err != nil {
		return err
	}
	for _, d := range apart {
		if err := os.MkdirAll(s.at(d), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(s.mountKernel(), s.mountDevices(), mount("tmpfs", s.at("run"), "mode=0755"),
		mount("tmpfs", s.at("tmp"), "mode=1777"), s.identify())
}

// apart are directories that a running system fills; the scratch host has its own.
var apart = []string{"/proc", "/sys", "/dev", "/run", "/tmp"}

// image makes a directory of the root file system appear on the scratch host.
func (s *scratch) image(inside string) error {
	n := len(s.layers)
	upper, work := filepath.Join(s.dir, fmt.Sprint("upper", n)), filepath.Join(s.dir, fmt.Sprint("work", n))
	for _, d := range []string{upper, work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", filepath.Join(s.lower, inside), upper, work)
	err := mount("overlay", s.at(inside), options)
	switch {
	case err == nil:
		s.layers = append(s.layers, layer{inside, upper})
		return nil
	case errors.Is(err, syscall.EINVAL):
		return errors.Join(os.Remove(upper), os.RemoveAll(work), s.copyDir(inside))
	}
	return err
}

// copyDir is image for a directory that cannot be part of an overlay.
func (s *scratch) copyDir(inside string) error {
	s.layers = append(s.layers, layer{inside: inside})
	entries, err := os.ReadDir(filepath.Join(s.lower, inside))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		child := filepath.Join(inside, entry.Name())
		if slices.Contains(apart, child) {
			continue
		}
		if err := s.copyEntry(child, entry); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func (s *scratch) copyEntry(inside string, entry fs.DirEntry) error {
	from, to := filepath.Join(s.lower, inside), s.at(inside)
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case info.IsDir():
		if err := os.Mkdir(to, info.Mode().Perm()); err != nil {
			return err
		}
		return s.image(inside)
	case info.Mode().IsRegular():
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, info.Mode().Perm())
	}
	return nil // a socket or a device belongs to the machine
}

func (s *scratch) at(inside string) string { return filepath.Join(s.root, inside) }

// mountKernel shows the kernel's own files. They are this machine's, so they can only be read.
func (s *scratch) mountKernel() error {
	if err := mount("proc", s.at("proc"), ""); err != nil {
		return err
	}
	for _, p := range []string{"proc/sys", "proc/sysrq-trigger", "proc/irq", "proc/bus"} {
		if _, err := os.Stat(s.at(p)); err != nil {
			continue
		}
		if err := change(s.at(p), s.at(p), syscall.MS_BIND); err != nil {
			return err
		}
		if err := readOnly(s.at(p)); err != nil {
			return err
		}
	}
	if err := change("/sys", s.at("sys"), syscall.MS_BIND|syscall.MS_REC); err != nil {
		return err
	}
	points, err := mountsBelow(s.at("sys"))
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := readOnly(p); err != nil {
			return err
		}
	}
	return nil
}

// readOnly keeps the flags that a namespace may not take off.
func readOnly(point string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(point, &st); err != nil {
		return fmt.Errorf("look at mount %s: %w", point, err)
	}
	const keep = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC | syscall.MS_NOATIME | syscall.MS_NODIRATIME | syscall.MS_RELATIME
	return change("", point, syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY|uintptr(st.Flags)&keep)
}

// mountsBelow are the mount points at or below a directory.
func mountsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var out []string
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			out = append(out, fields[4])
		}
	}
	return out, nil
}

// mountDevices shows the devices that every program may use.
func (s *scratch) mountDevices() error {
	if err := mount("tmpfs", s.at("dev"), "mode=0755"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		to := filepath.Join(s.at("dev"), name)
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
		if err := change("/dev/"+name, to, syscall.MS_BIND); err != nil {
			return err
		}
	}
	return errors.Join(os.Mkdir(filepath.Join(s.at("dev"), "shm"), 0o1777), os.Symlink("/proc/self/fd", filepath.Join(s.at("dev"), "fd")))
}

// identify gives the host a machine ID if it has none.
func (s *scratch) identify() error {
	file := s.at("etc/machine-id")
	if data, err := os.ReadFile(file); err == nil && len(bytes.TrimSpace(data)) > 0 {
		return nil
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(hex.EncodeToString(id)+"\n"), 0o444)
}

// change binds, remounts, or changes the propagation of a mount.
func change(from, to string, flags uintptr) error {
	if err := syscall.Mount(from, to, "", flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return nil
}

// mount mounts a new file system.
func mount(kind, to, options string) error {
	if err := syscall.Mount(kind, to, kind, 0, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", kind, to, err)
	}
	return nil
}

// own are places that a trial itself writes to.
var own = []string{"/var/lib/skyhook", "/var/log/skyhook", "/etc/machine-id"}

// changes are the paths that differ from the machine: `+` new, `~` changed, `-` removed. What was rewritten as it was is no
// change.
func (s *scratch) changes() ([]string, error) {
	var out []string
	for _, l := range s.layers {
		var err error
		if l.upper == "" {
			err = s.changesOfCopy(l.inside, &out)
		} else {
			err = s.changesOfLayer(l, &out)
		}
		if err != nil {
			return nil, fmt.Errorf("compare scratch host with the machine: %w", err)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return out, nil
}

func (s *scratch) changesOfLayer(l layer, out *[]string) error {
	return filepath.WalkDir(l.upper, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == l.upper {
			return err
		}
		inside := filepath.Join(l.inside, strings.TrimPrefix(name, l.upper))
		if slices.Contains(own, inside) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return s.compare(inside, entry, out)
	})
}

// changesOfCopy looks at the files of one directory, and for what is missing.
func (s *scratch) changesOfCopy(inside string, out *[]string) error {
	entries, err := os.ReadDir(s.at(inside))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		child := filepath.Join(inside, entry.Name())
		if _, err := os.Lstat(filepath.Join(s.lower, child)); entry.IsDir() && err == nil || slices.Contains(apart, child) {
			continue // a layer of its own
		}
		if err := s.walkNew(child, out); err != nil {
			return err
		}
	}
	before, err := os.ReadDir(filepath.Join(s.lower, inside))
	if err != nil {
		return nil // it could not be read at the beginning either
	}
	for _, entry := range before {
		child := filepath.Join(inside, entry.Name())
		if _, err := os.Lstat(s.at(child)); errors.Is(err, fs.ErrNotExist) && entry.Type()&(fs.ModeSocket|fs.ModeDevice|fs.ModeNamedPipe) == 0 {
			*out = append(*out, "- "+child)
		}
	}
	return nil
}

// walkNew compares a file, or everything in a directory that is new.
func (s *scratch) walkNew(inside string, out *[]string) error {
	return filepath.WalkDir(s.at(inside), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return s.compare(strings.TrimPrefix(name, s.root), entry, out)
	})
}

func (s *scratch) compare(inside string, entry fs.DirEntry, out *[]string) error {
	now, err := entry.Info()
	if err != nil {
		return err
	}
	before, err := os.Lstat(filepath.Join(s.lower, inside))
	mark := ""
	switch {
	case removed(now):
		mark = "-"
	case errors.Is(err, fs.ErrNotExist):
		if !now.IsDir() { // of a directory its files are named
			mark = "+"
		}
	case err != nil:
		return err
	case now.Mode() != before.Mode():
		mark = "~"
	case now.Mode().IsRegular():
		same, err := s.sameContent(inside)
		if err != nil {
			return err
		}
		if !same {
			mark = "~"
		}
	}
	if mark != "" {
		*out = append(*out, mark+" "+inside)
	}
	return nil
}

func (s *scratch) sameContent(inside string) (bool, error) {
	a, err := os.ReadFile(s.at(inside))
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(filepath.Join(s.lower, inside))
	return bytes.Equal(a, b), err
}

// removed says whether an entry is a whiteout, by which overlayfs hides a file of the lower layer: a device 0:0.
func removed(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}
