package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// A Job that has ended since the decision is not deleted: its result would be lost, and its name would be free, so that a
// process with an older view would run it a second time. What comes after the stop in the decision is not done either.
func TestStopLeavesAJobThatHasEnded(t *testing.T) {
	w := newWorld(t)
	name := w.addNode(nil)
	actor := w.actor()
	job := func(name string) *batchv1.Job {
		created, err := w.kube.BatchV1().Jobs(namespace).Create(w.ctx(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "c:1"}},
			}}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		return created
	}
	ended, waiting := job("ended"), job("waiting")
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the Job controller writes it, too
		job, err := w.kube.BatchV1().Jobs(namespace).Get(w.ctx(), ended.Name, metav1.GetOptions{})
		require.NoError(t, err)
		now := metav1.NewTime(time.Now())
		for _, c := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
			job.Status.Conditions = append(job.Status.Conditions,
				batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "Test"})
		}
		job.Status.StartTime = &now
		_, err = w.kube.BatchV1().Jobs(namespace).UpdateStatus(w.ctx(), job, metav1.UpdateOptions{})
		return err
	}))

	decision := plan.Decision{
		NodeWright: "stop", NodeWrightUID: "nw", Node: name, NodeUID: w.node(name).UID, Action: plan.ActionRecord,
		Stop: []string{"gone", "ended", "waiting"},
	}
	outcome, err := actor.Do(w.ctx(), decision)
	require.NoError(t, err)
	require.True(t, outcome.Conflict)
	require.Equal(t, "job ended has ended since the decision", outcome.Detail)
	require.Equal(t, []string{"gone"}, outcome.Stopped)
	_, err = w.kube.BatchV1().Jobs(namespace).Get(w.ctx(), "ended", metav1.GetOptions{})
	require.NoError(t, err, "its result stays to be seen")

	decision.Stop = []string{"waiting"}
	outcome, err = actor.Do(w.ctx(), decision)
	require.NoError(t, err)
	require.False(t, outcome.Conflict)
	left, err := w.kube.BatchV1().Jobs(namespace).Get(w.ctx(), waiting.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err) || left.DeletionTimestamp != nil, "one that has not ended is deleted")
}
