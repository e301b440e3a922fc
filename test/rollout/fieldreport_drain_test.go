package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// owned gives a pod a controller that exists.
func (w *world) owned() func(*corev1.Pod) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.prefix + "-owner", Namespace: metav1.NamespaceDefault}}
	w.create(owner)
	w.t.Cleanup(func() { _ = w.admin.Delete(w.ctx(), owner) })
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
	}
}

// budget is a PodDisruptionBudget that allows nothing for the pods with the label `app`.
func (w *world) budget(app string) {
	w.t.Helper()
	none := intstr.FromInt32(0)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: metav1.NamespaceDefault},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	w.create(pdb)
	w.t.Cleanup(func() { _ = w.admin.Delete(w.ctx(), pdb) })
}

// A budget, a bare pod, a pod with data, and one whose eviction the API server fails at: one condition names them all, and
// lets go of what is mended, and of all while the NodeWright is paused.
func TestFieldReport_DR04_OneConditionNamesAllBlockers(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(3, nil)
	owned := w.owned()
	w.budget(w.prefix)
	w.addPod(w.prefix+"-bound", nodes[0], func(p *corev1.Pod) { owned(p); p.Labels["app"] = w.prefix })
	w.addPod(w.prefix+"-failing", nodes[0], owned)
	bare := w.addPod(w.prefix+"-bare", nodes[1], nil)
	scratch := w.addPod(w.prefix+"-scratch", nodes[2], func(p *corev1.Pod) {
		owned(p)
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	proxy.Fail(cluster.Match{Verb: "create", Resource: "pods/eviction", Name: w.prefix + "-failing"}, 500, cluster.Always)
	w.config = proxy.ConfigFor(w.config)
	w.start()
	w.create(w.nodeWright("dr04", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptService)
		nw.Spec.DrainConfig = &nwv1.DrainConfig{Force: new(false), DeleteEmptyDirData: new(false)}
	}))
	condition := func(nw *nwv1.NodeWright) *metav1.Condition {
		return apimeta.FindStatusCondition(nw.Status.Conditions, report.ConditionDrainBlocked)
	}
	names := func(what string, parts ...string) *metav1.Condition {
		var c *metav1.Condition
		w.awaitStatus("dr04", what, func(nw *nwv1.NodeWright) bool {
			c = condition(nw)
			return c != nil && strings.Count(c.Message, "node "+w.prefix) == len(parts)
		})
		for _, part := range parts {
			require.Contains(t, c.Message, part)
		}
		return c
	}
	c := names("all are named", nodes[0]+": eviction of pod default/"+w.prefix+"-bound refused by PodDisruptionBudget "+w.prefix,
		nodes[0]+": eviction of pod default/"+w.prefix+"-failing failed", nodes[1]+": pod default/"+bare.Name, nodes[2]+": pod default/"+scratch.Name)
	require.Equal(t, report.MultipleCauses, c.Reason)
	require.NoError(t, w.admin.Delete(w.ctx(), bare, client.GracePeriodSeconds(0)))
	names("the bare pod is gone", nodes[0], nodes[0], nodes[2])
	w.edit("dr04", func(nw *nwv1.NodeWright) { nw.Annotations = map[string]string{nwv1.PauseAnnotation: nwv1.TrueValue} })
	w.awaitStatus("dr04", "paused: nothing is drained", func(nw *nwv1.NodeWright) bool { return condition(nw) == nil })
}

