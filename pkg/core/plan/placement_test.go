package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/window"
)

// windows is a policy with batches of one and a window.
func windows(w *world, b nwv1.DeploymentBudget, cron string, open time.Duration) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) {
		policy(b, fixed(1))(nw)
		parsed, err := window.Parse(cron, open, "")
		require.NoError(w.t, err)
		nw.Windows = window.Set{parsed}
	}
}

func yield(w *world) {
	protect(w)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.ProtectedPods = nwv1.ProtectedPodsYield })
}

// grouped is a policy whose only compartment takes every node, in whole racks.
func grouped(b nwv1.DeploymentBudget, s nwv1.DeploymentStrategy) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) {
		nw.Policy = &nwv1.DeploymentPolicySpec{
			Default:      nwv1.PolicyDefault{Budget: count(1)},
			Compartments: []nwv1.Compartment{{Name: "racks", Budget: b, Strategy: &s, GroupBy: "rack"}},
		}
	}
}

// racks is a world with racks of these sizes: r1-01, r1-02 … r2-01 …
func racks(t *testing.T, sizes ...int) *world {
	w := newWorld(t, 0)
	for i, size := range sizes {
		for j := range size {
			w.addNode(fmt.Sprintf("r%d-%02d", i+1, j+1), map[string]string{"rack": fmt.Sprintf("r%d", i+1)})
		}
	}
	return w
}

func TestOutsideOfItsWindowsNobodyIsAdmitted(t *testing.T) {
	w := newWorld(t, 3)
	w.frozen = func(plan.Execution) bool { return true }
	w.nodeWright("tune", windows(w, count(1), "0 2 * * *", 10*time.Minute), pkg("tuning", "1.0.0"))
	require.Empty(t, w.pass().Decisions)
	require.Equal(t, at("2026-01-06T02:00:00Z"), w.last.Next.UTC(), "the pass sleeps until the window opens")
	w.in.Now = w.last.Next
	w.pass()
	w.pass()
	require.Len(t, w.jobs, 1)
	require.Equal(t, at("2026-01-06T02:10:00Z"), w.last.Next.UTC(), "and until it closes")
	w.in.Now = w.last.Next
	w.frozen = nil
	for range 20 {
		w.pass()
		w.work()
	}
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code, "a node under way is finished")
	require.Equal(t, plan.WaitingForWindow, w.reason("tune", "n02").Code)
	require.Equal(t, at("2026-01-07T02:00:00Z"), w.last.Next.UTC())
	w.settle()
	require.Equal(t, int32(3), w.status("tune").Complete, "in the next window the rest follows")
}

func TestThePassWakesWhenWhatIsSeenChangesByItself(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.settle()
	in := w.input()
	require.Zero(t, plan.Compute(in).Next)
	in.Changes = in.Now.Add(time.Minute)
	require.Equal(t, in.Changes, plan.Compute(in).Next)
}

func at(s string) time.Time {
	out, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return out
}

func TestIdleNodesGoFirst(t *testing.T) {
	for _, tc := range []struct {
		name  string
		order nwv1.NodeOrder
		want  []string
	}{
		{"by default", "", []string{"n03", "n04"}},
		{"Idle", nwv1.OrderIdle, []string{"n03", "n04"}},
		{"Name", nwv1.OrderName, []string{"n01", "n02"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 5)
			w.nodeWright("tune", policy(count(2), fixed(2)), reboot(pkg("tuning", "1.0.0")))
			protect(w)
			w.edit("tune", func(nw *plan.NodeWright) { nw.Policy.Order = tc.order })
			w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
			w.bound = map[string]string{"n02": "web/front"}
			w.pass()
			require.Equal(t, tc.want, w.outOfService())
		})
	}
	t.Run("nothing is looked up where there is no choice", func(t *testing.T) {
		w := newWorld(t, 2)
		w.nodeWright("tune", policy(count(2), fixed(2)), reboot(pkg("tuning", "1.0.0")))
		require.Empty(t, plan.Compute(w.input()).NeedOccupancy)
		w.nodeWright("tune", policy(count(2), fixed(1)), pkg("tuning", "1.0.0"))
		require.Empty(t, plan.Compute(w.input()).NeedOccupancy, "nor where nothing is disturbed")
	})
	t.Run("until it is looked up nobody is admitted", func(t *testing.T) {
		w := newWorld(t, 2)
		w.nodeWright("tune", policy(count(2), fixed(1)), reboot(pkg("tuning", "1.0.0")))
		out := plan.Compute(w.input())
		require.Equal(t, "tune", out.NeedOccupancy[0].NodeWright)
		require.Empty(t, out.Decisions)
	})
}

