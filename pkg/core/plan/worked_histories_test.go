package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// transition is a change of content. The same rules hold for each.
type transition struct {
	name          string
	before, after packages
}

// transitions are the five kinds of change, each with a reboot or without one.
func transitions(reboots bool) []transition {
	v1, v2 := pkg("tuning", "1.0.0"), pkg("tuning", "2.0.0")
	a, b := config(v1, "key", "a"), config(v1, "key", "b")
	if reboots {
		v1, v2 = reboot(v1), reboot(v2)
		byKey := map[string]nwv1.Interrupt{"key": {Type: nwv1.InterruptReboot}}
		a.ConfigInterrupts, b.ConfigInterrupts = byKey, byKey
	}
	return []transition{
		{name: "install", after: packages{v1}},
		{name: "upgrade", before: packages{v1}, after: packages{v2}},
		{name: "downgrade", before: packages{v2}, after: packages{v1}},
		{name: "configuration", before: packages{a}, after: packages{b}},
		{name: "uninstall", before: packages{uninstallable(v1)}, after: packages{absent(v1)}},
	}
}

// begin brings the fleet to where the change begins, and makes it under the rules.
func (tr transition) begin(w *world, rules func(*plan.NodeWright)) {
	w.in.Settings.Attempts = 1
	if tr.before != nil {
		w.nodeWright("tune", noBudget, tr.before...)
		w.settle()
	}
	w.ran = map[string][]string{}
	w.nodeWright("tune", rules, tr.after...)
}

// eachTransition runs a history under every kind of change.
func eachTransition(t *testing.T, reboots bool, nodes int, history func(*testing.T, *world, transition)) {
	for _, tr := range transitions(reboots) {
		t.Run(tr.name, func(t *testing.T) { history(t, newWorld(t, nodes), tr) })
	}
}

// A failed node leaves before its batch is judged, one way or the other: the batch is bad all the same.
func TestHistoryAFailedNodeLeaves(t *testing.T) {
	for _, leave := range []struct {
		how string
		do  func(w *world, n *plan.Node)
	}{
		{"deleted", func(w *world, n *plan.Node) { w.removeNode(n.Name) }},
		{"created anew", func(w *world, n *plan.Node) { w.addNode(n.Name, nil).UID = "another" }},
		{"no longer selected", func(_ *world, n *plan.Node) { n.Labels["pool"] = "quarantine" }},
		{"ignored", func(_ *world, n *plan.Node) { n.Labels[nwv1.IgnoreLabel] = nwv1.TrueValue }},
		{"tainted", func(_ *world, n *plan.Node) {
			n.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoSchedule}}
		}},
	} {
		for _, reboots := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reboots %t", leave.how, reboots), func(t *testing.T) {
				eachTransition(t, reboots, 6, func(t *testing.T, w *world, tr transition) {
					tr.begin(w, policy(count(2), fixed(2, failureThreshold(1), safetyLimit(100))))
					w.fails = failing("n01")
					w.frozen = func(e plan.Execution) bool { return e.Node == "n02" }
					w.settleUntil(func() bool { return w.status("tune").Failed == 1 })
					leave.do(w, w.nodes["n01"])
					w.passAndWork(5)
					w.frozen = nil
					w.settle()
					require.Equal(t, []string{"default"}, w.status("tune").Halted)
					require.Contains(t, w.status("tune").Compartments[0].Halt.Message, "n01")
					require.Empty(t, w.ran["n03"], "nobody is admitted after the batch")
				})
			})
		}
	}
}

// A new round with eight nodes under way: they keep their slots, come first, and are counted in its batches.
func TestHistoryANewRoundWithEightUnderWay(t *testing.T) {
	eachTransition(t, true, 20, func(t *testing.T, w *world, tr transition) {
		tr.begin(w, policy(count(8), fixed(8)))
		w.ceiling = 8
		w.passAndWork(3)
		under := w.outOfService()
		require.Len(t, under, 8)
		w.nodeWright("tune", nil, reboot(pkg("tuning", "9.0.0")))
		w.passAndWork(6)
		require.Equal(t, under, w.outOfService(), "nobody else is touched before they are done")
		w.settle()
		require.Equal(t, []int{8, 8, 4}, w.sizes("tune"))
		for _, name := range under {
			require.EqualValues(t, 1, w.nodes[name].Records["tune"].Batch, "those under way come first")
		}
		require.EqualValues(t, 20, w.status("tune").Complete)
	})
}

