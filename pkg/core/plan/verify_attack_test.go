package plan_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// checkedSince are the checks that ran on n01 since they were asked for last.
func (w *world) checkedSince() int {
	n := 0
	for _, what := range w.ranSince()["n01"] {
		if what == "kernel verify [apply config]" {
			n++
		}
	}
	return n
}

// A clock that was a year ahead for a moment does not end the checks for a year.
func TestHostsAreVerifiedAfterAClockWasWrong(t *testing.T) {
	for _, ahead := range []string{"at the end of the turn", "at a check"} {
		w := newWorld(t, 1)
		now := w.in.Now
		if ahead != "at a check" {
			w.in.Now = now.AddDate(1, 0, 0)
		}
		w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), pkg("kernel", "1.0.0"))
		w.rest()
		if ahead == "at a check" {
			w.later(24 * 365 * time.Hour)
		}
		w.ranSince()
		w.in.Now = now.Add(2 * time.Hour)
		w.rest()
		require.Equal(t, 1, w.checkedSince(), "%s: nobody knows when the last one was", ahead)
		w.rest()
		w.later(30 * time.Minute)
		require.Zero(t, w.checkedSince(), "%s: not again and again", ahead)
		w.later(31 * time.Minute)
		require.Equal(t, 1, w.checkedSince(), ahead)
	}
}

// The API server deletes Jobs whose owner is not there: checks belong to the object that is there now, also on nodes that one
// before it has prepared.
func TestChecksBelongToTheObjectThatIsThere(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), pkg("kernel", "1.0.0"))
	w.rest()
	w.in.Now = w.in.Now.Add(2 * time.Hour)
	w.pass() // checks of the object that goes are under way
	w.edit("tune", func(nw *plan.NodeWright) { nw.UID, nw.Generation = "uid-again", 1 })
	w.jobs = map[string]*plan.Execution{}
	w.pass()
	require.Empty(t, w.last.Decisions[0].Start, "what its owner took along")
	w.ranSince()
	w.later(2 * time.Hour)
	require.Equal(t, 1, w.checkedSince())
	require.EqualValues(t, "uid-again", w.nodes["n01"].Records["tune"].NodeWright)
	require.EqualValues(t, 1, w.status("tune").Complete)
}

// Checks that were lost are not asked for again where they may not begin: beside an interrupt, or on a node that is ignored.
func TestLostChecksStandBack(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"ignored": func(w *world) { w.nodes["n01"].Labels[nwv1.IgnoreLabel] = nwv1.TrueValue },
		"an interrupt of another": func(w *world) {
			w.nodeWright("another", nil, reboot(pkg("firmware", "2.0.0")))
			w.frozen = func(e plan.Execution) bool { return e.Phase == plan.PhaseVerify }
			w.rest()
			w.frozen = nil
			require.Equal(w.t, plan.OtherInterrupt, w.reason("another", "n01").Code)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.nodeWright("another", func(nw *plan.NodeWright) { budgetOnly(1)(nw); nw.Spec.Priority = 1 })
			w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), pkg("kernel", "1.0.0"))
			w.rest()
			w.in.Now = w.in.Now.Add(2 * time.Hour)
			w.pass()
			w.ranSince()
			happens(w)
			maps.DeleteFunc(w.jobs, func(_ string, j *plan.Execution) bool { return j.Phase == plan.PhaseVerify })
			w.rest() // the world looks at what starts beside an interrupt
			require.Zero(t, w.checkedSince())
			require.Empty(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Running)
		})
	}
}

// What checks found is forgotten when there are to be no more: nothing would ever say that it is over, and half a year later
// it would be mended without a look.
func TestDriftIsForgottenWithTheInterval(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), pkg("kernel", "1.0.0"))
	w.rest()
	w.drift = map[string]string{"n01": "kernel"}
	w.later(2 * time.Hour)
	require.Equal(t, plan.Drifted, w.reason("tune", "n01").Code)
	interval := w.in.NodeWrights[0].Spec.VerifyInterval
	w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.VerifyInterval = nil })
	w.pass()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	w.rest()
	require.Nil(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Drift)
	w.drift = nil
	w.ranSince()
	w.later(4000 * time.Hour)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.VerifyInterval, nw.Spec.OnDrift = interval, nwv1.DriftReapply })
	w.rest()
	require.Equal(t, []string{"kernel verify [apply config]"}, w.ranSince()["n01"], "looked at first")
}

