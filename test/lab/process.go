package lab

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process runs a program of ours as a process of its own, and kills and restarts it where it is asked to.
type Process struct {
	// Name of it in sentences. Required.
	Name string
	// Binary and Args of the program. Required.
	Binary string
	Args   []string
	// Env of the process; nil: that of this one.
	Env []string
	// Log is the file that its output is appended to. Required.
	Log string
	// Chaos kills it (SIGKILL) about this often, at moments chosen by Seed. Default 0: never.
	Chaos time.Duration
	Seed  int64

	random  *rand.Rand
	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan error
	count   int
	stopped chan struct{}
	idle    sync.WaitGroup
}

// Start starts it, and the chaos if there is any.
func (p *Process) Start() error {
	p.stopped, p.random = make(chan struct{}), rand.New(rand.NewPCG(uint64(p.Seed), 0))
	if err := p.spawn(); err != nil {
		return err
	}
	if p.Chaos > 0 {
		p.idle.Add(1)
		go p.killNowAndThen()
	}
	return nil
}

func (p *Process) spawn() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	logs, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.Name, err)
	}
	cmd := exec.Command(p.Binary, p.Args...)
	cmd.Env = p.Env
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = logs.Close()
	}()
	p.cmd, p.ended = cmd, ended
	return nil
}

// killNowAndThen sends SIGKILL at random moments around the interval, and starts the process again at once.
func (p *Process) killNowAndThen() {
	defer p.idle.Done()
	for {
		wait := p.Chaos/2 + time.Duration(p.random.Int64N(int64(p.Chaos)))
		select {
		case <-p.stopped:
			return
		case <-time.After(wait):
		}
		p.signal(syscall.SIGKILL)
		p.mu.Lock()
		p.count++
		p.mu.Unlock()
		if err := p.spawn(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

func (p *Process) signal(sig os.Signal) {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	_ = cmd.Process.Signal(sig) // it may have ended by itself
	<-ended
}

// Crashed says that the process ended although nobody ended it.
func (p *Process) Crashed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case err := <-p.ended:
		p.ended <- err
		if p.Chaos > 0 {
			return nil // perhaps it was just killed
		}
		return fmt.Errorf("%s ended by itself: %v", p.Name, err)
	default:
		return nil
	}
}

// Killed counts the kills of the chaos.
func (p *Process) Killed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Stop ends the process the polite way.
func (p *Process) Stop() {
	close(p.stopped)
	p.idle.Wait()
	if p.cmd != nil {
		p.signal(syscall.SIGTERM)
	}
}

// Quote prints the end of the log.
func (p *Process) Quote(out io.Writer) {
	const most = 4000
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return
	}
	if len(data) > most {
		data = data[len(data)-most:]
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	fmt.Fprintf(out, "\nthe log of %s ends with:\n%s\n", p.Name, data)
}
