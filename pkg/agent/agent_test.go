package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
	"github.com/fleetwright/fleetwright/pkg/adapter/host/hosttest"
)

const (
	stateDir = "/var/lib/skyhook/gpu"
	copyDir  = stateDir + "/tuning-1.2.3-0f1e-5"
)

// machine is a scratch host with one package on it.
type machine struct {
	unsafe error // of the last look before an interrupt
	t      *testing.T
	root   host.Root
	runner host.Runner
	boot   string
	log    bytes.Buffer
	clock  time.Time
	env    []string
	round  int
	waited time.Duration
}

func newMachine(t *testing.T) *machine {
	root := hosttest.Root(t)
	return &machine{
		t: t, root: root, runner: hosttest.Runner(t, root), boot: "boot-1", round: 5,
		clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// install puts a package on the host: steps by mode, each the text of a script.
func (m *machine) install(modes map[Mode][]Step, scripts map[string]string) {
	type step struct {
		Name        string            `json:"name"`
		Path        string            `json:"path"`
		Arguments   []string          `json:"arguments"`
		ReturnCodes []int             `json:"returncodes"`
		OnHost      bool              `json:"on_host"`
		Idempotence bool              `json:"idempotence"`
		Upgrade     bool              `json:"upgrade_step"`
		Env         map[string]string `json:"env"`
	}
	out := map[Mode][]step{}
	for mode, list := range modes {
		for _, s := range list {
			out[mode] = append(out[mode], step{
				s.Name, s.Path, append([]string{}, s.Arguments...), s.ReturnCodes, s.OnHost, s.HandlesRepeats, s.Upgrade, s.Env,
			})
		}
	}
	data, err := json.Marshal(map[string]any{
		"schema_version": "v1", "package_name": "tuning_pkg", "package_version": "1.2.3", "expected_config_files": []string{}, "modes": out,
	})
	require.NoError(m.t, err)
	m.write(copyDir+"/config.json", string(data))
	for name, text := range scripts {
		m.write(copyDir+"/skyhook_dir/"+name, "#!/bin/sh\n"+text+"\n")
	}
}

func (m *machine) write(name, text string) {
	require.NoError(m.t, m.root.WriteFile(name, []byte(text), 0o644))
}

func (m *machine) read(name string) string {
	data, err := m.root.ReadFile(name)
	require.NoError(m.t, err)
	return string(data)
}

func (m *machine) agent() *Agent {
	env := append([]string{
		fmt.Sprintf("SKYHOOK_RESOURCE_ID=gpu-0f1e-%d_tuning_1.2.3", m.round), "SKYHOOK_ROOT_DIR=" + stateDir,
		"SKYHOOK_LOG_DIR=/var/log/skyhook/gpu", fmt.Sprintf("FLEETWRIGHT_ROUND=%d", m.round),
		"FLEETWRIGHT_MACHINE_ID=" + hosttest.MachineID, hosttest.Environ(m.root),
	}, m.env...)
	settings, err := ReadSettings(env)
	require.NoError(m.t, err)
	return &Agent{
		Root: m.root, Runner: m.runner, Settings: settings, Out: &m.log,
		Boot: func() (string, error) { return m.boot, nil },
		Now:  func() time.Time { m.clock = m.clock.Add(time.Second); return m.clock },
		Wait: func(_ context.Context, d time.Duration) { m.waited += d }, SafeToInterrupt: func(context.Context) error { return m.unsafe },
	}
}

func (m *machine) run(mode Mode) Result {
	return m.agent().Run(m.t.Context(), Invocation{Mode: mode, Root: string(m.root), CopyDir: copyDir})
}

func (m *machine) interrupt(spec string) Result {
	return m.agent().Run(m.t.Context(), Invocation{
		Mode: ModeInterrupt, Root: string(m.root), CopyDir: copyDir, Interrupt: base64.StdEncoding.EncodeToString([]byte(spec)),
	})
}

func step(name string, codes ...int) Step {
	if len(codes) == 0 {
		codes = []int{0}
	}
	return Step{Name: name, Path: name + ".sh", ReturnCodes: codes, OnHost: true, HandlesRepeats: true}
}

func requireOutcome(t *testing.T, want Outcome, r Result) {
	t.Helper()
	require.Equal(t, want, r.Outcome, r.Message)
}

func TestStepsRunOnTheHost(t *testing.T) {
	m := newMachine(t)
	one := step("one")
	one.Arguments, one.Env = []string{"a b", "env:COLOUR"}, map[string]string{"FROM_STEP": "yes"}
	m.install(map[Mode][]Step{ModeApply: {one, step("two", 3)}, ModeApply.Check(): {step("check")}}, map[string]string{
		"one.sh": `echo "args=$1,$2 cwd=${PWD#$HOST} step=$FROM_STEP root=${STEP_ROOT#$HOST} dir=${SKYHOOK_DIR#$HOST} round=$FLEETWRIGHT_ROUND"
echo applied > "$HOST/etc/tuned"
echo careful >&2`,
		"two.sh":   "exit 3",
		"check.sh": `test -f "$HOST/etc/tuned"`,
	})
	m.env = []string{"COLOUR=green"}
	requireOutcome(t, Succeeded, m.run(ModeApply))
	require.Equal(t, "applied\n", m.read("/etc/tuned"))
	require.Contains(t, m.log.String(), "Z one: args=a b,green cwd="+copyDir+" step=yes root="+copyDir+"/skyhook_dir dir="+copyDir+" round=\n")
	require.Regexp(t, `\[err\] 2026-03-01T12:00:\d\dZ one: careful`, m.log.String())

	names, err := m.root.Names("/var/log/skyhook/gpu/tuning_pkg/1.2.3")
	require.NoError(t, err)
	require.Len(t, names, 4)
	require.Regexp(t, `^one-2026-03-01-1200\d\d\.err$`, names[0])
	require.Equal(t, "careful\n", m.read("/var/log/skyhook/gpu/tuning_pkg/1.2.3/"+names[0]))

	requireOutcome(t, Succeeded, m.run(ModeApply.Check()))
	require.Regexp(t, `^\{"current-version":"1.2.3","history":\[\{"version":"1.2.3","time":"2026-03-01T12:00:\d\dZ"\}\]\}\n$`,
		m.read(stateDir+"/history/tuning_pkg.json"))
}

func TestWorkStopsAtTheFirstFailureWithItsRealCode(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeApply: {step("one"), step("two"), step("three")}, ModeApply.Check(): {step("one")}}, map[string]string{
		"one.sh": "exit 0", "two.sh": "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; printf 'no newline'; exit 42",
		"three.sh": `touch "$HOST/etc/three"`,
	})
	r := m.run(ModeApply)
	requireOutcome(t, Failed, r)
	require.Equal(t, "step two returned 42 (accepted: 0)", r.Message)
	require.Equal(t, 42, r.ExitCode)
	require.Equal(t, "two", r.Step)
	require.Len(t, r.Lines, 10)
	require.Equal(t, "no newline", r.Lines[9])
	require.False(t, m.root.Exists("/etc/three"))
}

