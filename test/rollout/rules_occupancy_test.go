package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// guardedPod is a pod that the NodeWrights of these tests protect.
func (w *world) guardedPod(node string) *corev1.Pod {
	return w.addPod("guarded-"+node, node, func(p *corev1.Pod) { p.Labels["guarded"] = w.prefix })
}

// yielding is a NodeWright with a reboot and one slot that leaves nodes with guarded pods alone.
func (w *world) yielding(name string) *nwv1.NodeWright {
	return w.nodeWright(name, func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		nw.Spec.InterruptionBudget = count(1)
		nw.Spec.ProtectedPods = nwv1.ProtectedPodsYield
		nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"guarded": w.prefix}}
	})
}

// One slot; A has a guarded pod, B none. B proceeds, and nothing at all is written on A until its pod has gone.
func TestFieldReport_BA13_NodesWithGuardedPodsYield(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	pod := w.guardedPod(nodes[0])
	w.start()
	w.create(w.yielding("ba13"))
	nw := w.awaitStatus("ba13", "B is done, A is left alone", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == "1/2" && hasReason(plan.Yielding, nodes[0])(nw)
	})
	said, _ := because(nw, plan.Yielding)
	require.Equal(t, "the node is left alone until its protected pods have finished: default/"+pod.Name, said)
	require.Equal(t, []string{nodes[1]}, w.cordonedNodes())
	require.Empty(t, w.requests(cluster.Match{Verb: "patch", Resource: "nodes", Name: nodes[0]}), "A was never written")
	require.False(t, w.node(nodes[0]).Spec.Unschedulable)

	require.NoError(t, w.admin.Delete(w.ctx(), pod, client.GracePeriodSeconds(0)))
	turn := 0
	require.Eventually(t, func() bool { // nobody watches the pods of the cluster: the next look is soon after the next wake
		turn++
		w.patchNode(nodes[1], fmt.Sprintf(`{"metadata":{"labels":{"nudge":"%d"}}}`, turn))
		return complete(w.get("ba13"))
	}, patience, 200*time.Millisecond)
	require.Equal(t, []string{nodes[1], nodes[0]}, w.cordonedNodes())
	require.Empty(t, w.evictions(pod.Name))
}

// While nodes yield, whatever wakes the loop, the pods of the cluster are looked at every five seconds at most; when all is
// done, not at all.
func TestTheClustersPodsAreListedSeldom(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(3, nil)
	var pods []*corev1.Pod
	for _, n := range nodes {
		pods = append(pods, w.guardedPod(n))
	}
	start := time.Now()
	passes := w.startCounted()
	w.create(w.yielding("seldom"))
	w.awaitStatus("seldom", "all yield", hasReason(plan.Yielding, nodes...))
	churn := w.churn(nodes)
	passes.await(t, steadyPasses)
	lists := w.clusterWideLists()
	budgets := len(w.requests(cluster.Match{Verb: "list", Resource: "poddisruptionbudgets"}))
	most := 1 + int(time.Since(start)/(5*time.Second))
	require.NotZero(t, lists)
	require.LessOrEqual(t, lists, most, "in %d passes", passes.turns())
	require.LessOrEqual(t, budgets, most)
	require.GreaterOrEqual(t, passes.turns(), int64(steadyPasses), "passes were made all the while")

	for _, p := range pods {
		require.NoError(t, w.admin.Delete(w.ctx(), p, client.GracePeriodSeconds(0)))
	}
	w.awaitComplete("seldom")
	passes.await(t, 2)
	lists, turns := w.clusterWideLists(), churn.turns()
	passes.await(t, steadyPasses)
	require.Equal(t, lists, w.clusterWideLists(), "nothing is listed at rest")
	require.Greater(t, churn.turns(), turns)
}

