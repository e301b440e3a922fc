package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// What a drain does with each kind of pod under its options.
// Each pod has its own pace: one that is refused waits for its time, and the others are asked now.
func TestARefusedPodSlowsNoOther(t *testing.T) {
	w := draining(t, 1, nwv1.DrainConfig{}, "a", "b")
	asked := w.slowly()
	w.refuse("n01", w.pod("a"), plan.RefusedByBudget, "eviction of pod web/a refused by PodDisruptionBudget pdb", 20*time.Second)
	out := w.pass()
	require.Equal(t, map[string]int{"evict b": 1}, asked)
	require.Equal(t, w.in.Now.Add(5*time.Second), out.Next)
	require.Equal(t, plan.DisruptionBudget, w.reason("tune", "n01").Code)
	w.in.Now = w.in.Now.Add(19 * time.Second)
	require.Equal(t, w.in.Now.Add(time.Second), w.pass().Next, "the pass is made again when its time has come")
	w.in.Now = w.in.Now.Add(time.Second)
	w.pass()
	require.Equal(t, map[string]int{"evict b": 3, "evict a": 1}, asked)
}

// What the API server says has words of its own; what mends itself is no blocker.
func TestRefusalsAreToldApart(t *testing.T) {
	for _, c := range []struct {
		kind    plan.RefusalKind
		code    plan.Code
		message string
		blocks  plan.BlockCause
	}{
		{plan.RefusedByBudget, plan.DisruptionBudget, "the answer", plan.BlockedByBudget},
		{plan.RefusedByError, plan.EvictionFailed, "the answer", plan.BlockedByError},
		{plan.RefusedByThrottling, plan.Draining, "pods are leaving: web/a; the answer", ""},
		{plan.RefusedByNamespace, plan.Draining, "pods are leaving: web/a; the answer", ""},
	} {
		w := draining(t, 2, nwv1.DrainConfig{}, "a")
		w.refuse("n01", w.pod("a"), c.kind, "the answer", time.Minute)
		w.pass()
		r := w.reason("tune", "n01")
		require.Equal(t, []string{string(c.code), c.message}, []string{string(r.Code), r.Message})
		var got plan.BlockCause
		if s := w.status("tune"); s.Blockers.Count > 0 {
			got = s.Blockers.First[0].Cause
		}
		require.Equal(t, c.blocks, got)
	}
}

// One condition names what blocks each node, and a second cause on the same node hides none; it goes with what blocks, and
// when the NodeWright is paused, disabled or complete.
func TestFieldReport_DR04_BlockersAreNamed(t *testing.T) {
	w := newWorld(t, 3)
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		budgetOnly(3)(nw)
		nw.Spec.DrainConfig = &nwv1.DrainConfig{Force: new(false), DeleteEmptyDirData: new(false)}
	}, reboot(pkg("tuning", "1.0.0")))
	bound, failing := w.addPod("n01", "web", "bound", nil), w.addPod("n01", "web", "failing", nil)
	bare, scratch := w.addPod("n02", "web", "bare", nil), w.addPod("n03", "web", "scratch", nil)
	bare.OwnerReferences = nil
	scratch.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	w.refuse("n01", bound, plan.RefusedByBudget, "eviction of pod web/bound refused by PodDisruptionBudget pdb", time.Hour)
	w.refuse("n01", failing, plan.RefusedByError, "eviction of pod web/failing failed: boom", time.Hour)
	blocked := func() (out []string) {
		w.pass()
		for _, b := range w.status("tune").Blockers.First {
			out = append(out, strings.Join([]string{b.Node, b.Pod, string(b.Cause)}, " "))
		}
		return out
	}
	w.pass()
	all := []string{"n01 web/bound PodDisruptionBudget", "n01 web/failing EvictionFailed", "n02 web/bare UnmanagedPod", "n03 web/scratch EmptyDirData"}
	require.Equal(t, all, blocked())
	w.addNode("other", nil).Labels = map[string]string{"pool": "other"}
	w.pass()
	require.Equal(t, plan.DisruptionBudget, w.reason("tune", "n01").Code)
	require.Equal(t, "eviction of pod web/bound refused by PodDisruptionBudget pdb; eviction of pod web/failing failed: boom", w.reason("tune", "n01").Message)
	for _, stop := range []func(nw *plan.NodeWright, on bool){
		func(nw *plan.NodeWright, on bool) { nw.Paused = on }, func(nw *plan.NodeWright, on bool) { nw.Disabled = on },
	} {
		w.edit("tune", func(nw *plan.NodeWright) { stop(nw, true) })
		require.Empty(t, blocked(), "nothing is drained now")
		w.edit("tune", func(nw *plan.NodeWright) { stop(nw, false) })
		require.Equal(t, all, blocked())
	}
	w.removePod("n02", bare.UID)
	require.Equal(t, []string{all[0], all[1], all[3]}, blocked(), "what is mended is not named any more")
	w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.DrainConfig.DeleteEmptyDirData = new(true) })
	w.nodes["n01"].Refusals = nil
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.Zero(t, w.status("tune").Blockers.Count)
}

