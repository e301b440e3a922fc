package pack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/agent"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// testOptions are what `fleetwright package test` is asked for. They are handed on to the process on the scratch host as JSON.
type testOptions struct {
	Streams `json:"-"`
	// Dir and Older are directories of packages; Root is the root file system that the scratch host is an image of.
	Dir, Older, Root string
	// Values are KEY=FILE, Env NAME=VALUE, Skip modes.
	Values, Env, Skip []string
	// Output is text or json.
	Output  string
	Timeout time.Duration
	Verbose bool
	// Mounts is the empty directory in which that process mounts.
	Mounts string
}

func newTest(streams Streams) *cobra.Command {
	o := &testOptions{Streams: streams, Root: "/", Output: "text", Timeout: 10 * time.Minute}
	cmd := &cobra.Command{
		Use:   "test DIRECTORY [--config KEY=FILE ...] [--env NAME=VALUE ...] [--from DIRECTORY] [--root DIRECTORY]",
		Short: "Run all modes of a package on a scratch host",
		Long: `Run all modes of a package on a scratch host, in the order of a rollout: install it, install it again, take it off;
each mode is followed by its check. With --from, that older version is installed first and then upgraded.

The scratch host is a copy-on-write image of this machine, or of the root file system at --root: nothing that a step
writes reaches the machine, and it is gone at the end. Kernel settings can be read and not be changed; there is no
systemd to talk to. It needs Linux 5.11, root, and no cluster. It is no sandbox for packages that you do not trust.`,
		Example: `  fleetwright package test packages/sysctl --config sysctl.conf=values/sysctl.conf`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir = args[0]
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Values, "config", nil, "key of the NodeWright's configMap and a file with its value, as KEY=FILE; may be repeated")
	f.StringArrayVar(&o.Env, "env", nil, "variable of the package, as NAME=VALUE; may be repeated")
	f.StringArrayVar(&o.Skip, "skip", nil, "mode that cannot be tried on a scratch host, with its check, for example post-interrupt of a reboot; may be repeated")
	f.StringVar(&o.Older, "from", "", "directory of an older version, to be upgraded")
	f.StringVar(&o.Root, "root", o.Root, "root file system that the scratch host is an image of")
	f.StringVarP(&o.Output, "output", "o", o.Output, "format of the report: text or json")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "longest time that everything together may take")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "print the log of modes that succeed, too")
	return cmd
}

// scratchEnv tells a process that it was started on a scratch host, and with which options.
const scratchEnv = "FLEETWRIGHT_SCRATCH"

// Run tries the package in a process with namespaces of its own.
func (o *testOptions) Run(ctx context.Context) error {
	if o.Output != "text" && o.Output != "json" {
		return fmt.Errorf("unknown output format %q (allowed: text, json)", o.Output)
	}
	for _, mode := range o.Skip {
		if m := agent.Mode(mode); m.IsCheck() || !slices.Contains(agent.Modes(), m) {
			return fmt.Errorf("--skip %q (allowed: apply, config, post-interrupt, upgrade, uninstall)", mode)
		}
	}
	if handed, ok := os.LookupEnv(scratchEnv); ok {
		if err := json.Unmarshal([]byte(handed), o); err != nil {
			return fmt.Errorf("read %s: %w", scratchEnv, err)
		}
		return o.try(ctx)
	}
	lintOut := o.Streams
	if o.Output == "json" {
		lintOut.Out = o.ErrOut
	}
	if err := o.lint(lintOut); err != nil {
		return err
	}
	return o.inScratch(ctx)
}

// inScratch starts this program once more, where it may mount.
func (o *testOptions) inScratch(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if o.Mounts, err = os.MkdirTemp("", "fleetwright-scratch-"); err != nil {
		return fmt.Errorf("make scratch host: %w", err)
	}
	defer os.Remove(o.Mounts) // empty again: what was mounted on it is gone with its namespace
	handed, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("make scratch host: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "package", "test", o.Dir)
	cmd.Env = append(os.Environ(), scratchEnv+"="+string(handed))
	cmd.Stdout, cmd.Stderr = o.Out, o.ErrOut
	err = enter(cmd)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &Reported{"the package failed its test"}
	}
	return err
}

