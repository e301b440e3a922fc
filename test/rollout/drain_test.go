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

// podsOn puts n evictable pods on each node, named <test>-<node index>-<n>.
func (w *world) podsOn(nodes []string, n int) {
	for i, node := range nodes {
		for j := range n {
			w.addPod(fmt.Sprintf("%s-%d-%d", w.prefix, i, j), node, nil)
		}
	}
}

// requireCordonFirst asserts that every accepted eviction on a node came after that node's accepted cordon.
func (w *world) requireCordonFirst(nodes []string, podsPerNode int) {
	w.t.Helper()
	cordonedAt := map[string]time.Time{}
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}) {
		if _, seen := cordonedAt[e.Name]; !seen && cordons(e) {
			cordonedAt[e.Name] = e.Completed
		}
	}
	for i, node := range nodes {
		evictions := w.evictions(fmt.Sprintf("%s-%d-", w.prefix, i))
		require.GreaterOrEqual(w.t, len(evictions), podsPerNode)
		require.Contains(w.t, cordonedAt, node)
		for _, e := range evictions {
			require.True(w.t, e.Received.After(cordonedAt[node]), "eviction of %s came before the cordon of %s", e.Name, node)
		}
	}
}

func TestFieldReport_DR01_CordonBeforeEviction(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.podsOn(nodes, 3)
	w.start()
	w.create(w.nodeWright("dr01", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	w.awaitComplete("dr01")
	w.requireCordonFirst(nodes, 3)
	first := w.evictions(w.prefix)[0]
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}) {
		if cordons(e) && strings.HasPrefix(e.Name, w.prefix) {
			require.True(t, e.Completed.Before(first.Received), "all nodes of the admission are cordoned before the first drain")
		}
	}
}

func TestFieldReport_DR01_FailedCordonMeansNoEviction(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.podsOn(nodes, 3)
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	fault := proxy.Fail(cluster.Match{Verb: "patch", Resource: "nodes", Name: nodes[0]}, 500, cluster.Always)
	w.config = proxy.ConfigFor(w.config)
	w.start()
	w.create(w.nodeWright("dr01b", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	w.awaitStatus("dr01b", "the other node completes", func(nw *nwv1.NodeWright) bool { return nw.Status.CompleteNodes == "1/2" })
	require.Empty(t, w.evictions(w.prefix+"-0-"), "no pod of the node whose cordon failed is evicted")
	require.False(t, w.node(nodes[0]).Spec.Unschedulable)
	require.GreaterOrEqual(t, fault.Hits(), 2, "it is tried again")
	fault.Remove()
	w.awaitComplete("dr01b")
	w.requireCordonFirst(nodes, 3)
}

func TestFieldReport_DR03_OwnPodsAreNeverEvicted(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(1, nil)
	w.podsOn(nodes, 1)
	w.start()
	w.create(w.nodeWright("dr03", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptService)
		nw.Spec.AdditionalTolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}))
	w.awaitComplete("dr03")
	for _, e := range w.requests(cluster.Match{Resource: "pods/*"}) {
		require.False(t, e.Namespace == namespace && (e.Verb == "delete" || e.Subresource == "eviction"), "%s of own pod %s", e.Verb, e.Name)
	}
	pods, err := w.kube.CoreV1().Pods(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=dr03"})
	require.NoError(t, err)
	require.Len(t, pods.Items, 3, "one pod for each phase: install, interrupt, post-interrupt")
}

func TestFieldReport_DR08_ForeignCordonStays(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.patchNode(node, `{"spec":{"unschedulable":true}}`)
	w.start()
	w.create(w.nodeWright("dr08", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	w.awaitComplete("dr08")
	require.True(t, w.node(node).Spec.Unschedulable, "a cordon from before survives")
	require.NotContains(t, w.node(node).Annotations, nwv1.CordonKey("dr08"), "it is not owned")
}

func TestFieldReport_DR08_CordonDuringOurWorkStays(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	gate := w.gate(checkOn(node))
	w.start()
	w.create(w.nodeWright("dr08b", nil))
	w.awaitAtWork("dr08b", node)
	w.patchNode(node, `{"spec":{"unschedulable":true}}`)
	gate.open()
	w.awaitComplete("dr08b")
	require.True(t, w.node(node).Spec.Unschedulable)
}

func TestProtectedPodIsNeverEvicted(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	training := w.addPod(w.prefix+"-training", nodes[0], func(p *corev1.Pod) { p.Labels["workload"] = "training" })
	w.addPod(w.prefix+"-batch", nodes[0], nil)
	w.start()
	w.create(w.nodeWright("protected", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"workload": "training"}}
	}))
	nw := w.awaitStatus("protected", "the other node is done, this one waits", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == "1/2" && apimeta.IsStatusConditionTrue(nw.Status.Conditions, report.ConditionBlocked)
	})
	require.Contains(t, apimeta.FindStatusCondition(nw.Status.Conditions, report.ConditionBlocked).Message, nodes[0])
	require.Contains(t, nw.Status.Reasons[0].Message, training.Name, "the pod is named")
	boot := w.node(nodes[0]).Status.NodeInfo.BootID
	require.NoError(t, w.admin.Delete(w.ctx(), training, client.GracePeriodSeconds(0))) // the training run ends
	w.awaitComplete("protected")
	require.NotEqual(t, boot, w.node(nodes[0]).Status.NodeInfo.BootID)
	require.Empty(t, w.evictions(training.Name))
}

func TestDisruptionBudgetHoldsAndIsNamed(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	web := w.addPod(w.prefix+"-web", node, func(p *corev1.Pod) { p.Labels["app"] = w.prefix })
	one := intstr.FromInt32(1)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: w.prefix, Namespace: metav1.NamespaceDefault},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.prefix}},
		},
	}
	w.create(pdb)
	t.Cleanup(func() { _ = w.admin.Delete(w.ctx(), pdb) })
	require.Eventually(t, func() bool {
		return w.admin.Get(w.ctx(), client.ObjectKeyFromObject(pdb), pdb) == nil && pdb.Status.CurrentHealthy == 1
	}, patience, 20*time.Millisecond, "the budget counts the pod")
	w.start()
	w.create(w.nodeWright("budget", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	nw := w.awaitStatus("budget", "the budget holds the drain", func(nw *nwv1.NodeWright) bool {
		return apimeta.IsStatusConditionTrue(nw.Status.Conditions, report.ConditionDrainBlocked)
	})
	c := apimeta.FindStatusCondition(nw.Status.Conditions, report.ConditionDrainBlocked)
	require.Equal(t, string(plan.BlockedByBudget), c.Reason)
	require.Contains(t, c.Message, "refused by PodDisruptionBudget "+w.prefix)
	require.NoError(t, w.admin.Get(w.ctx(), client.ObjectKeyFromObject(web), web), "the pod is still there")
	require.Nil(t, web.DeletionTimestamp)
	require.NoError(t, w.admin.Delete(w.ctx(), pdb))
	w.awaitComplete("budget")
	require.True(t, apierrors.IsNotFound(w.admin.Get(w.ctx(), client.ObjectKeyFromObject(web), web)))
}
