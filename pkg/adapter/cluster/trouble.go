package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// waitingTroubles are the kubelet's reasons of a container that cannot start. Others, such as PodInitializing, are the
// ordinary course.
var waitingTroubles = map[string]plan.Code{
	"ErrImagePull":               plan.ImagePull,
	"ImagePullBackOff":           plan.ImagePull,
	"ErrImageNeverPull":          plan.ImagePull,
	"ImageInspectError":          plan.ImagePull,
	"InvalidImageName":           plan.ImagePull,
	"RegistryUnavailable":        plan.ImagePull,
	"SignatureValidationFailed":  plan.ImagePull,
	"CreateContainerConfigError": plan.ContainerCannotRun,
	"CreateContainerError":       plan.ContainerCannotRun,
	"RunContainerError":          plan.ContainerCannotRun,
	"PreCreateHookError":         plan.ContainerCannotRun,
	"PostStartHookError":         plan.ContainerCannotRun,
	"CrashLoopBackOff":           plan.CrashLoop,
}

// trouble says why a pod cannot run now, in the kubelet's or the scheduler's words. See untouched for what time alone shows.
func trouble(pod *corev1.Pod) (plan.Code, string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return plan.InsufficientResources, c.Message
		}
	}
	for _, s := range containerStatuses(pod) {
		if w := s.State.Waiting; w != nil {
			if code, ok := waitingTroubles[w.Reason]; ok {
				return code, waitingMessage(s, w)
			}
		}
	}
	return "", ""
}

// unheard is how long a Job may be without a pod, a pod that is bound without an answer of its kubelet, and a pod that was taken
// without a place to run in, before that is a trouble of its own.
const unheard = time.Minute

// untouched says so where nothing makes a pod of a Job, or no kubelet takes the pod or can start it. at is when it will be a trouble if nothing
// happens; zero: it is one, or none. Both last until the stage's timeout and are no fault of the package.
func untouched(e plan.Execution, pods []*corev1.Pod, namespace string, now time.Time) (out plan.Execution, at time.Time) {
	if e.Ended() || e.Suspended || e.Trouble != "" {
		return e, time.Time{}
	}
	pod, code, message := newest(pods), plan.PodNotAcknowledged, ""
	switch {
	case pod == nil:
		at, code = e.Created.Add(unheard), plan.NoPod
		message = fmt.Sprintf("no pod is made of Job %s/%s: a quota, the PriorityClass or pod security may forbid it; its events say why",
			namespace, e.Name)
	case unacknowledged(pod):
		at = boundAt(pod).Add(unheard)
		message = fmt.Sprintf("pod %s/%s is bound to the node, and its kubelet does not start it", pod.Namespace, pod.Name)
	case placeless(pod):
		at = pod.Status.StartTime.Add(unheard)
		message = fmt.Sprintf("the kubelet has taken pod %s/%s and cannot start it: a volume, the network or the container runtime fails; its events say why",
			pod.Namespace, pod.Name)
	default:
		return e, time.Time{}
	}
	if now.Before(at) {
		return e, at
	}
	e.Trouble, e.TroubleMessage = code, message
	return e, time.Time{}
}

// placeless: the kubelet has not made the pod's sandbox, and says so (from Kubernetes 1.29 on). Nothing of the pod has run, and
// no image is pulled yet; the pod's status tells no reason.
func placeless(pod *corev1.Pod) bool {
	if pod.Status.StartTime == nil || pod.Status.Phase != corev1.PodPending || begun(pod) {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionFalse
	})
}

// unacknowledged: a kubelet that takes a pod writes its start time before anything else.
func unacknowledged(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.StartTime == nil && pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil
}

func boundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

func waitingMessage(s corev1.ContainerStatus, w *corev1.ContainerStateWaiting) string {
	if last := s.LastTerminationState.Terminated; last != nil && w.Reason == "CrashLoopBackOff" {
		return fmt.Sprintf("container %s: %s after exit code %d, %d restarts", s.Name, w.Reason, last.ExitCode, s.RestartCount)
	}
	if w.Message == "" {
		return fmt.Sprintf("container %s: %s (image %s)", s.Name, w.Reason, s.Image)
	}
	return fmt.Sprintf("container %s: %s: %s", s.Name, w.Reason, w.Message)
}

// lostReasons are pod reasons with which a kubelet or a controller takes a pod away that may have run.
var lostReasons = map[string]bool{
	"Evicted": true, "NodeLost": true, "NodeShutdown": true, "Terminated": true, "Shutdown": true, "Preempting": true,
}

