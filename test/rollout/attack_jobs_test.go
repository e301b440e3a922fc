package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// awaitJob waits for the one Job of a NodeWright.
func (w *world) awaitJob(nodeWright string) string {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.jobs(nodeWright)) == 1 }, patience, 10*time.Millisecond, "a Job of %s", nodeWright)
	return w.jobs(nodeWright)[0]
}

// creations counts the accepted creations of Jobs of this test by name.
func (w *world) creations() map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for _, e := range w.requests(cluster.Match{Verb: "create", Resource: "jobs"}) {
		if e.Code == 201 && strings.Contains(string(e.Request), w.prefix) {
			out[nameIn(w.t, e.Request)]++
		}
	}
	return out
}

// Somebody takes the label off a Job by which the reconciler finds it. The Job is missing then, and its name is taken: that
// must not hold up anything else, and the label is put back.
func TestAttackJobThatLostItsLabel(t *testing.T) {
	w := newWorld(t)
	node := w.addNode(nil)
	gate := w.gate(checkOn(node))
	w.start()
	w.create(w.nodeWright("unlabelled", nil))
	job := w.awaitJob("unlabelled")
	w.awaitAtWork("unlabelled", node)
	strip := []byte(`{"metadata":{"labels":{"` + fleetv1.ManagedByLabel + `":null}}}`)
	_, err := w.kube.BatchV1().Jobs(namespace).Patch(w.ctx(), job, types.MergePatchType, strip, metav1.PatchOptions{})
	require.NoError(t, err)
	other := w.addNode(map[string]string{"test": "elsewhere", "attack": "other"})
	w.create(w.nodeWright("bystander", func(nw *nwv1.NodeWright) {
		nw.Spec.NodeSelectors = metav1.LabelSelector{MatchLabels: map[string]string{"attack": "other"}}
	}))
	w.awaitComplete("bystander")
	require.False(t, w.record("bystander", other).IsOpen())
	gate.open()
	w.awaitComplete("unlabelled")
	require.Equal(t, map[string]int{job: 1}, onlyOf(w.creations(), w.jobs("unlabelled")))
}

func onlyOf(counts map[string]int, names []string) map[string]int {
	out := map[string]int{}
	for _, n := range names {
		out[n] = counts[n]
	}
	return out
}

// A Job is deleted by hand and its pod stays at work: no second pod may begin beside it. When it is gone, the work goes on.
func TestAttackJobDeletedAndItsPodStays(t *testing.T) {
	w := newWorld(t)
	node := w.addNode(nil)
	gate := w.gate(checkOn(node))
	w.start()
	w.create(w.nodeWright("orphaned", nil))
	job := w.awaitJob("orphaned")
	w.awaitAtWork("orphaned", node)
	w.awaitPod(job, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning || len(p.Status.InitContainerStatuses) > 0
	})
	orphan := metav1.DeletePropagationOrphan
	require.NoError(t, w.kube.BatchV1().Jobs(namespace).Delete(w.ctx(), job, metav1.DeleteOptions{PropagationPolicy: &orphan}))
	require.Eventually(t, func() bool { return len(w.jobs("orphaned")) == 0 }, patience, 10*time.Millisecond)
	w.create(w.nodeWright("orphaned-later", func(nw *nwv1.NodeWright) { // its reasons prove that a pass went by since
		nw.Spec.Packages["tuning"] = nwv1.Package{Version: "1.0.0", Image: "example.com/later"}
	}))
	w.awaitStatus("orphaned-later", "looked at", func(nw *nwv1.NodeWright) bool { return nw.Status.ObservedGeneration > 0 })
	require.Equal(t, 1, w.creations()[job], "no second execution beside the pod that was still at work")
	gate.open()
	now := int64(0)
	require.NoError(t, w.kube.CoreV1().Pods(namespace).DeleteCollection(w.ctx(), metav1.DeleteOptions{GracePeriodSeconds: &now},
		metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job}))
	w.awaitComplete("orphaned")
	require.Equal(t, 2, w.creations()[job])
}

func (w *world) awaitPod(job string, ok func(*corev1.Pod) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		list, err := w.kube.CoreV1().Pods(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
		return err == nil && len(list.Items) == 1 && ok(&list.Items[0])
	}, patience, 10*time.Millisecond, "the pod of %s", job)
}

// The watch of the pods stands still while that of the Jobs goes on, so that a Job is seen as failed and its pod is not
// seen at all. That is no lost pod: the failure counts, with its stage and exit code.
func TestAttackPodsAreSeenLaterThanTheirJobs(t *testing.T) {
	w := newWorld(t)
	w.addNode(nil)
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	w.config = proxy.ConfigFor(w.config)
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		if container == "tuning-config" {
			return simnode.Result{Exit: 7, Log: "boom"}
		}
		return simnode.Result{}
	})
	w.start()
	w.create(w.nodeWright("warm", func(nw *nwv1.NodeWright) {
		nw.Spec.NodeSelectors = metav1.LabelSelector{MatchLabels: map[string]string{"no": "node"}}
	}))
	w.awaitComplete("warm") // the caches are there
	proxy.Hold(cluster.Match{Verb: "watch", Resource: "pods"}, cluster.Always)
	proxy.DropWatches()
	w.create(w.nodeWright("blind", nil))
	nw := w.awaitStatus("blind", "the node failed", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesFailed == 1 })
	require.Contains(t, nw.Status.Conditions[0].Message, "package tuning, stage config, exit code 7: boom")
	jobs, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=blind"})
	require.NoError(t, err)
	require.Len(t, jobs.Items, 2, "both attempts")
	applies := 0
	for _, j := range jobs.Items {
		for _, c := range j.Spec.Template.Spec.InitContainers {
			if c.Name == "tuning-apply" {
				applies++
			}
		}
	}
	require.Equal(t, 1, applies, "the stage that succeeded is not run again")
}
