package rollout

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

var (
	requiredTaint = corev1.Taint{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	earlierTaint  = corev1.Taint{Key: "skyhook.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
)

// foreignTaints are one with a time and one without.
func foreignTaints() (timed, plain corev1.Taint) {
	added := metav1.NewTime(time.Unix(1_700_000_000, 0).UTC())
	return corev1.Taint{Key: "example.com/burn-in", Value: "1", Effect: corev1.TaintEffectPreferNoSchedule, TimeAdded: &added},
		corev1.Taint{Key: "example.com/reserved", Effect: corev1.TaintEffectPreferNoSchedule}
}

// addNewNode adds a node with taints that the NodeWrights of these tests do not select before it joins.
func (w *world) addNewNode(i int, taints ...corev1.Taint) string {
	w.t.Helper()
	name := fmt.Sprintf("%s-new-%d", w.prefix, i)
	_, err := w.nodes.AddNode(w.ctx(), name, map[string]string{"new": w.prefix}, simnode.NodeOptions{Taints: taints})
	require.NoError(w.t, err)
	return name
}

func (w *world) join(nodes ...string) {
	for _, n := range nodes {
		w.patchNode(n, `{"metadata":{"labels":{"test":"`+w.prefix+`"}}}`)
	}
}

// daemonSet runs a pod on every new node, made by the DaemonSet controller itself.
func (w *world) daemonSet(nodes int) {
	w.t.Helper()
	labels := map[string]string{"daemon": w.prefix}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: w.prefix, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"new": w.prefix}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "main", Image: "example.com/daemon"}},
			}},
		},
	}
	w.create(set)
	running := func(ctx context.Context) (all, running int) {
		pods, err := w.kube.CoreV1().Pods(set.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "daemon=" + w.prefix})
		require.NoError(w.t, err)
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return len(pods.Items), running
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(w.t, w.admin.Delete(ctx, set))
		require.Eventually(w.t, func() bool { all, _ := running(ctx); return all == 0 }, patience, 50*time.Millisecond, "the daemon pods are gone")
	})
	require.Eventually(w.t, func() bool { _, n := running(w.ctx()); return n == nodes }, patience, 20*time.Millisecond, "daemon pods run")
}

// New nodes that carry the taint and have only DaemonSet pods are all admitted at once beside a ceiling that is used up; one
// with an ordinary pod waits for a slot. When a node is complete the taint goes, both its names, entry by entry: taints of
// others stay as they are, with the time when they were added.
func TestRuntimeRequiredNodesNeedNoSlot(t *testing.T) {
	w := newWorld(t)
	used := w.addNode(nil)
	timed, plain := foreignTaints()
	fresh := []string{
		w.addNewNode(0, timed, requiredTaint, plain), w.addNewNode(1, requiredTaint), w.addNewNode(2, earlierTaint, timed, requiredTaint),
	}
	busy := w.addNewNode(3, requiredTaint)
	w.daemonSet(4)
	w.addPod(w.prefix+"-web", busy, nil)
	gate := w.gate(checkOn(used))
	w.start()
	w.create(w.nodeWright("required", func(nw *nwv1.NodeWright) {
		nw.Spec.RuntimeRequired = true
		nw.Spec.InterruptionBudget = count(1)
		withInterrupt(nw, nwv1.InterruptReboot)
	}))
	w.awaitAtWork("required", used)
	w.stop() // so that all nodes join between two passes
	w.join(append(fresh, busy)...)
	w.start()
	nw := w.awaitStatus("required", "the new nodes are done while the only slot is taken", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == "3/5" && hasReason(plan.WaitingForSlot, busy)(nw)
	})
	said, _ := because(nw, plan.WaitingForSlot)
	require.Equal(t, "1 of the 1 slots of compartment default are in use: "+used, said)
	require.True(t, w.record("required", used).IsOpen())
	for _, n := range fresh {
		r := w.record("required", n)
		require.Empty(t, r.Compartment, "node %s has no slot", n)
		require.Equal(t, w.record("required", fresh[0]).AdmittedAt, r.AdmittedAt, "all in one pass")
	}
	for i, want := range [][]corev1.Taint{{timed, plain}, nil, {timed}} {
		require.Eventually(t, func() bool { return taintsJSON(w.node(fresh[i]).Spec.Taints) == taintsJSON(want) },
			patience, 20*time.Millisecond, "node %s: the taint is gone, no other; it has %v", fresh[i], lazy(func() any { return w.node(fresh[i]).Spec.Taints }))
		require.False(t, w.node(fresh[i]).Spec.Unschedulable)
	}
	gate.open()
	w.awaitComplete("required")
	require.Equal(t, "default", w.record("required", busy).Compartment, "the node in use took a slot")
	require.Eventually(t, func() bool { return len(w.node(busy).Spec.Taints) == 0 }, patience, 20*time.Millisecond)
	w.requireEntryByEntry()
}

// requireEntryByEntry asserts that single taints were removed, each of which was tested in the same patch, and that no list
// was ever written.
func (w *world) requireEntryByEntry() {
	w.t.Helper()
	removed := 0
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}) {
		var tested string
		for _, op := range w.operations(e, false) {
			switch {
			case !strings.HasPrefix(op.Path, "/spec/taints"):
			case op.Op == "test":
				tested = op.Path
			default:
				require.Equal(w.t, "remove "+tested, op.Op+" "+op.Path, "of patch %s", e.Request)
				require.Regexp(w.t, `^/spec/taints/\d+$`, op.Path)
				removed++
			}
		}
	}
	require.NotZero(w.t, removed)
}

// With runtimeRequiredCordonAfter the node is cordoned by the same patch that takes the taint off: it is never free in between.
func TestRuntimeRequiredCordonAfter(t *testing.T) {
	w := newWorld(t)
	timed, _ := foreignTaints()
	node := w.addNewNode(0, timed, requiredTaint)
	w.join(node)
	w.start()
	w.create(w.nodeWright("after", func(nw *nwv1.NodeWright) {
		nw.Spec.RuntimeRequired, nw.Spec.RuntimeRequiredCordonAfter = true, true
		withInterrupt(nw, nwv1.InterruptReboot)
	}))
	w.awaitComplete("after")
	require.Eventually(t, func() bool { return taintsJSON(w.node(node).Spec.Taints) == taintsJSON([]corev1.Taint{timed}) }, patience, 20*time.Millisecond)
	n := w.node(node)
	require.True(t, n.Spec.Unschedulable)
	require.Equal(t, "true", n.Annotations["nodewright.nvidia.com/runtimeRequiredCordon"])
	require.Empty(t, n.Annotations[nwv1.CordonKey("after")], "the cordon of the reboot was given back")
	var patch []string
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes", Name: node}) {
		if e.Code == 200 && strings.Contains(string(e.Request), "/spec/taints/") {
			for _, op := range w.operations(e, true) {
				patch = append(patch, op.Op+" "+op.Path)
			}
		}
	}
	require.Equal(t, []string{
		"remove /spec/taints/1", "add /metadata/annotations/nodewright.nvidia.com~1runtimeRequiredCordon", "add /spec/unschedulable",
	}, patch, "one patch")

	w.patchNode(node, `{"spec":{"unschedulable":null}}`) // its owner has verified it
	w.edit("after", setVersion("2.0.0"))
	require.Eventually(t, func() bool {
		return w.record("after", node).Packages["tuning"].Version == "2.0.0" && complete(w.get("after"))
	}, patience, 20*time.Millisecond)
	require.False(t, w.node(node).Spec.Unschedulable, "a node in use is not cordoned for good by an update")
}
