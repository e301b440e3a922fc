package agent

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

// counting is a machine whose package notes each run in /etc/log.
func counting(t *testing.T) *machine {
	m := newMachine(t)
	all := map[Mode][]Step{}
	scripts := map[string]string{}
	for _, mode := range Modes() {
		name := string(mode)
		all[mode] = []Step{step(name)}
		scripts[name+".sh"] = `echo ` + name + ` >> "$HOST/etc/log"`
	}
	m.install(all, scripts)
	m.write("/etc/log", "")
	return m
}

func (m *machine) ran() string { return strings.Join(strings.Fields(m.read("/etc/log")), " ") }

func TestStageOfThisRoundAnswersWithItsStoredResult(t *testing.T) {
	m := counting(t)
	requireOutcome(t, Succeeded, m.run(ModeApply))
	r := m.run(ModeApply)
	requireOutcome(t, Succeeded, r)
	require.True(t, r.Stored)
	requireOutcome(t, Succeeded, m.run(ModeApply.Check()))
	require.Equal(t, "apply apply-check", m.ran())
	m.round++
	r = m.run(ModeApply)
	require.False(t, r.Stored)
	require.Equal(t, "apply apply-check apply", m.ran())
}

func TestLowerRoundIsRefused(t *testing.T) {
	m := counting(t)
	requireOutcome(t, Succeeded, m.run(ModeApply))
	m.round--
	r := m.run(ModeConfig)
	requireOutcome(t, Refused, r)
	require.Equal(t, "round 4 is over: this host has seen round 5", r.Message)
	r = m.interrupt(`{"type":"no_op"}`)
	requireOutcome(t, Refused, r)
	require.Equal(t, "apply", m.ran())
}

func TestRoundsCountWithinOneNodeWright(t *testing.T) {
	m := counting(t)
	requireOutcome(t, Succeeded, m.run(ModeApply))
	m.env = []string{"SKYHOOK_RESOURCE_ID=gpu-77aa-1_tuning_1.2.3", "FLEETWRIGHT_ROUND=1"} // deleted and made again
	requireOutcome(t, Succeeded, m.run(ModeApply))
	require.Equal(t, "apply apply", m.ran())
}

func TestOtherMachineIsRefused(t *testing.T) {
	m := counting(t)
	m.env = []string{"FLEETWRIGHT_MACHINE_ID=feedfeedfeedfeedfeedfeedfeedfeed"}
	r := m.run(ModeApply)
	requireOutcome(t, Refused, r)
	require.Equal(t, "this machine is 0123456789abcdef0123456789abcdef, but the execution is for machine feedfeedfeedfeedfeedfeedfeedfeed", r.Message)
	require.Empty(t, m.ran())
	require.False(t, m.root.Exists(stateDir+"/fleetwright"))
}

func TestUninstallAndInstallUndoEachOther(t *testing.T) {
	m := counting(t)
	for range 2 {
		requireOutcome(t, Succeeded, m.run(ModeApply))
		requireOutcome(t, Succeeded, m.run(ModeUninstall))
	}
	require.Equal(t, "apply uninstall apply uninstall", m.ran())
}

func TestRoundThatEndsMeanwhileDoesNotCount(t *testing.T) {
	m := counting(t)
	a := m.agent()
	a.Runner = after{m.runner, func() { m.round++; requireOutcome(t, Succeeded, m.interruptElsewhere()) }}
	r := a.Run(t.Context(), Invocation{Mode: ModeApply, CopyDir: copyDir})
	requireOutcome(t, Failed, r)
	require.Equal(t, "round 5 ended while tuning_1.2.3/apply ran: this host has seen round 6", r.Message)
}

// interruptElsewhere runs a stage of another package, which the locks allow beside this one.
func (m *machine) interruptElsewhere() Result {
	m.env = []string{"SKYHOOK_RESOURCE_ID=gpu-0f1e-6_other_1.2.3", "FLEETWRIGHT_ROUND=6"}
	defer func() { m.env = nil }()
	return m.run(ModeConfig)
}

// after does something once a command has run.
type after struct {
	host.Runner
	then func()
}

func (r after) Run(ctx context.Context, c host.Command) (int, error) {
	code, err := r.Runner.Run(ctx, c)
	r.then()
	return code, err
}

func TestExecutionsExcludeEachOther(t *testing.T) {
	m := counting(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel() // tries once instead of waiting
	hold := func(name string, exclusive bool) func() error {
		release, err := m.root.Lock(t.Context(), lockDir+"/"+name, exclusive)
		require.NoError(t, err)
		return release
	}
	try := func(mode Mode) Result {
		return m.agent().Run(ended, Invocation{Mode: mode, CopyDir: copyDir, Interrupt: "eyJ0eXBlIjoibm9fb3AifQ=="})
	}
	release := hold("host.lock", false)
	require.Equal(t, "lock /run/fleetwright/host.lock: another execution on this host holds it", try(ModeInterrupt).Message,
		"no interrupt while a stage runs")
	require.NotContains(t, try(ModeApply).Message, "lock", "stages of different packages go together")
	require.NoError(t, release())

	release = hold("host.lock", true)
	require.Contains(t, try(ModeApply).Message, "lock /run/fleetwright/host.lock", "no stage while an interrupt runs")
	require.NoError(t, release())

	release = hold("package-tuning.lock", true)
	require.Contains(t, try(ModeApply).Message, "lock /run/fleetwright/package-tuning.lock", "one execution of a package")
	require.NoError(t, release())
	require.Empty(t, m.ran())
}

func TestDamagedFenceStopsEverything(t *testing.T) {
	m := counting(t)
	m.write(stateDir+"/fleetwright/gpu-0f1e.json", "{")
	r := m.run(ModeApply)
	requireOutcome(t, Failed, r)
	require.Contains(t, r.Message, "read fence: "+stateDir+"/fleetwright/gpu-0f1e.json on the host is damaged (remove it if no execution is running)")
	require.Empty(t, m.ran())
}

func TestWithoutRoundNothingIsStored(t *testing.T) {
	m := counting(t)
	m.env = []string{"FLEETWRIGHT_ROUND=", "FLEETWRIGHT_MACHINE_ID="} // as NodeWright's own operator starts it
	for range 2 {
		requireOutcome(t, Succeeded, m.run(ModeApply))
	}
	require.Equal(t, "apply apply", m.ran())
}
