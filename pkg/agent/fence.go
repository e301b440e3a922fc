package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// fence keeps executions of an earlier round, or of another machine, from touching the host, and remembers what this round has
// completed. Its file is <state>/fleetwright/<NodeWright>-<uid>.json: rounds count within one NodeWright object.
type fence struct {
	agent *Agent
	file  string
	lock  string
	state fenceState
}

type fenceState struct {
	// Round is the highest that this host has seen.
	Round int64 `json:"round"`
	// Done holds the results of stages that were completed in this round, by <package>_<version>/<stage>.
	Done map[string]Result `json:"done,omitempty"`
}

// refused marks errors that mean: not this execution.
type refused struct{ error }

func refusal(err error) Result {
	var no refused
	if errors.As(err, &no) {
		return Result{Outcome: Refused, Message: err.Error()}
	}
	return failed(err)
}

// checkMachine makes sure that the pod runs on the machine that it was made for: a node's name may be given to another one.
func (a *Agent) checkMachine() error {
	if a.Settings.MachineID == "" {
		return nil
	}
	have, err := a.Root.MachineID()
	if err != nil {
		return err
	}
	if have != a.Settings.MachineID {
		return fmt.Errorf("this machine is %s, but the execution is for machine %s", have, a.Settings.MachineID)
	}
	return nil
}

// fence reads what the host has seen and enters this execution's round. Without a round nothing is fenced and nothing stored.
func (a *Agent) fence(ctx context.Context) (*fence, error) {
	owner := a.Settings.Resource.Owner
	f := &fence{
		agent: a, file: path.Join(a.Settings.StateDir, "fleetwright", owner+".json"),
		lock: path.Join(lockDir, "state-"+owner+".lock"),
	}
	if a.Settings.Round == nil {
		return f, nil
	}
	return f, f.update(ctx, func() (bool, error) { return f.enter(*a.Settings.Round) })
}

func (f *fence) enter(round int64) (changed bool, err error) {
	switch {
	case round < f.state.Round:
		return false, refused{fmt.Errorf("round %d is over: this host has seen round %d", round, f.state.Round)}
	case round == f.state.Round:
		return false, nil
	}
	f.state = fenceState{Round: round}
	return true, nil
}

// update reads the file under its lock, lets change look at it, and writes it if change says so.
func (f *fence) update(ctx context.Context, change func() (bool, error)) error {
	release, err := f.agent.Root.Lock(ctx, f.lock, true)
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // closing a lock file that nothing was written to
	if err := f.read(); err != nil {
		return err
	}
	write, err := change()
	if err != nil || !write {
		return err
	}
	data, err := json.Marshal(f.state)
	if err != nil {
		return fmt.Errorf("write fence: %w", err)
	}
	if err := f.agent.Root.WriteFile(f.file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write fence: %w", err)
	}
	return nil
}

func (f *fence) read() error {
	data, err := f.agent.Root.ReadFile(f.file)
	if errors.Is(err, fs.ErrNotExist) {
		f.state = fenceState{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read fence: %w", err)
	}
	var state fenceState
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Errorf("read fence: %s on the host is damaged (remove it if no execution is running): %w", f.file, err)
	}
	f.state = state
	return nil
}

func (f *fence) stored(name string) (Result, bool) {
	r, ok := f.state.Done[name]
	return r, ok
}

// complete stores a result. Installing makes an earlier uninstall of the version undone, and the other way round. An execution
// whose round ended meanwhile has done its work but does not count any more.
func (f *fence) complete(ctx context.Context, name string, r Result) error {
	round := f.agent.Settings.Round
	if round == nil {
		return nil
	}
	return f.update(ctx, func() (bool, error) {
		if f.state.Round != *round {
			return false, fmt.Errorf("round %d ended while %s ran: this host has seen round %d", *round, name, f.state.Round)
		}
		f.forgetOpposite(name)
		if f.state.Done == nil {
			f.state.Done = map[string]Result{}
		}
		f.state.Done[name] = r
		return true, nil
	})
}

func (f *fence) forgetOpposite(name string) {
	prefix, mode, _ := strings.Cut(name, "/")
	removes := Mode(mode).Work() == ModeUninstall
	for other := range f.state.Done {
		of, kind, _ := strings.Cut(other, "/")
		if of == prefix && (Mode(kind).Work() == ModeUninstall) != removes {
			delete(f.state.Done, other)
		}
	}
}

// once does something a single time in a round, for this package.
func (f *fence) once(ctx context.Context, what string, do func() error) error {
	name := f.agent.prefix() + "/" + what
	if _, done := f.stored(name); done {
		return nil
	}
	if err := do(); err != nil {
		return err
	}
	return f.complete(ctx, name, Result{Outcome: Succeeded})
}

func (a *Agent) prefix() string {
	return a.Settings.Resource.Package + "_" + a.Settings.Resource.Version
}

// stageName is the key of a stage; an interrupt's has a hash of what it interrupts.
func (a *Agent) stageName(inv Invocation) string {
	name := a.prefix() + "/" + string(inv.Mode)
	if inv.Mode != ModeInterrupt {
		return name
	}
	sum := sha256.Sum256([]byte(inv.Interrupt))
	return name + ":" + hex.EncodeToString(sum[:8])
}