func TestCheckLooksAtEverythingAndReportsTheFirstFailure(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeApply: {step("good")}, ModeApply.Check(): {step("bad"), step("worse"), step("good")}}, map[string]string{
		"bad.sh": "exit 4", "worse.sh": "exit 5", "good.sh": `echo seen > "$HOST/etc/seen"`,
	})
	r := m.run(ModeApply.Check())
	require.Equal(t, "step bad returned 4 (accepted: 0)", r.Message)
	require.True(t, m.root.Exists("/etc/seen"))
	require.False(t, m.root.Exists(stateDir+"/history/tuning_pkg.json"), "what is not checked is no history")
}

func TestStepThatMustNotRepeatRunsOnce(t *testing.T) {
	m := newMachine(t)
	once := step("once")
	once.HandlesRepeats = false
	m.install(map[Mode][]Step{
		ModeApply: {once, step("always")}, ModeApply.Check(): {step("always")}, ModeConfig: {once}, ModeConfig.Check(): {step("always")},
		ModeUninstall: {step("always")}, ModeUninstall.Check(): {step("always")},
	}, map[string]string{"once.sh": `echo once >> "$HOST/etc/log"`, "always.sh": `echo always >> "$HOST/etc/log"`})
	ran := func(mode Mode) string {
		require.NoError(t, m.root.RemoveAll("/etc/log"))
		m.round++
		requireOutcome(t, Succeeded, m.run(mode))
		return strings.Join(strings.Fields(m.read("/etc/log")), " ")
	}
	require.Equal(t, "once always", ran(ModeApply))
	require.Equal(t, "always", ran(ModeApply))
	require.True(t, m.root.Exists(stateDir+"/flags/tuning_pkg/1.2.3/once.sh_W11fWzBd"), "the NodeWright agent's name")
	require.Equal(t, "once", ran(ModeConfig), "config always runs")
	m.write(stateDir+"/flags/tuning_pkg/1.0.0/once.sh_W11fWzBd", "")
	m.write(stateDir+"/flags/other/1.0.0/once.sh_W11fWzBd", "")
	ran(ModeUninstall.Check())
	require.False(t, m.root.Exists(stateDir+"/flags/tuning_pkg/1.0.0"), "of no version anything is there any more")
	require.True(t, m.root.Exists(stateDir+"/flags/other/1.0.0/once.sh_W11fWzBd"))
	require.Equal(t, "once always", ran(ModeApply), "uninstalling forgets what ran")
	m.write(stateDir+"/flags/tuning_pkg/2.0.0/once.sh_W11fWzBd", "")
	m.env = []string{"FLEETWRIGHT_FRESH=true"}
	require.Equal(t, "once always", ran(ModeApply), "a fresh start forgets it too")
	require.False(t, m.root.Exists(stateDir+"/flags/tuning_pkg/2.0.0"), "what another version did is undone by now")
}