func (o *testOptions) lint(streams Streams) error {
	for _, dir := range []string{o.Older, o.Dir} {
		if dir == "" {
			continue
		}
		if _, _, err := checked(streams, dir, finding.Text); err != nil {
			return err
		}
	}
	return nil
}

func (o *testOptions) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	values, err := readValues(o.Values)
	if err != nil {
		return err
	}
	pkg, err := o.load(o.Dir)
	if err != nil {
		return err
	}
	var older *packageUnderTest
	if o.Older != "" {
		if older, err = o.load(o.Older); err != nil {
			return err
		}
	}
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return fmt.Errorf("find %s: %w", o.Root, err)
	}
	s, err := newScratch(o.Mounts, root)
	if err != nil {
		return err
	}
	t := &trial{
		root: host.Root(s.root), runner: host.Exec{Root: host.Root(s.root)}, values: values, env: o.Env,
		changes: s.changes, report: o.print,
	}
	v, err := t.try(ctx, *pkg, older)
	if err != nil {
		return err
	}
	return o.conclude(v)
}

// load reads a package that was linted before, without the modes that are to be skipped.
func (o *testOptions) load(dir string) (*packageUnderTest, error) {
	s, err := readSource(dir)
	if err != nil {
		return nil, err
	}
	cfg, err := agent.ParseConfig(s.files[configFile].data)
	if err != nil {
		return nil, err
	}
	for _, mode := range o.Skip {
		delete(cfg.Modes, agent.Mode(mode))
		delete(cfg.Modes, agent.Mode(mode).Check())
	}
	return &packageUnderTest{s, cfg}, nil
}

func readValues(list []string) (map[string][]byte, error) {
	values := map[string][]byte{}
	for _, entry := range list {
		key, name, ok := strings.Cut(entry, "=")
		if !ok || key == "" || strings.ContainsAny(key, "/\\") || key == ".." {
			return nil, fmt.Errorf("--config %q must be KEY=FILE", entry)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--config %s: %w", key, err)
		}
		values[key] = data
	}
	return values, nil
}

// print tells of a mode as it ends.
func (o *testOptions) print(r run) {
	if o.Output != "text" {
		return
	}
	name, end := string(r.Mode), "ok"
	if r.Again {
		name += " (again)"
	}
	bad := r.Result.Outcome != agent.Succeeded
	if bad {
		end = string(r.Result.Outcome) + ": " + r.Result.Message
	}
	fmt.Fprintf(o.Out, "%s %s  %-30s %s\n", r.Package, r.Version, name, end)
	if bad || o.Verbose {
		for line := range strings.Lines(afterBanner(r.Log)) {
			fmt.Fprint(o.Out, "    ", line)
		}
	}
}

// afterBanner leaves out what the agent prints about its own settings, which are the trial's.
func afterBanner(log string) string {
	_, rest, found := strings.Cut(log, "Directory CONFIGURATION")
	if !found {
		return log
	}
	_, rest, _ = strings.Cut(rest, "----\n")
	return rest
}

func (o *testOptions) conclude(v verdict) error {
	if o.Output == "json" {
		enc := json.NewEncoder(o.Out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	} else {
		o.summary(v)
	}
	if !v.OK {
		return &Reported{"the package failed its test"}
	}
	return nil
}

func (o *testOptions) summary(v verdict) {
	list := func(title string, paths []string) {
		if len(paths) == 0 {
			return
		}
		fmt.Fprintf(o.Out, "%s:\n", title)
		for _, p := range paths {
			fmt.Fprintln(o.Out, "  "+p)
		}
	}
	list("changed on the host (+ new, ~ changed, - removed)", v.Changed)
	list("warning: still different after the uninstall", v.Left)
	if v.OK {
		fmt.Fprintf(o.Out, "%d modes, all good\n", len(modesOf(v.Runs)))
	}
}
