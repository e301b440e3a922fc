package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// reapplies makes a NodeWright that runs again after reboots.
func reapplies(limit int32) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) {
		budgetOnly(limit)(nw)
		nw.Spec.ReapplyOnReboot = true
	}
}

// boots lets somebody reboot a node, so fast that it is never seen NotReady.
func (w *world) boots(node, id string) { w.nodes[node].BootID = id }

var tuningAgain = []string{"tuning apply (fresh)", "tuning config"}

// TestFieldReport_NN05_ARebootBringsTheGateBack: a boot that is not of our making gates the node before its packages run again,
// though it carries pods, and the gate goes when all runtime-required NodeWrights are complete. Our own reboots ask for nothing.
func TestFieldReport_NN05_ARebootBringsTheGateBack(t *testing.T) {
	w := newWorld(t, 0)
	gates := func(nw *plan.NodeWright) { autoTaints(w)(nw); nw.Spec.ReapplyOnReboot = true }
	w.nodeWright("tune", gates, reboot(pkg("tuning", "1.0.0")))
	w.nodeWright("second", gates, pkg("other", "1.0.0"))
	for i := range 2 {
		w.addNode(fmt.Sprintf("n%d", i), nil).Created = w.in.Now
	}
	w.settle()
	for _, n := range []string{"n0", "n1"} {
		require.ElementsMatch(t, []string{"other apply", "other config", "tuning apply", "tuning config", "interrupt reboot", "tuning post-interrupt"},
			w.ran[n], "the reboot is ours, for both NodeWrights")
	}
	w.ranSince()
	n := w.nodes["n0"]
	w.boots("n0", "another")
	w.addPod("n0", "web", "front", nil)
	w.log = nil
	w.pass()
	require.Contains(t, n.Taints, gate)
	require.Equal(t, []string{"Gate second/n0"}, w.log, "the taint is first")
	require.Equal(t, plan.Gating, w.reason("tune", "n0").Code)
	require.Equal(t, "the node gets the runtime-required taint back before its packages run again", w.reason("second", "n0").Message)
	for range 200 {
		gated, done := len(n.Taints) > 0, len(w.ran["n0"]) == 6
		require.True(t, gated || done, "the gate went before all was done: %v", w.ran)
		w.pass()
		w.work()
	}
	w.settle()
	require.Empty(t, n.Taints)
	require.ElementsMatch(t, []string{
		"tuning apply (fresh)", "tuning config", "interrupt reboot", "tuning post-interrupt", "other apply (fresh)", "other config",
	}, w.ran["n0"])
	require.Empty(t, w.ran["n1"])
	require.EqualValues(t, 2, w.status("tune").Complete)
	require.EqualValues(t, 2, w.status("second").Complete)
	require.Zero(t, n.Records["tune"].Reruns, "nobody asked for it")
}

// Without autoTaintNewNodes no taint comes; a whole fleet that lost power runs again within its budget.
func TestFieldReport_NN05_AfterAPowerCutTheBudgetHolds(t *testing.T) {
	w := newWorld(t, 6)
	w.ceiling = 2
	w.nodeWright("tune", reapplies(2), pkg("tuning", "1.0.0"))
	w.settle()
	w.ranSince()
	for name := range w.nodes {
		w.boots(name, "after the cut")
	}
	w.pass()
	require.Equal(t, plan.AdmissionUnconfirmed, w.reason("tune", "n01").Code)
	require.EqualValues(t, 0, w.status("tune").Complete, "nothing that is recorded holds any more")
	w.settle()
	for _, ran := range w.ranSince() {
		require.Equal(t, tuningAgain, ran)
	}
	require.EqualValues(t, 6, w.status("tune").Complete)
	require.EqualValues(t, 2, w.status("tune").Round, "one round for all")
	require.False(t, w.status("tune").LateJoiners)
	w.settle()
	require.Empty(t, w.ran, "once for each boot")
}

