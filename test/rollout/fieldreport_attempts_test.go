package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// created are the Jobs of this test's nodes that the API server accepted, by name, in their order.
func (w *world) created() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.requests(cluster.Match{Verb: "create", Resource: "jobs"}) {
		if e.Code == 201 && strings.Contains(string(e.Request), w.prefix) {
			out = append(out, nameIn(w.t, e.Request))
		}
	}
	return out
}

// requireNothingSpent: the record knows of no failure, and the package ran in that attempt.
func (w *world) requireNothingSpent(nodeWright, node string, attempt int32) {
	w.t.Helper()
	r := w.record(nodeWright, node)
	require.Nil(w.t, r.Failure)
	require.Equal(w.t, attempt, r.Packages["tuning"].Attempt)
	require.Zero(w.t, r.Packages["tuning"].Failures)
	require.Nil(w.t, r.Packages["tuning"].Setback)
}

// Three pods that the kubelet refuses, with two attempts allowed, and then a good run.
func TestFieldReport_PF03_RefusedPodsSpendNoAttempt(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	reasons := []string{"OutOfcpu", "NodeAffinity", "UnexpectedAdmissionError"}
	w.result.admit(func(pod *corev1.Pod) simnode.Refusal {
		if pod.Namespace != namespace || len(reasons) == 0 {
			return simnode.Refusal{}
		}
		defer func() { reasons = reasons[1:] }()
		return simnode.Refusal{Reason: reasons[0], Message: "not now"}
	})
	w.start()
	w.create(w.nodeWright("pf03", nil))
	w.awaitComplete("pf03")
	require.Len(t, w.created(), 4)
	w.requireNothingSpent("pf03", node, 4)
}

// The kubelet evicts an execution under memory pressure: no fault of the package.
func TestFieldReport_PF03_EvictedPodSpendsNoAttempt(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	pressure := newSwitch()
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		if container == "tuning-apply" && pressure.on() {
			pressure.off()
			return simnode.Result{Evicted: "The node was low on resource: memory."}
		}
		return simnode.Result{}
	})
	w.start()
	w.create(w.nodeWright("pf03e", nil))
	w.awaitComplete("pf03e")
	w.requireNothingSpent("pf03e", node, 2)
}

// hanging starts a NodeWright whose apply stage hangs until the switch is off, and waits until it runs.
func (w *world) hanging(name, node string) *toggle {
	w.t.Helper()
	hangs := newSwitch()
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		return simnode.Result{Hangs: container == "tuning-apply" && hangs.on()}
	})
	w.start()
	w.create(w.nodeWright(name, nil))
	w.awaitAtWork(name, node)
	require.Eventually(w.t, func() bool { return len(w.runningPods(name)) == 1 }, patience, 10*time.Millisecond, "the stage runs")
	return hangs
}

// runningPods are the executions of a NodeWright whose apply stage runs.
func (w *world) runningPods(nodeWright string) []corev1.Pod {
	w.t.Helper()
	pods, err := w.kube.CoreV1().Pods(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright})
	require.NoError(w.t, err)
	var out []corev1.Pod
	for _, pod := range pods.Items {
		for _, c := range pod.Status.InitContainerStatuses {
			if c.Name == "tuning-apply" && c.State.Running != nil {
				out = append(out, pod)
			}
		}
	}
	return out
}

// deleteJobs deletes Jobs and their pods, as a person would, and waits until they are gone.
func (w *world) deleteJobs(nodeWright string) {
	w.t.Helper()
	background, now := metav1.DeletePropagationBackground, int64(0)
	selector := metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright}
	require.NoError(w.t, w.kube.BatchV1().Jobs(namespace).DeleteCollection(w.ctx(), metav1.DeleteOptions{PropagationPolicy: &background}, selector))
	require.NoError(w.t, w.kube.CoreV1().Pods(namespace).DeleteCollection(w.ctx(), metav1.DeleteOptions{GracePeriodSeconds: &now}, selector))
}

// Somebody deletes the Job and its pod while the stage runs: exactly one new execution.
func TestFieldReport_PF05_JobAndPodDeletedByHand(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	hangs := w.hanging("pf05", node)
	before := w.runningPods("pf05")[0].UID
	w.deleteJobs("pf05")
	require.Eventually(t, func() bool {
		pods := w.runningPods("pf05")
		return len(pods) == 1 && pods[0].UID != before
	}, patience, 10*time.Millisecond, "it runs again")
	require.Len(t, w.created(), 2)
	hangs.off()
	w.deletePods("pf05") // what hangs does not look again; the attempt after it ends well
	w.awaitComplete("pf05")
	require.Len(t, w.jobs("pf05"), 2)
	w.requireNothingSpent("pf05", node, 2)
}

func (w *world) deletePods(nodeWright string) {
	w.t.Helper()
	require.NoError(w.t, w.kube.CoreV1().Pods(namespace).DeleteCollection(w.ctx(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright}))
}

// The Jobs of a package that failed for good are cleaned up: nothing starts, the node is still failed; a retry starts one.
func TestFieldReport_PF11_CleanUpStartsNothing(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	broken := newSwitch()
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		if container == "tuning-apply" && broken.on() {
			return simnode.Result{Exit: 1, Log: "no space left on device"}
		}
		return simnode.Result{}
	})
	w.start()
	w.create(w.nodeWright("pf11", nil))
	failed := func(nw *nwv1.NodeWright) bool {
		return nw.Status.NodesFailed == 1 && nw.Status.ObservedGeneration == nw.Generation
	}
	w.awaitStatus("pf11", "it failed in both attempts", failed)
	require.Len(t, w.created(), 2)
	w.deleteJobs("pf11")
	require.Eventually(t, func() bool { return len(w.jobs("pf11")) == 0 }, patience, 10*time.Millisecond)
	for range 3 { // each is a pass that knows of no Job
		w.edit("pf11", func(nw *nwv1.NodeWright) { nw.Spec.Priority++ })
		w.awaitStatus("pf11", "still failed", failed)
	}
	require.Equal(t, noderecord.Failed, w.record("pf11", node).Outcome)
	require.Len(t, w.created(), 2, "a clean-up starts nothing")
	broken.off()
	w.edit("pf11", func(nw *nwv1.NodeWright) {
		nw.Annotations = map[string]string{fleetv1.VerbKey(fleetv1.VerbRetry): "1"}
	})
	w.awaitComplete("pf11")
	require.Len(t, w.created(), 3, "a retry starts one")
}

// A pause stops what runs, and the end of the pause lets the same Job run again; nothing of it is a failure.
func TestPauseOfARunningJob(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	hangs := w.hanging("pause", node)
	w.edit("pause", func(nw *nwv1.NodeWright) { nw.Annotations = map[string]string{nwv1.PauseAnnotation: nwv1.TrueValue} })
	require.Eventually(t, func() bool {
		job, err := w.kube.BatchV1().Jobs(namespace).Get(w.ctx(), w.jobs("pause")[0], metav1.GetOptions{})
		require.NoError(t, err)
		return *job.Spec.Suspend && job.Status.Active == 0 && len(w.runningPods("pause")) == 0
	}, patience, 10*time.Millisecond, "it is suspended, and its pod ends")
	w.awaitStatus("pause", "it says so", func(nw *nwv1.NodeWright) bool { return nw.Status.Status == nwv1.StatusPaused })
	hangs.off()
	w.edit("pause", func(nw *nwv1.NodeWright) { nw.Annotations = nil })
	w.awaitComplete("pause")
	require.Len(t, w.created(), 1)
	w.requireNothingSpent("pause", node, 1)
}
