package reconciler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// attempts are failed executions of the package tuning on node n in the open batch of round 2, named by their number, that
// ended a minute apart.
func attempts(n int32) []plan.Execution {
	var out []plan.Execution
	for i := int32(1); i <= n; i++ {
		out = append(out, plan.Execution{
			ExecutionKey: plan.ExecutionKey{
				NodeWright: "tune", NodeWrightUID: "nw", NodeUID: "n", Round: 2, Package: "tuning", Phase: plan.PhaseInstall, Attempt: i,
			},
			Name: fmt.Sprint(i), Compartment: "default", Batch: 3, State: plan.ExecutionFailed, ExitCode: 1,
			Finished: noon.Add(time.Duration(i) * time.Minute),
		})
	}
	return out
}

// left are the Jobs that stay, at some time after noon.
func left(executions []plan.Execution, after time.Duration, batchSettled bool) []string {
	ledger := fleetv1.LedgerSpec{Rollouts: map[string]fleetv1.LedgerRollout{"tune": {
		UID: "nw", Round: 2, Compartments: map[string]fleetv1.LedgerCompartment{"default": {Batch: 3, Settled: batchSettled}},
	}}}
	in := plan.Input{Now: noon.Add(after), Nodes: []plan.Node{{Name: "n", UID: "n", Executions: executions,
		Records: map[string]noderecord.Record{"tune": {Round: 2}}}}}
	gone := (&Rollout{}).retention().disposable(in, ledger)
	var out []string
	for _, e := range executions {
		if !slices.Contains(gone, e.Name) {
			out = append(out, e.Name)
		}
	}
	return out
}

// Of five failed attempts the first and the last stay, in whatever order they are seen, until a day is over.
func TestFieldReport_PF09_FirstAndLastFailedAttemptStay(t *testing.T) {
	five := attempts(5)
	require.Equal(t, []string{"1", "5"}, left(five, 6*time.Minute, false))
	slices.Reverse(five)
	require.Equal(t, []string{"5", "1"}, left(five, 6*time.Minute, false))
	require.Equal(t, []string{"5", "1"}, left(five, 24*time.Hour, true), "for a day")
	require.Equal(t, []string{"5", "1"}, left(five, 48*time.Hour, false), "and while its batch has not settled")
	require.Empty(t, left(five, 24*time.Hour+6*time.Minute, true))
}

func TestKeptFailures(t *testing.T) {
	for name, c := range map[string]struct {
		change func(all []plan.Execution)
		want   []string
	}{
		"a success between stays, too": {func(all []plan.Execution) { all[2].State = plan.ExecutionSucceeded }, []string{"1", "3", "5"}},
		"what runs stays":              {func(all []plan.Execution) { all[4].State = plan.ExecutionRunning }, []string{"1", "4", "5"}},
		"the newest spent no attempt": {func(all []plan.Execution) {
			all[1].Disrupted, all[1].Cause = true, plan.Disrupted
			all[4].Disrupted, all[4].Cause = true, plan.PodRefused
		}, []string{"1", "4", "5"}},
		"none spent an attempt": {func(all []plan.Execution) {
			for i := range all {
				all[i].Disrupted, all[i].Cause = true, plan.PodRefused
			}
		}, []string{"5"}},
		"checks that found something to do": {func(all []plan.Execution) { all[0].Phase = plan.PhaseCheck }, []string{"2", "5"}},
		"each package for itself":           {func(all []plan.Execution) { all[2].Package, all[3].Package = "kernel", "kernel" }, []string{"1", "3", "4", "5"}},
		"each NodeWright for itself":        {func(all []plan.Execution) { all[3].NodeWrightUID = "other" }, []string{"1", "4", "5"}},
		"a newer round that failed":         {func(all []plan.Execution) { all[0].Round, all[1].Round = 1, 1 }, []string{"3", "5"}},
		"interrupts by their wave": {func(all []plan.Execution) {
			for i := range all {
				all[i].Package, all[i].Phase, all[i].Wave, all[i].Attempt = "", plan.PhaseInterrupt, int32(5-i), int32(i)
			}
			all[1].Cause = plan.InterruptRefused
		}, []string{"1", "5"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := attempts(5)
			c.change(all)
			require.Equal(t, c.want, left(all, 6*time.Minute, false))
		})
	}
}

// Jobs of a node that is gone are counted, too.
func TestKeptFailuresOfAGoneNode(t *testing.T) {
	got := (&Rollout{}).retention().disposable(plan.Input{Now: noon, Orphans: attempts(4)}, fleetv1.LedgerSpec{
		Rollouts: map[string]fleetv1.LedgerRollout{"tune": {UID: "nw", Round: 2}},
	})
	require.Equal(t, []string{"2", "3"}, got)
}
