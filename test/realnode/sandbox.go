//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/foreign"
)

// stageEnv says which of this package's processes a run of the test binary is.
const stageEnv = "FLEETWRIGHT_REALNODE_STAGE"

const (
	stageSandbox = "sandbox" // PID 1 of the sandbox
	stageTests   = "tests"   // its one child
	stageMachine = "machine" // PID 1 of a machine
)

// Main runs a package's tests in the sandbox of this package. Call it from TestMain; it does not return. Where no machine can
// run, the tests run all the same, outside of the sandbox: they skip with what [Missing] says.
func Main(m *testing.M) {
	switch os.Getenv(stageEnv) {
	case stageSandbox:
		os.Exit(initSandbox())
	case stageMachine:
		os.Exit(runMachine())
	case stageTests:
		os.Exit(m.Run())
	}
	if Missing() != "" {
		os.Exit(m.Run())
	}
	code, err := enterSandbox()
	if err != nil {
		fmt.Fprintln(os.Stderr, "realnode:", err)
		code = 1
	}
	os.Exit(code)
}

// enterSandbox builds what needs the network, and runs this program once more as PID 1 of new namespaces. When this process dies,
// the kernel ends everything in them.
func enterSandbox() (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return 1, err
	}
	if _, err := cluster.BuildKubelet(ctx, os.Stderr); err != nil {
		return 1, err
	}
	end, err := begin(ctx)
	if err != nil {
		return 1, err
	}
	defer func() { end(code == 0) }()
	return inNamespaces(ctx)
}

// inNamespaces runs this program once more, as PID 1 of everything that a namespace can keep apart.
func inNamespaces(ctx context.Context) (int, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), stageEnv+"="+stageSandbox)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // the kernel sends the death signal when the starting thread ends
	defer runtime.UnlockOSThread()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 1, fmt.Errorf("enter sandbox: %w", err)
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 1, fmt.Errorf("the sandbox ended by %s", cmd.ProcessState)
}

// begin waits for another run on this machine, because cgroups and the directory are shared, and removes what a run before left.
func begin(ctx context.Context) (end func(good bool), err error) {
	dir, err := workDir()
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock real nodes: %w", err)
	}
	for said := false; ; said = true {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !said {
			fmt.Fprintln(os.Stderr, "realnode: another run on this machine has the nodes; waiting for its end")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another run: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
	removeCgroups("")
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	return func(good bool) {
		removeCgroups("")
		if good {
			_ = os.RemoveAll(dir) // or the next run does
		} else {
			fmt.Fprintf(os.Stderr, "realnode: disks and logs of the machines stay in %s until the next run\n", dir)
		}
		_ = lock.Close() // nothing was written to it
	}, nil
}

// workDir holds the disks of the machines.
func workDir() (string, error) {
	cache, err := foreign.CacheDir()
	return filepath.Join(cache, "realnode"), err
}

// initSandbox is PID 1: it makes mounts private, starts the tests, and reaps what they leave.
func initSandbox() int {
	err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		command("ip", "link", "set", "lo", "up"),
		command("ip", "link", "add", bridge, "type", "bridge"),
		command("ip", "addr", "add", gateway+"/24", "dev", bridge),
		command("ip", "link", "set", bridge, "up"),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "realnode: make sandbox:", err)
		return 1
	}
	tests, err := startTests()
	if err != nil {
		fmt.Fprintln(os.Stderr, "realnode: start tests:", err)
		return 1
	}
	return reap(func(pid int, _ syscall.WaitStatus) bool { return pid == tests.Pid })
}

func startTests() (*os.Process, error) {
	self, err := os.Executable()
	if err == nil { // the control plane has to be ours: its CA vouches for the kubelets
		err = errors.Join(os.Setenv(stageEnv, stageTests), os.Unsetenv(cluster.AssetsEnv))
	}
	if err != nil {
		return nil, err
	}
	return os.StartProcess(self, append([]string{self}, os.Args[1:]...), &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
}

// reap waits for every child until ended says that it was the one that counts; it returns how that one ended.
func reap(ended func(pid int, status syscall.WaitStatus) bool) int {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 1 // no child is left
		}
		if !ended(pid, status) {
			continue
		}
		if status.Signaled() {
			return 128 + int(status.Signal())
		}
		return status.ExitStatus()
	}
}

// command runs a program to its end; the error quotes what it said.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