// A node that may not be disturbed now must not keep the slot from the others.
func TestFieldReport_BA13_ANodeThatMayNotBeDisturbedKeepsNobodyBack(t *testing.T) {
	t.Run("Yield", func(t *testing.T) {
		w := newWorld(t, 2)
		w.ceiling = 1
		rebooting(w)
		yield(w)
		w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
		for range 40 {
			w.pass()
			w.work()
		}
		require.Equal(t, plan.Complete, w.reason("tune", "n02").Code)
		require.Equal(t, plan.Yielding, w.reason("tune", "n01").Code)
		require.False(t, w.nodes["n01"].Unschedulable, "it keeps serving")
		require.Equal(t, nwv1.StatusInProgress, w.status("tune").Status)
		delete(w.pods, "n01")
		w.settle()
		require.Equal(t, int32(2), w.status("tune").Complete)
	})
	t.Run("Hold names who holds the slot", func(t *testing.T) {
		w := newWorld(t, 2)
		rebooting(w)
		protect(w)
		w.edit("tune", func(nw *plan.NodeWright) {
			nw.Policy = &nwv1.DeploymentPolicySpec{
				Default: nwv1.PolicyDefault{Budget: count(1)}, Order: nwv1.OrderName}
		})
		w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
		for range 10 {
			w.pass()
			w.work()
		}
		require.Equal(t, "batch 1 of compartment default has not ended: n01 (ProtectedPod, pod ml/train)", w.reason("tune", "n02").Message)
	})
	t.Run("what disturbs nobody is done beside the pods", func(t *testing.T) {
		w := newWorld(t, 1)
		plain(w)
		yield(w)
		w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
		w.settle()
		require.Equal(t, int32(1), w.status("tune").Complete)
	})
}

// A protected pod that arrived between the look and the cordon is left alone too: the turn is taken back.
func TestAYieldingTurnIsTakenBack(t *testing.T) {
	w := newWorld(t, 2)
	rebooting(w)
	yield(w)
	w.pass()
	require.Equal(t, []string{"n01"}, w.outOfService())
	w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
	for range 40 {
		w.pass()
		w.work()
	}
	require.Empty(t, w.outOfService())
	require.Equal(t, plan.Complete, w.reason("tune", "n02").Code)
	require.Equal(t, plan.Yielding, w.reason("tune", "n01").Code)
}

func TestGroupsAreTakenWhole(t *testing.T) {
	for _, tc := range []struct {
		name   string
		racks  []int
		policy func(*plan.NodeWright)
		sizes  []int
	}{
		{"the first group rounds the batch up", []int{4, 4, 4}, grouped(count(8), fixed(1)), []int{4, 4, 4}},
		{"more groups while they fit whole", []int{4, 4, 4}, grouped(count(12), fixed(9)), []int{8, 4}},
		{"growing by the strategy's size", []int{2, 2, 2, 2, 2}, grouped(percent(100), linear(1, 1)), []int{2, 2, 2, 4}},
		{"never above the ceiling", []int{3, 3, 3}, grouped(count(5), fixed(6)), []int{3, 3, 3}},
		{"a group larger than the ceiling is split", []int{5, 2}, grouped(count(3), fixed(1)), []int{3, 2, 2}},
		{"a smaller one that fits fills up", []int{4, 4, 2}, grouped(count(6), fixed(6)), []int{6, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := racks(t, tc.racks...)
			w.nodeWright("tune", tc.policy, pkg("tuning", "1.0.0"))
			w.pass()
			require.Equal(t, strings.Contains(tc.name, "split"), len(w.status("tune").Compartments[1].SplitGroups) > 0)
			w.settle()
			require.Equal(t, tc.sizes, w.sizes("tune"))
		})
	}
}

func TestGroupsAndBudgets(t *testing.T) {
	t.Run("nodes without the label go alone", func(t *testing.T) {
		w := racks(t, 3)
		w.addNode("x1", nil)
		w.addNode("x2", nil)
		w.nodeWright("tune", grouped(count(3), fixed(1)), pkg("tuning", "1.0.0"))
		w.settle()
		require.Equal(t, []int{1, 1, 3}, w.sizes("tune"))
	})
	t.Run("a group waits for all of its slots, and a split one is named", func(t *testing.T) {
		w := racks(t, 1, 3, 4)
		w.fails = failing("r1-01")
		w.nodeWright("tune", grouped(count(3), fixed(3)), reboot(pkg("tuning", "1.0.0")))
		w.settle()
		require.Equal(t, "group r2 needs 3 slots; 1 of the 3 slots of compartment racks are in use: r1-01 (failed)",
			w.reason("tune", "r2-01").Message)
		require.Equal(t, plan.Complete, w.reason("tune", "r3-01").Code, "a group that is split anyway takes what is free")
	})
	t.Run("a cluster budget has room for a whole group or is left", func(t *testing.T) {
		w := racks(t, 2, 2)
		w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(3))}}
		w.ceiling = 3
		w.nodeWright("tune", grouped(count(4), fixed(4)), reboot(pkg("tuning", "1.0.0")))
		w.settle()
		require.Equal(t, []int{2, 2}, w.sizes("tune"))
	})
	t.Run("one protected node defers its group", func(t *testing.T) {
		w := racks(t, 2, 2)
		w.nodeWright("tune", grouped(count(4), fixed(4)), reboot(pkg("tuning", "1.0.0")))
		yield(w)
		w.addPod("r1-02", "ml", "train", map[string]string{"protected": "true"})
		for range 40 {
			w.pass()
			w.work()
		}
		require.Equal(t, plan.Complete, w.reason("tune", "r2-01").Code)
		require.Equal(t, "its group is left alone until the protected pods of node r1-02 have finished: ml/train", w.reason("tune", "r1-01").Message)
	})
}