// However many pods block, the status names ten and counts the rest.
func TestBlockersAreBounded(t *testing.T) {
	w := newWorld(t, 30)
	w.nodeWright("tune", budgetOnly(30), reboot(pkg("tuning", "1.0.0")))
	for i := range 30 {
		node := fmt.Sprintf("n%02d", i+1)
		w.refuse(node, w.addPod(node, "web", "a"+node, nil), plan.RefusedByError, "boom", time.Hour)
	}
	w.pass()
	w.pass()
	b := w.status("tune").Blockers
	require.EqualValues(t, 30, b.Count)
	require.Len(t, b.First, 10)
	require.Equal(t, "n01", b.First[0].Node)
}

// A pod that takes its time is no trouble: only a limit of the user's, or the end of its own grace period, is.
func TestFieldReport_DR12_WithinTheGracePeriod(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		after time.Duration
		code  plan.Code
	}{
		{0, 119 * time.Second, plan.Draining},
		{0, 149 * time.Second, plan.Draining},
		{0, 150 * time.Second, plan.PodStuck},
		{time.Minute, 59 * time.Second, plan.Draining},
		{time.Minute, time.Minute, plan.DrainTimeout},
		{time.Hour, 119 * time.Second, plan.Draining},
	} {
		w := draining(t, 1, timeout(c.limit, nwv1.DrainReport), "a")
		w.slowly()
		w.pass() // the eviction is accepted, and the pod has two minutes
		w.pod("a").DeletionTimestamp = &metav1.Time{Time: w.in.Now.Add(2 * time.Minute)}
		next := w.pass().Next
		require.False(t, next.IsZero())
		w.in.Now = w.in.Now.Add(c.after)
		w.pass()
		r := w.reason("tune", "n01")
		require.Equal(t, c.code, r.Code, "%v after %v", c.limit, c.after)
		require.Contains(t, r.Message, "web/a")
		require.Equal(t, c.code != plan.Draining, w.status("tune").Blockers.Count > 0)
	}
}

// The time of a drain counts from when its pods may be asked: not while a protected pod is waited for, and from the
// beginning again for a pod that comes after the node was empty.
func TestTheTimeOfADrainBeginsWithIt(t *testing.T) {
	w := draining(t, 1, timeout(time.Minute, nwv1.DrainSkip), "a")
	protect(w)
	w.pod("a").Labels = map[string]string{"protected": "true"}
	w.passAndWork(300)
	require.Equal(t, plan.ProtectedPod, w.reason("tune", "n01").Code, "onTimeout never counts against a protected pod")
	w.pod("a").Labels = nil
	w.slowly()
	w.passAndWork(59)
	require.Equal(t, plan.Draining, w.reason("tune", "n01").Code)
	w.pod("a").Labels = map[string]string{"protected": "true"}
	w.passAndWork(10)
	w.pod("a").Labels = nil
	w.passAndWork(59)
	require.Equal(t, plan.Draining, w.reason("tune", "n01").Code, "it begins anew")
	w.pods = map[string][]*corev1.Pod{}
	w.pass()
	require.Nil(t, w.nodes["n01"].Records["tune"].DrainSince, "an empty node has none")
}

