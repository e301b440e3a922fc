package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Nodes that fail, are deleted and come back, again and again, bring the halt: they make no progress by it.
func TestRecreatedNodesBringTheHalt(t *testing.T) {
	w := newWorld(t, 3)
	w.fails = failing("n01", "n02", "n03")
	w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(4))), pkg("tuning", "1.0.0"))
	for i := range 4 {
		w.settleUntil(func() bool { return w.status("tune").Failed > 0 })
		for _, name := range sortedKeys(w.nodes) {
			if w.nodes[name].Records["tune"].Outcome == noderecord.Failed {
				w.addNode(name, nil).UID = types.UID(fmt.Sprint("again-", i))
			}
		}
	}
	w.settle()
	require.Equal(t, []string{"default"}, w.status("tune").Halted)
	require.EqualValues(t, 4, w.in.Ledger.Rollouts["tune"].Compartments["default"].Batch)
}

// settleUntil passes and works, with time running fast, until something holds.
func (w *world) settleUntil(holds func() bool) {
	for range 200 {
		w.pass()
		if holds() {
			return
		}
		w.work()
		w.in.Now = w.in.Now.Add(10 * time.Second)
	}
	w.t.Fatalf("it never held; the log ends with %v", w.log[max(0, len(w.log)-20):])
}

// A ceiling that shrinks below what is in use admits nobody until there is room.
func TestCeilingShrinks(t *testing.T) {
	w := newWorld(t, 8)
	w.frozen = func(plan.Execution) bool { return true }
	w.nodeWright("tune", budgetOnly(4), pkg("tuning", "1.0.0"))
	w.passAndWork(3)
	require.Len(t, w.outOfService(), 4)
	w.edit("tune", budgetOnly(2))
	w.frozen = func(e plan.Execution) bool { return e.Node != "n01" }
	w.passAndWork(10)
	require.Equal(t, []string{"n02", "n03", "n04"}, w.outOfService())
	w.frozen = nil
	w.settle()
	require.EqualValues(t, 8, w.status("tune").Complete)
}

// A new round with eight nodes under way: they keep their slots and come first.
func TestNewRoundWithEightUnderWay(t *testing.T) {
	w := newWorld(t, 20)
	w.ceiling = 8
	w.nodeWright("tune", policy(count(8), fixed(8)), reboot(pkg("tuning", "1.0.0")))
	w.passAndWork(3)
	under := w.outOfService()
	require.Len(t, under, 8)
	w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
	w.passAndWork(6)
	require.Equal(t, under, w.outOfService())
	w.settle()
	require.EqualValues(t, 20, w.status("tune").Complete)
}

// Nodes that nothing ran on are released by a new round.
func TestNewRoundReleasesWhatHasNotStarted(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.pods = map[string][]*corev1.Pod{}
	protect(w)
	w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
	w.addPod("n02", "ml", "train-2", map[string]string{"protected": "true"})
	w.passAndWork(3)
	require.True(t, w.nodes["n01"].Unschedulable)
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.pass()
	require.False(t, w.nodes["n01"].Unschedulable)
	w.settle()
	require.EqualValues(t, 2, w.status("tune").Complete)
}

