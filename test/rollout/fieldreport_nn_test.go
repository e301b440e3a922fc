package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// A node that joins after the NodeWright is gated before anything else is done to it, with the taints of others left alone, and
// free when it is complete. Whoever puts the gate back finds it taken off again, and nothing runs again.
func TestFieldReport_NN09_NewNodesAreGatedAndAGateThatComesBackGoes(t *testing.T) {
	w := newWorld(t)
	old := w.addNode(nil)
	timed, _ := foreignTaints()
	w.start()
	w.create(w.nodeWright("nn09", func(nw *nwv1.NodeWright) { nw.Spec.RuntimeRequired, nw.Spec.AutoTaintNewNodes = true, true }))
	w.awaitComplete("nn09")
	created := w.get("nn09").CreationTimestamp
	require.Eventually(t, func() bool { return time.Now().Unix() > created.Unix() }, patience, pause, "times of creation are whole seconds")
	node := w.addNewNode(0, timed)
	gate := w.gate(checkOn(node))
	w.join(node)
	w.awaitAtWork("nn09", node)
	require.Equal(t, taintsJSON([]corev1.Taint{timed, requiredTaint}), taintsJSON(w.node(node).Spec.Taints))
	require.Empty(t, w.node(old).Spec.Taints, "the one that was there before is not gated")
	nw := w.awaitStatus("nn09", "it says who waits", func(nw *nwv1.NodeWright) bool {
		return apimeta.IsStatusConditionTrue(nw.Status.Conditions, report.ConditionNodesGated)
	})
	require.Equal(t, "1 nodes gated: "+node, apimeta.FindStatusCondition(nw.Status.Conditions, report.ConditionNodesGated).Message)
	first := w.requests(cluster.Match{Verb: "patch", Resource: "nodes", Name: node})[0]
	require.Contains(t, string(first.Request), `"/spec/taints`, "the gate is the first thing that is written")

	gate.open()
	free := func() bool { return taintsJSON(w.node(node).Spec.Taints) == taintsJSON([]corev1.Taint{timed}) }
	require.Eventually(t, free, patience, pause, "complete, and the gate is off")
	began := len(w.created())
	both := taintsJSON([]corev1.Taint{requiredTaint, timed})
	w.patchNode(node, `{"spec":{"taints":`+both+`}}`)
	require.Eventually(t, free, patience, pause, "it is taken off again")
	w.awaitComplete("nn09")
	require.Len(t, w.created(), began, "and nothing ran for it")
	w.requireGateWrites(node)
}

// requireGateWrites: the gate was put on once and taken off twice, one entry at a time.
func (w *world) requireGateWrites(node string) {
	w.t.Helper()
	var ops []string
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes", Name: node}) {
		for _, op := range w.operations(e, true) {
			if strings.HasPrefix(op.Path, "/spec/taints") && e.Code == 200 {
				ops = append(ops, op.Op+" "+op.Path)
			}
		}
	}
	require.Equal(w.t, []string{"add /spec/taints/-", "remove /spec/taints/1", "remove /spec/taints/0"}, ops)
}