// After the timeout pods are deleted that an eviction could not move. One that was not asked yet is asked first, and what
// must not be touched is not.
func TestForceDeletesWhatIsInTheWay(t *testing.T) {
	cfg := timeout(10*time.Second, nwv1.DrainForce)
	cfg.Force = new(false)
	w := draining(t, 2, cfg, "budget", "error", "throttled", "asked", "bare", "leaving")
	w.pod("bare").OwnerReferences = nil
	w.pod("leaving").DeletionTimestamp = &metav1.Time{Time: w.in.Now.Add(time.Hour)}
	asked := w.slowly()
	w.passAndWork(5)
	require.Equal(t, map[string]int{"evict budget": 5, "evict error": 5, "evict throttled": 5, "evict asked": 5}, asked)
	w.refuse("n01", w.pod("budget"), plan.RefusedByBudget, "no", time.Hour)
	w.refuse("n01", w.pod("error"), plan.RefusedByError, "no", time.Hour)
	w.refuse("n01", w.pod("throttled"), plan.RefusedByThrottling, "no", time.Hour)
	clear(asked)
	w.passAndWork(4)
	require.Equal(t, map[string]int{"evict asked": 4}, asked, "not before the timeout")
	w.in.Now = w.in.Now.Add(time.Minute)
	clear(asked)
	w.pass()
	require.Equal(t, map[string]int{"delete budget": 1, "delete error": 1, "evict asked": 1}, asked)
	for _, name := range []string{"budget", "error"} {
		w.refuse("n01", w.pod(name), plan.RefusedByError, "the deletion was denied", time.Minute)
		answer := w.nodes["n01"].Refusals[w.pod(name).UID]
		answer.Deletion = true
		w.nodes["n01"].Refusals[w.pod(name).UID] = answer
	}
	clear(asked)
	w.pass()
	require.Equal(t, map[string]int{"evict asked": 1}, asked, "a refused deletion has its pace, too")
	protect(w)
	w.pod("budget").Labels = map[string]string{"protected": "true"}
	w.in.Now = w.in.Now.Add(time.Hour)
	clear(asked)
	w.passAndWork(3)
	require.Empty(t, asked, "with a protected pod on the node nothing is touched, whatever onTimeout says")
}

// A budget that can never be satisfied from a node that died under way is said to be one; the pod is deleted only if that is
// asked for.
func TestFieldReport_DR17_BudgetOnADeadNode(t *testing.T) {
	for _, action := range []nwv1.DrainTimeoutAction{nwv1.DrainReport, nwv1.DrainForce} {
		w := draining(t, 2, timeout(10*time.Second, action), "a")
		asked := w.slowly()
		w.pass()
		w.nodes["n01"].Ready = false
		w.pod("a").Status.Conditions[0].Status = corev1.ConditionFalse
		w.refuse("n01", w.pod("a"), plan.RefusedByBudget, "eviction of pod web/a refused by PodDisruptionBudget pdb: it needs 1 healthy pods and has 0 currently", time.Second)
		w.pass()
		r := w.reason("tune", "n01")
		require.Equal(t, plan.DisruptionBudget, r.Code)
		require.Contains(t, r.Message, "has 0 currently; the pod is not ready itself, so the budget cannot be met by waiting for it")
		require.Contains(t, w.status("tune").Blockers.First[0].Message, "not ready itself")
		w.in.Now = w.in.Now.Add(time.Minute)
		w.passAndWork(3)
		require.Equal(t, action == nwv1.DrainForce, asked["delete a"] > 0)
		for _, j := range w.jobs {
			require.NotEqual(t, "n01", j.Node, "nothing starts on a node that is not Ready")
		}
	}
}

