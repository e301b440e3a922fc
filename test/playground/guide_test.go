package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// chaosEnv plays the guide while reconciler and reviewer are killed about that often: FLEETWRIGHT_GUIDE_CHAOS=15s.
const chaosEnv = "FLEETWRIGHT_GUIDE_CHAOS"

// fence is a block of the page.
type fence struct{ language, text string }

var fenced = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")

func fences(t *testing.T, page string) []fence {
	data, err := os.ReadFile(filepath.Join(root, "docs", page))
	require.NoError(t, err)
	var out []fence
	for _, m := range fenced.FindAllStringSubmatch(string(data), -1) {
		out = append(out, fence{m[1], m[2]})
	}
	return out
}

// pattern matches an output that a page shows: … stands for anything, also for lines.
func pattern(shown string) *regexp.Regexp {
	parts := strings.Split(strings.TrimSpace(shown), "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(strings.TrimSpace(part))
	}
	return regexp.MustCompile(`(?s)^\s*` + strings.Join(parts, `.*`) + `\s*$`)
}

// TestGettingStarted executes docs/getting-started.md from top to bottom in one shell, as a reader would, and compares what
// commands print with what the page shows.
func TestGettingStarted(t *testing.T) {
	all := fences(t, "getting-started.md")
	checkout := checkoutOf(t)
	startPlayground(t, checkout)
	shell := newShell(t, checkout)
	executed := 0
	for i, block := range all {
		if block.language != "sh" {
			continue
		}
		executed++
		out, err := shell.run(block.text)
		t.Logf("$ %s\n%s", block.text, out)
		require.NoError(t, err, "%s\n%s", block.text, out)
		if i+1 < len(all) && all[i+1].language == "text" {
			require.Regexp(t, pattern(all[i+1].text), out, block.text)
		}
	}
	require.GreaterOrEqual(t, executed, 12)
}

// checkoutOf is a directory that looks like the reader's checkout, without being it: the page writes into it.
func checkoutOf(t *testing.T) string {
	dir := t.TempDir()
	abs, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, name := range []string{"bin/fleetwright", "bin/fleetwright-reconciler"} {
		require.FileExists(t, filepath.Join(abs, name), "run make build first")
	}
	require.NoError(t, os.CopyFS(filepath.Join(dir, "fleet-example"), os.DirFS(filepath.Join(abs, "fleet-example"))))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for _, name := range []string{"fleetwright", "fleetwright-reconciler"} {
		require.NoError(t, os.Symlink(filepath.Join(abs, "bin", name), filepath.Join(dir, "bin", name)))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "playground"), ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// startPlayground runs the program of `make playground` until the test ends.
func startPlayground(t *testing.T, checkout string) {
	here, err := os.Getwd()
	require.NoError(t, err)
	cmd := exec.Command(filepath.Join(checkout, "bin", "playground"),
		"--bin", filepath.Join(checkout, "bin"), "--env", filepath.Join(checkout, "bin", "playground.env"), "--chaos", cmp.Or(os.Getenv(chaosEnv), "0"))
	cmd.Dir = here // it builds from the sources around it
	said := &saying{until: "\nready.", ready: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, os.Stderr
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		require.NoError(t, <-ended, "the playground ends in good order")
	})
	select {
	case <-said.ready:
	case err := <-ended:
		ended <- err
		require.FailNow(t, "the playground ended by itself", "%v", err)
	case <-time.After(20 * time.Minute): // it may have to build everything
		require.FailNow(t, "the playground does not get ready")
	}
}

// saying waits for a word in an output.
type saying struct {
	all   bytes.Buffer
	until string
	ready chan struct{}
	heard bool
}

func (s *saying) Write(p []byte) (int, error) {
	s.all.Write(p)
	if !s.heard && strings.Contains(s.all.String(), s.until) {
		s.heard = true
		close(s.ready)
	}
	return len(p), nil
}

// shell is the reader's second terminal.
type shell struct {
	in   io.Writer
	said chan string // what each block printed; closed when the shell has ended
	last string      // what was printed before it ended
}

// mark ends what a block prints.
const mark = "-- the block has ended --\n"

func newShell(t *testing.T, dir string) *shell {
	cmd := exec.Command("bash")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = writer, writer
	require.NoError(t, cmd.Start())
	require.NoError(t, writer.Close())
	s := &shell{in: in, said: make(chan string)}
	go s.read(reader)
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return s
}

// read splits the output at the marks.
func (s *shell) read(r io.ReadCloser) {
	defer func() { _ = r.Close() }()
	buffer := make([]byte, 4096)
	for {
		n, err := r.Read(buffer)
		s.last += string(buffer[:n])
		for {
			before, after, found := strings.Cut(s.last, mark)
			if !found {
				break
			}
			s.said <- before
			s.last = after
		}
		if err != nil {
			close(s.said)
			return
		}
	}
}

// run executes a block. A command that fails ends the shell, as `set -e` does.
func (s *shell) run(block string) (string, error) {
	if _, err := io.WriteString(s.in, "set -e -o pipefail\n"+block+"\nprintf '%s\\n' '"+strings.TrimSpace(mark)+"'\n"); err != nil {
		return "", err
	}
	out, open := <-s.said
	if !open {
		return s.last, errEnded
	}
	return out, nil
}

var errEnded = errors.New("a command failed, and the shell with it")