var gate = corev1.Taint{Key: nwv1.RuntimeRequiredTaintKey, Value: nwv1.RuntimeRequiredTaintValue, Effect: corev1.TaintEffectNoSchedule}

// required is a runtime-required NodeWright with one slot, on nodes that carry the taint.
func required(t *testing.T, nodes int) *world {
	w := newWorld(t, nodes)
	for _, n := range w.nodes {
		n.Taints = []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectPreferNoSchedule}, gate}
	}
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		budgetOnly(1)(nw)
		nw.Spec.RuntimeRequired = true
	}, reboot(pkg("tuning", "1.0.0")))
	return w
}

func TestNewRuntimeRequiredNodesNeedNoSlot(t *testing.T) {
	w := required(t, 3)
	w.pass()
	require.Equal(t, []string{"n01", "n02", "n03"}, w.outOfService(), "all at once, under a budget of one")
	w.settle()
	for _, n := range w.nodes {
		require.Equal(t, int32(3), w.status("tune").Complete)
		require.Equal(t, []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectPreferNoSchedule}}, n.Taints, "theirs is gone, no other")
		require.False(t, n.Unschedulable)
	}
	t.Run("a node in use needs one", func(t *testing.T) {
		w := required(t, 2)
		w.ceiling = 1
		for _, n := range []string{"n01", "n02"} {
			w.addPod(n, "web", "front-"+n, nil)
		}
		w.settle()
		require.Equal(t, int32(2), w.status("tune").Complete)
	})
	t.Run("one that was complete needs one", func(t *testing.T) {
		w := required(t, 2)
		w.settle()
		for _, n := range w.nodes {
			n.Taints = append(n.Taints, gate)
		}
		w.ceiling = 1
		w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
		w.settle()
		require.Equal(t, int32(2), w.status("tune").Complete)
	})
	t.Run("one that failed is tried again in a slot", func(t *testing.T) {
		w := required(t, 3)
		w.fails = func(string, string, nwv1.Stage) int32 { return 1 }
		w.settle()
		require.Equal(t, int32(3), w.status("tune").Failed)
		w.fails, w.ceiling = nil, 3
		w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "1" })
		w.settle()
		require.Equal(t, int32(3), w.status("tune").Complete)
	})
	t.Run("a cluster budget counts nodes in use", func(t *testing.T) {
		w := required(t, 3)
		w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
		w.pass()
		require.Len(t, w.outOfService(), 3)
	})
	t.Run("a halt admits nobody", func(t *testing.T) {
		w := required(t, 1)
		w.addNode("used", nil)
		w.addNode("waits", nil)
		delete(w.nodes, "n01")
		w.fails = failing("used")
		w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1), safetyLimit(100))), reboot(pkg("tuning", "2.0.0")))
		w.settle()
		w.addNode("new", nil).Taints = []corev1.Taint{gate}
		w.settle()
		require.Equal(t, plan.Halted, w.reason("tune", "new").Code)
	})
}

func TestTheRuntimeRequiredTaintStaysUntilAllAreComplete(t *testing.T) {
	w := required(t, 1)
	w.nodeWright("second", func(nw *plan.NodeWright) {
		nw.Spec.RuntimeRequired, nw.Paused, nw.Spec.RuntimeRequiredCordonAfter = true, true, true
	}, pkg("second", "1.0.0"))
	w.settle()
	require.Contains(t, w.nodes["n01"].Taints, gate, "one of two is complete")
	w.edit("second", func(nw *plan.NodeWright) { nw.Paused = false })
	var untaint plan.Decision
	for range 60 {
		for _, d := range w.pass().Decisions {
			if d.Action == plan.ActionUngate {
				untaint = d
			}
		}
		w.work()
	}
	require.NotContains(t, w.nodes["n01"].Taints, gate)
	require.Equal(t, []corev1.Taint{gate}, untaint.Untaint)
	require.True(t, untaint.CordonAfter)
	t.Run("where none targets the node it is not ours", func(t *testing.T) {
		w := required(t, 1)
		w.nodes["n01"].Labels[nwv1.IgnoreLabel] = "true"
		w.settle()
		require.Contains(t, w.nodes["n01"].Taints, gate)
	})
}