// A lost ledger is built again from the records: rounds only grow, and nothing that succeeded runs again.
func TestLedgerLost(t *testing.T) {
	w := newWorld(t, 4)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.passAndWork(12)
	w.nodes["n04"].Labels["pool"] = "cpu"
	w.in.Ledger = fleetv1.LedgerSpec{}
	w.settle()
	require.EqualValues(t, 2, w.in.Ledger.Rollouts["tune"].Round)
	require.Len(t, w.ran["n01"], 2)
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// An object of the same name is another object. What is on the hosts holds, and rounds go on from the highest, also of
// nodes that were not selected at first.
func TestObjectCreatedAnew(t *testing.T) {
	w := newWorld(t, 3)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.settle()
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.settle()
	w.in.NodeWrights = nil
	w.settle()
	w.nodes["n03"].Labels["pool"] = "cpu"
	w.nodeWright("tune", func(nw *plan.NodeWright) { nw.UID = "uid-2"; budgetOnly(1)(nw) }, pkg("tuning", "3.0.0"))
	w.nodes["n01"].Labels["pool"], w.nodes["n02"].Labels["pool"] = "none", "none"
	w.settle()
	for _, n := range w.nodes {
		n.Labels["pool"] = "gpu" // the selector is widened
	}
	w.settle()
	require.EqualValues(t, 3, w.status("tune").Complete)
	require.Greater(t, w.in.Ledger.Rollouts["tune"].Round, int64(2))
}

// A view of the NodeWright that is older than its rollout starts nothing.
func TestOlderViewOfTheNodeWright(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	old := w.in.NodeWrights[0]
	w.settle()
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.pass()
	newer := w.in.NodeWrights[0]
	w.in.NodeWrights[0] = old
	out := w.pass()
	require.Empty(t, out.Decisions)
	require.Nil(t, out.Ledger)
	w.in.NodeWrights[0] = newer
	w.settle()
	require.Equal(t, "2.0.0", w.nodes["n01"].Records["tune"].Packages["tuning"].Version)
}

// A cordon of two NodeWrights goes with the last of them; a human's uncordon in the middle is answered by another one.
func TestCordonIsShared(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("aa", func(nw *plan.NodeWright) { budgetOnly(1)(nw); nw.Spec.Priority = 1 }, reboot(pkg("one", "1.0.0")))
	w.nodeWright("bb", budgetOnly(1), reboot(pkg("two", "1.0.0")))
	w.until(plan.ActionRun)
	w.nodes["n01"].CordonOwners = []string{"aa", "bb"} // left by an earlier turn
	w.until(plan.ActionUncordon)
	require.Equal(t, []string{"bb"}, w.nodes["n01"].CordonOwners)
	require.True(t, w.nodes["n01"].Unschedulable)
	w.until(plan.ActionRun)
	w.nodes["n01"].Unschedulable = false
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("bb").Status)
	require.False(t, w.nodes["n01"].Unschedulable)
}

// A resumed halt admits again; a retry uses the slot that the node holds.
func TestResumeAndRetry(t *testing.T) {
	w := newWorld(t, 4)
	w.ceiling = 1
	w.fails = failing("n01")
	w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1))), reboot(pkg("tuning", "1.0.0")))
	w.settle()
	require.Equal(t, []string{"n01"}, w.outOfService())
	w.fails = nil
	w.edit("tune", func(nw *plan.NodeWright) { nw.Resume, nw.Retry = "1", "1" })
	w.settle()
	require.EqualValues(t, 4, w.status("tune").Complete)
}

// A pause suspends what runs, and what was admitted is not written before it ends.
func TestPause(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.lost = func(plan.Decision) bool { return true }
	w.pass()
	w.lost = nil
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true })
	w.passAndWork(2)
	require.Empty(t, w.outOfService())
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = false })
	w.until(plan.ActionRun)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true })
	w.passAndWork(5)
	require.Equal(t, plan.ExecutionPending, w.jobs[sortedKeys(w.jobs)[0]].State)
	require.Equal(t, nwv1.StatusPaused, w.status("tune").Status)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = false })
	w.settle()
	require.EqualValues(t, 2, w.status("tune").Complete)
}

