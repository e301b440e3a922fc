//go:build linux

package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
)

// limits leave time to fill the memory on a slow machine.
var limits = sandbox.Limits{Memory: 256 << 20, CPU: 3 * time.Second}

// TestMain is also the confined process.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "confined" {
		confined(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func confined(what string) {
	if err := sandbox.Confine(limits); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	switch what {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "memory":
		var all [][]byte
		for {
			block := make([]byte, 8<<20)
			for i := range block {
				block[i] = 1
			}
			all = append(all, block)
			runtime.KeepAlive(all)
		}
	case "spin":
		for n := uint64(1); n != 0; n += 2 { // odd for ever
			runtime.KeepAlive(n)
		}
	case "talk":
		for {
			fmt.Println("talk, talk, talk")
		}
	case "panic":
		panic("at the disco")
	case "try":
		_ = json.NewEncoder(os.Stdout).Encode(try())
	}
}

// try does what the contents of a pull request may want a process to do, and says how it went.
func try() map[string]string {
	out := map[string]string{}
	note := func(what string, err error) { out[what] = fmt.Sprint(err) }
	_, err := os.ReadFile("/etc/passwd")
	note("read a file", err)
	note("write a file", os.WriteFile("/tmp/fleetwright-sandbox-test", nil, 0o600))
	_, err = net.DialTimeout("tcp", "127.0.0.1:1", time.Second)
	note("dial", err)
	_, err = net.Listen("tcp", "127.0.0.1:0")
	note("listen", err)
	note("run a program", exec.Command("/bin/true").Run())
	_, _, errno := syscall.RawSyscall(syscall.SYS_PTRACE, syscall.PTRACE_TRACEME, 0, 0)
	note("trace", errno)
	note("signal another process", syscall.Kill(os.Getppid(), 0))
	note("raise a limit", syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: 1 << 40, Max: 1 << 40}))
	note("environment", fmt.Errorf("%d variables", len(os.Environ())))
	return out
}

func run(t *testing.T, what string, talk func(io.Writer, io.Reader) error) error {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := sandbox.Command{Path: self, Args: []string{"confined", what}, Limits: limits, Output: 1 << 20}
	return c.Run(ctx, talk)
}

func listen(to io.Writer, from io.Reader) error {
	_, err := io.Copy(io.Discard, from)
	return err
}

func TestRunSpeaksWithTheProcess(t *testing.T) {
	require.NoError(t, run(t, "echo", func(to io.Writer, from io.Reader) error {
		if _, err := io.WriteString(to, "hello\n"); err != nil {
			return err
		}
		line, err := bufio.NewReader(from).ReadString('\n')
		if line != "hello\n" {
			return errors.New("wrong answer: " + line)
		}
		return err
	}))
}

func TestConfinedProcessHasNoRights(t *testing.T) {
	t.Setenv("SECRET", "s3cret")
	held, err := os.Open("/etc/passwd") // a descriptor that must not be passed on
	require.NoError(t, err)
	defer held.Close()
	tried := map[string]string{}
	require.NoError(t, run(t, "try", func(_ io.Writer, from io.Reader) error { return json.NewDecoder(from).Decode(&tried) }))
	require.Equal(t, "0 variables", tried["environment"])
	delete(tried, "environment")
	require.Len(t, tried, 8)
	for what, answer := range tried {
		require.Contains(t, answer, "operation not permitted", what)
	}
}

func TestRunSaysHowAProcessEnded(t *testing.T) {
	for what, want := range map[string]struct {
		kind sandbox.Kind
		text string
	}{
		"memory": {sandbox.OutOfMemory, "it needs more than the 256 MiB of memory that it may have"},
		"spin":   {sandbox.OutOfTime, "it takes longer than it may"},
		"talk":   {sandbox.OutOfMemory, "its result is larger than it may be"},
		"panic":  {sandbox.Crashed, "the confined process ended (exit status 2): panic: at the disco"},
	} {
		t.Run(what, func(t *testing.T) {
			var ended *sandbox.Error
			require.ErrorAs(t, run(t, what, listen), &ended)
			require.Equal(t, want.kind, ended.Kind)
			require.True(t, strings.HasPrefix(ended.Message, want.text), ended.Message)
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	c := sandbox.Command{Path: self, Args: []string{"confined", "spin"}, Limits: limits, Output: 1 << 20}
	var ended *sandbox.Error
	require.ErrorAs(t, c.Run(ctx, listen), &ended)
	require.Equal(t, sandbox.OutOfTime, ended.Kind)
	require.ErrorAs(t, sandbox.Command{Path: "/nowhere"}.Run(t.Context(), listen), &ended)
	require.Equal(t, sandbox.NoStart, ended.Kind)
}
