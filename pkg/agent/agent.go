package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

const (
	// lockDir holds the locks on the host; they vanish with a reboot.
	lockDir = "/run/fleetwright"
	// DefaultLockWait is how long an execution waits for another one on the same host.
	DefaultLockWait = 10 * time.Minute
)

// Agent executes one invocation. The fields without a default are required.
type Agent struct {
	Root     host.Root
	Runner   host.Runner
	Settings Settings
	// Boot reads the ID of the running boot.
	Boot func() (string, error)
	// Now gives the time of log lines, log names and history.
	Now func() time.Time
	// Out is the container's log.
	Out io.Writer
	// LockWait bounds the wait for other executions. Default DefaultLockWait.
	LockWait time.Duration
	// Wait pauses after a reboot was asked for, and returns early with the context. Default: a timer.
	Wait func(ctx context.Context, d time.Duration)
	// SafeToInterrupt looks at the node directly before an interrupt and says why it may not be interrupted now. Default: it may.
	SafeToInterrupt func(ctx context.Context) error
	// kept are the host's files for the output of an interrupt's commands.
	kept stepLogs
	// Resolv is the container's resolver configuration, for COPY_RESOLV. Default /etc/resolv.conf.
	Resolv string
}

// Run executes the invocation and never panics on what a package brings. When the context ends, no further step starts.
func (a *Agent) Run(ctx context.Context, inv Invocation) Result {
	begin := a.Now()
	a.banner(inv)
	r := a.fenced(ctx, inv)
	r.Stage, r.Seconds = inv.Mode, a.Now().Sub(begin).Round(time.Millisecond).Seconds()
	if r.Message != "" {
		a.logf("%s: %s", r.Outcome, r.Message)
	}
	return r
}

func (a *Agent) logf(format string, args ...any) { fmt.Fprintf(a.Out, format+"\n", args...) }

func failed(err error) Result { return Result{Outcome: Failed, Message: err.Error()} }

// fenced takes the locks, asks the fence, works, and stores the result.
func (a *Agent) fenced(ctx context.Context, inv Invocation) Result {
	if err := a.checkMachine(); err != nil {
		return Result{Outcome: Refused, Message: err.Error()}
	}
	release, err := a.lock(ctx, inv.Mode)
	if err != nil {
		return failed(err)
	}
	defer release()
	f, err := a.fence(ctx)
	if err != nil {
		return refusal(err)
	}
	if a.Settings.CheckFirst {
		return a.checkFirst(ctx, inv)
	}
	name := a.stageName(inv)
	if r, ok := f.stored(name); ok {
		a.logf("%s was completed earlier in this round: nothing to do", name)
		r.Stored = true
		return r
	}
	r := a.work(ctx, inv, f)
	if r.Outcome != Succeeded {
		return r
	}
	if err := f.complete(ctx, name, r); err != nil {
		return failed(err)
	}
	return r
}

// checkFirst runs the check steps of a package that was not installed by this round, and nothing else.
func (a *Agent) checkFirst(ctx context.Context, inv Invocation) Result {
	if !inv.Mode.IsCheck() {
		return Result{Outcome: Refused, Message: fmt.Sprintf("mode %s changes the host, but only checks were asked for", inv.Mode)}
	}
	s, err := a.load(inv)
	if err != nil {
		return failed(err)
	}
	if err := s.checkExpected(); err != nil {
		return failed(err)
	}
	return s.run(ctx)
}

// lock lets package stages of one host run side by side unless they are of one package, and an interrupt only alone.
func (a *Agent) lock(ctx context.Context, mode Mode) (release func(), err error) {
	wait := a.LockWait
	if wait == 0 {
		wait = DefaultLockWait
	}
	limit, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	one, err := a.Root.Lock(limit, path.Join(lockDir, "host.lock"), mode == ModeInterrupt)
	if err != nil {
		return nil, err
	}
	two, err := a.Root.Lock(limit, path.Join(lockDir, "package-"+a.Settings.Resource.Package+".lock"), true)
	if err != nil {
		return nil, errors.Join(err, one())
	}
	return func() { _, _ = two(), one() }, nil // closing a lock file that nothing was written to
}

func (a *Agent) work(ctx context.Context, inv Invocation, f *fence) Result {
	if inv.Mode == ModeInterrupt {
		return a.interrupt(ctx, inv.Interrupt)
	}
	s, err := a.load(inv)
	if err != nil {
		return failed(err)
	}
	s.collect()
	if err := a.prepare(ctx, s, f); err != nil {
		return failed(err)
	}
	r := s.run(ctx)
	if err := s.touch(); err != nil {
		a.logf("warning: %v", pathless(err))
	}
	if r.Outcome != Succeeded {
		return r
	}
	if err := s.finish(); err != nil {
		return failed(err)
	}
	return r
}