// A node that is not Ready is not drained before its turn, and says no more than that while its pods leave.
func TestNotReadyNodesAreNotDrained(t *testing.T) {
	w := draining(t, 1, nwv1.DrainConfig{}, "a")
	w.nodes["n01"].Ready = false
	require.Empty(t, w.pass().Decisions)
	require.Equal(t, plan.NodeNotReady, w.reason("tune", "n01").Code)
	w.nodes["n01"].Ready = true
	w.slowly()
	w.pass()
	w.nodes["n01"].Ready = false
	w.pass()
	require.Equal(t, plan.NodeNotReady, w.reason("tune", "n01").Code)
}

// Where no other node can take a pod whose budget refuses, that is said: whether it is the only node, or the others take no
// such pods.
func TestFieldReport_DR23_NowhereToMovePods(t *testing.T) {
	const nowhere = "; there is nowhere to move it: no other node is Ready, schedulable and selected by the pod"
	for name, c := range map[string]struct {
		arrange func(w *world)
		want    string
	}{
		"single node": {func(w *world) { delete(w.nodes, "n02") }, nowhere},
		"control plane": {func(w *world) {
			w.nodes["n02"].Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
			w.nodes["n02"].Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}, nowhere},
		"cordoned":     {func(w *world) { w.nodes["n02"].Unschedulable = true }, nowhere},
		"not Ready":    {func(w *world) { w.nodes["n02"].Ready = false }, nowhere},
		"selector":     {func(w *world) { w.pod("a").Spec.NodeSelector = map[string]string{"disk": "ssd"} }, nowhere},
		"affinity":     {func(w *world) { affinity(w.pod("a"), "pool", corev1.NodeSelectorOpIn, "cpu") }, nowhere},
		"another node": {func(w *world) { affinity(w.pod("a"), "pool", corev1.NodeSelectorOpIn, "gpu") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := draining(t, 1, nwv1.DrainConfig{}, "a")
			delete(w.nodes, "other")
			w.addNode("n02", nil).Labels = map[string]string{"pool": "gpu", nwv1.IgnoreLabel: "true"}
			c.arrange(w)
			w.refuse("n01", w.pod("a"), plan.RefusedByBudget, "refused", time.Hour)
			w.pass()
			require.Equal(t, "refused"+c.want, w.reason("tune", "n01").Message)
			require.Equal(t, "refused"+c.want, w.status("tune").Blockers.First[0].Message)
		})
	}
}

func affinity(p *corev1.Pod, key string, op corev1.NodeSelectorOperator, values ...string) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{}, {MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}},
		}},
	}}
}

// DaemonSet pods that tolerate everything come back at once: nobody asks them to leave, and the drain ends.
// A mirror pod and a static pod stay; a finished pod and one whose containers have ended are gone for the drain, finalizer
// or not; one that is still held up is named after its grace period. (D-03)
// Control planes come after other nodes, and the reconciler's own last of all, whatever the policy's order; only what is
// interrupted is ordered so.
func TestFieldReport_D09_ControlPlanesAndTheReconcilerComeLast(t *testing.T) {
	for _, c := range []struct {
		pkg  string
		want string
	}{{"reboot", "n03 n04 n02 n01"}, {"plain", "n01 n02 n03 n04"}} {
		w := newWorld(t, 4)
		w.in.Own = plan.OwnPod{Namespace: "fleetwright", Name: "reconciler-0", Node: "n01"}
		w.nodes["n02"].Labels["node-role.kubernetes.io/control-plane"] = ""
		p := pkg("tuning", "1.0.0")
		if c.pkg == "reboot" {
			p = reboot(p)
		}
		w.nodeWright("tune", func(nw *plan.NodeWright) {
			policy(count(1), fixed(1))(nw)
			nw.Policy.Order = nwv1.OrderName
		}, p)
		w.addPod("n01", "fleetwright", "reconciler-0", map[string]string{"app.kubernetes.io/component": "reconciler"})
		w.settle()
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		require.Equal(t, c.want, strings.Join(w.order("tune"), " "))
		require.Equal(t, c.pkg == "reboot", len(w.pods["n01"]) == 0, "the reconciler's pod leaves like any other")
	}
}