// Only the object of a node at work is deleted. Its Job runs nowhere any more and is deleted, with its pods; none is made for it
// again; the configuration that nothing mounts any more goes later.
func TestFieldReport_NN03_NothingIsLeftOfANodeThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	stays, node := w.addNode(nil), w.addNode(map[string]string{"leaves": "yes"})
	uid := w.node(node).UID
	gate := w.gate(checkOn(node))
	clock := w.startAhead()
	w.create(w.nodeWright("nn03", func(nw *nwv1.NodeWright) {
		nw.Spec.NodeSelectors.MatchLabels["leaves"] = "yes"
		nw.Spec.Packages["tuning"] = nwv1.Package{Version: "1.0.0", Image: "example.com/tuning", ConfigMap: map[string]string{"f": "1"}}
	}))
	w.awaitAtWork("nn03", node)
	require.Eventually(t, func() bool { return len(w.podsAtWork(string(uid))) == 1 }, patience, pause, "its Job has a pod")
	began := len(w.created())
	require.NoError(t, w.nodes.DeleteNode(w.ctx(), node))
	gate.open()
	require.Eventually(t, func() bool { return len(w.podsAtWork(string(uid))) == 0 }, patience, pause, "its pods are ended")
	clock.forward(25*time.Hour, stays) // ended Jobs are kept that long for their logs
	require.Eventually(t, func() bool { return w.jobsOf(string(uid)) == 0 }, patience, pause, "its Jobs are deleted")
	for range 2 { // what is unused is marked first, and deleted an hour later
		clock.forward(2*time.Hour, stays)
		require.Eventually(t, func() bool { return w.marked() }, patience, pause)
	}
	require.Eventually(t, func() bool { return len(w.ownConfigurations()) == 0 }, patience, pause, "its configuration is deleted")
	nw := w.awaitStatus("nn03", "no node is left", func(nw *nwv1.NodeWright) bool { return nw.Status.CompleteNodes == "0/0" })
	require.Zero(t, nw.Status.NodesInProgress)
	require.Len(t, w.created(), began, "no Job was made for it again")
}

// podsAtWork are the pods of a node's executions that nobody has ended yet.
func (w *world) podsAtWork(nodeUID string) []string {
	w.t.Helper()
	pods, err := w.kube.CoreV1().Pods(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: fleetv1.NodeUIDLabel + "=" + nodeUID})
	require.NoError(w.t, err)
	var out []string
	for _, p := range pods.Items {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.DeletionTimestamp == nil && !ended {
			out = append(out, p.Name)
		}
	}
	return out
}

func (w *world) jobsOf(nodeUID string) int {
	w.t.Helper()
	jobs, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: fleetv1.NodeUIDLabel + "=" + nodeUID})
	require.NoError(w.t, err)
	return len(jobs.Items)
}

// ownConfigurations are the ConfigMaps that Jobs mount, by their names.
func (w *world) ownConfigurations() []string {
	var out []string
	for _, name := range w.ownConfigMaps() {
		if strings.HasPrefix(name, "fw-config-") {
			out = append(out, name)
		}
	}
	return out
}

// marked: each configuration is marked as unused, or gone.
func (w *world) marked() bool {
	for _, name := range w.ownConfigurations() {
		cm, err := w.kube.CoreV1().ConfigMaps(namespace).Get(w.ctx(), name, metav1.GetOptions{})
		if err == nil && len(cm.Annotations) == 0 {
			return false
		}
	}
	return true
}

// A kubelet that never acknowledges its pod: the node says so after a minute, with an event that names the pod; nothing of it is
// the package's failure, and when the kubelet is back the same Job goes on.
func TestAPodThatIsNotAcknowledged(t *testing.T) {
	w := newWorld(t)
	node := w.addNode(nil)
	require.NoError(t, w.nodes.SetSilent(node, true))
	clock := w.startAhead()
	w.create(w.nodeWright("silent", nil))
	require.Eventually(t, func() bool { return len(w.podsAtWork(string(w.node(node).UID))) == 1 }, patience, pause, "there is a pod")
	require.Eventually(t, func() bool { return w.executionPods("silent")[0].Spec.NodeName == node }, patience, pause, "it is bound")
	clock.forward(61*time.Second, node)
	w.awaitStatus("silent", "it is said", hasReason(plan.PodNotAcknowledged, node))
	pod := w.executionPods("silent")[0]
	require.Equal(t, "nodewright silent: package tuning: pod "+namespace+"/"+pod.Name+" is bound to the node, and its kubelet does not start it",
		w.awaitEvent(node, string(plan.PodNotAcknowledged)).Note)
	require.NoError(t, w.nodes.SetSilent(node, false))
	w.awaitComplete("silent")
	require.Len(t, w.created(), 1)
	w.requireNothingSpent("silent", node, 1)
}
