package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// drainView is what the pods of a node mean for an interrupt.
type drainView struct {
	// protected must never be disturbed: the node waits for them.
	protected []*corev1.Pod
	// evict have to be asked to leave.
	evict []*corev1.Pod
	// leaving were asked and are still there.
	leaving []*corev1.Pod
	// blocked must leave and may not be evicted, with the reason.
	blocked []blockedPod
}

type blockedPod struct {
	pod   *corev1.Pod
	cause BlockCause
	why   string
}

// empty reports whether every pod that had to leave is gone.
func (v drainView) empty() bool {
	return len(v.protected)+len(v.evict)+len(v.leaving)+len(v.blocked) == 0
}

// inTheWay are the pods that have to leave: those that can be asked first.
func (v drainView) inTheWay() []*corev1.Pod {
	all := slices.Concat(v.evict, v.leaving)
	for _, b := range v.blocked {
		all = append(all, b.pod)
	}
	return all
}

// viewPods sorts the pods of a node, by namespace and name, into what they mean for an interrupt. Ours are recognised
// by namespace and label, whatever admission did to their tolerations.
func viewPods(pods []*corev1.Pod, protect labels.Selector, cfg nwv1.DrainSettings, ourNamespace string) drainView {
	sorted := slices.Clone(pods)
	slices.SortFunc(sorted, func(a, b *corev1.Pod) int { return compareStrings(podName(a), podName(b)) })
	var v drainView
	for _, p := range sorted {
		switch {
		case finished(p) || isOurs(p, ourNamespace):
		case protect != nil && protect.Matches(labels.Set(p.Labels)):
			v.protected = append(v.protected, p)
		case staysThroughDrain(p, cfg):
		case p.DeletionTimestamp != nil:
			v.leaving = append(v.leaving, p)
		default:
			v.sort(p, cfg)
		}
	}
	return v
}

func (v *drainView) sort(p *corev1.Pod, cfg nwv1.DrainSettings) {
	switch cause, why := refusal(p, cfg); cause {
	case "":
		v.evict = append(v.evict, p)
	default:
		v.blocked = append(v.blocked, blockedPod{p, cause, why})
	}
}

// keep takes a pod out of those that are asked to leave.
func (v *drainView) keep(p *corev1.Pod, cause BlockCause, why string) {
	v.evict = slices.DeleteFunc(v.evict, func(e *corev1.Pod) bool { return e == p })
	v.blocked = append(v.blocked, blockedPod{p, cause, why})
}

// refusal is why the drainConfig forbids to evict the pod; empty if it does not.
func refusal(p *corev1.Pod, cfg nwv1.DrainSettings) (cause BlockCause, why string) {
	switch {
	case metav1.GetControllerOf(p) == nil && !cfg.Force:
		return BlockedUnmanaged, "no controller would replace it (drainConfig.force is false)"
	case controlledByDaemonSet(p) && !cfg.IgnoreDaemonSets:
		return BlockedDaemonSet, "a DaemonSet would replace it at once (drainConfig.ignoreDaemonSets is false)"
	case usesEmptyDir(p) && !cfg.DeleteEmptyDirData:
		return BlockedEmptyDir, "it has emptyDir data (drainConfig.deleteEmptyDirData is false)"
	}
	return "", ""
}

// staysThroughDrain are the pods that a drain never touches: mirror pods, DaemonSet pods, pods that tolerate cordons,
// and kube-system, as in NVIDIA's NodeWright.
func staysThroughDrain(p *corev1.Pod, cfg nwv1.DrainSettings) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || controlledByDaemonSet(p) && cfg.IgnoreDaemonSets ||
		p.Namespace == metav1.NamespaceSystem || toleratesCordon(p)
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func isOurs(p *corev1.Pod, ourNamespace string) bool {
	return p.Namespace == ourNamespace && p.Labels[nwv1.NameLabel] != ""
}

func controlledByDaemonSet(p *corev1.Pod) bool {
	c := metav1.GetControllerOf(p)
	return c != nil && c.Kind == "DaemonSet"
}

func usesEmptyDir(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
}

// toleratesCordon reports whether the scheduler would put the pod back on a cordoned node: evicting it would never end.
func toleratesCordon(p *corev1.Pod) bool {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return tolerated(p.Spec.Tolerations, cordon)
}

// isReady reports whether the kubelet last said that the pod is ready. A PodDisruptionBudget counts no other.
func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// stuckAfter is how long after its grace period, which ends at its deletion timestamp, a pod is called stuck: a kubelet
// needs a moment to tear it down.
const stuckAfter = 30 * time.Second

// stuckAt is when a pod that is leaving counts as stuck.
func stuckAt(p *corev1.Pod) time.Time { return p.DeletionTimestamp.Add(stuckAfter) }

// whyStuck says what keeps a pod that should have ended.
func whyStuck(p *corev1.Pod) string {
	ended := "pod " + podName(p) + " should have ended by " + p.DeletionTimestamp.UTC().Format(time.RFC3339)
	if len(p.Finalizers) > 0 {
		return ended + "; its finalizers hold it: " + firstOf(p.Finalizers)
	}
	return ended + "; the kubelet has not confirmed its end"
}

// graceSeconds rounds up to whole seconds; nil keeps the pod's own grace period.
func graceSeconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	s := int64(math.Ceil(d.Seconds()))
	return &s
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

func podRef(p *corev1.Pod) string { return "pod " + podName(p) }

// names lists the first pods and says how many more there are.
func names(pods []*corev1.Pod) string {
	all := make([]string, 0, len(pods))
	for _, p := range pods {
		all = append(all, podName(p))
	}
	return firstOf(all)
}

// firstOf lists the first few and says how many more there are.
func firstOf(all []string) string {
	const most = 3
	out := ""
	for i, s := range all {
		if i == most {
			return fmt.Sprintf("%s and %d more", out, len(all)-most)
		}
		if i > 0 {
			out += ", "
		}
		out += s
	}
	return out
}
