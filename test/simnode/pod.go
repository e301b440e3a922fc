package simnode

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// podRun is what a kubelet knows of a pod beyond its status. The queue works on a pod once at a time, so only the map
// of all runs needs the lock.
type podRun struct {
	boot       string // the boot in which its containers run
	begun      time.Time
	terminates time.Time   // when deletion was first seen
	looked     time.Time   // when its containers were last looked at
	written    *corev1.Pod // as the last write left it, which the watch may not have brought yet
	containers map[string]*containerRun
}

type containerRun struct {
	started   bool
	began     time.Time
	notBefore time.Time // back-off
	pulls     int       // failed image pulls
	result    Result
}

func (r *podRun) container(name string) *containerRun {
	c := r.containers[name]
	if c == nil {
		c = &containerRun{}
		r.containers[name] = c
	}
	return c
}

func (f *Fleet) run(p *corev1.Pod, boot string) *podRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[p.UID]
	if r == nil {
		r = &podRun{boot: boot, begun: f.options.Clock.Now(), containers: map[string]*containerRun{}}
		if p.Status.StartTime != nil { // taken over from an earlier Fleet
			r.begun = p.Status.StartTime.Time
		}
		f.runs[p.UID] = r
	}
	return r
}

// podSync is one look of a kubelet at one pod.
type podSync struct {
	fleet   *Fleet
	pod     *corev1.Pod
	run     *podRun
	now     metav1.Time
	free    time.Time     // when the init container before ended, so that the next one starts then and not now
	again   time.Duration // look again after this; 0: when something changes
	power   power         // what a container did to the machine
	evicted string        // the kubelet evicts the pod, with this message
}

// syncPod brings a pod one step on. Everything is decided on the copy p and written once, so that a lost write is
// simply decided again.
func (f *Fleet) syncPod(ctx context.Context, p *corev1.Pod) (time.Duration, error) {
	n, err := f.known(p.Spec.NodeName)
	if err != nil || n.down || n.silent {
		return 0, nil // nobody plays this kubelet now; PowerOn and SetSilent look at all pods again
	}
	s := &podSync{fleet: f, run: f.run(p, n.bootID), now: f.now()}
	p = s.run.newest(p)
	s.pod = p
	if p.DeletionTimestamp != nil {
		return s.terminate(ctx)
	}
	if isDone(p) {
		return 0, nil
	}
	if wait := f.options.Relist - s.now.Sub(s.run.looked); wait > 0 {
		return wait, nil
	}
	s.run.looked = s.now.Time
	before := p.Status.DeepCopy()
	if r := f.refusal(p); r.Reason != "" {
		p.Status.Phase, p.Status.Reason = corev1.PodFailed, r.Reason
		p.Status.Message = "Pod was rejected: " + r.Message
		p.Status.StartTime = &s.now
		return 0, s.write(ctx, before)
	}
	s.begin(n)
	if s.run.boot != n.bootID {
		s.afterReboot()
	}
	s.advance()
	if err := s.write(ctx, before); err != nil {
		return 0, err
	}
	s.run.boot = n.bootID
	if s.power != "" {
		f.halt(n.name)
		f.queue.Add(key{node: n.name, power: s.power})
		return 0, nil
	}
	return s.again, nil
}

// newest is the pod as the watch or the last write has it.
func (r *podRun) newest(p *corev1.Pod) *corev1.Pod {
	if r.written == nil {
		return p
	}
	// Versions of one resource compare (KEP-5504).
	if newer, err := resourceversion.CompareResourceVersion(r.written.ResourceVersion, p.ResourceVersion); err != nil || newer <= 0 {
		r.written = nil
		return p
	}
	return r.written.DeepCopy()
}

// refusal asks the kubelet's admission once: a pod that has begun was admitted.
func (f *Fleet) refusal(p *corev1.Pod) Refusal {
	if p.Status.StartTime != nil {
		return Refusal{}
	}
	return f.options.Admit(p.DeepCopy())
}

func isDone(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// ownedByJob says whether the pod's containers end by themselves.
func (s *podSync) ownedByJob() bool {
	owner := metav1.GetControllerOf(s.pod)
	return owner != nil && owner.Kind == "Job"
}

// lookAgain keeps the earliest of several waits.
func (s *podSync) lookAgain(d time.Duration) {
	if d > 0 && (s.again == 0 || d < s.again) {
		s.again = d
	}
}

// begin fills what a kubelet writes when it accepts a pod.
func (s *podSync) begin(n node) {
	st := &s.pod.Status
	if st.StartTime == nil {
		st.StartTime = &s.now
	}
	st.HostIP, st.HostIPs = n.ip, []corev1.HostIP{{IP: n.ip}}
	st.InitContainerStatuses = waitingStatuses(st.InitContainerStatuses, s.pod.Spec.InitContainers)
	st.ContainerStatuses = waitingStatuses(st.ContainerStatuses, s.pod.Spec.Containers)
	if s.pod.Spec.HostNetwork && st.PodIP == "" {
		st.PodIP, st.PodIPs = n.ip, []corev1.PodIP{{IP: n.ip}}
	}
}

func waitingStatuses(have []corev1.ContainerStatus, spec []corev1.Container) []corev1.ContainerStatus {
	for _, c := range spec[len(have):] {
		have = append(have, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: waiting("PodInitializing", "")})
	}
	return have
}

