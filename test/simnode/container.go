package simnode

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// progress is where a container stands after a step.
type progress int

const (
	pending    progress = iota // its image cannot be pulled
	running                    //
	restarting                 // failed and waits for its restart
	succeeded                  // terminated with exit code 0
	failed                     // terminated with another one, for good
)

// step moves one container on; ends says whether it may end by itself.
func (s *podSync) step(c corev1.Container, cs *corev1.ContainerStatus, ends bool) progress {
	if t := cs.State.Terminated; t != nil {
		return progressOf(t.ExitCode)
	}
	r := s.run.container(c.Name)
	if wait := r.notBefore.Sub(s.now.Time); wait > 0 {
		s.lookAgain(wait)
		return waitingFor(cs)
	}
	if !r.started && !s.start(c, cs, r) {
		return pending
	}
	if cs.State.Running == nil {
		s.reportRunning(c, cs)
	}
	if !ends || r.result.Hangs {
		return running
	}
	if left := s.duration(r) - s.now.Sub(r.began); left > 0 {
		s.lookAgain(left)
		return running
	}
	return s.end(c, cs, r)
}

func progressOf(exit int32) progress {
	if exit == 0 {
		return succeeded
	}
	return failed
}

func waitingFor(cs *corev1.ContainerStatus) progress {
	if cs.LastTerminationState.Terminated != nil {
		return restarting
	}
	return pending
}

func (s *podSync) duration(r *containerRun) time.Duration {
	if r.result.Duration > 0 {
		return r.result.Duration
	}
	return s.fleet.options.Duration
}

// start asks for the container's fate, once. It says false when the image cannot be pulled.
func (s *podSync) start(c corev1.Container, cs *corev1.ContainerStatus, r *containerRun) bool {
	result := s.fleet.options.Outcome(s.pod.DeepCopy(), c.Name)
	if result.ImagePullError == "" {
		*r = containerRun{started: true, began: s.now.Time, result: result}
		if !s.free.IsZero() {
			r.began = s.free
		}
		if cs.State.Running != nil { // taken over from an earlier Fleet
			r.began = cs.State.Running.StartedAt.Time
		}
		return true
	}
	// A kubelet shows the error at each try and the back-off between tries; here they take turns.
	reason, message := "ErrImagePull", result.ImagePullError
	if r.pulls%2 == 1 {
		reason, message = "ImagePullBackOff", `Back-off pulling image "`+c.Image+`": `+result.ImagePullError
	}
	r.pulls++
	cs.State = waiting(reason, message)
	r.notBefore = s.now.Add(s.fleet.options.RestartBackoff)
	s.lookAgain(s.fleet.options.RestartBackoff)
	return false
}

func (s *podSync) reportRunning(c corev1.Container, cs *corev1.ContainerStatus) {
	yes := true
	cs.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: s.now}}
	cs.Started, cs.ImageID, cs.ContainerID = &yes, "simnode://"+c.Image, "simnode://"+string(s.pod.UID)+"/"+c.Name
}

// end is the moment at which the container's time is up.
func (s *podSync) end(c corev1.Container, cs *corev1.ContainerStatus, r *containerRun) progress {
	if r.result.Evicted != "" {
		s.evicted = r.result.Evicted
		return running
	}
	switch r.result.Reboot {
	case RebootKills:
		s.power = powerCycle
		return running
	case RebootForEver:
		s.power = powerOff
		return running
	case RebootAfterExit:
		s.power = powerCycle
	case NoReboot:
	}
	t := s.terminated(c, cs, r.result)
	if t.ExitCode == 0 || s.pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		cs.State, cs.Started = corev1.ContainerState{Terminated: t}, nil
		return progressOf(t.ExitCode)
	}
	s.restart(cs, t)
	s.run.container(c.Name).notBefore = s.now.Add(s.fleet.options.RestartBackoff)
	s.lookAgain(s.fleet.options.RestartBackoff)
	return restarting
}

func (s *podSync) terminated(c corev1.Container, cs *corev1.ContainerStatus, r Result) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{ExitCode: r.Exit, Reason: "Completed", FinishedAt: s.now,
		StartedAt: cs.State.Running.StartedAt, ContainerID: cs.ContainerID}
	switch {
	case r.OOMKilled:
		t.ExitCode, t.Reason = 137, "OOMKilled"
	case r.Exit != 0:
		t.Reason = "Error"
	}
	t.Message = message(c, r, t.ExitCode)
	return t
}

