package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// autoTaints makes a NodeWright that gates new nodes, an hour old.
func autoTaints(w *world) func(nw *plan.NodeWright) {
	return func(nw *plan.NodeWright) {
		budgetOnly(1)(nw)
		nw.Spec.RuntimeRequired, nw.Spec.AutoTaintNewNodes = true, true
		nw.Created = w.in.Now.Add(-time.Hour)
	}
}

// TestFieldReport_NN04_WhatIsNew: the taint comes to nodes that are new, and to no other.
func TestFieldReport_NN04_WhatIsNew(t *testing.T) {
	burnIn := corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}
	for _, c := range []struct {
		name   string
		change func(w *world, n *plan.Node)
		want   bool
	}{
		{"fresh", func(*world, *plan.Node) {}, true},
		{"fresh, NotReady", func(_ *world, n *plan.Node) { n.Ready = false }, true},
		{"fresh, another taint keeps the NodeWright away for now", func(_ *world, n *plan.Node) { n.Taints = []corev1.Taint{burnIn} }, true},
		{"fresh, with a DaemonSet's pod", func(w *world, n *plan.Node) {
			w.addPod(n.Name, "x", "ds", nil).OwnerReferences[0].Kind = "DaemonSet"
		}, true},
		{"fresh, while the NodeWright is paused", func(w *world, _ *plan.Node) { w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true }) }, true},
		{"it runs a workload", func(w *world, n *plan.Node) { w.addPod(n.Name, "web", "front", nil) }, false},
		{"created before the NodeWright", func(w *world, n *plan.Node) { n.Created = w.in.Now.Add(-2 * time.Hour) }, false},
		{"touched by another NodeWright, or by NVIDIA's operator", func(_ *world, n *plan.Node) { n.Touched = true }, false},
		{"finished by another NodeWright", func(_ *world, n *plan.Node) {
			n.Records["x"] = noderecord.Record{NodeWright: "x", Node: n.UID, Round: 1, Batch: 1, Outcome: noderecord.Succeeded}
		}, false},
		{"not selected", func(_ *world, n *plan.Node) { n.Labels["pool"] = "cpu" }, false},
		{"ignored", func(_ *world, n *plan.Node) { n.Labels[nwv1.IgnoreLabel] = "true" }, false},
		{"the NodeWright is disabled", func(w *world, _ *plan.Node) { w.edit("tune", func(nw *plan.NodeWright) { nw.Disabled = true }) }, false},
		{"the NodeWright does not ask for it", func(w *world, _ *plan.Node) {
			w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.AutoTaintNewNodes = false })
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 0)
			w.nodeWright("tune", autoTaints(w), pkg("tuning", "1.0.0"))
			n := w.addNode("new", nil)
			n.Created = w.in.Now
			c.change(w, n)
			out := w.pass()
			require.Equal(t, c.want, slices.Contains(n.Taints, gate), "%v", w.log)
			for _, d := range out.Decisions {
				require.False(t, c.want && d.Action == plan.ActionAdmit, "nothing is begun before the taint is there")
			}
		})
	}
}

// A new node is gated in the first look at it, prepared without a slot, and free when it is complete; its taint does not
// come again with new content, or after a reset of its record.
func TestFieldReport_NN04_OnceInALife(t *testing.T) {
	w := newWorld(t, 0)
	w.nodeWright("tune", autoTaints(w), reboot(pkg("tuning", "1.0.0")))
	for i := range 3 {
		w.addNode(fmt.Sprintf("new%d", i), nil).Created = w.in.Now
	}
	w.settle()
	require.Equal(t, []string{"Gate tune/new0", "Gate tune/new1", "Gate tune/new2"}, w.log[:3])
	for _, n := range w.nodes {
		require.Empty(t, n.Taints)
		require.Empty(t, n.Records["tune"].Compartment, "it needed no slot")
	}
	w.log = nil
	w.nodes["new1"].Records = map[string]noderecord.Record{} // erased by hand; the mark of the taint stays
	w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
	w.succeeded = map[string]int{}
	w.settle()
	require.NotContains(t, fmt.Sprint(w.log), "Gate")
	require.EqualValues(t, 3, w.status("tune").Complete)
}

