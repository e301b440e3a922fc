package plan_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// TestDeliveryReport_DST09_OfflineNodesAreCountedApart: a node that was away before the rollout began takes no part in the budget
// unless the policy says so, is named and counted by itself, is no failure and no success, and joins in when it is back, when it is
// left out on purpose, or when it is gone for good.
func TestDeliveryReport_DST09_OfflineNodesAreCountedApart(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"it comes back":         func(w *world) { w.nodes["n03"].Ready = true },
		"it is left out":        func(w *world) { w.nodes["n03"].Labels[nwv1.IgnoreLabel] = nwv1.TrueValue },
		"it is deleted":         func(w *world) { w.removeNode("n03") },
		"it is no longer meant": func(w *world) { w.nodes["n03"].Labels["pool"] = "cpu" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 10)
			w.nodes["n03"].Ready = false
			w.nodeWright("tune", policy(count(1), fixed(1)), reboot(pkg("tuning", "1.0.0")))
			w.settle()
			s := w.status("tune")
			require.EqualValues(t, 9, s.Complete)
			require.EqualValues(t, 10, s.Total)
			require.Zero(t, s.Failed)
			require.NotEqual(t, nwv1.StatusComplete, s.Status)
			require.Equal(t, plan.NodeNotReady, w.reason("tune", "n03").Code)
			require.Equal(t, []plan.ReasonCount{{Code: plan.NodeNotReady, Count: 1, Nodes: []string{"n03"}, Message: "the node is not Ready"}}, withoutComplete(s.Reasons))
			w.in.Now = w.in.Now.Add(30 * 24 * time.Hour)
			require.Empty(t, w.pass().Decisions, "waiting for it has no end of its own")

			end(w)
			w.settle()
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		})
	}
	t.Run("the policy counts it", func(t *testing.T) {
		w := newWorld(t, 10)
		w.nodes["n03"].Ready = false
		budget := count(1)
		budget.CountUnavailable = true
		w.nodeWright("tune", policy(budget, fixed(1)), reboot(pkg("tuning", "1.0.0")))
		w.settle()
		require.Zero(t, w.status("tune").Complete)
		require.Equal(t, "1 of the 1 slots of compartment default are in use: n03 (unavailable)", w.reason("tune", "n01").Message)
	})
}

func withoutComplete(reasons []plan.ReasonCount) []plan.ReasonCount {
	var out []plan.ReasonCount
	for _, r := range reasons {
		if r.Code != plan.Complete {
			out = append(out, r)
		}
	}
	return out
}

// TestDeliveryReport_DST10_LostWorkIsFoundAgain: at every moment of a rollout the work object of a node is deleted, together with
// what would have told of it. The next look at the whole finds it missing; at no moment is a node that is not complete without a reason.
func TestDeliveryReport_DST10_LostWorkIsFoundAgain(t *testing.T) {
	for after := 1; ; after++ {
		w := newWorld(t, 3)
		w.ceiling = 1
		w.nodeWright("tune", policy(count(1), fixed(1)), reboot(pkg("tuning", "1.0.0")))
		w.passAndWork(after)
		if w.status("tune").Status == nwv1.StatusComplete {
			require.Greater(t, after, 15, "the moments are counted")
			return
		}
		w.pass() // what has ended is known
		before := len(w.jobs)
		maps.DeleteFunc(w.jobs, func(_ string, j *plan.Execution) bool {
			return j.Ended() || len(j.Done) == 0 && w.specs[j.Name].Phase != plan.PhaseInterrupt
		})
		for _, n := range []string{"n01", "n02", "n03"} {
			require.NotEmpty(t, w.reason("tune", n).Code)
			require.NotEmpty(t, w.reason("tune", n).Message)
		}
		w.settle()
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status, "after %d steps, %d objects lost", after, before-len(w.jobs))
		require.Empty(t, w.outOfService())
	}
}

// notIncomplete are reasons of nodes that are not meant, or that are as they should be.
var notIncomplete = map[plan.Code]bool{
	plan.Complete: true, plan.Drifted: true, // the round is complete; drift has a condition of its own
	plan.Ignored: true, plan.TaintNotTolerated: true, // left out, by name
}

// TestDeliveryReport_DST12_NoStateOfANodeIsSuccessBySilence: in every situation that a node can be in, the NodeWright is complete only
// if the node is.
func TestDeliveryReport_DST12_NoStateOfANodeIsSuccessBySilence(t *testing.T) {
	require.Greater(t, len(reasonCases), 45)
	for code, c := range reasonCases {
		if notIncomplete[code] {
			continue
		}
		t.Run(string(code), func(t *testing.T) {
			w := newWorld(t, 2)
			w.ceiling = 2
			c.arrange(w)
			if code != plan.Uncordoning && code != plan.Interrupting {
				w.pass()
			}
			require.Equal(t, code, w.reason("tune", c.node).Code)
			for _, s := range w.last.Statuses {
				if s.Complete < s.Total || s.Total == 0 {
					require.NotEqual(t, nwv1.StatusComplete, s.Status)
				}
			}
			require.NotEqual(t, nwv1.StatusComplete, w.status("tune").Status, "%s of %s", code, c.node)
		})
	}
}
