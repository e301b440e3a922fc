package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// TestDeselectedUnderWay: what runs ends, a reboot is waited for, then the node is given back.
func TestDeselectedUnderWay(t *testing.T) {
	for _, at := range []plan.Action{plan.ActionAdmit, plan.ActionRun, plan.ActionInterrupt} {
		w := newWorld(t, 1)
		rebooting(w)
		w.until(at)
		w.nodes["n01"].Labels["pool"] = "cpu"
		w.settle()
		require.False(t, w.nodes["n01"].Unschedulable, at)
		require.Empty(t, w.outOfService(), at)
		require.Equal(t, at == plan.ActionInterrupt, w.nodes["n01"].BootID != "boot-1")
	}
}

// TestFailedAndDeselectedWithAnImageThatNeverCame.
func TestFailedAndDeselectedWithAnImageThatNeverCame(t *testing.T) {
	w := newWorld(t, 1)
	rebooting(w)
	w.until(plan.ActionRun)
	w.trouble(plan.ImagePull, time.Hour)
	w.pass()
	w.pass()
	require.EqualValues(t, 1, w.status("tune").Failed)
	w.nodes["n01"].Labels["pool"] = "cpu"
	w.settle()
	require.Empty(t, w.jobs)
	require.Empty(t, w.outOfService())
}

// TestFailedNodeHealsByItself: a reboot that shows late is proven, and the node is given back; what comes good while other
// work is left makes the node a candidate again.
func TestFailedNodeHealsByItself(t *testing.T) {
	w := newWorld(t, 1)
	dead := true
	w.dies = func(string) bool { return dead }
	rebooting(w)
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Failed)
	dead = false
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Complete)
	require.False(t, w.nodes["n01"].Unschedulable)
}

// TestAnEndedTurnThatStillOwnsACordon gives it back.
func TestAnEndedTurnThatStillOwnsACordon(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.settle()
	w.nodes["n01"].Unschedulable, w.nodes["n01"].CordonOwners = true, []string{"tune"}
	w.pass()
	require.Equal(t, "the node is being given back", w.reason("tune", "n01").Message)
	w.settle()
	require.False(t, w.nodes["n01"].Unschedulable)
}

// TestNothingStartsBesideALeftover: an execution that the record knows nothing of.
func TestNothingStartsBesideALeftover(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.pass()
	w.jobs["left"] = &plan.Execution{
		ExecutionKey: plan.ExecutionKey{NodeWright: "tune", NodeUID: "uid-n01", Package: "tuning", Phase: plan.PhaseInstall},
		Name:         "left", Node: "n01", State: plan.ExecutionRunning,
	}
	w.pass()
	require.Equal(t, "execution left", w.reason("tune", "n01").Object)
	delete(w.jobs, "left")
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Complete)
}

// TestAnInterruptAddedUnderWayNeedsRoom in the cluster's budget.
func TestAnInterruptAddedUnderWayNeedsRoom(t *testing.T) {
	w := newWorld(t, 2)
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(0))}}
	plain(w)
	w.pass()
	w.nodeWright("tune", nil, reboot(pkg("tuning", "1.0.0"))) // the same content
	w.pass()
	require.Equal(t, plan.WaitingForClusterBudget, w.reason("tune", "n01").Code)
	w.in.Budgets[0].Count = new(int32(1))
	w.ceiling = 1
	w.settle()
	require.EqualValues(t, 2, w.status("tune").Complete)
}

// TestARecordAheadOfTheLedger begins a round beyond it: otherwise the node could never be admitted.
func TestARecordAheadOfTheLedger(t *testing.T) {
	w := newWorld(t, 2)
	plain(w)
	w.settle()
	r := w.nodes["n02"].Records["tune"]
	r.Round, r.Packages = 7, nil
	w.nodes["n02"].Records["tune"] = r
	w.settle()
	require.EqualValues(t, 8, w.in.Ledger.Rollouts["tune"].Round)
	require.EqualValues(t, 2, w.status("tune").Complete)
}

// TestRetryAfterAPartialExecution keeps the stages that succeeded in an execution that is given up.
func TestRetryAfterAPartialExecution(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.until(plan.ActionRun)
	for _, j := range w.jobs {
		j.State, j.Stage, j.Done = plan.ExecutionRunning, nwv1.StageConfig, []nwv1.Stage{nwv1.StageApply}
	}
	w.trouble(plan.ContainerCannotRun, time.Hour)
	w.pass()
	w.pass()
	require.EqualValues(t, 1, w.status("tune").Failed)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "1" })
	w.settle()
	require.Equal(t, []string{"tuning config"}, w.ran["n01"], "apply had succeeded")
}

// TestUninstallOfAnAbsentPackageWithoutSnapshot goes by what is wanted now, its interrupt included.
func TestUninstallOfAnAbsentPackageWithoutSnapshot(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.settle()
	w.ran = map[string][]string{}
	w.in.Snapshots = map[string]desired.Package{}
	w.nodeWright("tune", nil, absent(reboot(pkg("tuning", "1.0.0"))))
	w.settle()
	require.Equal(t, []string{"tuning uninstall 1.0.0", "interrupt reboot"}, w.ran["n01"])
	require.Empty(t, w.nodes["n01"].Records["tune"].Packages)
}

// TestDisabledAndSequencing: one that is disabled holds nobody back; `all` holds everybody back until it is complete.
func TestDisabledAndSequencing(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("aa", func(nw *plan.NodeWright) { budgetOnly(1)(nw); nw.Disabled = true }, pkg("one", "1.0.0"))
	w.nodeWright("zz", budgetOnly(1), pkg("two", "1.0.0"))
	w.settle()
	require.EqualValues(t, 2, w.status("zz").Complete)
	require.Equal(t, nwv1.StatusDisabled, w.status("aa").Status)
	w.nodeWright("mm", func(nw *plan.NodeWright) { budgetOnly(1)(nw); nw.Spec.Sequencing = nwv1.SequencingAll }, pkg("three", "1.0.0"))
	w.nodeWright("zz", nil, pkg("two", "2.0.0"))
	w.pass()
	require.Equal(t, "NodeWright mm goes first on every node; node n01 is not complete", w.reason("zz", "n01").Message)
	w.settle()
	require.EqualValues(t, 2, w.status("zz").Complete)
}

// TestTaintsOfAnAbsentNodeAreNoTaintsOfOurs: being away is a reason of its own.
func TestTaintsOfAnAbsentNodeAreNoTaintsOfOurs(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes["n01"].Taints = []corev1.Taint{
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule},
	}
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		budgetOnly(1)(nw)
		nw.Spec.AdditionalTolerations = []corev1.Toleration{
			{Key: "gpu", Value: "no"}, {Key: "gpu", Operator: "Gt", Value: "yes"}, {Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule},
		}
	}, pkg("tuning", "1.0.0"))
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Complete)
}
