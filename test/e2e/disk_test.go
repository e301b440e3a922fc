//go:build linux

package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/test/realnode"
)

// disk is every file of a machine that a package could have changed: path, and kind, permissions and content.
type disk map[string]string

// notPackages are below these: programs' own data, and what the agent remembers and logs.
var notPackages = []string{
	"var/lib/kubelet", "var/lib/containerd", "var/lib/cni", "var/log", "var/lib/skyhook", "run", "proc", "sys", "dev", "usr", "opt/cni", "opt/containerd",
}

func look(t *testing.T, m *realnode.Machine) disk {
	out := disk{}
	for _, root := range []string{m.Path("/"), m.Path("/usr/local/")} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil || root == m.Path("/") && skipped(name) {
				return fs.SkipDir
			}
			out[strings.TrimPrefix(path, filepath.Dir(m.Path("/")))], err = describe(path, d)
			return err
		}))
	}
	return out
}

func skipped(name string) bool {
	for _, dir := range notPackages {
		if name == dir {
			return true
		}
	}
	return false
}

func describe(path string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return "link to " + target, err
	case !info.Mode().IsRegular():
		return info.Mode().String(), nil
	}
	data, err := os.ReadFile(path)
	return fmt.Sprintf("%s %x %.60q", info.Mode(), sha256.Sum256(data), data), err
}

// leftovers are the files of a tree that a step or the agent would leave half-written.
func leftovers(d disk) (out []string) {
	for path := range d {
		if strings.HasSuffix(path, ".new") || strings.Contains(path, ".fleetwright") {
			out = append(out, path)
		}
	}
	return out
}