// A service interrupt that failed and waits for its next attempt does not keep a new round from the node.
func TestNewRoundWhileAnInterruptWaitsForItsNextAttempt(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = func(_, _ string, s nwv1.Stage) int32 {
		if s == nwv1.StageInterrupt {
			return 1
		}
		return 0
	}
	w.in.Settings.StageTimeout = 0
	w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "sshd"))
	w.until(plan.ActionInterrupt)
	w.passAndWork(4)
	require.Equal(t, plan.RetryBackoff, w.reason("tune", "n01").Code)
	w.fails = nil
	w.nodeWright("tune", nil, service(pkg("tuning", "2.0.0"), "sshd"))
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// An interrupt that fails in every attempt fails the node, with what its log said.
func TestInterruptFailsInEveryAttempt(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = func(_, _ string, s nwv1.Stage) int32 {
		if s == nwv1.StageInterrupt {
			return 1
		}
		return 0
	}
	w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "sshd"))
	w.settle()
	require.Equal(t, "package tuning, stage interrupt, exit code 1: the service interrupt failed in every attempt: boom",
		w.reason("tune", "n01").Message)
	w.nodes["n01"].Labels["pool"] = "cpu"
	w.settle()
	require.False(t, w.nodes["n01"].Unschedulable, "a node that is no longer selected is given back")
}

// A reboot that ends without another boot ID is no reboot, however its execution ended.
func TestBootProof(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.until(plan.ActionInterrupt)
	for _, j := range w.jobs {
		if j.Phase == plan.PhaseInterrupt {
			j.State, j.Finished = plan.ExecutionSucceeded, w.in.Now
		}
	}
	w.in.Now = w.in.Now.Add(time.Minute)
	w.pass()
	require.Equal(t, plan.Interrupting, w.reason("tune", "n01").Code, "it may still show")
	w.in.Now = w.in.Now.Add(2 * time.Minute)
	w.pass()
	require.Equal(t, plan.RetryBackoff, w.reason("tune", "n01").Code)
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// Runtime-required NodeWrights tolerate their own taint without being told which.
func TestRuntimeRequiredTaintIsTolerated(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes["n01"].Taints = []corev1.Taint{{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}}
	w.nodeWright("tune", func(nw *plan.NodeWright) { budgetOnly(1)(nw); nw.Spec.RuntimeRequired = true }, pkg("tuning", "1.0.0"))
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Complete)
}

// Under `advance: Rolling` too, nodes that vanish at work count: one that fails, is deleted and made anew comes to a halt.
func TestRollingCountsNodesThatVanish(t *testing.T) {
	w := newWorld(t, 6)
	strategy := fixed(2, failureThreshold(1), safetyLimit(100))
	strategy.Fixed.Advance = nwv1.AdvanceRolling
	w.nodeWright("tune", policy(count(1), strategy), pkg("tuning", "1.0.0"))
	w.frozen = func(plan.Execution) bool { return true }
	for _, name := range []string{"n01", "n02"} {
		for range 3 {
			w.pass()
		}
		require.Equal(t, plan.Running, w.reason("tune", name).Code)
		w.removeNode(name)
	}
	w.frozen = nil
	w.settle()
	s := w.status("tune")
	require.Equal(t, []string{"default"}, s.Halted)
	require.Contains(t, s.Compartments[0].Halt.Message, "n01: package tuning")
	require.Contains(t, s.Compartments[0].Halt.Message, "n02: package tuning")
	require.Zero(t, s.Complete, "nobody is admitted after that")
}

// Found by a random history: which of its failed attempts speaks for a vanished node depended on the order of the input.
func TestTheNewestAttemptSpeaksForANodeThatVanished(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.pass()
	in := w.input()
	lost := func(attempt int32, stage nwv1.Stage) plan.Execution {
		return plan.Execution{ExecutionKey: plan.ExecutionKey{
			NodeWright: "tune", NodeWrightUID: "uid-tune", NodeUID: "gone", Round: 1, Package: "tuning", Phase: plan.PhaseInstall, Attempt: attempt,
		}, Name: string(stage), Node: "n09", Compartment: "default", Batch: 1, State: plan.ExecutionFailed, Stage: stage}
	}
	for _, orphans := range [][]plan.Execution{
		{lost(1, nwv1.StageApply), lost(2, nwv1.StageConfig)}, {lost(2, nwv1.StageConfig), lost(1, nwv1.StageApply)},
	} {
		in.Orphans = orphans
		failures := w.compute(in).Statuses[0].Failures
		require.Len(t, failures, 1)
		require.Equal(t, nwv1.StageConfig, failures[0].Stage)
	}
}