// Nobody else begins on a node that is about to be gated, either.
func TestFieldReport_NN04_NobodyBeginsBeforeTheTaint(t *testing.T) {
	w := newWorld(t, 0)
	w.nodeWright("tune", autoTaints(w), pkg("tuning", "1.0.0"))
	w.nodeWright("any", func(nw *plan.NodeWright) { nw.Spec.Priority = 1 }, pkg("other", "1.0.0"))
	w.addNode("new", nil).Created = w.in.Now
	w.pass()
	require.Equal(t, []string{"Gate tune/new"}, w.log)
	require.Equal(t, plan.Gating, w.reason("any", "new").Code)
	require.Equal(t, plan.Gating, w.reason("tune", "new").Code)
	w.settle()
	require.EqualValues(t, 1, w.status("any").Complete)
	require.Empty(t, w.nodes["new"].Taints)
}

// TestFieldReport_NN07_GatedNodesAreCounted: a bad parameter on all new nodes is said at once, with the number of nodes that it
// keeps out of use; a fix frees them without further action.
func TestFieldReport_NN07_GatedNodesAreCounted(t *testing.T) {
	w := newWorld(t, 0)
	bad := true
	w.fails = func(string, string, nwv1.Stage) int32 {
		if bad {
			return 1
		}
		return 0
	}
	w.nodeWright("tune", autoTaints(w), config(pkg("tuning", "1.0.0"), "profile", "typo"))
	for i := range 3 {
		w.addNode(fmt.Sprintf("new%d", i), nil).Created = w.in.Now
	}
	w.settle()
	s := w.status("tune")
	require.Equal(t, plan.ReasonCount{Count: 3, Nodes: []string{"new0", "new1", "new2"}}, s.Gated)
	require.Equal(t, "boom", s.Failures[0].Message)
	bad = false
	w.nodeWright("tune", nil, config(pkg("tuning", "1.0.0"), "profile", "h100"))
	w.settle()
	require.Zero(t, w.status("tune").Gated.Count)
	for _, n := range w.nodes {
		require.Empty(t, n.Taints)
	}
}

// TestFieldReport_NN09_ATaintThatComesBackGoesAgain: the removal looks at the taint, not at a memory of having removed it; a node
// that its provisioner has not registered yet waits.
func TestFieldReport_NN09_ATaintThatComesBackGoesAgain(t *testing.T) {
	w := newWorld(t, 0)
	w.nodeWright("tune", autoTaints(w), pkg("tuning", "1.0.0"))
	n := w.addNode("new", nil)
	n.Created = w.in.Now
	w.settle()
	for range 3 {
		n.Taints = append(n.Taints, gate)
		w.settle()
		require.Empty(t, n.Taints)
	}
	unregistered := corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}
	n.Taints = []corev1.Taint{unregistered, gate}
	w.settle()
	require.Equal(t, []corev1.Taint{unregistered, gate}, n.Taints, "it waits for its registration")
	n.Taints = n.Taints[1:]
	w.settle()
	require.Empty(t, n.Taints)
}

// Nodes that an autoscaler is about to remove are not begun, whatever is tolerated; work under way is finished.
func TestNodesThatAnAutoscalerRemovesAreLeftAlone(t *testing.T) {
	for _, key := range []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"} {
		w := newWorld(t, 2)
		going := corev1.Taint{Key: key, Value: "x", Effect: corev1.TaintEffectNoSchedule}
		w.nodes["n01"].Taints = []corev1.Taint{going}
		w.nodeWright("tune", func(nw *plan.NodeWright) {
			budgetOnly(2)(nw)
			nw.Spec.AdditionalTolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, reboot(pkg("tuning", "1.0.0")))
		w.passAndWork(4)
		w.nodes["n02"].Taints = []corev1.Taint{going} // under way
		w.settle()
		require.Empty(t, w.ran["n01"])
		r := w.reason("tune", "n01")
		require.Equal(t, plan.TaintNotTolerated, r.Code)
		require.Equal(t, "the node has the taint "+going.ToString()+": an autoscaler is about to remove it", r.Message)
		require.Contains(t, w.ran["n02"], "interrupt reboot")
		require.Equal(t, []corev1.Taint{going}, w.nodes["n02"].Taints, "it is not ours to take off")
		require.False(t, w.nodes["n02"].Unschedulable)
	}
}

// moments are the phases of a turn, in their order, each with what is seen when a node is in it.
var moments = []struct {
	name string
	in   func(w *world) bool
}{
	{"admitted", func(w *world) bool { return len(w.log) > 0 && w.log[len(w.log)-1] == "Admit tune/n01" }},
	{"cordoned, being drained", func(w *world) bool { return w.nodes["n01"].Unschedulable && !w.nodes["n01"].Records["tune"].Started }},
	{"apply", inStage(nwv1.StageApply)},
	{"config", inStage(nwv1.StageConfig)},
	{"interrupt requested", func(w *world) bool { return w.nodes["n01"].Records["tune"].Interrupt != nil }},
	{"rebooting", func(w *world) bool { return !w.nodes["n01"].Ready }},
	{"post-interrupt", inStage(nwv1.StagePostInterrupt)},
	{"all done, being uncordoned", func(w *world) bool {
		r := w.nodes["n01"].Records["tune"]
		return r.ReadyAt != nil && r.IsOpen()
	}},
}