// order is that in which nodes were admitted.
func (w *world) order(nodeWright string) []string {
	out := make([]string, len(w.nodes))
	for name, n := range w.nodes {
		out[n.Records[nodeWright].Order] = name
	}
	return out
}

// The reconciler does not evict itself where nobody would be left to give the node back.
func TestTheReconcilerStaysWhereItIsTheOnlyNode(t *testing.T) {
	w := draining(t, 1, nwv1.DrainConfig{})
	delete(w.nodes, "other")
	w.in.Own = plan.OwnPod{Namespace: "fleetwright", Name: "reconciler-0", Node: "n01"}
	w.addPod("n01", "fleetwright", "reconciler-0", nil)
	asked := w.slowly()
	w.pass()
	require.Empty(t, asked)
	require.Equal(t, "pod fleetwright/reconciler-0 may not be evicted: it is the reconciler itself, and no other node can take it",
		w.reason("tune", "n01").Message)
	w.addNode("n02", nil)
	w.pass()
	require.Equal(t, map[string]int{"evict reconciler-0": 1}, asked)
}

// The wait for protected pods can be bounded: the node is given up as it was, the pods go on, and so do the other nodes. A
// retry admits it again.
func TestTheWaitForProtectedPodsCanBeBounded(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		budgetOnly(1)(nw)
		nw.Policy = nil
		nw.Spec.ProtectedPodsTimeout = &metav1.Duration{Duration: time.Hour}
	}, reboot(pkg("tuning", "1.0.0")))
	protect(w)
	w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
	w.addPod("n02", "ml", "other", map[string]string{"protected": "true"})
	w.passAndWork(20)
	require.Equal(t, plan.ProtectedPod, w.reason("tune", "n01").Code)
	require.Equal(t, plan.Blocker{Node: "n01", Pod: "ml/train", Cause: plan.BlockedProtected,
		Message: "the node waits for protected pods to finish: ml/train"}, w.status("tune").Protected.First[0])
	require.True(t, w.nodes["n01"].Unschedulable)
	w.removePodByForce("n02", "other")
	w.settle()
	require.Equal(t, plan.ProtectedPodTimeout, w.reason("tune", "n01").Code)
	require.False(t, w.nodes["n01"].Unschedulable, "our cordon is rolled back")
	require.Len(t, w.pods["n01"], 1, "the pod goes on")
	require.Equal(t, plan.Complete, w.reason("tune", "n02").Code)
	require.Empty(t, w.ran["n01"])
	w.pods = map[string][]*corev1.Pod{}
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "again" })
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// removePodByForce is a protected pod that ends by itself.
// A failed node keeps our cordon also when somebody taints it so that the NodeWright may not work on it any more: nobody
// knows whether it is fit for use. It goes on counting as failed, and is not tried again before the taint is gone.
func TestAFailedNodeThatIsTaintedKeepsItsCordon(t *testing.T) {
	w := newWorld(t, 2)
	w.fails = failing("n01")
	rebooting(w)
	w.settle()
	w.nodes["n01"].Taints = []corev1.Taint{{Key: "repair", Effect: corev1.TaintEffectNoSchedule}}
	w.fails = nil
	w.settle()
	require.True(t, w.nodes["n01"].Unschedulable)
	require.Equal(t, plan.PackageFailed, w.reason("tune", "n01").Code)
	require.Equal(t, []int32{2, 1}, []int32{w.status("tune").Total, w.status("tune").Failed}, "the rollout is not complete without it")
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "again" })
	w.settle()
	require.Equal(t, plan.TaintNotTolerated, w.reason("tune", "n01").Code)
	require.EqualValues(t, 1, w.status("tune").Failed)
	w.nodes["n01"].Taints = nil
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.False(t, w.nodes["n01"].Unschedulable)
}
