// Package hosttest makes hosts for tests: a scratch root with a shell in it, a runner that fits the rights of the test, and a
// runner that records instead of running.
package hosttest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

// MachineID of scratch roots.
const MachineID = "0123456789abcdef0123456789abcdef"

// programs that scripts of tests may use, beside what the shell has built in.
var programs = []string{"sh", "cat", "sleep", "touch", "setsid"}

// Root makes a directory that looks like a host: a machine ID, temporary and system directories, and this machine's shell and a
// few programs with the libraries they load, so that steps really run by chroot.
func Root(t testing.TB) host.Root {
	root := t.TempDir()
	for _, dir := range []string{"bin", "etc", "tmp", "dev", "var/lib", "run"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/machine-id"), []byte(MachineID+"\n"), 0o644))
	// A shell opens /dev/null for commands in the background; an empty file does for that.
	require.NoError(t, os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o666))
	Install(t, host.Root(root), programs...)
	return host.Root(root)
}

// Install puts programs of this machine, and the libraries that they load, on a scratch host.
func Install(t testing.TB, root host.Root, programs ...string) {
	for _, name := range programs {
		found, err := exec.LookPath(name)
		require.NoError(t, err)
		copyFile(t, found, filepath.Join(string(root), "bin", name))
		for _, lib := range libraries(found) {
			copyFile(t, lib, filepath.Join(string(root), lib))
		}
	}
}

// known remembers what ldd says, which takes a while.
var known sync.Map

// libraries are the files that a program loads; none for a static one.
func libraries(program string) []string {
	if libs, ok := known.Load(program); ok {
		return libs.([]string)
	}
	var libs []string
	if out, err := exec.Command("ldd", program).Output(); err == nil {
		libs = regexp.MustCompile(`/[^\s()]+`).FindAllString(string(out), -1)
	}
	known.Store(program, libs)
	return libs
}

func copyFile(t testing.TB, from, to string) {
	if _, err := os.Stat(to); err == nil {
		return
	}
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(t, os.WriteFile(to, data, 0o755))
}

// Runner is host.Exec where the test may chroot. Otherwise it is Unconfined, and the test's log says so. Scripts of tests prefix
// the host's paths with $HOST, which Environ sets, so that both run them.
func Runner(t testing.TB, root host.Root) host.Runner {
	if os.Geteuid() == 0 {
		return host.Exec{Root: root}
	}
	t.Log("not root: steps run without chroot")
	return Unconfined{host.Exec{Root: "/"}, root}
}

// Environ is the variable $HOST that goes with Runner.
func Environ(root host.Root) string {
	if os.Geteuid() == 0 {
		return "HOST="
	}
	return "HOST=" + string(root)
}

// Unconfined runs a host's programs without chroot: paths of the host in the command and its environment get the root in front.
type Unconfined struct {
	host.Exec
	At host.Root
}

// Run implements host.Runner.
func (u Unconfined) Run(ctx context.Context, c host.Command) (int, error) {
	c.Path, c.Dir = filepath.Join(string(u.At), c.Path), filepath.Join(string(u.At), c.Dir)
	for i, entry := range c.Env {
		name, value, _ := strings.Cut(entry, "=")
		if name == "SKYHOOK_DIR" || name == "STEP_ROOT" {
			c.Env[i] = name + "=" + filepath.Join(string(u.At), value)
		}
	}
	return u.Exec.Run(ctx, c)
}

// Recorder notes commands and answers as told.
type Recorder struct {
	mu    sync.Mutex
	calls []string
	// Answer gives the output and the exit code of a command line; nil: no output, 0.
	Answer func(line string) (output string, code int)
}

// Run implements host.Runner.
func (r *Recorder) Run(_ context.Context, c host.Command) (int, error) {
	line := strings.TrimSpace(c.Path + " " + strings.Join(c.Args, " "))
	r.mu.Lock()
	r.calls = append(r.calls, line)
	r.mu.Unlock()
	if r.Answer == nil {
		return 0, nil
	}
	output, code := r.Answer(line)
	if c.Stdout != nil {
		if _, err := io.WriteString(c.Stdout, output); err != nil {
			return -1, fmt.Errorf("write output: %w", err)
		}
	}
	return code, nil
}

// Calls are the command lines so far.
func (r *Recorder) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}