// notCounted is why a pod ended through no fault of the package, in the words of who ended it; empty if it did.
func notCounted(pod *corev1.Pod) (plan.Code, string) {
	reason := pod.Status.Reason
	switch {
	case reason == podDeadline:
		return "", ""
	case refused(pod):
		return plan.PodRefused, told(reason, pod.Status.Message)
	case lostReasons[reason]:
		return plan.Disrupted, told(reason, pod.Status.Message)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return plan.Disrupted, told(c.Reason, c.Message)
		}
	}
	for _, s := range containerStatuses(pod) {
		if end := s.State.Terminated; end != nil && lostContainer(end) {
			return plan.Disrupted, "container " + s.Name + " was lost: the machine, or its kubelet, has restarted"
		}
	}
	if pod.DeletionTimestamp != nil && !failedByItself(pod) {
		return plan.Disrupted, "the pod was deleted"
	}
	return "", ""
}

// failedByItself reports whether a container ended badly by other means than the signals with which a pod is stopped.
func failedByItself(pod *corev1.Pod) bool {
	const sigkill, sigterm = 128 + 9, 128 + 15
	return slices.ContainsFunc(containerStatuses(pod), func(s corev1.ContainerStatus) bool {
		end := s.State.Terminated
		return end != nil && end.ExitCode != 0 && end.ExitCode != sigkill && end.ExitCode != sigterm
	})
}

// podDeadline is the reason of a pod whose activeDeadlineSeconds are over.
const podDeadline = "DeadlineExceeded"

// refused: the kubelet's admission refused the pod (OutOfcpu, NodeAffinity, UnexpectedAdmissionError, TopologyAffinityError
// and many more): it gives a reason, and no container of the pod has run.
func refused(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" && !lostReasons[pod.Status.Reason] && !begun(pod)
}

// begun reports whether a container of the pod runs or has run.
func begun(pod *corev1.Pod) bool {
	return slices.ContainsFunc(containerStatuses(pod), func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	})
}

// lostContainer: the kubelet does not know how the container ended, because the machine or the kubelet was restarted.
func lostContainer(end *corev1.ContainerStateTerminated) bool {
	return end.ExitCode != 0 && (end.Reason == "ContainerStatusUnknown" || end.Reason == "Unknown")
}

func told(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// maxQuote and maxQuoteLines bound what of a container's last words is carried on.
const (
	maxQuote      = 1024
	maxQuoteLines = 10
)

// withheld stands for the words of a package that reads Secrets, whose values this process does not know.
const withheld = "the package reads Secrets, so its output is not quoted; see the pod's log"

// quote returns the last lines of a container's termination message, which is the end of its log.
func quote(job *batchv1.Job, message string) string {
	message = strings.TrimSpace(message)
	if message == "" {
		return ""
	}
	if readsSecrets(job.Spec.Template.Spec) {
		return withheld
	}
	if result, ok := readAgentResult(message); ok {
		return result.sentence()
	}
	lines := strings.Split(message, "\n")
	if len(lines) > maxQuoteLines {
		lines = lines[len(lines)-maxQuoteLines:]
	}
	out := strings.Join(lines, "\n")
	if len(out) > maxQuote {
		out = strings.ToValidUTF8(out[len(out)-maxQuote:], "")
	}
	return out
}

// agentResult is what the agent leaves as the termination message: one line of JSON. These fields are its contract with the
// reconciler; see pkg/agent.Result.
type agentResult struct {
	Outcome string   `json:"outcome"`
	Message string   `json:"message"`
	Lines   []string `json:"lines"`
}

// maxSentence is how long the sentence of an agent's result may be, with the lines that it quotes: a node's record keeps 256
// characters, from the end.
const maxSentence = 250

// outcomeUnsafe is the outcome of an interrupt that the agent did not begin: the node was not empty and cordoned.
const outcomeUnsafe = "unsafe"

func readAgentResult(message string) (agentResult, bool) {
	var out agentResult
	if !strings.HasPrefix(message, "{") || json.Unmarshal([]byte(message), &out) != nil {
		return agentResult{}, false
	}
	return out, out.Outcome != "" && out.Message != ""
}

// sentence is the agent's own, and as many of the step's last lines as there is room for.
func (r agentResult) sentence() string {
	out := []rune(r.Message)
	if len(out) >= maxSentence {
		return string(out[:maxSentence-1]) + "…"
	}
	room, first := maxSentence-len(out)-len(": "), len(r.Lines)
	for first > 0 && room >= utf8.RuneCountInString(r.Lines[first-1]) {
		first--
		room -= utf8.RuneCountInString(r.Lines[first]) + len("\n")
	}
	if first == len(r.Lines) {
		return r.Message
	}
	return r.Message + ": " + strings.Join(r.Lines[first:], "\n")
}

func readsSecrets(spec corev1.PodSpec) bool {
	for _, c := range spec.InitContainers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				return true
			}
		}
	}
	return false
}