func TestFreshStartForgetsOnceInARound(t *testing.T) {
	m := newMachine(t)
	once := step("once")
	once.HandlesRepeats = false
	m.install(map[Mode][]Step{ModeApply: {once, step("fails")}, ModeApply.Check(): {once}}, map[string]string{
		"once.sh": `echo once >> "$HOST/etc/log"`, "fails.sh": "exit 1",
	})
	m.env = []string{"FLEETWRIGHT_FRESH=true"}
	for range 3 { // three attempts
		requireOutcome(t, Failed, m.run(ModeApply))
	}
	require.Equal(t, "once\n", m.read("/etc/log"))
}

func TestUpgradeStepsGetBothVersions(t *testing.T) {
	m := newMachine(t)
	up := step("up")
	up.Upgrade = true
	m.install(map[Mode][]Step{ModeUpgrade: {up}, ModeUpgrade.Check(): {up}}, map[string]string{
		"up.sh": `echo "$1 $2 $PREVIOUS_VERSION $CURRENT_VERSION" >> "$HOST/etc/log"`,
	})
	requireOutcome(t, Succeeded, m.run(ModeUpgrade))
	m.write(stateDir+"/history/tuning_pkg.json", `{"current-version":"1.1.0","history":[]}`)
	m.round++
	requireOutcome(t, Succeeded, m.run(ModeUpgrade))
	require.Equal(t, "unknown 1.2.3 unknown 1.2.3\n1.1.0 1.2.3 1.1.0 1.2.3\n", m.read("/etc/log"))

	m.write(stateDir+"/history/tuning_pkg.json", "{damaged")
	requireOutcome(t, Succeeded, m.run(ModeUpgrade.Check()))
	require.Equal(t, "{damaged", m.read(stateDir+"/history/tuning_pkg.json.backup"))
	require.Contains(t, m.read(stateDir+"/history/tuning_pkg.json"), `"current-version":"1.2.3"`)
}

func TestRootDirIsCopiedButNotForUninstall(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{
		ModeApply: {step("ok")}, ModeApply.Check(): {step("ok")}, ModeUninstall: {step("ok")}, ModeUninstall.Check(): {step("ok")},
	}, map[string]string{"ok.sh": `test -z "$WANT" || test -f "$HOST/etc/sysctl.d/90.conf"`})
	m.write(copyDir+"/root_dir/etc/sysctl.d/90.conf", "vm.x=1\n")
	requireOutcome(t, Succeeded, m.run(ModeUninstall))
	require.False(t, m.root.Exists("/etc/sysctl.d/90.conf"))
	m.env = []string{"WANT=1"}
	requireOutcome(t, Succeeded, m.run(ModeApply))
}

func TestModeWithoutStepsSucceeds(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeConfig: {step("ok")}, ModeConfig.Check(): {step("ok")}}, map[string]string{"ok.sh": ""})
	requireOutcome(t, Succeeded, m.run(ModeApply))
	require.Contains(t, m.log.String(), "warning: tuning_pkg 1.2.3 has no steps for apply: nothing to do")
}

func TestBadPackagesChangeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(m *machine)
		want  string
	}{
		"not copied": {func(m *machine) { _ = m.root.RemoveAll(copyDir) }, "read package: no config.json in " + copyDir + ": no such file or directory"},
		"bad config": {func(m *machine) { m.write(copyDir+"/config.json", "{}x") },
			"read package: config.json: line 1: more text after the end of the JSON object"},
		"step file missing": {func(m *machine) { _ = m.root.RemoveAll(copyDir + "/skyhook_dir/check.sh") },
			"read package: config.json: modes.apply-check[0].path: skyhook_dir has no file check.sh"},
		"other version": {func(m *machine) { m.env = []string{"SKYHOOK_RESOURCE_ID=gpu-0f1e-5_tuning_1.3.0"} },
			"read package: the NodeWright asks for version 1.3.0 of tuning, but the image holds tuning_pkg 1.2.3"},
		"configuration missing": {func(m *machine) {
			m.write(copyDir+"/config.json", strings.Replace(m.read(copyDir+"/config.json"), `"expected_config_files":[]`, `"expected_config_files":["accelerator"]`, 1))
		}, "read configuration: the package expects the key accelerator in its configMap"},
		"variable missing": {func(m *machine) {
			m.write(copyDir+"/config.json", strings.Replace(m.read(copyDir+"/config.json"), `"arguments":[]`, `"arguments":["env:NOPE"]`, 1))
		}, "step one: argument env:NOPE: the environment has no variable NOPE"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.install(map[Mode][]Step{ModeApply: {step("one")}, ModeApply.Check(): {step("check")}},
				map[string]string{"one.sh": `touch "$HOST/etc/one"`, "check.sh": ""})
			c.spoil(m)
			r := m.run(ModeApply)
			requireOutcome(t, Failed, r)
			require.Equal(t, c.want, r.Message)
			require.False(t, m.root.Exists("/etc/one"))
		})
	}
}

func TestStepThatCannotBeExecuted(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeApply: {step("one")}, ModeApply.Check(): {step("one")}}, nil)
	m.write(copyDir+"/skyhook_dir/one.sh", "#!/no/such/shell\n")
	r := m.run(ModeApply)
	requireOutcome(t, Failed, r)
	require.Contains(t, r.Message, "step one: run "+copyDir+"/skyhook_dir/one.sh: ")
	require.Equal(t, -1, r.ExitCode)
}

func TestStopEndsTheStepAndStartsNoOther(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeApply: {step("long"), step("next")}, ModeApply.Check(): {step("next")}},
		map[string]string{"long.sh": `touch "$HOST/etc/began"; sleep 600`, "next.sh": `touch "$HOST/etc/next"`})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan Result)
	a := m.agent()
	go func() { ended <- a.Run(ctx, Invocation{Mode: ModeApply, Root: string(m.root), CopyDir: copyDir}) }()
	require.Eventually(t, func() bool { return m.root.Exists("/etc/began") }, 30*time.Second, 20*time.Millisecond)
	cancel()
	r := <-ended
	require.Equal(t, "step long was stopped before it ended", r.Message)
	require.False(t, m.root.Exists("/etc/next"))
}

func TestLogsArePruned(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeConfig: {step("one"), step("one-more")}, ModeConfig.Check(): {step("one")}},
		map[string]string{"one.sh": "echo hello", "one-more.sh": ""})
	for range 7 {
		m.round++
		requireOutcome(t, Succeeded, m.run(ModeConfig))
	}
	names, err := m.root.Names("/var/log/skyhook/gpu/tuning_pkg/1.2.3")
	require.NoError(t, err)
	require.Len(t, names, 4*keepLogs, "five logs and five error logs of each step")
}

func TestCopyResolv(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeConfig: {step("one")}, ModeConfig.Check(): {step("one")}}, map[string]string{"one.sh": ""})
	m.env = []string{"COPY_RESOLV=true"}
	a := m.agent()
	a.Resolv = path.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(a.Resolv, []byte("nameserver 192.0.2.1\n"), 0o600))
	requireOutcome(t, Succeeded, a.Run(t.Context(), Invocation{Mode: ModeConfig, CopyDir: copyDir}))
	require.Equal(t, "nameserver 192.0.2.1\n", m.read("/etc/resolv.conf"))
}

func TestBannerHidesWhatPackagesMayKeepSecret(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeConfig: {step("one")}, ModeConfig.Check(): {step("one")}}, map[string]string{"one.sh": ""})
	m.env = []string{"LICENCE=hunter2"}
	requireOutcome(t, Succeeded, m.run(ModeConfig))
	for _, want := range []string{"CLI CONFIGURATION", "ENV CONFIGURATION", "Directory CONFIGURATION", "mode: config\n"} {
		require.Contains(t, m.log.String(), want)
	}
	require.NotContains(t, m.log.String(), "hunter2")
}