// Content A, B, and A again, with B under way on two nodes: only those two are changed back.
func TestHistoryContentABA(t *testing.T) {
	eachTransition(t, true, 6, func(t *testing.T, w *world, tr transition) {
		tr.begin(w, policy(count(2), fixed(2)))
		w.ceiling = 2
		w.until(plan.ActionRun)
		w.passAndWork(2)
		w.nodeWright("tune", nil, tr.before...)
		w.settle()
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		for _, name := range []string{"n03", "n04", "n05", "n06"} {
			require.Empty(t, w.ran[name], "%s was never to be changed", name)
		}
		for _, n := range w.nodes {
			require.Equal(t, w.nodes["n06"].Records["tune"].Packages["tuning"].Applied, n.Records["tune"].Packages["tuning"].Applied)
			require.False(t, n.Unschedulable)
		}
	})
}

// Failed nodes are deleted and re-created again and again: they make no progress by it, and the halt comes.
func TestHistoryFailedNodesAreRecreated(t *testing.T) {
	for _, reboots := range []bool{false, true} {
		eachTransition(t, reboots, 4, func(t *testing.T, w *world, tr transition) {
			tr.begin(w, policy(count(1), fixed(1, failureThreshold(4))))
			w.fails = failing("n01", "n02", "n03", "n04")
			rounds := 0
			for ; len(w.status2("tune").Halted) == 0; rounds++ {
				require.Less(t, rounds, 10, "the halt does not come")
				w.settleUntil(func() bool { return w.status("tune").Failed > 0 || len(w.status("tune").Halted) > 0 })
				for _, name := range sortedKeys(w.nodes) {
					if w.nodes[name].Records["tune"].Outcome == noderecord.Failed {
						w.addNode(name, nil).UID = types.UID(fmt.Sprint("again-", rounds))
					}
				}
				if tr.name == "uninstall" {
					break // one that is created anew has nothing to uninstall
				}
				w.pass()
			}
			if tr.name != "uninstall" {
				require.EqualValues(t, 4, w.in.Ledger.Rollouts["tune"].Compartments["default"].ConsecutiveBad)
			}
		})
	}
}

// status2 is the status after another pass.
func (w *world) status2(nodeWright string) plan.Status {
	w.pass()
	return w.status(nodeWright)
}

// The ceiling shrinks below the slots in use: nobody is admitted until there is room, under any strategy.
func TestHistoryTheCeilingShrinks(t *testing.T) {
	for name, strategy := range map[string]nwv1.DeploymentStrategy{
		"fixed": fixed(4), "linear": linear(4, 2), "exponential": exponential(4, 2), "rolling": rolling(4), "none": {},
	} {
		t.Run(name, func(t *testing.T) {
			rules := func(n int32) func(*plan.NodeWright) {
				if name == "none" {
					return noStrategy(count(n))
				}
				return policy(count(n), strategy)
			}
			eachTransition(t, true, 8, func(t *testing.T, w *world, tr transition) {
				tr.begin(w, rules(4))
				w.frozen = func(e plan.Execution) bool { return true }
				w.passAndWork(3)
				require.Len(t, w.outOfService(), 4)
				w.edit("tune", rules(2))
				w.frozen = func(e plan.Execution) bool { return e.Node != "n01" }
				w.passAndWork(15)
				require.Equal(t, []string{"n02", "n03", "n04"}, w.outOfService())
				w.frozen = func(e plan.Execution) bool { return e.Node == "n04" }
				w.passAndWork(15)
				require.LessOrEqual(t, len(w.outOfService()), 2)
				w.frozen, w.ceiling = nil, 2
				w.settle()
				require.EqualValues(t, 8, w.status("tune").Complete)
			})
		})
	}
}

func rolling(initial int32, more ...func(*nwv1.BatchRules)) nwv1.DeploymentStrategy {
	s := fixed(initial, more...)
	s.Fixed.Advance = nwv1.AdvanceRolling
	return s
}

