package cluster

import (
	"encoding/json"
	"fmt"
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
	"CrashLoopBackOff":           plan.ContainerCannotRun,
}

// trouble says why a pod cannot run now, in the kubelet's or the scheduler's words.
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

// podless is how long a Job may be without a pod before that is a trouble of its own.
const podless = time.Minute

// withoutPod says so where nothing makes a pod of a Job. The reason stands in an event of the Job; the node waits for it, as
// for resources.
func withoutPod(e plan.Execution, namespace string, now time.Time) plan.Execution {
	if e.Ended() || e.Suspended || now.Sub(e.Created) < podless {
		return e
	}
	e.Trouble = plan.InsufficientResources
	e.TroubleMessage = fmt.Sprintf("no pod is made of Job %s/%s: a quota, the PriorityClass or pod security may forbid it; its events say why",
		namespace, e.Name)
	return e
}

func waitingMessage(s corev1.ContainerStatus, w *corev1.ContainerStateWaiting) string {
	if w.Message == "" {
		return fmt.Sprintf("container %s: %s (image %s)", s.Name, w.Reason, s.Image)
	}
	return fmt.Sprintf("container %s: %s: %s", s.Name, w.Reason, w.Message)
}

// disruptionReasons are pod reasons with which the kubelet or a controller takes a pod away. Admission refusals count:
// no container of the pod has run.
var disruptionReasons = map[string]bool{
	"Evicted": true, "NodeLost": true, "NodeShutdown": true, "Terminated": true, "Shutdown": true,
	"Preempting": true, "NodeAffinity": true, "UnexpectedAdmissionError": true,
}

// disrupted reports whether the pod was lost through no fault of the package.
func disrupted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	reason := pod.Status.Reason
	return disruptionReasons[reason] || strings.HasPrefix(reason, "OutOf")
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
