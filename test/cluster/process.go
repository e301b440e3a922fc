package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/test/foreign"
)

// stopLimit is how long a process may take for a clean end before it is killed.
const stopLimit = 25 * time.Second

// process is a child that cannot outlive us.
type process struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	logPath string
	done    chan struct{} // closed when the child has ended
	err     error         // how it ended; read after done
}

// startProcess runs a program with its output appended to logPath; stdout, where not nil, gets its standard output.
func startProcess(binary string, args []string, logPath string, stdout io.Writer) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	p := &process{cmd: exec.Command(binary, args...), logPath: logPath, done: make(chan struct{})}
	p.cmd.SysProcAttr, p.cmd.Stderr, p.cmd.Stdout = foreign.ChildAttr(), log, log
	if os.Getenv("GOGC") == "" { // memory for time: a control plane is an eighth faster
		p.cmd.Env = append(os.Environ(), "GOGC=300")
	}
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("make pipe to %s: %w", binary, err)
	}
	started := make(chan error)
	go func() {
		defer log.Close()
		// The kernel sends the death signal when the starting *thread* ends, so that thread waits here with us.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := p.cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", binary, err)
			return
		}
		started <- nil
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop asks the child to end and kills it after stopLimit. Stopping twice does no harm.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		p.kill()
	}
	_ = p.stdin.Close()
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// failure explains an end that nobody asked for, with what the child said last.
func (p *process) failure() error {
	return fmt.Errorf("%s ended: %v; the end of %s:\n%s", filepath.Base(p.cmd.Path), p.err, p.logPath, tail(p.logPath, 3000))
}

func tail(path string, limit int) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	if len(b) > limit {
		b = b[len(b)-limit:]
	}
	return bytes.TrimSpace(b)
}

// poll asks until the answer is yes; the child's or the context's end are errors.
func (p *process) poll(ctx context.Context, ready func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s (log: %s): %w", filepath.Base(p.cmd.Path), p.logPath, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}
