package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Root is the directory at which the host's root is mounted: /root in an execution's pod, a scratch directory in tests.
type Root string

// maxLinks bounds how many symbolic links one path may go through, as the kernel does (ELOOP).
const maxLinks = 40

// Path is where a path of the host lies for this process. Every symbolic link is followed inside the root, the last one too.
// What does not exist yet is no error.
func (r Root) Path(hostPath string) (string, error) {
	inside, err := r.resolve(hostPath, true)
	return filepath.Join(string(r), inside), err
}

// linkPath is like Path, but a link at the end of the path is not followed.
func (r Root) linkPath(hostPath string) (string, error) {
	inside, err := r.resolve(hostPath, false)
	return filepath.Join(string(r), inside), err
}

func (r Root) resolve(hostPath string, last bool) (string, error) {
	rest := parts(hostPath)
	inside, links := "/", 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			inside = path.Dir(inside)
			continue
		}
		next := path.Join(inside, name)
		target, err := os.Readlink(filepath.Join(string(r), next))
		if err != nil || len(rest) == 0 && !last { // no link, or not there
			inside = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("follow %s: more than %d symbolic links", hostPath, maxLinks)
		}
		if path.IsAbs(target) {
			inside = "/"
		}
		rest = append(parts(target), rest...)
	}
	return inside, nil
}

func parts(p string) []string {
	return strings.FieldsFunc(p, func(c rune) bool { return c == '/' })
}

// ReadFile reads a file of the host.
func (r Root) ReadFile(hostPath string) ([]byte, error) {
	p, err := r.Path(hostPath)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(p)
}

// Exists says whether there is something at the path.
func (r Root) Exists(hostPath string) bool {
	p, err := r.Path(hostPath)
	if err != nil {
		return false
	}
	_, err = os.Stat(p)
	return err == nil
}

// Names lists a directory, sorted; a directory that does not exist is empty.
func (r Root) Names(dir string) ([]string, error) {
	p, err := r.Path(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// WriteFile replaces a file in one step: a reader sees the old content or the new one, also after a power failure. Missing
// directories are made.
func (r Root) WriteFile(hostPath string, data []byte, mode fs.FileMode) error {
	p, err := r.Path(hostPath)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return replace(p, data, mode)
}

// temporary is the pattern of files that are being written. One that is older than staleAfter was left by an execution that was
// killed: writing a file takes no hour.
const (
	temporary  = ".fleetwright-*"
	staleAfter = time.Hour
)

func replace(p string, data []byte, mode fs.FileMode) error {
	sweep(filepath.Dir(p))
	tmp, err := os.CreateTemp(filepath.Dir(p), temporary)
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, keepOwner(tmp, p), tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), p)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncDir(filepath.Dir(p))
}

// keepOwner gives the new file the owner of the one that it replaces: a service may have to read it.
func keepOwner(tmp *os.File, p string) error {
	info, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return tmp.Chown(int(st.Uid), int(st.Gid))
}

// sweep removes what killed executions left half-written in a directory. It is a courtesy: what it cannot remove stays.
func sweep(dir string) {
	names, _ := filepath.Glob(filepath.Join(escapeGlob(dir), temporary))
	for _, name := range names {
		info, err := os.Lstat(name)
		if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(name)
		}
	}
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Create opens a new, empty file for writing and makes its directories.
func (r Root) Create(hostPath string) (*os.File, error) {
	p, err := r.Path(hostPath)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(p, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
}

// Rename moves a file of the host.
func (r Root) Rename(from, to string) error {
	old, err := r.linkPath(from)
	if err != nil {
		return err
	}
	p, err := r.linkPath(to)
	if err != nil {
		return err
	}
	return os.Rename(old, p)
}

// RemoveAll removes a file or a directory with all that is in it; what is not there is no error. A link goes, not its target.
func (r Root) RemoveAll(hostPath string) error {
	p, err := r.linkPath(hostPath)
	if err != nil {
		return err
	}
	return os.RemoveAll(p)
}

// MakeExecutable adds the execute permission for everybody.
func (r Root) MakeExecutable(hostPath string) error {
	p, err := r.Path(hostPath)
	if err != nil {
		return err
	}
	info, err := os.Stat(p)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o111 == 0o111 {
		return nil
	}
	return os.Chmod(p, info.Mode().Perm()|0o111)
}

// Overlay copies the tree below from over the tree below to, as package images ask for with root_dir. Existing directories keep
// their permissions, equal files are left alone, others are replaced in one step each. It reports the host's paths it changed.
func (r Root) Overlay(from, to string) (changed []string, err error) {
	base, err := r.Path(from)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(base, func(src string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, src)
		if err != nil {
			return err
		}
		target := path.Join(to, filepath.ToSlash(rel))
		did, err := r.overlayOne(src, target, d)
		if did {
			changed = append(changed, target)
		}
		return err
	})
	return changed, err
}

func (r Root) overlayOne(src, target string, d fs.DirEntry) (bool, error) {
	info, err := d.Info()
	if err != nil {
		return false, err
	}
	switch {
	case d.IsDir():
		return r.overlayDir(target, info.Mode().Perm())
	case info.Mode()&fs.ModeSymlink != 0:
		return r.overlayLink(src, target)
	case info.Mode().IsRegular():
		return r.overlayFile(src, target, info.Mode().Perm())
	}
	return false, fmt.Errorf("copy %s: %s cannot be copied (allowed: files, directories, symbolic links)", target, info.Mode().Type())
}

func (r Root) overlayDir(target string, mode fs.FileMode) (bool, error) {
	p, err := r.Path(target)
	if err != nil {
		return false, err
	}
	info, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return true, errors.Join(os.MkdirAll(p, mode), os.Chmod(p, mode))
	}
	if err == nil && !info.IsDir() {
		return false, fmt.Errorf("copy %s: the host has a file there, not a directory", target)
	}
	return false, err
}

func (r Root) overlayLink(src, target string) (bool, error) {
	want, err := os.Readlink(src)
	if err != nil {
		return false, err
	}
	p, err := r.linkPath(target)
	if err != nil {
		return false, err
	}
	if have, err := os.Readlink(p); err == nil && have == want {
		return false, nil
	}
	tmp := p + ".fleetwright"
	if err := os.RemoveAll(tmp); err != nil {
		return false, err
	}
	return true, errors.Join(os.Symlink(want, tmp), os.Rename(tmp, p))
}

func (r Root) overlayFile(src, target string, mode fs.FileMode) (bool, error) {
	data, err := os.ReadFile(src)
	if err != nil {
		return false, err
	}
	p, err := r.Path(target)
	if err != nil {
		return false, err
	}
	info, err := os.Stat(p)
	switch {
	case err == nil && info.IsDir():
		return false, fmt.Errorf("copy %s: the host has a directory there, not a file", target)
	case err == nil && info.Mode().Perm() == mode:
		if have, err := os.ReadFile(p); err == nil && bytes.Equal(have, data) {
			return false, nil
		}
	}
	return true, r.WriteFile(target, data, mode)
}