// A whole batch becomes ineligible before anything ran, and comes back: no verdict either way, and nobody is lost.
func TestHistoryABatchBecomesIneligible(t *testing.T) {
	for _, h := range []struct {
		how        string
		away, back func(n *plan.Node)
	}{
		{"no longer selected", func(n *plan.Node) { n.Labels["pool"] = "cpu" }, func(n *plan.Node) { n.Labels["pool"] = "gpu" }},
		{"ignored", func(n *plan.Node) { n.Labels[nwv1.IgnoreLabel] = nwv1.TrueValue }, func(n *plan.Node) { delete(n.Labels, nwv1.IgnoreLabel) }},
		{"NotReady", func(n *plan.Node) { n.Ready = false }, func(n *plan.Node) { n.Ready = true }},
	} {
		t.Run(h.how, func(t *testing.T) {
			eachTransition(t, true, 4, func(t *testing.T, w *world, tr transition) {
				tr.begin(w, policy(count(2), fixed(2, failureThreshold(1), safetyLimit(100))))
				w.ceiling = 2
				w.pass()
				for _, name := range []string{"n01", "n02"} {
					h.away(w.nodes[name])
				}
				w.passAndWork(3)
				require.Empty(t, w.status("tune").Halted)
				for _, name := range []string{"n01", "n02"} {
					require.Empty(t, w.ran[name])
					h.back(w.nodes[name])
				}
				w.settle()
				require.Empty(t, w.status("tune").Halted)
				require.EqualValues(t, 4, w.status("tune").Complete)
			})
		})
	}
}

// A settled verdict never changes: neither when nodes join, nor when nodes leave, so that it would come out otherwise.
func TestHistoryASettledVerdictStays(t *testing.T) {
	eachTransition(t, false, 3, func(t *testing.T, w *world, tr transition) {
		tr.begin(w, policy(count(1), fixed(1, failureThreshold(1)))) // the second of three fails at 66 %: no halt
		w.fails = failing("n02")
		w.frozen = func(e plan.Execution) bool { return e.Node == "n03" }
		w.settleUntil(func() bool { return w.nodes["n03"].Records["tune"].Batch == 3 })
		for i := range 20 {
			w.addNode(fmt.Sprint("joined-", i), nil) // at 8 % it would have halted
		}
		w.frozen = nil
		w.settle()
		require.Empty(t, w.status("tune").Halted)
		require.EqualValues(t, 22, w.status("tune").Complete)
	})
	eachTransition(t, false, 10, func(t *testing.T, w *world, tr transition) {
		tr.begin(w, policy(count(1), fixed(1, failureThreshold(1)))) // the first of ten fails at 10 %: halted
		w.fails = failing("n01")
		w.settle()
		require.Equal(t, []string{"default"}, w.status("tune").Halted)
		for _, name := range sortedKeys(w.nodes)[1:] {
			w.removeNode(name) // at 100 % it would not have halted
		}
		w.addNode("n11", nil)
		w.settle()
		require.Equal(t, []string{"default"}, w.status("tune").Halted)
		require.Empty(t, w.ran["n11"])
	})
}

// Every node of a reboot dies: at most the ceiling is lost, whatever the policy says.
func TestHistoryEveryNodeOfARebootDies(t *testing.T) {
	for name, rules := range map[string]func(*plan.NodeWright){
		"budget alone": budgetOnly(3), "percent alone": percentOnly(15), "fixed": policy(count(3), fixed(2)),
		"linear": policy(count(3), linear(1, 5)), "exponential": policy(percent(15), exponential(1, 3)), "no strategy": noStrategy(count(3)),
		"rolling": policy(count(3), rolling(1)), "a batch as large as the fleet": policy(count(3), fixed(20)),
	} {
		t.Run(name, func(t *testing.T) {
			eachTransition(t, true, 20, func(t *testing.T, w *world, tr transition) {
				tr.begin(w, rules)
				w.ceiling = 3
				w.dies = func(string) bool { return true }
				w.settle()
				require.Len(t, w.outOfService(), 3)
				for _, node := range w.outOfService() {
					require.Equal(t, plan.InterruptFailed, w.reason("tune", node).Code)
				}
				require.Equal(t, plan.WaitingForSlot, w.reason("tune", "n20").Code)
				require.Empty(t, w.ran["n20"])
			})
		})
	}
}

