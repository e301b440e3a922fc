package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// terminated is a container that ended with a reason of the kubelet's.
func terminated(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

const lostApply = "container tuning-apply was lost: the machine, or its kubelet, has restarted"

// TestHowAnAttemptEnds is the table of docs/operations.md: why an attempt ended, and whether it counts against the package.
func TestHowAnAttemptEnds(t *testing.T) {
	job := BuildJob(installSpec(), testNode(), testSettings())
	job.Status.Conditions = ended(batchv1.JobFailed, "BackoffLimitExceeded")
	pod := func(reason, message string, states ...corev1.ContainerState) *corev1.Pod {
		p := podWith(job, states...)
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, reason, message
		return p
	}
	removed := func(p *corev1.Pod) *corev1.Pod { p.DeletionTimestamp = &start; return p }
	preempted := pod("", "", done, runs)
	preempted.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", Message: "by another pod",
	}}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		cause   plan.Code
		counts  bool
		message string
	}{
		"exit code": {pod("", "", done, exited(3, "no space")), "", true, "no space"},
		"out of memory": {pod("", "", done, terminated(137, "OOMKilled", "")), plan.OutOfMemory, true,
			"a container was killed because it, or the node, ran out of memory"},
		"out of memory, quoted": {pod("", "", done, terminated(137, "OOMKilled", "step two")), plan.OutOfMemory, true, "step two"},
		"deadline":              {pod("DeadlineExceeded", "too long", done, runs), "", true, ""},
		"killed":                {pod("", "", done, terminated(137, "Error", "x")), "", true, "x"},
		"failed, then deleted":  {removed(pod("", "", done, terminated(3, "Error", "no"))), "", true, "no"},

		"deleted":                 {removed(pod("", "", done, terminated(143, "Error", ""))), plan.Disrupted, false, "the pod was deleted"},
		"preempted":               {preempted, plan.Disrupted, false, "PreemptionByScheduler: by another pod"},
		"evicted":                 {pod("Evicted", "low on disk", done, runs), plan.Disrupted, false, "Evicted: low on disk"},
		"evicted before it began": {pod("Evicted", ""), plan.Disrupted, false, "Evicted"},
		"node shutdown": {pod("Terminated", "imminent node shutdown", done, terminated(143, "Error", "")), plan.Disrupted, false,
			"Terminated: imminent node shutdown"},
		"machine went down": {pod("", "", done, terminated(255, "Unknown", "")), plan.Disrupted, false, lostApply},
		"kubelet lost it":   {pod("", "", done, terminated(137, "ContainerStatusUnknown", "")), plan.Disrupted, false, lostApply},

		"OutOfcpu":     {pod("OutOfcpu", "requested 2, capacity 1"), plan.PodRefused, false, "OutOfcpu: requested 2, capacity 1"},
		"OutOfpods":    {pod("OutOfpods", ""), plan.PodRefused, false, "OutOfpods"},
		"NodeAffinity": {pod("NodeAffinity", "no match"), plan.PodRefused, false, "NodeAffinity: no match"},
		"UnexpectedAdmissionError": {pod("UnexpectedAdmissionError", "device plugin"), plan.PodRefused, false,
			"UnexpectedAdmissionError: device plugin"},
		"TopologyAffinityError": {pod("TopologyAffinityError", "", waits("PodInitializing", "")), plan.PodRefused, false,
			"TopologyAffinityError"},
		"a refusal of the future": {pod("NotToday", "why"), plan.PodRefused, false, "NotToday: why"},
	} {
		t.Run(name, func(t *testing.T) {
			e := Execution(job, []*corev1.Pod{c.pod})
			require.Equal(t, plan.ExecutionFailed, e.State)
			require.Equal(t, c.cause, e.Cause)
			require.Equal(t, c.counts, !e.Disrupted, "counts")
			require.Equal(t, c.message, e.Message)
			require.Equal(t, name == "deadline", e.TimedOut)
		})
	}
}

// What an agent that found the node unsafe says is no failure, and only of an interrupt.
func TestAnInterruptThatTheAgentRefused(t *testing.T) {
	const message = `{"stage":"interrupt","outcome":"unsafe","exitCode":3,"message":"the node is not cordoned","seconds":0.1}`
	for _, spec := range []plan.ExecutionSpec{interruptSpec(), installSpec()} {
		job := BuildJob(spec, testNode(), testSettings())
		job.Status.Conditions = ended(batchv1.JobFailed, "BackoffLimitExceeded")
		pod := podWith(job, exited(3, message))
		pod.Status.Phase = corev1.PodFailed
		e := Execution(job, []*corev1.Pod{pod})
		require.Equal(t, spec.Phase == plan.PhaseInterrupt, e.Cause == plan.InterruptRefused)
		require.Equal(t, spec.Phase == plan.PhaseInterrupt, e.Disrupted)
		require.Equal(t, "the node is not cordoned", e.Message)
	}
}