// stage is one mode of one package on this host.
type stage struct {
	*Agent
	cfg      *Config
	mode     Mode
	copyDir  string
	previous string // version before an upgrade
}

// load reads the package that the pod copied to the host.
func (a *Agent) load(inv Invocation) (*stage, error) {
	data, err := a.Root.ReadFile(path.Join(inv.CopyDir, configFile))
	if err != nil {
		return nil, fmt.Errorf("read package: no config.json in %s: %w", inv.CopyDir, pathless(err))
	}
	cfg, err := ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("read package: %w", err)
	}
	for _, warning := range cfg.Warnings {
		a.logf("warning: %s: %s", configFile, warning)
	}
	if want := a.Settings.Resource.Version; !sameVersion(want, cfg.Version) {
		return nil, fmt.Errorf("read package: the NodeWright asks for version %s of %s, but the image holds %s %s",
			want, a.Settings.Resource.Package, cfg.Name, cfg.Version)
	}
	s := &stage{Agent: a, cfg: cfg, mode: inv.Mode, copyDir: inv.CopyDir}
	if err := s.checkFiles(); err != nil {
		return nil, fmt.Errorf("read package: %w", err)
	}
	s.previous, err = a.history(cfg).current()
	return s, err
}

// pathless drops the container's path from a file error: the sentence around it names the host's.
func pathless(err error) error {
	var perr *os.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// checkFiles makes sure that every step of every mode is there before anything runs.
func (s *stage) checkFiles() error {
	for _, mode := range Modes() {
		for i, step := range s.cfg.Modes[mode] {
			if !s.Root.Exists(s.stepPath(step)) {
				return fmt.Errorf("config.json: modes.%s[%d].path: skyhook_dir has no file %s", mode, i, step.Path)
			}
		}
	}
	return nil
}

func (s *stage) stepPath(step Step) string { return path.Join(s.copyDir, "skyhook_dir", step.Path) }

// prepare puts files in place that steps rely on. Uninstalling needs none of them.
func (a *Agent) prepare(ctx context.Context, s *stage, f *fence) error {
	if s.mode.Work() == ModeUninstall {
		return nil
	}
	if err := s.checkExpected(); err != nil {
		return err
	}
	if err := s.overlay(); err != nil {
		return err
	}
	if err := a.copyResolv(); err != nil {
		return err
	}
	if s.mode == ModeApply && a.Settings.Fresh {
		return f.once(ctx, "fresh", a.flags(s.cfg).clear)
	}
	return nil
}

func (s *stage) checkExpected() error {
	for _, name := range s.cfg.ExpectedConfigFiles {
		if !s.Root.Exists(path.Join(s.copyDir, "configmaps", name)) {
			return fmt.Errorf("read configuration: the package expects the key %s in its configMap", name)
		}
	}
	return nil
}

func (s *stage) overlay() error {
	from := path.Join(s.copyDir, "root_dir")
	if !s.Root.Exists(from) {
		return nil
	}
	changed, err := s.Root.Overlay(from, "/")
	for _, p := range changed {
		s.logf("root_dir: wrote %s", p)
	}
	if err != nil {
		return fmt.Errorf("copy root_dir to the host: %w", err)
	}
	return nil
}

func (a *Agent) copyResolv() error {
	if !a.Settings.CopyResolv {
		return nil
	}
	from := a.Resolv
	if from == "" {
		from = "/etc/resolv.conf"
	}
	data, err := os.ReadFile(from)
	if err == nil {
		err = a.Root.WriteFile("/etc/resolv.conf", data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("copy resolv.conf to the host: %w", err)
	}
	return nil
}

// finish records what the host has now: checks prove it, so they are what counts.
func (s *stage) finish() error {
	switch s.mode {
	case ModeApply.Check(), ModeUpgrade.Check():
		return s.history(s.cfg).record(s.cfg.Version, s.Now())
	case ModeUninstall.Check():
		if err := s.collectCopies(1); err != nil { // of no version anything is there any more
			s.logf("warning: clean up: %v", err)
		}
		return errors.Join(s.flags(s.cfg).clear(), s.history(s.cfg).record(uninstalled, s.Now()))
	}
	return nil
}
