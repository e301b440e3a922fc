package main

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

// supervisor runs the reconciler as a process of its own, and kills and restarts it where the demo is asked to.
type supervisor struct {
	binary string
	args   []string
	logs   string
	chaos  time.Duration
	random *rand.Rand

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan error
	count   int
	stopped chan struct{}
	idle    sync.WaitGroup
}

func newSupervisor(o options, logs, kubeconfig string) *supervisor {
	return &supervisor{
		binary: o.reconciler, logs: logs, chaos: o.chaos, stopped: make(chan struct{}),
		random: rand.New(rand.NewPCG(uint64(o.seed), 0)),
		args: []string{
			"--kubeconfig", kubeconfig, "--namespace", namespace, "--agent-image", "ghcr.io/fleetwright/agent:demo",
			"--metrics-address", "0", "--probe-address", "0", "--retry-backoff", "1s", "--drain-retry", "500ms",
			"--lease-duration", "4s",
		},
	}
}

func (s *supervisor) start() error {
	if err := s.spawn(); err != nil {
		return err
	}
	if s.chaos > 0 {
		s.idle.Add(1)
		go s.killNowAndThen()
	}
	return nil
}

func (s *supervisor) spawn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs, err := os.OpenFile(s.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the reconciler's log: %w", err)
	}
	cmd := exec.Command(s.binary, s.args...)
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the reconciler: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = logs.Close()
	}()
	s.cmd, s.ended = cmd, ended
	return nil
}

// killNowAndThen sends SIGKILL at random moments around the interval, and starts the process again at once.
func (s *supervisor) killNowAndThen() {
	defer s.idle.Done()
	for {
		wait := s.chaos/2 + time.Duration(s.random.Int64N(int64(s.chaos)))
		select {
		case <-s.stopped:
			return
		case <-time.After(wait):
		}
		s.signal(syscall.SIGKILL)
		s.mu.Lock()
		s.count++
		s.mu.Unlock()
		if err := s.spawn(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

func (s *supervisor) signal(sig os.Signal) {
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.mu.Unlock()
	_ = cmd.Process.Signal(sig) // it may have ended by itself
	<-ended
}

// crashed says that the process ended although nobody ended it.
func (s *supervisor) crashed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-s.ended:
		s.ended <- err
		if s.chaos > 0 {
			return nil // perhaps it was just killed
		}
		return fmt.Errorf("the reconciler ended by itself: %v", err)
	default:
		return nil
	}
}

func (s *supervisor) killed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// stop ends the process the polite way.
func (s *supervisor) stop() {
	close(s.stopped)
	s.idle.Wait()
	if s.cmd != nil {
		s.signal(syscall.SIGTERM)
	}
}

// quote prints the end of the log.
func (s *supervisor) quote(out io.Writer) {
	const most = 4000
	data, err := os.ReadFile(s.logs)
	if err != nil {
		return
	}
	if len(data) > most {
		data = data[len(data)-most:]
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	fmt.Fprintf(out, "\nthe reconciler's log ends with:\n%s\n", data)
}
