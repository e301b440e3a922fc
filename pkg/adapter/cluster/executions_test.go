package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

var start = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// podWith is a pod of the install Job whose init containers have these states, in order.
func podWith(job *batchv1.Job, states ...corev1.ContainerState) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: start}}
	for i, s := range states {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: job.Spec.Template.Spec.InitContainers[i].Name, Image: "img", State: s,
		})
	}
	return pod
}

func exited(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

var (
	runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}
	done = exited(0, "")
)

func ended(kind batchv1.JobConditionType, reason string) []batchv1.JobCondition {
	return []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: start}}
}

func TestExecution(t *testing.T) {
	install := BuildJob(installSpec(), testNode(), testSettings())
	failed := install.DeepCopy()
	failed.Status.Conditions = ended(batchv1.JobFailed, "BackoffLimitExceeded")
	late := install.DeepCopy()
	late.Status.Conditions = ended(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
	complete := install.DeepCopy()
	complete.Status.Conditions = ended(batchv1.JobComplete, "")
	with := func(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod { change(pod); return pod }

	for name, c := range map[string]struct {
		job  *batchv1.Job
		pod  *corev1.Pod
		want plan.Execution
	}{
		"no pod yet":             {install, nil, plan.Execution{State: plan.ExecutionPending}},
		"copying is not a stage": {install, podWith(install, runs), plan.Execution{State: plan.ExecutionPending}},
		"apply runs":             {install, podWith(install, done, runs), plan.Execution{State: plan.ExecutionRunning, Stage: nwv1.StageApply}},
		"apply succeeded, its check runs": {install, podWith(install, done, done, runs), plan.Execution{
			State: plan.ExecutionRunning, Stage: nwv1.StageApply}},
		"config runs": {install, podWith(install, done, done, done, runs), plan.Execution{
			State: plan.ExecutionRunning, Stage: nwv1.StageConfig, Done: []nwv1.Stage{nwv1.StageApply}}},
		"complete, pod gone": {complete, nil, plan.Execution{
			State: plan.ExecutionSucceeded, Done: []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig}, Finished: start.Time}},
		"config's check failed": {failed, podWith(failed, done, done, done, done, exited(3, "a\nb")), plan.Execution{
			State: plan.ExecutionFailed, Stage: nwv1.StageConfig, Done: []nwv1.Stage{nwv1.StageApply}, ExitCode: 3, Message: "a\nb",
			Finished: start.Time}},
		"the copy failed": {failed, podWith(failed, exited(1, "cp: no space")), plan.Execution{
			State: plan.ExecutionFailed, Stage: nwv1.StageApply, ExitCode: 1, Message: "cp: no space", Finished: start.Time}},
		"failed, but the Job does not say so yet": {install, podWith(install, done, exited(2, "x")), plan.Execution{
			State: plan.ExecutionRunning, Stage: nwv1.StageApply, ExitCode: 2, Message: "x"}},
		"lost pod": {failed, nil, plan.Execution{
			State: plan.ExecutionFailed, Disrupted: true, Cause: plan.Disrupted, Message: "its pod is gone", Finished: start.Time}},
		"the pod's deadline": {failed, with(podWith(failed, done, runs), func(p *corev1.Pod) { p.Status.Reason = "DeadlineExceeded" }),
			plan.Execution{State: plan.ExecutionFailed, Stage: nwv1.StageApply, TimedOut: true, Finished: start.Time}},
		"the Job's deadline, pod gone": {late, nil, plan.Execution{State: plan.ExecutionFailed, TimedOut: true, Finished: start.Time}},
		"image": {install, podWith(install, waits("ImagePullBackOff", "not found")), plan.Execution{
			State: plan.ExecutionPending, Trouble: plan.ImagePull, TroubleMessage: "container tuning-init: ImagePullBackOff: not found"}},
		"image of a later stage": {install, podWith(install, done, waits("ErrImagePull", "")), plan.Execution{
			State: plan.ExecutionPending, Trouble: plan.ImagePull, TroubleMessage: "container tuning-apply: ErrImagePull (image img)"}},
		"invalid image": {install, podWith(install, waits("InvalidImageName", "bad")), plan.Execution{
			State: plan.ExecutionPending, Trouble: plan.ImagePull, TroubleMessage: "container tuning-init: InvalidImageName: bad"}},
		"config error": {install, podWith(install, waits("CreateContainerConfigError", "no secret")), plan.Execution{
			State: plan.ExecutionPending, Trouble: plan.ContainerCannotRun,
			TroubleMessage: "container tuning-init: CreateContainerConfigError: no secret"}},
		"ordinary waiting": {install, podWith(install, waits("PodInitializing", "")), plan.Execution{State: plan.ExecutionPending}},
		"does not fit": {install, with(podWith(install), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no cpu",
			}}
		}), plan.Execution{State: plan.ExecutionPending, Trouble: plan.InsufficientResources, TroubleMessage: "no cpu"}},
		"its deadline found it without its image": {failed, with(podWith(failed, waits("ImagePullBackOff", "no")), func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "DeadlineExceeded"
		}), plan.Execution{
			State: plan.ExecutionFailed, TimedOut: true, Disrupted: true, Cause: plan.ImagePull,
			Message: "container tuning-init: ImagePullBackOff: no", Finished: start.Time}},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			if c.pod != nil {
				pods = append(pods, c.pod)
			}
			c.want.ExecutionKey = installSpec().ExecutionKey
			c.want.Name, c.want.Node, c.want.Compartment, c.want.Batch = install.Name, "node-1", "gold", 4
			c.want.Order = new(int32(11))
			require.Equal(t, c.want, Execution(c.job, pods))
		})
	}
}

