package rollout

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// mayDeletePods is the chart's rbac.deletePods.
func (w *world) mayDeletePods() {
	w.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.prefix}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}},
	}}
	w.put(role)
	w.put(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: w.prefix}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.prefix},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: chart.ReconcilerAccount}},
	})
}

// deletions are the reconciler's requests to delete a pod, each for its UID.
func (w *world) deletions(pod *corev1.Pod) (accepted, refused int) {
	w.t.Helper()
	for _, e := range w.requests(cluster.Match{Verb: "delete", Resource: "pods", Name: pod.Name}) {
		if e.Code == http.StatusForbidden { // nobody read what it says
			refused++
			continue
		}
		accepted++
		var options metav1.DeleteOptions
		require.NoError(w.t, json.Unmarshal(e.Request, &options))
		require.NotNil(w.t, options.Preconditions)
		require.Equal(w.t, pod.UID, *options.Preconditions.UID, "only the pod that was looked at")
	}
	return accepted, refused
}

// cordonedAt is when the reconciler's first cordon of a node was asked for.
func (w *world) cordonedAt(node string) time.Time {
	w.t.Helper()
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes", Name: node}) {
		if strings.Contains(string(e.Request), `"/spec/unschedulable","value":true`) {
			return e.Received
		}
	}
	require.Fail(w.t, "the node was never cordoned")
	return time.Time{}
}

// Two pods behind a budget that allows nothing. With disableEviction one is deleted and no eviction is asked for; with onTimeout
// Force the other is asked to leave until the time is up, and deleted then. Without the right to, the node says so.
func TestPodsAreDeletedWhereItIsAskedFor(t *testing.T) {
	w := newWorld(t)
	direct, patient := w.addNode(map[string]string{"pool": "direct"}), w.addNode(map[string]string{"pool": "patient"})
	guarded := func(p *corev1.Pod) { p.Labels["app"] = w.prefix }
	w.budget(w.prefix)
	now, later := w.addPod(w.prefix+"-now", direct, guarded), w.addPod(w.prefix+"-later", patient, guarded)
	drained := func(pool string, cfg nwv1.DrainConfig) *nwv1.NodeWright {
		return w.nodeWright(pool, func(nw *nwv1.NodeWright) {
			withInterrupt(nw, nwv1.InterruptService)
			nw.Spec.NodeSelectors.MatchLabels["pool"], nw.Spec.DrainConfig = pool, &cfg
		})
	}
	w.c.Audit().Excuse(cluster.Match{Verb: "delete", Resource: "pods"}) // before it gets the right
	w.start()
	w.create(drained("direct", nwv1.DrainConfig{DisableEviction: new(true)}))
	w.create(drained("patient", nwv1.DrainConfig{OnTimeout: nwv1.DrainForce, Timeout: &metav1.Duration{Duration: 2 * time.Second}}))
	nw := w.awaitStatus("direct", "the right is missing", hasReason(plan.EvictionFailed, direct))
	said, _ := because(nw, plan.EvictionFailed)
	require.Contains(t, said, `cannot delete resource "pods"`)
	w.awaitStatus("patient", "the budget refuses", hasReason(plan.DisruptionBudget, patient))
	accepted, _ := w.deletions(later)
	require.Zero(t, accepted, "an eviction comes first")

	w.mayDeletePods()
	w.awaitComplete("direct")
	w.awaitComplete("patient")
	accepted, refused := w.deletions(now)
	require.Equal(t, 1, accepted)
	require.NotZero(t, refused)
	require.Empty(t, w.evictions(now.Name))
	accepted, _ = w.deletions(later)
	require.Equal(t, 1, accepted)
	deleted := w.requests(cluster.Match{Verb: "delete", Resource: "pods", Name: later.Name})[0]
	asked := w.evictions(later.Name)
	require.NotEmpty(t, asked)
	require.True(t, asked[0].Received.Before(deleted.Received))
	// The time runs from the pass after the one that cordoned; the first eviction may come at any moment of it.
	require.GreaterOrEqual(t, deleted.Received.Sub(w.cordonedAt(patient)), 2*time.Second, "the time was up")
}

// Where the checks of a package with skipIfSatisfied succeed, nothing else is done: no cordon, no eviction, no reboot, and that is
// said. Where they do not, everything is, and it is no failure.
func TestFieldReport_PF08_SatisfiedNodesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.podsOn(nodes, 1)
	missing := newSwitch()
	w.result.set(func(pod *corev1.Pod, container string) simnode.Result {
		if pod.Spec.NodeName == nodes[1] && container == "tuning-applycheck" && missing.on() {
			missing.off()
			return simnode.Result{Exit: 1, Log: "not there"}
		}
		return simnode.Result{}
	})
	boots := []string{w.node(nodes[0]).Status.NodeInfo.BootID, w.node(nodes[1]).Status.NodeInfo.BootID}
	w.start()
	w.create(w.nodeWright("pf08", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		p := nw.Spec.Packages["tuning"]
		p.SkipIfSatisfied = new(true)
		nw.Spec.Packages["tuning"] = p
	}))
	w.awaitComplete("pf08")
	require.Equal(t, []string{nodes[1]}, w.cordonedNodes())
	require.Empty(t, w.evictions(w.prefix+"-0-"))
	require.NotEmpty(t, w.evictions(w.prefix+"-1-"))
	require.Equal(t, boots[0], w.node(nodes[0]).Status.NodeInfo.BootID)
	require.NotEqual(t, boots[1], w.node(nodes[1]).Status.NodeInfo.BootID)
	require.True(t, w.record("pf08", nodes[0]).Packages["tuning"].Satisfied)
	require.Contains(t, w.awaitEvent(nodes[0], report.EventNodeComplete).Note, "already satisfied: tuning")
	require.False(t, w.record("pf08", nodes[1]).Packages["tuning"].Satisfied)
	require.Zero(t, w.record("pf08", nodes[1]).Packages["tuning"].Failures)
}