// A host that drifts and cannot be mended is admitted once an interval, says why it waits, and keeps nobody else from going on.
func TestDriftThatNeverEnds(t *testing.T) {
	w := newWorld(t, 3)
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReapply), service(pkg("kernel", "1.0.0"), "x"))
	w.rest()
	w.drift = map[string]string{"n01": "kernel", "n02": "kernel"}
	w.ranSince()
	w.log = nil
	for range 10 * 60 {
		w.later(time.Minute)
		for _, r := range w.last.Reasons {
			if r.Code == plan.WaitingForRound {
				require.Contains(t, r.Message, "the host does not match package kernel any more and has ended in round")
			}
		}
	}
	admitted := map[string]int{}
	for _, line := range w.log {
		admitted[line]++
	}
	for _, n := range []string{"n01", "n02"} {
		require.InDelta(t, 10, admitted["Admit tune/"+n], 1, n)
	}
	require.Zero(t, admitted["Admit tune/n03"])
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status, "until the next checks")
	w.nodeWright("later", budgetOnly(1), reboot(pkg("other", "1.0.0")))
	w.rest()
	require.EqualValues(t, 3, w.status("later").Complete, fmt.Sprint(w.last.Reasons))
}

// Where stages have no bound, checks have one all the same: they would hang for ever, and nothing would be looked at again.
func TestChecksWithoutABoundEnd(t *testing.T) {
	w := newWorld(t, 1)
	w.in.Settings.StageTimeout = 0
	w.nodeWright("tune", verified(6*time.Hour, nwv1.DriftReport), pkg("kernel", "1.0.0"))
	w.rest()
	w.frozen = func(e plan.Execution) bool { return e.Phase == plan.PhaseVerify }
	w.later(7 * time.Hour)
	require.False(t, w.last.Next.IsZero(), "the loop wakes up for it")
	w.later(59 * time.Minute)
	require.NotEmpty(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Running)
	w.later(3 * time.Minute)
	require.Empty(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Running)
	require.Nil(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Drift, "it says nothing")
	w.frozen = nil
	w.ranSince()
	w.later(6 * time.Hour)
	require.Equal(t, 1, w.checkedSince())
}

// What runs again because of drift goes through all gates of other work: slot, cordon, drain, and the wait for protected pods. With
// a budget of 0 it waits, begins no round, and keeps nobody awake.
func TestDriftIsMendedBehindTheGates(t *testing.T) {
	w := newWorld(t, 2)
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReapply), reboot(pkg("kernel", "1.0.0")))
	protect(w)
	w.rest()
	w.drift, w.mends = map[string]string{"n01": "kernel", "n02": "kernel"}, true
	w.addPod("n01", "web", "p", map[string]string{"protected": "true"})
	w.addPod("n02", "web", "q", nil)
	w.edit("tune", func(nw *plan.NodeWright) { budgetOnly(0)(nw) })
	w.later(2 * time.Hour)
	w.log = nil
	w.later(5 * time.Hour)
	require.Equal(t, plan.BudgetIsZero, w.reason("tune", "n01").Code)
	require.Empty(t, w.log)
	require.EqualValues(t, 2, w.in.Ledger.Rollouts["tune"].Round)

	w.edit("tune", func(nw *plan.NodeWright) { budgetOnly(2)(nw) })
	for range 40 {
		w.pass()
		require.False(t, w.nodes["n01"].Unschedulable && w.nodes["n02"].Unschedulable, "a Fleet's budget of one")
		w.work()
	}
	require.Equal(t, plan.ProtectedPod, w.reason("tune", "n01").Code)
	require.Len(t, w.pods["n01"], 1)
	require.Empty(t, w.pods["n02"], "drained for its reboot")
	w.pods["n01"] = nil
	w.rest()
	require.EqualValues(t, 2, w.status("tune").Complete)
	for _, n := range []string{"n01", "n02"} {
		require.Contains(t, w.log, "Drain tune/n02")
		require.Contains(t, w.ran[n][len(w.ran[n])-2:], "interrupt reboot", n)
	}
}