// TestFieldReport_NN05_WhichRebootsAreOurs: only a reboot that none of our interrupts caused, of whichever NodeWright, planned or
// late, has packages run again. What "second" runs after the event is looked at.
func TestFieldReport_NN05_WhichRebootsAreOurs(t *testing.T) {
	v1, v2, v3 := reboot(pkg("tuning", "1.0.0")), reboot(pkg("tuning", "2.0.0")), reboot(pkg("tuning", "3.0.0"))
	again := []string{"other apply (fresh)", "other config"}
	for _, c := range []struct {
		name  string
		event func(w *world)
		want  []string
	}{
		{"somebody's", func(w *world) { w.boots("n01", "b") }, again},
		{"ours, planned, of another NodeWright", func(w *world) { w.nodeWright("tune", nil, v2) }, nil},
		{"ours, twice, while the NodeWright is disabled", func(w *world) {
			w.edit("second", func(nw *plan.NodeWright) { nw.Disabled = true })
			w.nodeWright("tune", nil, v2)
			w.settle()
			w.nodeWright("tune", nil, v3)
			w.settle()
			w.edit("second", func(nw *plan.NodeWright) { nw.Disabled = false })
		}, nil},
		{"ours, then somebody's, while the NodeWright is disabled", func(w *world) {
			w.edit("second", func(nw *plan.NodeWright) { nw.Disabled = true })
			w.nodeWright("tune", nil, v2)
			w.settle()
			w.boots("n01", "b")
			w.pass()
			w.edit("second", func(nw *plan.NodeWright) { nw.Disabled = false })
		}, again},
		{"ours, late: the node failed and came back", func(w *world) {
			w.dies = func(string) bool { return true }
			w.nodeWright("tune", nil, v2)
			w.settle()
			require.Equal(w.t, plan.InterruptFailed, w.reason("tune", "n01").Code)
			w.dies = nil
		}, nil},
		{"ours, late: the request was given up for another turn by then", func(w *world) {
			w.dies = func(string) bool { return true }
			w.nodeWright("tune", nil, v2)
			w.settle()
			w.nodes["n01"].Ready = true // with the old boot: the reboot hangs
			w.jobs, w.frozen = map[string]*plan.Execution{}, func(plan.Execution) bool { return true }
			w.ask("n01", "retry", "1")
			w.until(plan.ActionAdmit)
			require.Nil(w.t, w.nodes["n01"].Records["tune"].Interrupt)
			w.boots("n01", "late")
			w.pass()
			w.dies, w.frozen = nil, nil
		}, nil},
		{"ours, of a NodeWright that was deleted meanwhile", func(w *world) {
			w.nodeWright("tune", nil, v2)
			w.until(plan.ActionInterrupt)
			w.deleteNodeWright("tune")
			w.settle()
			w.boots("n01", "late")
		}, nil},
		{"somebody's, while a turn of another NodeWright is under way", func(w *world) {
			w.nodeWright("tune", nil, v2)
			w.until(plan.ActionRun)
			w.boots("n01", "b")
		}, again},
		{"the option is off", func(w *world) {
			w.edit("second", func(nw *plan.NodeWright) { nw.Spec.ReapplyOnReboot = false })
			w.boots("n01", "b")
		}, nil},
		{"the option is switched on: reboots of before do not count", func(w *world) {
			w.edit("second", func(nw *plan.NodeWright) { nw.Spec.ReapplyOnReboot = false })
			w.settle()
			w.boots("n01", "b")
			w.settle()
			w.edit("second", func(nw *plan.NodeWright) { nw.Spec.ReapplyOnReboot = true })
		}, nil},
		{"the option is switched on: reboots after it count", func(w *world) {
			w.edit("second", func(nw *plan.NodeWright) { nw.Spec.ReapplyOnReboot = false })
			w.settle()
			w.edit("second", func(nw *plan.NodeWright) { nw.Spec.ReapplyOnReboot = true })
			w.settle()
			w.boots("n01", "b")
		}, again},
		{"the node does not tell its boot for a moment", func(w *world) {
			w.boots("n01", "")
			w.pass()
			w.boots("n01", "boot-1+")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.nodeWright("second", reapplies(1), pkg("other", "1.0.0"))
			w.nodeWright("tune", budgetOnly(1), v1)
			w.settle()
			require.Equal(t, "boot-1+", w.nodes["n01"].BootID)
			w.ranSince()
			c.event(w)
			w.settle()
			require.Equal(t, c.want, w.ranOf("n01", "other"))
			require.Equal(t, plan.Complete, w.reason("second", "n01").Code)
			if !slices.Contains([]string{"the option is off"}, c.name) {
				require.Equal(t, w.nodes["n01"].BootID, w.nodes["n01"].Records["second"].Boot)
			}
		})
	}
}

// ranOf is what ran of a package on a node; nil: nothing.
func (w *world) ranOf(node, pkg string) []string {
	var out []string
	for _, line := range w.ran[node] {
		if len(line) > len(pkg) && line[:len(pkg)+1] == pkg+" " {
			out = append(out, line)
		}
	}
	return out
}

// A reboot in the middle of a turn may undo what the turn did before it: everything runs once more, in a turn of its own.
func TestFieldReport_NN05_ARebootDuringTheTurnIsNotOurs(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", reapplies(1), pkg("tuning", "1.0.0"))
	w.until(plan.ActionRun)
	w.boots("n01", "b")
	w.settle()
	require.Equal(t, []string{"tuning apply", "tuning config", "tuning apply (fresh)", "tuning config"}, w.ran["n01"])
	require.Equal(t, "b", w.nodes["n01"].Records["tune"].Boot)
}

// A node that failed begins no round because it crashes: that would try it, and every other failed node, for ever. When it is
// tried again, everything runs.
func TestFieldReport_NN05_AFailedNodeIsNotTriedForAReboot(t *testing.T) {
	w := newWorld(t, 1)
	failing := true
	w.fails = func(_, pkg string, _ nwv1.Stage) int32 {
		if failing && pkg == "tuning" {
			return 1
		}
		return 0
	}
	w.nodeWright("tune", func(nw *plan.NodeWright) { reapplies(1)(nw); nw.Spec.Serial = true }, pkg("another", "1.0.0"), pkg("tuning", "1.0.0"))
	w.settle()
	require.Equal(t, []string{"another apply", "another config"}, w.ranSince()["n01"])
	w.boots("n01", "b")
	w.settle()
	require.Empty(t, w.ran)
	require.Equal(t, plan.PackageFailed, w.reason("tune", "n01").Code)
	require.EqualValues(t, 1, w.status("tune").Round)
	failing = false
	w.ask("n01", "retry", "1")
	w.settle()
	require.EqualValues(t, 2, w.status("tune").Round, "no stage runs twice in a round")
	require.Equal(t, []string{"another apply (fresh)", "another config", "tuning apply (fresh)", "tuning config"}, w.ran["n01"])
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// A node that waits for its round says why.
func TestFieldReport_NN05_ARebootedNodeWaitsForTheRoundUnderWay(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", reapplies(1), pkg("tuning", "1.0.0"))
	w.until(plan.ActionComplete)
	w.boots("n01", "b")
	w.pass()
	require.Equal(t, "the node was rebooted and has ended in round 1; it is admitted to the next round, which begins when nothing of this one is under way",
		w.reason("tune", "n01").Message)
	w.settle()
	require.Equal(t, append([]string{"tuning apply", "tuning config"}, tuningAgain...), w.ran["n01"])
	require.Len(t, w.ran["n02"], 2)
}
