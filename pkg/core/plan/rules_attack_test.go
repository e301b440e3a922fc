package plan_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Each of these went wrong once, and was found by looking for it.

func TestARecordOfAVanishedNodeWrightThatCannotBeReadIsSwept(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.nodes["n01"].Malformed = map[string]string{"gone": "not JSON", "tune": "not JSON either"}
	w.settle()
	require.Equal(t, map[string]string{"tune": "not JSON either"}, w.nodes["n01"].Malformed, "that of one that is there is for people")
	require.Equal(t, plan.RecordUnreadable, w.reason("tune", "n01").Code)
	w.nodeWright("gone", budgetOnly(1), pkg("other", "1.0.0"))
	w.settle()
	require.Equal(t, plan.Complete, w.reason("gone", "n01").Code, "the name can be used again")
}

func TestARetryIsForWhatHadFailedWhenItWasAskedFor(t *testing.T) {
	w := newWorld(t, 1)
	w.in.Settings.Attempts = 1
	w.fails = failing("n01")
	plain(w)
	w.pass()
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "once" })
	w.settle()
	require.Len(t, w.jobs, 1, "the node was under way when the retry was asked for")
	require.Equal(t, int32(1), w.status("tune").Failed)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "twice" })
	w.settle()
	require.Len(t, w.jobs, 2)
}

func TestRoundsOfRecordsByHandEndNothing(t *testing.T) {
	for _, round := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MinInt64} {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			w := newWorld(t, 2)
			w.nodes["n01"].Records["tune"] = noderecord.Record{NodeWright: "uid-tune", Node: "uid-n01", Round: round, Batch: 1}
			plain(w)
			w.settle()
			require.Equal(t, int64(1), w.in.Ledger.Rollouts["tune"].Round)
			require.Equal(t, plan.Complete, w.reason("tune", "n02").Code)
			if round > 0 {
				require.Equal(t, fmt.Sprintf("the record names round %d; the rounds of a NodeWright end at 1099511627776", round), w.reason("tune", "n01").Message)
			}
		})
	}
}

// A pod that does not fit now runs as soon as another one leaves: nobody reboots the node meanwhile, also when the turn that
// it belongs to has ended.
func TestAPodThatDoesNotFitYetIsAtWork(t *testing.T) {
	w := newWorld(t, 1)
	rebooting(w)
	w.nodeWright("zz", budgetOnly(1), pkg("other", "1.0.0"))
	w.jobs["late"] = &plan.Execution{
		ExecutionKey: plan.ExecutionKey{NodeWright: "zz", NodeUID: "uid-n01", Package: "other", Phase: plan.PhaseInstall},
		Name:         "late", Node: "n01", State: plan.ExecutionPending, Trouble: plan.InsufficientResources, Created: w.in.Now,
	}
	w.passAndWork(20)
	require.Equal(t, plan.OtherInterrupt, w.reason("tune", "n01").Code)
	delete(w.jobs, "late")
	w.settle()
	require.Equal(t, plan.Complete, w.reason("zz", "n01").Code)
}

// A node that left the selection, of which only an admission is left that is not confirmed, knows what ran on it.
func TestAnAdmissionOfANodeThatLeftKeepsWhatItsExecutionDid(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	n, def := w.nodes["n01"], w.in.NodeWrights[0].Desired.Packages[0]
	n.Labels["pool"] = "cpu"
	n.Records["tune"] = noderecord.Record{
		NodeWright: "uid-tune", Node: n.UID, Round: 1, Batch: 1, Compartment: "default", Started: true, Outcome: noderecord.Failed,
		Packages: map[string]noderecord.Package{"tuning": {
			Version: "1.0.0", Attempted: def.InstallHash, AttemptedConfig: def.ConfigHash, Running: string(plan.PhaseInstall), Attempt: 1,
		}},
	}
	key := plan.ExecutionKey{NodeWright: "tune", NodeWrightUID: "uid-tune", NodeUID: n.UID, Round: 1, Package: "tuning", Phase: plan.PhaseInstall, Attempt: 1}
	w.jobs["job"] = &plan.Execution{
		ExecutionKey: key, Name: "job", Node: "n01", State: plan.ExecutionRunning, Stage: nwv1.StageConfig, Done: []nwv1.Stage{nwv1.StageApply}, Created: w.in.Now,
	}
	w.in.Ledger.Rollouts = map[string]fleetv1.LedgerRollout{"tune": {
		UID: "uid-tune", Generation: 1, ContentHash: w.in.NodeWrights[0].Desired.Hash, Round: 1, NextOrder: 2,
		Intents: []fleetv1.LedgerIntent{{NodeUID: n.UID, Node: "n01", Compartment: "default", Round: 1, Batch: 2, Order: 1}},
	}}
	w.pass()
	require.Equal(t, def.InstallHash, n.Records["tune"].Packages["tuning"].Applied)
}

