package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whether the wanted state is there is asked without leaving a trace: no files of root_dir, no history, no stored result, so that
// the ordinary way finds the host as it was.
func TestCheckFirstLeavesNoTrace(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeApply: {step("work")}, ModeApply.Check(): {step("check")}}, map[string]string{
		"work.sh": `touch "$HOST/etc/state"`, "check.sh": `test -e "$HOST/etc/state"`,
	})
	m.write(copyDir+"/root_dir/etc/overlay", "x")
	m.env = []string{"FLEETWRIGHT_CHECK_FIRST=true"}
	r := m.run(ModeApply.Check())
	requireOutcome(t, Failed, r)
	require.Equal(t, "step check returned 1 (accepted: 0)", r.Message)
	m.write("/etc/state", "")
	requireOutcome(t, Succeeded, m.run(ModeApply.Check()))
	require.False(t, m.root.Exists("/etc/overlay"))
	require.False(t, m.root.Exists(stateDir+"/history/tuning_pkg.json"))

	require.NoError(t, m.root.RemoveAll("/etc/state"))
	m.env = nil
	r = m.run(ModeApply.Check())
	requireOutcome(t, Failed, r)
	require.False(t, r.Stored, "the same round asks again")
}

// A package with work and without its check is refused as ever; a mode without either has nothing to prove. Work is refused.
func TestCheckFirstNeedsAProof(t *testing.T) {
	m := newMachine(t)
	m.install(map[Mode][]Step{ModeConfig.Check(): {step("check")}, ModeConfig: {step("work")}}, map[string]string{
		"work.sh": `touch "$HOST/etc/worked"`, "check.sh": "exit 0",
	})
	m.env = []string{"FLEETWRIGHT_CHECK_FIRST=true"}
	for _, mode := range []Mode{ModeApply.Check(), ModeConfig.Check(), ModePostInterrupt.Check()} {
		requireOutcome(t, Succeeded, m.run(mode))
	}
	r := m.run(ModeConfig)
	requireOutcome(t, Refused, r)
	require.Equal(t, "mode config changes the host, but only checks were asked for", r.Message)
	require.False(t, m.root.Exists("/etc/worked"))
	m.install(map[Mode][]Step{ModeApply: {step("work")}}, map[string]string{"work.sh": "exit 0"})
	r = m.run(ModeApply.Check())
	requireOutcome(t, Failed, r)
	require.Contains(t, r.Message, "modes.apply: has steps but no apply-check")
}
