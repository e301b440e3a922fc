package cluster

import (
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Execution translates one of our Jobs and its pods. The Job's own conditions decide when it has ended; the pod's
// container statuses say how far it came and why it failed. TroubleSince is left to the caller, who alone knows when a
// trouble was first seen.
func Execution(job *batchv1.Job, pods []*corev1.Pod) plan.Execution {
	out := plan.Execution{
		ExecutionKey: executionKey(job), Name: job.Name, Node: job.Annotations[fleetv1.NodeAnnotation],
		Compartment: job.Annotations[fleetv1.CompartmentAnnotation], Batch: int32(labelNumber(job.Labels[fleetv1.BatchLabel])),
		Order: orderOf(job), State: plan.ExecutionPending, Created: began(job),
		Suspended: job.Spec.Suspend != nil && *job.Spec.Suspend,
	}
	pod := newest(pods)
	if pod != nil {
		readPod(&out, job, pod)
	}
	readEnd(&out, job, pod)
	return out
}

// orderOf is the order number of the admission; nil if the Job does not say.
func orderOf(job *batchv1.Job) *int32 {
	n, err := strconv.ParseInt(job.Annotations[fleetv1.OrderAnnotation], 10, 32)
	if err != nil {
		return nil
	}
	return new(int32(n))
}

// began is when the Job's time began to run. The Job controller sets startTime anew when a suspended Job goes on, so a
// pause uses up nothing of its deadline.
func began(job *batchv1.Job) time.Time {
	if job.Status.StartTime != nil {
		return job.Status.StartTime.Time
	}
	return job.CreationTimestamp.Time
}

func executionKey(job *batchv1.Job) plan.ExecutionKey {
	out := keyOfLabels(job.Labels)
	out.NodeWright = job.Annotations[fleetv1.NodeWrightAnnotation]
	return out
}

// keyOfLabels is the key without the NodeWright's name.
func keyOfLabels(l map[string]string) plan.ExecutionKey {
	return plan.ExecutionKey{
		NodeWrightUID: types.UID(l[fleetv1.NodeWrightUIDLabel]),
		NodeUID:       types.UID(l[fleetv1.NodeUIDLabel]), Round: labelNumber(l[fleetv1.RoundLabel]),
		Package: l[fleetv1.PackageNameLabel], Phase: plan.Phase(l[fleetv1.PhaseLabel]),
		Wave: int32(labelNumber(l[waveLabel])), Attempt: int32(labelNumber(l[fleetv1.AttemptLabel])),
	}
}

// labelNumber reads a label of ours; what is not a number reads as 0, which belongs to no round.
func labelNumber(label string) int64 {
	n, err := strconv.ParseInt(label, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func newest(pods []*corev1.Pod) *corev1.Pod {
	var out *corev1.Pod
	for _, p := range pods {
		if out == nil || out.CreationTimestamp.Before(&p.CreationTimestamp) {
			out = p
		}
	}
	return out
}

// readPod fills what the pod says: stages, trouble, the failed container.
func readPod(out *plan.Execution, job *batchv1.Job, pod *corev1.Pod) {
	for _, c := range stageContainers(job) {
		status := statusOf(pod, c.name)
		if status.State.Running != nil || status.State.Terminated != nil {
			out.State, out.Stage = plan.ExecutionRunning, c.stage
		}
		if succeeded(status) && c.last {
			out.Done = append(out.Done, c.stage)
		}
	}
	readFailure(out, job, pod)
	out.Trouble, out.TroubleMessage = trouble(pod)
	if cause, message := notCounted(pod); cause != "" {
		out.Disrupted, out.Cause, out.Message = true, cause, message
	}
	out.TimedOut = pod.Status.Reason == podDeadline
}

// readFailure names the first container that ended badly. `<package>-init` belongs to the stage that it prepares.
func readFailure(out *plan.Execution, job *batchv1.Job, pod *corev1.Pod) {
	for _, status := range containerStatuses(pod) {
		end := status.State.Terminated
		if end == nil || end.ExitCode == 0 {
			continue
		}
		out.ExitCode, out.Message = end.ExitCode, quote(job, end.Message)
		readCause(out, end)
		stages := stageContainers(job)
		if stage, ok := stageOf(stages, status.Name); ok {
			out.Stage = stage
		} else if out.Stage == "" && len(stages) > 0 {
			out.Stage = stages[0].stage
		}
		return
	}
}

// readCause names what is more than an exit code: the kernel ended it, or the agent refused.
func readCause(out *plan.Execution, end *corev1.ContainerStateTerminated) {
	result, ok := readAgentResult(strings.TrimSpace(end.Message))
	switch {
	case end.Reason == "OOMKilled":
		out.Cause = plan.OutOfMemory
		if out.Message == "" {
			out.Message = "a container was killed because it, or the node, ran out of memory"
		}
	case ok && result.Outcome == outcomeUnsafe && out.Phase == plan.PhaseInterrupt:
		out.Cause, out.Disrupted = plan.InterruptRefused, true
	}
}

// readEnd fills the end of the Job. A Job that failed without a pod lost it: a failed pod stays as long as its Job.
func readEnd(out *plan.Execution, job *batchv1.Job, pod *corev1.Pod) {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			out.State, out.Finished = plan.ExecutionSucceeded, endTime(job.Status.CompletionTime, c)
			out.Done, out.Stage, out.Trouble, out.TroubleMessage = allStages(job), "", "", ""
			out.Disrupted, out.Cause, out.Message = false, "", ""
		case batchv1.JobFailed:
			out.State, out.Finished = plan.ExecutionFailed, c.LastTransitionTime.Time
			readLoss(out, c, pod)
			out.Trouble, out.TroubleMessage = "", ""
		}
	}
}

// readLoss tells apart what a deadline ended from what was lost. A deadline that found a pod in trouble which had not begun
// says nothing of the package.
func readLoss(out *plan.Execution, failed batchv1.JobCondition, pod *corev1.Pod) {
	out.TimedOut = out.TimedOut || failed.Reason == batchv1.JobReasonDeadlineExceeded
	switch {
	case out.TimedOut && out.Trouble != "" && (pod == nil || !begun(pod)):
		out.Disrupted, out.Cause, out.Message = true, out.Trouble, out.TroubleMessage
	case out.TimedOut:
		out.Disrupted, out.Cause = false, ""
	case pod == nil:
		out.Disrupted, out.Cause, out.Message = true, plan.Disrupted, "its pod is gone"
	}
}

func endTime(completion *metav1.Time, c batchv1.JobCondition) time.Time {
	if completion != nil {
		return completion.Time
	}
	return c.LastTransitionTime.Time
}

// stageContainer is a container that runs a stage or its check.
type stageContainer struct {
	name  string
	stage nwv1.Stage
	last  bool // the stage has succeeded when this one has
}

// interruptContainer is the name that NVIDIA's tools look for.
const interruptContainer = "interrupt"

// checkSuffix follows the stage in the name of its check's container, without a hyphen.
const checkSuffix = "check"

// stageContainers reads the stages back from the Job's template.
func stageContainers(job *batchv1.Job) []stageContainer {
	names := make([]string, 0, len(job.Spec.Template.Spec.InitContainers))
	for _, c := range job.Spec.Template.Spec.InitContainers {
		names = append(names, c.Name)
	}
	return namedStages(job.Labels[fleetv1.PackageNameLabel], names)
}

func stageOf(containers []stageContainer, name string) (nwv1.Stage, bool) {
	for _, c := range containers {
		if c.name == name {
			return c.stage, true
		}
	}
	return "", false
}

func allStages(job *batchv1.Job) []nwv1.Stage {
	var out []nwv1.Stage
	for _, c := range stageContainers(job) {
		if c.last {
			out = append(out, c.stage)
		}
	}
	return out
}

func containerStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return append(append([]corev1.ContainerStatus(nil), pod.Status.InitContainerStatuses...),
		pod.Status.ContainerStatuses...)
}

func statusOf(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

func succeeded(s corev1.ContainerStatus) bool {
	return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}
