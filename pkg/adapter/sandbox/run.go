package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Command is a program that confines itself as soon as it runs.
type Command struct {
	// Path of the program, and its arguments.
	Path string
	Args []string
	// Limits that it was told, to word how it ended.
	Limits Limits
	// Output is how many bytes it may write in all.
	Output int64
}

// Kind is how a process ended that did not do its work.
type Kind string

// Kinds of ends.
const (
	// NoStart: it could not be started; another time it may.
	NoStart Kind = "NoStart"
	// OutOfMemory: it wanted more memory than it may have.
	OutOfMemory Kind = "OutOfMemory"
	// OutOfTime: it took longer than it may.
	OutOfTime Kind = "OutOfTime"
	// Crashed: it ended by itself in some other way, or spoke otherwise than agreed.
	Crashed Kind = "Crashed"
)

// Error is the end of a process that did not do its work.
type Error struct {
	Kind Kind
	// Message is a sentence without the end of the process's own words, which may hold text of others.
	Message string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// grace is how long a process may take to end once its work is done or it was killed.
const grace = 5 * time.Second

// Run starts the command with nothing but three pipes, lets talk speak with it, and waits for its end. When ctx ends, the process is
// killed. An error of talk counts only if the process itself did not fail. Errors are *Error, or what ended ctx.
func (c Command) Run(ctx context.Context, talk func(to io.Writer, from io.Reader) error) error {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{}, "/", grace
	said := &head{left: maxWords}
	cmd.Stderr = said
	to, err := cmd.StdinPipe()
	if err != nil {
		return &Error{NoStart, "a confined process cannot be started: " + err.Error()}
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return &Error{NoStart, "a confined process cannot be started: " + err.Error()}
	}
	if err := cmd.Start(); err != nil {
		return &Error{NoStart, "a confined process cannot be started: " + err.Error()}
	}
	talked := talk(to, &bounded{from: from, left: c.Output})
	_ = to.Close() // the process reads the end of its input
	if talked != nil {
		_ = cmd.Cancel()
	}
	ended := cmd.Wait()
	return c.verdict(ctx, end{talked, ended, cmd, said.String()})
}

// end is all that is known of a process when it has ended.
type end struct {
	talked, waited error
	cmd            *exec.Cmd
	said           string
}

func (c Command) verdict(ctx context.Context, e end) error {
	var short *tooLongError
	switch {
	case e.waited == nil && e.talked == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded), c.usedUp(e.cmd):
		return &Error{OutOfTime, "it takes longer than it may"}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(e.talked, &short):
		return &Error{OutOfMemory, short.Error()}
	case strings.Contains(e.said, "out of memory"), strings.Contains(e.said, "cannot allocate memory"), e.talked == nil && killed(e.cmd):
		return &Error{OutOfMemory, fmt.Sprintf("it needs more than the %d MiB of memory that it may have", c.Limits.Memory>>20)}
	case errors.Is(e.talked, io.EOF), errors.Is(e.talked, io.ErrUnexpectedEOF), errors.Is(e.talked, syscall.EPIPE):
		return c.lost(e)
	case e.talked != nil:
		return &Error{Crashed, "the confined process speaks otherwise than agreed: " + e.talked.Error()}
	}
	return c.lost(e)
}

// lost is for a process that went away in the middle.
func (c Command) lost(e end) error {
	if killed(e.cmd) {
		return &Error{OutOfMemory, fmt.Sprintf("it was killed, most likely because memory ran out (it may have %d MiB)", c.Limits.Memory>>20)}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(e.said), "\n")
	return &Error{Crashed, strings.TrimSuffix(fmt.Sprintf("the confined process ended (%s): %s", e.cmd.ProcessState, first), ": ")}
}

// usedUp tells an end for lack of time from one for lack of memory. The kernel counts for its limit in ticks, and afterwards exactly:
// a process that is killed has used nearly all that it may have.
func (c Command) usedUp(cmd *exec.Cmd) bool {
	state := cmd.ProcessState
	return killed(cmd) && state.UserTime()+state.SystemTime() >= c.Limits.CPU*3/4
}

func killed(cmd *exec.Cmd) bool {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// maxWords is how much of the standard error is kept, in bytes: a fatal error is named first.
const maxWords = 4 << 10

// head keeps the beginning of what is written.
type head struct {
	bytes.Buffer
	left int
}

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	keep := min(h.left, len(p))
	h.left -= keep
	h.Buffer.Write(p[:keep])
	return len(p), nil
}

// bounded refuses to read more than it may.
type bounded struct {
	from io.Reader
	left int64
}

type tooLongError struct{}

func (*tooLongError) Error() string { return "its result is larger than it may be" }

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &tooLongError{}
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