// The release of a cordon is tried until the API server takes it, by whichever process.
func TestFieldReport_DR07_ReleaseIsRetried(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	gate := w.gate(func(_ *corev1.Pod, container string) bool { return container == "tuning-post-interruptcheck" })
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	w.config = proxy.ConfigFor(w.config)
	w.start()
	w.create(w.nodeWright("dr07", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	require.Eventually(t, func() bool { return w.record("dr07", node).Packages["tuning"].Stage == nwv1.StagePostInterrupt },
		patience, 20*time.Millisecond, "the interrupt is behind it")
	fault := proxy.Fail(cluster.Match{Verb: "patch", Resource: "nodes", Name: node}, 500, 5)
	gate.open()
	for i := 1; i <= 4; i++ {
		require.Eventually(t, func() bool { return fault.Hits() >= i }, patience, 10*time.Millisecond, "it is tried, time %d", i)
		require.True(t, w.node(node).Spec.Unschedulable)
		w.stop()
		w.start()
	}
	w.awaitComplete("dr07")
	require.False(t, w.node(node).Spec.Unschedulable)
	require.NotContains(t, w.node(node).Annotations, nwv1.CordonKey("dr07"))
}

// A pod of the same name that comes up elsewhere is another pod: the drain has ended, and the newcomer is left alone.
func TestFieldReport_DR15_SameNameOnAnotherNode(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	first := w.addPod(w.prefix+"-web-0", nodes[0], nil)
	w.patchNode(nodes[1], `{"metadata":{"labels":{"nodewright.nvidia.com/ignore":"true"}}}`)
	w.start()
	w.create(w.nodeWright("dr15", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(w.admin.Get(w.ctx(), client.ObjectKeyFromObject(first), &corev1.Pod{}))
	}, patience, 5*time.Millisecond, "it leaves")
	second := w.addPod(w.prefix+"-web-0", nodes[1], nil)
	w.awaitComplete("dr15")
	require.NoError(t, w.admin.Get(w.ctx(), client.ObjectKeyFromObject(second), second))
	require.Nil(t, second.DeletionTimestamp)
	for _, e := range w.evictions(w.prefix) {
		require.Contains(t, string(e.Request), string(first.UID), "every eviction is of that very pod")
	}
}

// A node that is given up after evictions that always fail is schedulable again; nothing ran on it, and why is kept.
func TestFieldReport_DR19_GivenUpNodeIsUncordoned(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	pod := w.addPod(w.prefix+"-web", node, nil)
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	fault := proxy.Fail(cluster.Match{Verb: "create", Resource: "pods/eviction"}, 500, cluster.Always)
	w.config = proxy.ConfigFor(w.config)
	w.start()
	w.create(w.nodeWright("dr19", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptService)
		nw.Spec.DrainConfig = &nwv1.DrainConfig{Timeout: &metav1.Duration{Duration: 2 * time.Second}, OnTimeout: nwv1.DrainSkip}
	}))
	nw := w.awaitStatus("dr19", "the node is given up", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesFailed == 1 })
	require.GreaterOrEqual(t, fault.Hits(), 3, "it was tried more than once")
	require.False(t, w.node(node).Spec.Unschedulable)
	require.NotContains(t, w.node(node).Annotations, nwv1.CordonKey("dr19"))
	require.Equal(t, string(plan.DrainTimeout), nw.Status.Reasons[0].Reason)
	require.Contains(t, nw.Status.Reasons[0].Message, "eviction of pod default/"+pod.Name+" failed")
	require.Empty(t, w.jobs("dr19"), "no execution was ever created")
	require.NoError(t, w.admin.Get(w.ctx(), client.ObjectKeyFromObject(pod), pod))
	require.Nil(t, pod.DeletionTimestamp)
}

// The reconciler's own node comes last; its pod is evicted like any other, and the process that follows goes on: every node
// is interrupted once.
func TestFieldReport_DR21_TheReconcilerLeavesItsNode(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(3, nil)
	run := func(name, node string) *corev1.Pod {
		w.ownPod = name
		return w.addPod(name, node, func(p *corev1.Pod) {
			p.Namespace = namespace
			p.Labels["app.kubernetes.io/name"], p.Labels["app.kubernetes.io/component"] = "fleetwright", "reconciler"
		})
	}
	own := run(w.prefix+"-reconciler-0", nodes[0])
	ceiling := w.watchCeiling("dr21")
	w.start()
	w.create(w.nodeWright("dr21", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		nw.Spec.InterruptionBudget = count(1)
	}))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(w.admin.Get(w.ctx(), client.ObjectKeyFromObject(own), &corev1.Pod{}))
	}, patience, 10*time.Millisecond, "the reconciler's pod leaves")
	w.stop()
	run(w.prefix+"-reconciler-1", nodes[1])
	w.start()
	w.awaitComplete("dr21")
	require.Equal(t, fmt.Sprint([]string{nodes[1], nodes[2], nodes[0]}), fmt.Sprint(ceiling.seen()))
	require.Len(t, w.bootsOf("dr21"), 3, "one interrupt for each node")
}