// A selector is widened after completion: the new nodes are a round of their own, from initialBatch; the others rest.
func TestHistoryASelectorIsWidened(t *testing.T) {
	eachTransition(t, true, 7, func(t *testing.T, w *world, tr transition) {
		for _, name := range []string{"n03", "n04", "n05", "n06", "n07"} {
			w.nodes[name].Labels["pool"] = "late"
		}
		tr.begin(w, policy(count(4), exponential(1, 2)))
		w.settle()
		round := w.in.Ledger.Rollouts["tune"].Round
		w.ran, w.ceiling = map[string][]string{}, 4
		w.edit("tune", func(nw *plan.NodeWright) {
			nw.Generation++
			nw.Spec.NodeSelectors = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: []string{"gpu", "late"}},
			}}
		})
		w.settle()
		s := w.status("tune")
		require.EqualValues(t, 7, s.Complete)
		require.Empty(t, w.ran["n01"], "what is complete rests")
		if tr.name == "uninstall" { // nothing is on the new nodes: nothing to do
			require.Equal(t, round, s.Round)
			return
		}
		require.Equal(t, round+1, s.Round)
		require.True(t, s.LateJoiners)
		require.Equal(t, []int{1, 2, 2}, w.sizes("tune"))
	})
}

// The reconciler dies after it wrote an admission into the ledger and before the node's record says so: the admission uses
// up the cluster's budget all the same.
func TestHistoryAdmissionsNotYetWrittenUseTheClusterBudget(t *testing.T) {
	w := newWorld(t, 2)
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	w.nodeWright("tune", budgetOnly(2), reboot(pkg("tuning", "1.0.0")))
	w.lost = func(plan.Decision) bool { return true }
	w.pass()
	require.Len(t, w.in.Ledger.Rollouts["tune"].Intents, 1)
	w.lost, w.ceiling = nil, 1
	w.pass()
	require.Equal(t, plan.WaitingForClusterBudget, w.reason("tune", "n02").Code)
	w.settle()
	require.EqualValues(t, 2, w.status("tune").Complete)
}

// The size that a new round carries over does not outlast the policy that it came from.
func TestHistoryTheCarriedSizeFollowsThePolicy(t *testing.T) {
	w := newWorld(t, 4)
	w.nodeWright("tune", policy(all, fixed(2)), pkg("tuning", "1.0.0"))
	w.edit("tune", func(nw *plan.NodeWright) { nw.Policy.ResetBatchStateOnCompletion = new(false) })
	w.settle()
	for _, n := range w.nodes {
		n.Ready = false
	}
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.pass()
	w.edit("tune", func(nw *plan.NodeWright) { nw.Policy.Default.Strategy.Fixed.InitialBatch = 1 })
	for _, n := range w.nodes {
		n.Ready = true
	}
	w.settle()
	require.Equal(t, []int{1, 1, 1, 1}, w.sizes("tune"))
}

// A node goes from one compartment to another within a round, where the batches have lower numbers. The reconciler dies
// between the ledger and the record: the admission is not taken for confirmed by the record of the one before.
func TestHistoryANodeMovesToACompartmentWithFewerBatches(t *testing.T) {
	w := newWorld(t, 3)
	one := fixed(1)
	w.nodes["n03"].Labels["x"], w.nodes["n03"].Ready = "x", false
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		policy(count(1), one)(nw)
		nw.Policy.Compartments = []nwv1.Compartment{zone("rack", count(1), &one, "x")}
	}, reboot(pkg("tuning", "1.0.0")))
	protect(w)
	w.pods["n02"] = []*corev1.Pod{}
	w.addPod("n02", "ml", "train", map[string]string{"protected": "true"})
	w.settleUntil(func() bool { return w.nodes["n02"].Records["tune"].Batch == 2 })
	w.nodes["n02"].Labels["pool"] = "cpu"
	w.passAndWork(3)
	require.Equal(t, noderecord.Released, w.nodes["n02"].Records["tune"].Outcome)
	w.nodes["n02"].Labels["pool"], w.nodes["n02"].Labels["x"] = "gpu", "x"
	w.lost = func(plan.Decision) bool { return true }
	w.pass()
	require.EqualValues(t, 1, w.in.Ledger.Rollouts["tune"].Intents[0].Batch)
	w.nodes["n03"].Ready, w.lost = true, nil
	w.pass()
	require.Equal(t, "rack", w.nodes["n02"].Records["tune"].Compartment)
	require.Equal(t, plan.WaitingForBatch, w.reason("tune", "n03").Code)
	w.pods["n02"] = nil
	w.settle()
	require.EqualValues(t, 3, w.status("tune").Complete)
}
