package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Command is one program to run for the host.
type Command struct {
	// Path of the program on the host. A bare name is looked up in the host's directories for programs.
	Path string
	// Args without the program's name.
	Args []string
	// Dir is the working directory, a path of the host. Default /.
	Dir string
	// Env is the whole environment, as NAME=value; a later entry wins.
	Env []string
	// InContainer runs the program in the agent's own root, not in the host's. Path and Dir are the host's paths all the same.
	InContainer bool
	// Stdout and Stderr receive the output. Nil: it is dropped.
	Stdout, Stderr io.Writer
}

// Runner runs a command and waits for it. The code is what the program returned, or 128 plus the number of the signal that ended
// it, as a shell reports it. The error says that the program could not be started, or that the context ended it.
type Runner interface {
	Run(ctx context.Context, c Command) (code int, err error)
}

// SearchPath is where bare names are looked up on the host, and the PATH of programs whose environment has none.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Exec runs commands by chroot into the host's root, each in a process group of its own. It needs root's rights.
//
// When the context ends, a running program may go on for Grace. Then its group gets SIGTERM, and after Kill SIGKILL: children, and
// children of children, too. A process that made a session of its own has left the group, and is not ended here: it ends with its
// container, because the container runtime kills all that is left in the container's cgroup. The same holds for what a program that
// ended by itself leaves running. What is to stay is started as a unit of the host's systemd.
type Exec struct {
	Root Root
	// Grace is how long a running program may go on after the context ended. Default 0.
	Grace time.Duration
	// Kill is the time between SIGTERM to the group and SIGKILL. Default 5s.
	Kill time.Duration
}

// ErrStopped means that the program was ended because the context ended.
var ErrStopped = errors.New("stopped")

// Run implements [Runner].
func (e Exec) Run(ctx context.Context, c Command) (int, error) {
	limit, cancel := afterGrace(ctx, e.Grace)
	defer cancel()
	cmd, err := e.command(limit, c)
	if err != nil {
		return -1, err
	}
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil { // the leader is gone; whatever it left in its group goes too
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if limit.Err() != nil {
		return -1, fmt.Errorf("run %s: %w", c.Path, ErrStopped)
	}
	return exitCode(c, cmd, err)
}

// afterGrace ends d after ctx does.
func afterGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	limit, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if d <= 0 {
			cancel()
			return
		}
		timer := time.AfterFunc(d, cancel)
		context.AfterFunc(limit, func() { timer.Stop() })
	})
	return limit, func() { stop(); cancel() }
}

func (e Exec) command(ctx context.Context, c Command) (*exec.Cmd, error) {
	program, err := e.lookUp(c.Path)
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Setpgid: true}
	dir := path.Join("/", c.Dir)
	if c.InContainer {
		program, dir = filepath.Join(string(e.Root), program), filepath.Join(string(e.Root), dir)
	} else {
		attr.Chroot = string(e.Root)
	}
	cmd := exec.CommandContext(ctx, program, c.Args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, c.Env, attr
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = e.Kill
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = 5 * time.Second
	}
	return cmd, nil
}

func (e Exec) lookUp(name string) (string, error) {
	if strings.Contains(name, "/") {
		return path.Join("/", name), nil
	}
	for _, dir := range strings.Split(SearchPath, ":") {
		if e.Root.Exists(path.Join(dir, name)) {
			return path.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("run %s: the host has no such program (looked in %s)", name, SearchPath)
}

func exitCode(c Command, cmd *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, exec.ErrWaitDelay): // the program ended, but a child of it keeps the output open
		return cmd.ProcessState.ExitCode(), nil
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return -1, fmt.Errorf("run %s: %w", c.Path, err)
}