func TestANodeThatHoldsASlotDoesNotWaitForItsGroup(t *testing.T) {
	w := newWorld(t, 0)
	w.addNode("r1-01", map[string]string{"rack": "r1"})
	w.addNode("r1-02", map[string]string{"rack": "r1"}).Ready = false
	w.addNode("r2-01", map[string]string{"rack": "r2"})
	w.fails = failing("r2-01")
	w.frozen = func(e plan.Execution) bool { return e.Node == "r1-01" }
	w.nodeWright("tune", grouped(count(2), fixed(2)), reboot(pkg("tuning", "1.0.0")))
	w.passAndWork(60)
	require.Equal(t, plan.PackageFailed, w.reason("tune", "r2-01").Code)
	w.nodes["r1-02"].Ready, w.frozen = true, nil
	w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "r1-01").Code, "it is out of service, and not for ever")
	require.Equal(t, plan.Complete, w.reason("tune", "r1-02").Code)
	require.Equal(t, plan.PackageFailed, w.reason("tune", "r2-01").Code, "beside it, which holds the other slot")
}

func TestABatchThatIsGivenBackDoesNotGrow(t *testing.T) {
	w := newWorld(t, 6)
	w.nodeWright("tune", policy(count(6), exponential(1, 2)), reboot(pkg("tuning", "1.0.0")))
	yield(w)
	for _, n := range []string{"n01", "n02"} {
		w.pass()
		require.Equal(t, []string{n}, w.outOfService())
		w.addPod(n, "ml", "train-"+n, map[string]string{"protected": "true"})
		w.pass()
	}
	w.pass()
	require.Equal(t, []string{"n03"}, w.outOfService(), "nothing has shown yet that two at once are safe")
	require.Equal(t, int32(3), w.in.Ledger.Rollouts["tune"].Compartments["default"].Batch)
}

func TestUnderAClusterBudgetIdleNodesGoFirst(t *testing.T) {
	w := newWorld(t, 3)
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	w.nodeWright("tune", nil, reboot(pkg("tuning", "1.0.0")))
	protect(w)
	w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
	w.pass()
	require.Equal(t, []string{"n02"}, w.outOfService())
}

func TestNewNodesNeedNoRoomInAClusterBudget(t *testing.T) {
	w := required(t, 0)
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	w.addNode("used", nil)
	w.addNode("waits", nil)
	w.fails = failing("used")
	w.settle()
	require.Equal(t, plan.PackageFailed, w.reason("tune", "used").Code)
	require.True(t, w.nodes["used"].Unschedulable, "it uses the budget up")
	for _, n := range []string{"n01", "n02"} {
		w.addNode(n, nil).Taints = []corev1.Taint{gate}
	}
	w.settle()
	for _, n := range []string{"n01", "n02"} {
		require.Equal(t, plan.Complete, w.reason("tune", n).Code)
	}
	require.Equal(t, plan.WaitingForSlot, w.reason("tune", "waits").Code)
}