func inStage(s nwv1.Stage) func(*world) bool {
	return func(w *world) bool {
		return slices.ContainsFunc(sortedKeys(w.jobs), func(name string) bool {
			return w.jobs[name].Stage == s && !w.jobs[name].Ended() && w.jobs[name].Node == "n01"
		})
	}
}

// atMoment brings a rebooting package on n01 to a moment of its turn; n02 waits behind it.
func atMoment(t *testing.T, in func(w *world) bool) *world {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	for range 200 {
		w.pass()
		if in(w) {
			return w
		}
		w.work()
		if in(w) {
			return w
		}
	}
	t.Fatal("the moment never came")
	return nil
}

// A node that vanishes in any phase holds nothing, and one of the same name that comes is new.
func TestFieldReport_NN03_ANodeVanishesInEveryPhase(t *testing.T) {
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			w := atMoment(t, m.in)
			w.removeNode("n01")
			w.settle()
			require.Equal(t, []string{"n02"}, nodesOf(w.last), "nothing is said of a node that is gone")
			require.EqualValues(t, 1, w.status("tune").Complete, "the other one went on: %+v", w.last.Reasons)
			anew := w.addNode("n01", nil)
			anew.UID = "uid-new"
			w.settle()
			require.EqualValues(t, 2, w.status("tune").Complete)
			require.Equal(t, []string{"tuning apply", "tuning config", "interrupt reboot", "tuning post-interrupt"}, last(w.ran["n01"], 4))
			require.False(t, anew.Unschedulable)
		})
	}
}

func last(of []string, n int) []string { return of[max(0, len(of)-n):] }

func nodesOf(out plan.Output) []string {
	var names []string
	for _, r := range out.Reasons {
		names = append(names, r.Node)
	}
	return names
}

// A node that is NotReady for a while, in any phase, goes on when it is Ready again, and nothing runs twice.
func TestANodeIsNotReadyInEveryPhase(t *testing.T) {
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			w := atMoment(t, m.in)
			w.frozen = func(e plan.Execution) bool { return e.Node == "n01" }
			rebooting := !w.nodes["n01"].Ready
			w.nodes["n01"].Ready = false
			w.passAndWork(20)
			require.True(t, w.nodes["n01"].Records["tune"].IsOpen() || w.nodes["n01"].Records["tune"].Batch == 0, "NotReady alone is no failure")
			require.Empty(t, w.ran["n02"], "it holds its slot")
			w.frozen, w.nodes["n01"].Ready = nil, !rebooting
			w.settle()
			require.EqualValues(t, 2, w.status("tune").Complete, "%+v", w.last.Reasons)
			require.Equal(t, []string{"tuning apply", "tuning config", "interrupt reboot", "tuning post-interrupt"}, w.ran["n01"])
			require.False(t, w.nodes["n01"].Unschedulable)
		})
	}
}

// TestFieldReport_NN11_ANodeLeavesTheSelectionInEveryPhase: what runs ends, a reboot is verified, no further stage begins; then
// the cordon and the slot are free and nothing is left over.
func TestFieldReport_NN11_ANodeLeavesTheSelectionInEveryPhase(t *testing.T) {
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			w := atMoment(t, m.in)
			ran := slices.Clone(w.ran["n01"])
			running := slices.ContainsFunc(sortedKeys(w.jobs), func(n string) bool { return !w.jobs[n].Ended() && w.jobs[n].Node == "n01" })
			w.nodes["n01"].Labels["pool"] = "other"
			w.settle()
			n := w.nodes["n01"]
			require.False(t, n.Unschedulable)
			require.Empty(t, n.CordonOwners)
			require.NotContains(t, n.Labels, nwv1.StatusKey("tune"))
			require.True(t, n.Ready)
			r := n.Records["tune"]
			require.False(t, r.IsOpen())
			require.Nil(t, r.Interrupt)
			if !running {
				require.Equal(t, ran, w.ran["n01"], "no new stage")
			}
			require.EqualValues(t, 1, w.status("tune").Complete, "the slot is free for n02")
			require.Equal(t, []string{"n02"}, nodesOf(w.last))
			for name, j := range w.jobs {
				require.True(t, j.Ended(), name)
			}
		})
	}
}
