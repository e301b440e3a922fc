package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// A compartment that is taken out of the policy leaves the status; one under another name does not begin again what its
// nodes have done.
func TestFieldReport_BA05_CompartmentRemovedAndRenamed(t *testing.T) {
	w := newWorld(t, 4)
	for _, n := range w.nodes {
		n.Labels["x"] = "x"
	}
	one := fixed(1)
	named := func(names ...string) func(*plan.NodeWright) {
		return func(nw *plan.NodeWright) {
			nw.Policy = &nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{Budget: count(1)}}
			for _, name := range names {
				nw.Policy.Compartments = append(nw.Policy.Compartments, zone(name, count(1), &one, "x"))
			}
		}
	}
	w.nodeWright("tune", named("rack"), pkg("tuning", "1.0.0"))
	w.settleUntil(func() bool { return w.status("tune").Complete == 2 })
	w.edit("tune", named("row"))
	w.settle()
	require.Equal(t, []string{"default", "row"}, w.compartmentNames())
	require.EqualValues(t, 4, w.status("tune").Complete)
	for name, ran := range w.ran {
		require.Len(t, ran, 2, "%s has run everything once", name)
	}
	w.edit("tune", named())
	w.settle()
	require.Equal(t, []string{"default"}, w.compartmentNames())
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

func (w *world) compartmentNames() []string {
	var out []string
	for _, c := range w.status("tune").Compartments {
		out = append(out, c.Name)
	}
	return out
}

// Thresholds are integers: one failure of five is 80 %, one of three 66 %.
func TestFieldReport_BA06_ThresholdsOfSmallBatches(t *testing.T) {
	for batch, lowestThatHalts := range map[int32]int32{5: 81, 3: 67, 2: 51, 4: 76} {
		for threshold := int32(1); threshold <= 100; threshold++ {
			w := newWorld(t, int(batch)*2)
			w.in.Settings.Attempts = 1
			w.fails = failing("n01")
			w.nodeWright("tune", policy(all, fixed(batch, batchThreshold(threshold), failureThreshold(1), safetyLimit(100))), pkg("tuning", "1.0.0"))
			w.batchByBatch()
			require.Equal(t, threshold >= lowestThatHalts, len(w.status("tune").Halted) > 0, "batch %d, threshold %d", batch, threshold)
		}
	}
}

// Ten nodes become eligible at once, views are late, and the reconciler is started anew twice: never more than two are out
// of service.
func TestFieldReport_BA08_BurstWithLateViewsAndRestarts(t *testing.T) {
	for late := 1; late <= 4; late++ {
		w := newWorld(t, 10)
		w.ceiling = 2
		for _, n := range w.nodes {
			n.Labels["pool"] = "cpu"
		}
		w.nodeWright("tune", budgetOnly(2), reboot(pkg("tuning", "1.0.0")))
		w.settle()
		for _, n := range w.nodes {
			n.Labels["pool"] = "gpu"
		}
		var seen []plan.Input
		for pass := range 40 {
			seen = append(seen, w.input())
			if pass > late { // the other process acts on what it saw a while ago
				w.doLate(plan.Compute(seen[pass-late]))
			}
			if pass == 5 || pass == 9 { // killed after the ledger was written
				w.lost = func(plan.Decision) bool { return true }
			}
			w.pass()
			w.lost = nil
			w.work()
		}
		w.settle()
		require.EqualValues(t, 10, w.status("tune").Complete)
	}
}

// doLate does what another process decided from an old view: its ledger write is refused, and so is every record that is
// another one by now.
func (w *world) doLate(out plan.Output) {
	if out.Ledger != nil || len(out.NeedPods) > 0 {
		return
	}
	w.stale = true
	for _, d := range out.Decisions {
		if d.Record != nil {
			w.do(d)
		}
	}
	w.stale = false
	w.checkCeiling()
}

// A release that does not boot takes as many nodes as the ceiling, and an explicit resume takes the next ones only where
// there is room.
func TestFieldReport_BA12_NoMoreThanTheCeiling(t *testing.T) {
	for ceiling := int32(1); ceiling <= 2; ceiling++ {
		w := newWorld(t, 5)
		w.ceiling = int(ceiling)
		w.dies = func(string) bool { return true }
		w.nodeWright("tune", policy(count(ceiling), fixed(ceiling, failureThreshold(1))), reboot(pkg("tuning", "1.0.0")))
		w.settle()
		require.Len(t, w.outOfService(), int(ceiling))
		require.Equal(t, []string{"default"}, w.status("tune").Halted)
		require.Contains(t, w.status("tune").Compartments[0].Halt.Message, "n01: package tuning, stage interrupt")
		w.edit("tune", func(nw *plan.NodeWright) { nw.Resume = "1" })
		w.settle()
		require.Empty(t, w.status("tune").Halted)
		require.Len(t, w.outOfService(), int(ceiling), "the dead nodes keep their slots")
		require.Equal(t, plan.WaitingForSlot, w.reason("tune", "n05").Code)
	}
}