func TestExecutionOfAnInterrupt(t *testing.T) {
	job := BuildJob(interruptSpec(), testNode(), testSettings())
	e := Execution(job, []*corev1.Pod{podWith(job, done)})
	require.Equal(t, interruptSpec().ExecutionKey, e.ExecutionKey, "the key comes back from the labels")
	require.Equal(t, []nwv1.Stage{nwv1.StageInterrupt}, e.Done)
	require.Equal(t, plan.ExecutionRunning, e.State, "the Job has the last word")
}

func TestExecutionUsesTheNewestPod(t *testing.T) {
	job := BuildJob(installSpec(), testNode(), testSettings())
	old := podWith(job, done, exited(1, "old"))
	newer := podWith(job, done, runs)
	newer.CreationTimestamp = metav1.NewTime(start.Add(time.Minute))
	require.Zero(t, Execution(job, []*corev1.Pod{newer, old}).ExitCode)
}

func TestQuote(t *testing.T) {
	job := BuildJob(installSpec(), testNode(), testSettings())
	require.Equal(t, "3\n4\n5\n6\n7\n8\n9\n10\n11\n12", quote(job, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"))
	require.Len(t, quote(job, strings.Repeat("x", 5000)), maxQuote)
	spec := installSpec()
	spec.Definition.Env = append(spec.Definition.Env, corev1.EnvVar{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{Key: "token"},
	}})
	secret := BuildJob(spec, testNode(), testSettings())
	require.Equal(t, withheld, quote(secret, "token is hunter2"))
	require.Empty(t, quote(secret, " \n"))
}

// A pause uses up nothing of a deadline: the Job controller sets startTime anew when a suspended Job goes on.
func TestExecution_TimeRunsFromTheNewestStart(t *testing.T) {
	job := BuildJob(installSpec(), testNode(), testSettings())
	job.CreationTimestamp = start
	require.Equal(t, start.Time, Execution(job, nil).Created)
	later := metav1.NewTime(start.Add(time.Hour))
	job.Status.StartTime = &later
	require.Equal(t, later.Time, Execution(job, nil).Created)
}
