package pack

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/agent"
)

const (
	trialState = "/var/lib/skyhook/trial"
	trialLogs  = "/var/log/skyhook/trial"
	trialUID   = "00000000-0000-0000-0000-000000000000"
)

// trial runs a package's modes on a scratch host, as the pods of a rollout would.
type trial struct {
	root   host.Root
	runner host.Runner
	// values are the keys of the NodeWright's configMap.
	values map[string][]byte
	// env of the package, as NAME=value.
	env []string
	// changes lists the host's files that differ from before the trial.
	changes func() ([]string, error)
	// report is called after each run.
	report func(run)
}

// run is one mode that was run.
type run struct {
	Package string       `json:"package"`
	Version string       `json:"version"`
	Mode    agent.Mode   `json:"mode"`
	Result  agent.Result `json:"result"`
	// Again says that the mode was run a second time, which a rollout may do at any time.
	Again bool `json:"again,omitempty"`
	// Log is what the agent and the steps printed.
	Log string `json:"log,omitempty"`
}

// verdict is what a trial found out.
type verdict struct {
	Runs []run `json:"runs"`
	// Changed are the host's files that the package put there, changed or removed.
	Changed []string `json:"changed"`
	// Left are those that were still different after the uninstall.
	Left []string `json:"left,omitempty"`
	OK   bool     `json:"ok"`
}

// packageUnderTest is a package with its parsed description.
type packageUnderTest struct {
	*source
	cfg *agent.Config
}

func (p packageUnderTest) copyDir() string {
	return path.Join(trialState, p.cfg.Name+"-"+p.cfg.Version+"-"+trialUID+"-1")
}

// has says whether a mode or its check does anything.
func (p packageUnderTest) has(m agent.Mode) bool {
	return len(p.cfg.Modes[m])+len(p.cfg.Modes[m.Check()]) > 0
}

// try installs a package, installs it again, and takes it off. With an older version it is installed first and upgraded.
// It ends at the first mode that fails.
func (t *trial) try(ctx context.Context, p packageUnderTest, older *packageUnderTest) (verdict, error) {
	v := verdict{}
	first := []agent.Mode{agent.ModeApply, agent.ModeApply, agent.ModeConfig, agent.ModeConfig, agent.ModePostInterrupt}
	if older != nil {
		if err := t.all(ctx, &v, *older, agent.ModeApply, agent.ModeConfig, agent.ModePostInterrupt); err != nil || v.failed() {
			return v, err
		}
		first = []agent.Mode{agent.ModeUpgrade, agent.ModeUpgrade, agent.ModeConfig, agent.ModeConfig, agent.ModePostInterrupt}
	}
	if err := t.all(ctx, &v, p, first...); err != nil || v.failed() {
		return v, err
	}
	var err error
	if v.Changed, err = t.changes(); err != nil {
		return v, err
	}
	if p.has(agent.ModeUninstall) {
		if err := t.all(ctx, &v, p, agent.ModeUninstall); err != nil || v.failed() {
			return v, err
		}
		if v.Left, err = t.changes(); err != nil {
			return v, err
		}
	}
	v.OK = true
	return v, nil
}

func (v *verdict) failed() bool {
	return len(v.Runs) > 0 && v.Runs[len(v.Runs)-1].Result.Outcome != agent.Succeeded
}

// all runs modes with their checks until one fails.
func (t *trial) all(ctx context.Context, v *verdict, p packageUnderTest, modes ...agent.Mode) error {
	if err := t.place(p); err != nil {
		return fmt.Errorf("put package on the scratch host: %w", err)
	}
	seen := map[agent.Mode]bool{}
	for _, mode := range modes {
		if !p.has(mode) {
			continue
		}
		for _, m := range []agent.Mode{mode, mode.Check()} {
			r, err := t.one(ctx, p, m)
			if err != nil {
				return err
			}
			r.Again = seen[m]
			seen[m] = true
			v.Runs = append(v.Runs, r)
			t.report(r)
			if v.failed() {
				return nil
			}
		}
	}
	return nil
}

// place copies the package to where its pod would.
func (t *trial) place(p packageUnderTest) error {
	for _, name := range p.names() {
		f := p.files[name]
		if err := t.root.WriteFile(path.Join(p.copyDir(), name), f.data, f.mode); err != nil {
			return err
		}
	}
	for key, value := range t.values {
		if err := t.root.WriteFile(path.Join(p.copyDir(), configDir, key), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) one(ctx context.Context, p packageUnderTest, mode agent.Mode) (run, error) {
	// A package may call itself by a name that a NodeWright cannot have (nvidia_tuned): the resource ID has the latter.
	id := fmt.Sprintf("trial-%s-1_package_%s", trialUID, p.cfg.Version)
	settings, err := agent.ReadSettings(append([]string{
		"SKYHOOK_RESOURCE_ID=" + id, "SKYHOOK_ROOT_DIR=" + trialState, "SKYHOOK_LOG_DIR=" + trialLogs, "SKYHOOK_NODE_ORDER=0",
		"COPY_RESOLV=false",
	}, t.env...))
	if err != nil {
		return run{}, fmt.Errorf("run %s: %w", mode, err)
	}
	var log bytes.Buffer
	a := &agent.Agent{
		Root: t.root, Runner: t.runner, Settings: settings, Now: time.Now, Out: &log,
		Boot: func() (string, error) { return host.BootID(host.BootIDFile) },
	}
	result := a.Run(ctx, agent.Invocation{Mode: mode, Root: string(t.root), CopyDir: p.copyDir()})
	return run{Package: p.cfg.Name, Version: p.cfg.Version, Mode: mode, Result: result, Log: log.String()}, nil
}