// A node whose taint somebody takes off while it is under way is in use, and has a slot like all others.
func TestANodeInUseHoldsASlot(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("admission lost %t", lost), func(t *testing.T) {
			w := required(t, 1)
			w.frozen = func(plan.Execution) bool { return true }
			w.lost = func(plan.Decision) bool { return lost }
			w.passAndWork(2)
			w.nodes["n01"].Taints = nil
			w.addNode("n02", nil)
			w.passAndWork(2)
			require.Equal(t, plan.WaitingForSlot, w.reason("tune", "n02").Code)
			require.Equal(t, int32(1), w.status("tune").Compartments[0].InUse)
			w.lost, w.frozen = nil, nil
			w.settle()
			require.Equal(t, int32(2), w.status("tune").Complete)
		})
	}
}

// One that cannot start yet, as another taint keeps it away, has not prepared the node all the same.
func TestTheTaintWaitsForANodeWrightThatIsKeptAway(t *testing.T) {
	w := required(t, 1)
	w.nodeWright("second", func(nw *plan.NodeWright) { nw.Spec.RuntimeRequired = true }, pkg("second", "1.0.0"))
	cni := corev1.Taint{Key: "network", Effect: corev1.TaintEffectNoSchedule}
	w.edit("tune", func(nw *plan.NodeWright) {
		nw.Spec.AdditionalTolerations = []corev1.Toleration{{Key: "network", Operator: corev1.TolerationOpExists}}
	})
	n := w.nodes["n01"]
	n.Taints = append(n.Taints, cni)
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	require.Contains(t, n.Taints, gate)
	n.Taints = slices.DeleteFunc(n.Taints, func(t corev1.Taint) bool { return t.Key == "network" })
	w.settle()
	require.NotContains(t, n.Taints, gate)
}

func TestWhatWasCompleteUnderAnEarlierObjectIsNotNew(t *testing.T) {
	w := required(t, 2)
	w.settle()
	w.in.NodeWrights = nil
	w.settle()
	for _, n := range w.nodes {
		n.Taints = append(n.Taints, gate)
	}
	w.ceiling = 1
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		budgetOnly(1)(nw)
		nw.UID, nw.Spec.RuntimeRequired = "uid-again", true
	}, reboot(pkg("tuning", "2.0.0")))
	w.settle()
	require.Equal(t, int32(2), w.status("tune").Complete)
}

// Content that changes when the window is over does not leave nodes cordoned until the next one; the others wait for it.
func TestANodeOutOfServiceIsFinishedOutsideOfTheWindow(t *testing.T) {
	w := newWorld(t, 2)
	w.in.Now = at("2026-01-06T02:00:00Z")
	w.frozen = func(plan.Execution) bool { return true }
	w.nodeWright("tune", windows(w, count(2), "0 2 * * *", 10*time.Minute), reboot(pkg("tuning", "1.0.0")))
	w.passAndWork(5)
	require.Equal(t, []string{"n01"}, w.outOfService())
	w.in.Now, w.frozen = at("2026-01-06T02:10:00Z"), nil
	w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
	w.passAndWork(60)
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	require.Equal(t, plan.WaitingForWindow, w.reason("tune", "n02").Code)
	require.Empty(t, w.outOfService())
}

// More nodes are unavailable than the budget has slots: those are worked on one by one, as that takes nothing more out of
// service, and no other node is. Two NodeWrights that wait for each other's nodes would else wait for ever.
func TestNodesThatAreUnavailableAnywayAreWorkedOn(t *testing.T) {
	w := newWorld(t, 4)
	for _, n := range []string{"n02", "n03", "n04"} {
		w.nodes[n].Unschedulable = true
	}
	budget := count(1)
	budget.CountUnavailable = true
	w.ceiling = 1
	w.nodeWright("tune", policy(budget, fixed(1)), reboot(pkg("tuning", "1.0.0")))
	w.settle()
	require.Equal(t, int32(3), w.status("tune").Complete)
	require.Equal(t, "3 of the 1 slots of compartment default are in use: n02 (unavailable), n03 (unavailable), n04 (unavailable)",
		w.reason("tune", "n01").Message)
	for _, n := range []string{"n02", "n03", "n04"} {
		require.True(t, w.nodes[n].Unschedulable, "their cordon stays")
	}
}