// A PodDisruptionBudget that allows nothing speaks against a node: others go first, if the policy prefers idle nodes.
func TestIdleNodesGoFirst(t *testing.T) {
	for _, c := range []struct {
		order nwv1.NodeOrder
		first int
	}{{nwv1.OrderIdle, 1}, {nwv1.OrderName, 0}} {
		t.Run(string(c.order), func(t *testing.T) {
			w := newWorld(t)
			nodes := w.addNodes(2, nil)
			budget := w.budgetOver(w.addPod(w.prefix+"-web", nodes[0], func(p *corev1.Pod) { p.Labels["app"] = w.prefix }))
			policy := fixedPolicy("idle", 1)
			policy.Spec.Order = c.order
			w.create(policy)
			w.start()
			w.create(w.nodeWright("idle", func(nw *nwv1.NodeWright) {
				withInterrupt(nw, nwv1.InterruptService)
				nw.Spec.DeploymentPolicy = "idle"
			}))
			w.awaitStatus("idle", "the node of the pod is held by the budget", hasReason(plan.DisruptionBudget, nodes[0]))
			order := w.cordonedNodes()
			require.Equal(t, nodes[c.first], order[0])
			require.NoError(t, w.admin.Delete(w.ctx(), budget))
			w.awaitComplete("idle")
			require.ElementsMatch(t, nodes, w.cordonedNodes())
		})
	}
}

// budgetOver makes a PodDisruptionBudget over one pod, which allows no disruption, and waits until it counts.
func (w *world) budgetOver(pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}
	w.put(budget)
	require.Eventually(w.t, func() bool {
		err := w.admin.Get(w.ctx(), client.ObjectKeyFromObject(budget), budget)
		return err == nil && budget.Status.ExpectedPods == 1 && budget.Status.CurrentHealthy == 1
	}, patience, 20*time.Millisecond, "the budget counts the pod")
	require.Zero(w.t, budget.Status.DisruptionsAllowed)
	return budget
}

// Racks of four nodes, whose names are dealt round, under a ceiling of eight: each batch is made of whole racks.
func TestBatchesAreWholeGroups(t *testing.T) {
	for _, c := range []struct {
		initial int32
		sizes   []int
	}{
		{1, []int{4, 4, 4}}, // the first rack rounds the batch up
		{6, []int{4, 4, 4}}, // a second rack does not fit whole
		{8, []int{8, 4}},
	} {
		t.Run(fmt.Sprint(c.initial), func(t *testing.T) {
			w := newWorld(t)
			rack := map[string]string{}
			for i := range 12 {
				label := fmt.Sprint("r", i%3)
				rack[w.addNode(map[string]string{"rack": label})] = label
			}
			policy := fixedPolicy("racks", 1)
			eight := int32(8)
			policy.Spec.Compartments = []nwv1.Compartment{{
				Name: "all", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"test": w.prefix}}, GroupBy: "rack",
				Budget:   nwv1.DeploymentBudget{Count: &eight},
				Strategy: &nwv1.DeploymentStrategy{Fixed: &nwv1.FixedStrategy{BatchRules: nwv1.BatchRules{InitialBatch: c.initial}}},
			}}
			w.create(policy)
			ceiling := w.watchCeiling("racks")
			w.start()
			w.create(w.nodeWright("racks", func(nw *nwv1.NodeWright) { nw.Spec.DeploymentPolicy = "racks" }))
			w.awaitComplete("racks")

			var sizes []int
			batchOf := map[string]int32{} // by rack
			for name, label := range rack {
				batch := w.record("racks", name).Batch
				for len(sizes) < int(batch) {
					sizes = append(sizes, 0)
				}
				sizes[batch-1]++
				if b, known := batchOf[label]; known {
					require.Equal(t, b, batch, "rack %s is in one batch", label)
				}
				batchOf[label] = batch
			}
			require.Equal(t, c.sizes, sizes)
			require.LessOrEqual(t, ceiling.peak(), slices.Max(c.sizes))
		})
	}
}