// A quota or an admission policy keeps the Job controller from making a pod. That is said, and not taken for work.
func TestJobWithoutPod(t *testing.T) {
	begun := start.Time
	e := plan.Execution{Name: "job", State: plan.ExecutionPending, Created: begun}
	got, at := untouched(e, nil, "ns", begun.Add(59*time.Second))
	require.Empty(t, got.Trouble, "it may come")
	require.Equal(t, begun.Add(time.Minute), at)
	got, at = untouched(e, nil, "ns", begun.Add(time.Minute))
	require.Equal(t, plan.NoPod, got.Trouble)
	require.Equal(t, "no pod is made of Job ns/job: a quota, the PriorityClass or pod security may forbid it; its events say why", got.TroubleMessage)
	require.Zero(t, at)
	for name, change := range map[string]func(*plan.Execution){
		"a suspended Job has none": func(e *plan.Execution) { e.Suspended = true },
		"it has ended":             func(e *plan.Execution) { e.State = plan.ExecutionFailed },
		"it is in another trouble": func(e *plan.Execution) { e.Trouble = plan.InsufficientResources },
	} {
		other := e
		change(&other)
		got, at = untouched(other, nil, "ns", begun.Add(time.Hour))
		require.Equal(t, other, got, name)
		require.Zero(t, at, name)
	}
}

// A pod that is bound and that its kubelet does not take is named, too.
func TestPodThatNoKubeletTakes(t *testing.T) {
	begun := start.Time
	e := plan.Execution{Name: "job", State: plan.ExecutionPending, Created: begun}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.CreationTimestamp, pod.Spec.NodeName, pod.Status.Phase = "ns", "pod", start, "node-1", corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	pod.Status.Conditions[0].LastTransitionTime.Time = begun.Add(time.Hour)
	got, at := untouched(e, []*corev1.Pod{pod}, "ns", begun.Add(time.Hour+59*time.Second))
	require.Empty(t, got.Trouble, "it was bound a moment ago")
	require.Equal(t, begun.Add(time.Hour+time.Minute), at)
	got, _ = untouched(e, []*corev1.Pod{pod}, "ns", begun.Add(time.Hour+time.Minute))
	require.Equal(t, plan.PodNotAcknowledged, got.Trouble)
	require.Equal(t, "pod ns/pod is bound to the node, and its kubelet does not start it", got.TroubleMessage)
	pod.Status.StartTime = &start
	got, at = untouched(e, []*corev1.Pod{pod}, "ns", begun.Add(2*time.Hour))
	require.Empty(t, got.Trouble, "the kubelet has it")
	require.Zero(t, at)
}

// A kubelet that cannot make a pod's sandbox (no network, a volume that is not there, a broken runtime) says no reason in the
// pod's status; without a look at the time it reads as work.
func TestPodWithoutASandbox(t *testing.T) {
	begun := start.Time
	e := plan.Execution{Name: "job", State: plan.ExecutionPending, Created: begun}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = "ns", "pod", "node-1", corev1.PodPending, &start
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	got, at := untouched(e, []*corev1.Pod{pod}, "ns", begun.Add(59*time.Second))
	require.Empty(t, got.Trouble, "it takes a moment")
	require.Equal(t, begun.Add(time.Minute), at)
	got, at = untouched(e, []*corev1.Pod{pod}, "ns", begun.Add(time.Minute))
	require.Equal(t, plan.PodNotAcknowledged, got.Trouble)
	require.Equal(t, "the kubelet has taken pod ns/pod and cannot start it: a volume, the network or the container runtime fails; its events say why",
		got.TroubleMessage)
	require.Zero(t, at)
	for name, change := range map[string]func(*corev1.Pod){
		"its image is being pulled":     func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue },
		"an older kubelet does not say": func(p *corev1.Pod) { p.Status.Conditions = nil },
		"it has run": func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		},
	} {
		other := pod.DeepCopy()
		change(other)
		got, at = untouched(e, []*corev1.Pod{other}, "ns", begun.Add(time.Hour))
		require.Empty(t, got.Trouble, name)
		require.Zero(t, at, name)
	}
}

// A container that fails again and again is named with its last exit code.
func TestTroubleOfACrashLoop(t *testing.T) {
	job := BuildJob(installSpec(), testNode(), testSettings())
	pod := podWith(job, done, waits("CrashLoopBackOff", "back-off 5m0s"))
	pod.Status.InitContainerStatuses[1].LastTerminationState = exited(7, "")
	pod.Status.InitContainerStatuses[1].RestartCount = 4
	e := Execution(job, []*corev1.Pod{pod})
	require.Equal(t, plan.CrashLoop, e.Trouble)
	require.Equal(t, "container tuning-apply: CrashLoopBackOff after exit code 7, 4 restarts", e.TroubleMessage)
}