// message follows the rules of container.terminationMessagePolicy: the message file, at most 4096 bytes; if there is
// none, the container failed and the policy says so, the log's last 80 lines or 2048 bytes.
func message(c corev1.Container, r Result, exit int32) string {
	if r.Message != "" {
		return lastBytes(r.Message, 4096)
	}
	if exit == 0 || c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	lines := strings.SplitAfter(r.Log, "\n")
	if n := len(lines); n > 80 {
		lines = lines[n-80:]
	}
	return lastBytes(strings.Join(lines, ""), 2048)
}

func lastBytes(s string, limit int) string {
	if len(s) > limit {
		return s[len(s)-limit:]
	}
	return s
}

// restart puts a container back to the beginning, with the last end on record.
func (s *podSync) restart(cs *corev1.ContainerStatus, last *corev1.ContainerStateTerminated) {
	*s.run.container(cs.Name) = containerRun{}
	cs.LastTerminationState = corev1.ContainerState{Terminated: last}
	cs.RestartCount++
	cs.State, cs.Ready, cs.Started = waiting("CrashLoopBackOff", "back-off restarting failed container"), false, nil
}

// killRunning ends every running container from outside.
func (s *podSync) killRunning(exit int32) {
	for _, cs := range s.statuses() {
		if cs.State.Running != nil {
			cs.State = corev1.ContainerState{Terminated: s.killed(cs, exit, "Error")}
			cs.Ready, cs.Started = false, nil
		}
	}
}

func (s *podSync) killed(cs *corev1.ContainerStatus, exit int32, reason string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: exit, Reason: reason, ContainerID: cs.ContainerID,
		StartedAt: cs.State.Running.StartedAt, FinishedAt: s.now}
}

// afterReboot reports what a kubelet finds when the machine is back: the containers that ran are dead. A pod that is
// never restarted fails by that; the others begin again with their first init container.
func (s *podSync) afterReboot() {
	never := s.pod.Spec.RestartPolicy == corev1.RestartPolicyNever
	for _, cs := range s.statuses() {
		last := cs.State.Terminated
		if cs.State.Running != nil {
			last = s.killed(cs, 255, "Unknown")
		}
		switch {
		case last == nil: // had not started; what was decided for it is void
			*s.run.container(cs.Name) = containerRun{}
		case never:
			cs.State, cs.Started = corev1.ContainerState{Terminated: last}, nil
			cs.Ready = cs.Ready && last.ExitCode == 0
		default:
			s.restart(cs, last)
			cs.State = waiting("PodInitializing", "")
		}
	}
}

func (s *podSync) statuses() []*corev1.ContainerStatus {
	var all []*corev1.ContainerStatus
	for i := range s.pod.Status.InitContainerStatuses {
		all = append(all, &s.pod.Status.InitContainerStatuses[i])
	}
	for i := range s.pod.Status.ContainerStatuses {
		all = append(all, &s.pod.Status.ContainerStatuses[i])
	}
	return all
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// setConditions writes the conditions that a kubelet owns; others, such as DisruptionTarget, stay.
func (s *podSync) setConditions() {
	st := &s.pod.Status
	initialized := true
	for _, cs := range st.InitContainerStatuses {
		initialized = initialized && cs.Ready
	}
	ready := st.Phase == corev1.PodRunning
	for _, cs := range st.ContainerStatuses {
		ready = ready && cs.Ready
	}
	s.setCondition(corev1.PodScheduled, true)
	s.setCondition(corev1.PodInitialized, initialized)
	s.setCondition(corev1.ContainersReady, ready)
	s.setCondition(corev1.PodReady, ready)
}

func (s *podSync) setCondition(t corev1.PodConditionType, yes bool) {
	want := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.now.Time)}
	if yes {
		want.Status = corev1.ConditionTrue
	}
	for i, c := range s.pod.Status.Conditions {
		if c.Type != t {
			continue
		}
		if c.Status != want.Status {
			s.pod.Status.Conditions[i] = want
		}
		return
	}
	s.pod.Status.Conditions = append(s.pod.Status.Conditions, want)
}
