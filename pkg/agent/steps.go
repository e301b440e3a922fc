package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

// run executes the steps of the mode: work stops at the first failure, a check looks at everything and then fails.
func (s *stage) run(ctx context.Context) Result {
	steps := s.cfg.Modes[s.mode]
	if len(steps) == 0 {
		s.logf("warning: %s %s has no steps for %s: nothing to do", s.cfg.Name, s.cfg.Version, s.mode)
		return Result{Outcome: Succeeded}
	}
	var bad *Result
	for _, step := range steps {
		r := s.one(ctx, step)
		if r.Outcome == Succeeded {
			continue
		}
		if !s.mode.IsCheck() || ctx.Err() != nil {
			return r
		}
		if bad == nil {
			bad = &r
		}
	}
	if bad != nil {
		return *bad
	}
	return Result{Outcome: Succeeded}
}

// one runs a step, unless the agent has to keep it from running twice.
func (s *stage) one(ctx context.Context, step Step) Result {
	if ctx.Err() != nil {
		return Result{Outcome: Failed, Step: step.Name, Message: fmt.Sprintf("step %s did not start: the agent was asked to stop", step.Name)}
	}
	if s.onceOnly(step) && s.flags(s.cfg).has(step) {
		s.logf("step %s ran before for %s %s: skipped", step.Name, s.cfg.Name, s.cfg.Version)
		return Result{Outcome: Succeeded}
	}
	r := s.execute(ctx, step)
	if r.Outcome == Succeeded && s.keepsFlags() {
		if err := s.flags(s.cfg).set(step); err != nil {
			return failed(err)
		}
	}
	return r
}

// onceOnly: config, upgrade and uninstall always run their steps, and so do checks.
func (s *stage) onceOnly(step Step) bool {
	return !step.HandlesRepeats && (s.mode == ModeApply || s.mode == ModePostInterrupt)
}

func (s *stage) keepsFlags() bool { return !s.mode.IsCheck() && s.mode != ModeUninstall }

func (s *stage) execute(ctx context.Context, step Step) Result {
	args, err := s.arguments(step)
	if err != nil {
		return Result{Outcome: Failed, Step: step.Name, Message: err.Error()}
	}
	if err := s.Root.MakeExecutable(s.stepPath(step)); err != nil {
		return Result{Outcome: Failed, Step: step.Name, Message: fmt.Sprintf("make step %s executable: %v", step.Name, pathless(err))}
	}
	logs := s.openLogs(step)
	defer logs.close()
	c := &console{out: s.Out, now: s.Now, step: step.Name}
	stdout, stderr := c.stream("out", logs.stdout()), c.stream("err", logs.stderr())
	code, err := s.Runner.Run(ctx, host.Command{
		Path: s.stepPath(step), Args: args, Dir: s.copyDir, Env: s.environment(step), InContainer: !step.OnHost,
		Stdout: stdout, Stderr: stderr,
	})
	stdout.flush()
	stderr.flush()
	return s.judge(step, code, err, c.tail)
}

func (s *stage) judge(step Step, code int, err error, tail []string) Result {
	r := Result{Outcome: Failed, Step: step.Name, ExitCode: code, Lines: tail}
	switch {
	case errors.Is(err, host.ErrStopped):
		r.Message = fmt.Sprintf("step %s was stopped before it ended", step.Name)
	case err != nil:
		r.Message = fmt.Sprintf("step %s: %v", step.Name, err)
	case !slices.Contains(step.ReturnCodes, code):
		r.Message = fmt.Sprintf("step %s returned %d (accepted: %s)", step.Name, code, strings.Trim(pythonNumbers(step.ReturnCodes), "[]"))
	default:
		return Result{Outcome: Succeeded}
	}
	return r
}

func (s *stage) arguments(step Step) ([]string, error) {
	if step.Upgrade {
		return []string{s.previous, s.cfg.Version}, nil
	}
	args := make([]string, 0, len(step.Arguments))
	for _, arg := range step.Arguments {
		name, isEnv := strings.CutPrefix(arg, "env:")
		if !isEnv {
			args = append(args, arg)
			continue
		}
		value, ok := environment(s.Settings.Environ).lookup(name)
		if !ok {
			return nil, fmt.Errorf("step %s: argument %s: the environment has no variable %s", step.Name, arg, name)
		}
		args = append(args, value)
	}
	return args, nil
}

// environment of a step: the container's, the step's own, then what the contract reserves. Fencing is the agent's business.
func (s *stage) environment(step Step) []string {
	env := []string{"PATH=" + host.SearchPath}
	for _, entry := range s.Settings.Environ {
		if !strings.HasPrefix(entry, "FLEETWRIGHT_") {
			env = append(env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(step.Env)) {
		env = append(env, name+"="+step.Env[name])
	}
	if s.mode.Work() == ModeUpgrade {
		env = append(env, "PREVIOUS_VERSION="+s.previous, "CURRENT_VERSION="+s.cfg.Version)
	}
	dir := s.copyDir
	if !step.OnHost {
		dir = path.Join(string(s.Root), dir)
	}
	return append(env, "STEP_ROOT="+path.Join(dir, "skyhook_dir"), "SKYHOOK_DIR="+dir)
}