// advance moves the containers and derives phase and conditions from them.
func (s *podSync) advance() {
	if s.overDeadline() {
		s.killRunning(137)
		s.pod.Status.Phase, s.pod.Status.Reason = corev1.PodFailed, "DeadlineExceeded"
		s.pod.Status.Message = "Pod was active on the node longer than the specified deadline"
	} else {
		s.pod.Status.Phase = s.advanceContainers()
	}
	if s.evicted != "" {
		s.evict()
	}
	s.setConditions()
}

// evict writes what a kubelet under pressure writes.
func (s *podSync) evict() {
	s.killRunning(137)
	st := &s.pod.Status
	st.Phase, st.Reason, st.Message = corev1.PodFailed, "Evicted", s.evicted
	st.Conditions = append(st.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: s.evicted,
		LastTransitionTime: s.now,
	})
}

func (s *podSync) overDeadline() bool {
	limit := s.pod.Spec.ActiveDeadlineSeconds
	if limit == nil {
		return false
	}
	left := time.Duration(*limit)*time.Second - s.now.Sub(s.run.begun)
	s.lookAgain(left)
	return left <= 0
}

func (s *podSync) advanceContainers() corev1.PodPhase {
	st := &s.pod.Status
	for i := range st.InitContainerStatuses {
		switch s.step(s.pod.Spec.InitContainers[i], &st.InitContainerStatuses[i], true) {
		case failed:
			return corev1.PodFailed
		case succeeded:
			st.InitContainerStatuses[i].Ready = true
			r := s.run.container(st.InitContainerStatuses[i].Name)
			s.free = r.began.Add(s.duration(r))
			if s.power != "" {
				return corev1.PodPending // the machine goes down before the next container starts
			}
		default:
			return corev1.PodPending
		}
	}
	count := map[progress]int{}
	for i := range st.ContainerStatuses {
		cs := &st.ContainerStatuses[i]
		p := s.step(s.pod.Spec.Containers[i], cs, s.ownedByJob())
		cs.Ready = p == running && !s.run.container(cs.Name).result.NotReady
		count[p]++
	}
	return phaseOf(count)
}

func phaseOf(count map[progress]int) corev1.PodPhase {
	switch {
	case count[running] > 0 || count[restarting] > 0:
		return corev1.PodRunning
	case count[pending] > 0:
		return corev1.PodPending
	case count[failed] > 0:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

// write sends the status if it has changed. The resource version in p makes a write on an old state fail.
func (s *podSync) write(ctx context.Context, before *corev1.PodStatus) error {
	if equality.Semantic.DeepEqual(before, &s.pod.Status) {
		return nil
	}
	s.pod.Status.ObservedGeneration = s.pod.Generation
	written, err := s.fleet.client.CoreV1().Pods(s.pod.Namespace).UpdateStatus(ctx, s.pod, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.run.looked = time.Time{}
		return fmt.Errorf("write status of pod %s/%s: %w", s.pod.Namespace, s.pod.Name, err)
	}
	s.run.written = written
	return nil
}

// terminate ends a deleted pod: it waits as long as the pod takes, reports the containers' end and then removes the
// object, which stays while others hold finalizers on it.
func (s *podSync) terminate(ctx context.Context) (time.Duration, error) {
	grace := graceOf(s.pod)
	if isDone(s.pod) && grace == 0 {
		return 0, nil
	}
	if s.run.terminates.IsZero() {
		s.run.terminates = s.now.Time
	}
	takes := s.fleet.options.Termination(s.pod)
	if left := min(takes, grace) - s.now.Sub(s.run.terminates); left > 0 && !isDone(s.pod) {
		return left, nil
	}
	if !isDone(s.pod) {
		before := s.pod.Status.DeepCopy()
		exit := int32(143) // SIGTERM
		if takes > grace {
			exit = 137 // SIGKILL
		}
		s.killRunning(exit)
		s.pod.Status.Phase = corev1.PodFailed
		s.setConditions()
		if err := s.write(ctx, before); err != nil {
			return 0, err
		}
	}
	return 0, s.remove(ctx)
}

func graceOf(p *corev1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}

func (s *podSync) remove(ctx context.Context) error {
	now := int64(0)
	err := s.fleet.client.CoreV1().Pods(s.pod.Namespace).Delete(ctx, s.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &s.pod.UID}})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another pod of the same name
		return nil
	}
	return fmt.Errorf("remove pod %s/%s: %w", s.pod.Namespace, s.pod.Name, err)
}