// A rollout that begins with nodes out of service: where they use up the budget, healthy nodes are left alone and the wait
// is explained. Nodes that others cordoned are done first, as that takes nothing more out of service.
func TestFieldReport_BA15_NodesUnavailableAtTheStart(t *testing.T) {
	for _, c := range []struct {
		name       string
		away, back func(n *plan.Node)
		done       int32
		reason     plan.Code
	}{
		{"NotReady", func(n *plan.Node) { n.Ready = false }, func(n *plan.Node) { n.Ready = true }, 0, plan.NodeNotReady},
		{"cordoned by others", func(n *plan.Node) { n.Unschedulable = true }, func(n *plan.Node) { n.Unschedulable = false }, 2, plan.Complete},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 5)
			w.nodeWright("tune", budgetOnly(5), reboot(pkg("tuning", "1.0.0")))
			w.settle()
			w.ran = map[string][]string{}
			b := count(2)
			b.CountUnavailable = true
			for _, name := range []string{"n02", "n04"} {
				c.away(w.nodes[name])
			}
			w.nodeWright("tune", policy(b, fixed(2)), reboot(pkg("tuning", "2.0.0")))
			w.settle()
			require.Equal(t, c.done, w.status("tune").Complete)
			for _, name := range []string{"n01", "n03", "n05"} {
				require.Empty(t, w.ran[name], "%s is healthy and left alone", name)
				require.Equal(t, plan.WaitingForSlot, w.reason("tune", name).Code)
				require.Equal(t, "2 of the 2 slots of compartment default are in use: n02 (unavailable), n04 (unavailable)", w.reason("tune", name).Message)
			}
			require.Equal(t, c.reason, w.reason("tune", "n02").Code)
			for _, name := range []string{"n02", "n04"} {
				c.back(w.nodes[name])
			}
			w.ceiling = 2
			w.settle()
			require.EqualValues(t, 5, w.status("tune").Complete)
		})
	}
}

// The node that holds the slot is deleted in the middle of its interrupt: the next one starts within one pass, and nothing
// of the first is left in the way.
func TestFieldReport_NN01_HolderIsDeleted(t *testing.T) {
	for name, rules := range map[string]func(*plan.NodeWright){
		"budget alone": budgetOnly(1), "strategy": policy(count(1), fixed(1)), "no strategy": noStrategy(count(1)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.ceiling = 1
			w.nodeWright("tune", rules, reboot(pkg("tuning", "1.0.0")))
			w.until(plan.ActionInterrupt)
			w.work()
			require.Equal(t, []string{"n01"}, w.outOfService())
			w.removeNode("n01")
			w.pass()
			require.Equal(t, []string{"n02"}, w.outOfService(), "the next one is admitted in the very pass")
			w.settle()
			require.EqualValues(t, 2, w.status("tune").Complete)
			require.Empty(t, w.in.Ledger.Rollouts["tune"].Intents)
			w.addNode("n01", nil).UID = "another"
			w.settle()
			require.EqualValues(t, 3, w.status("tune").Complete)
		})
	}
}

// Several packages want an interrupt: the node is cordoned and drained once, and none of the interrupts is lost.
func TestFieldReport_OD07_OneDisruptionForAll(t *testing.T) {
	for want, set := range map[string]packages{
		"interrupt reboot":      {service(pkg("aa", "1.0.0"), "a"), service(pkg("bb", "1.0.0"), "b"), reboot(pkg("cc", "1.0.0"))},
		"interrupt service a b": {service(pkg("aa", "1.0.0"), "a"), service(pkg("bb", "1.0.0"), "b")},
	} {
		w := newWorld(t, 1)
		w.pods["n01"] = nil
		w.nodeWright("tune", budgetOnly(1), set...)
		for i := range 3 {
			w.addPod("n01", "web", fmt.Sprint("p", i), nil)
		}
		w.settle()
		actions := map[string]int{}
		for _, line := range w.log {
			actions[line]++
		}
		require.Equal(t, 1, actions["Drain tune/n01"], "%v", w.log)
		require.Equal(t, 1, actions["Interrupt tune/n01"], "%v", w.log)
		require.Equal(t, 1, actions["Uncordon tune/n01"], "%v", w.log)
		require.Contains(t, w.ran["n01"], want)
		for _, p := range set {
			require.Contains(t, w.ran["n01"], p.Name+" post-interrupt")
		}
	}
}
