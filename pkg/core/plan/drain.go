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
	// blocked must leave and may not be evicted under the drainConfig, with the reason.
	blocked []blockedPod
}

type blockedPod struct {
	pod *corev1.Pod
	why string
}

// empty reports whether every pod that had to leave is gone.
func (v drainView) empty() bool {
	return len(v.protected)+len(v.evict)+len(v.leaving)+len(v.blocked) == 0
}

// viewPods sorts the pods of a node, by namespace and name, into what they mean for an interrupt. Ours are recognised
// by namespace and label, whatever admission did to their tolerations.
func viewPods(pods []*corev1.Pod, protect labels.Selector, cfg nwv1.DrainSettings, ourNamespace string) drainView {
	sorted := slices.Clone(pods)
	slices.SortFunc(sorted, func(a, b *corev1.Pod) int {
		return compareStrings(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
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
	switch why := refusal(p, cfg); why {
	case "":
		v.evict = append(v.evict, p)
	default:
		v.blocked = append(v.blocked, blockedPod{p, why})
	}
}

// refusal is why the drainConfig forbids to evict the pod; empty if it does not.
func refusal(p *corev1.Pod, cfg nwv1.DrainSettings) string {
	switch {
	case metav1.GetControllerOf(p) == nil && !cfg.Force:
		return "no controller would replace it (drainConfig.force is false)"
	case controlledByDaemonSet(p) && !cfg.IgnoreDaemonSets:
		return "a DaemonSet would replace it at once (drainConfig.ignoreDaemonSets is false)"
	case usesEmptyDir(p) && !cfg.DeleteEmptyDirData:
		return "it has emptyDir data (drainConfig.deleteEmptyDirData is false)"
	}
	return ""
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

// evictions asks the pods to leave. With force they are deleted, which no PodDisruptionBudget can refuse.
func evictions(pods []*corev1.Pod, cfg nwv1.DrainSettings, force bool) []Eviction {
	out := make([]Eviction, 0, len(pods))
	for _, p := range pods {
		out = append(out, Eviction{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			Delete: cfg.DisableEviction || force, GracePeriodSeconds: graceSeconds(cfg.GracePeriod),
		})
	}
	return out
}

// graceSeconds rounds up to whole seconds; nil keeps the pod's own grace period.
func graceSeconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	s := int64(math.Ceil(d.Seconds()))
	return &s
}

func podRef(p *corev1.Pod) string { return fmt.Sprintf("pod %s/%s", p.Namespace, p.Name) }

// names lists the first pods and says how many more there are.
func names(pods []*corev1.Pod) string {
	const most = 3
	out := ""
	for i, p := range pods {
		if i == most {
			return fmt.Sprintf("%s and %d more", out, len(pods)-most)
		}
		if i > 0 {
			out += ", "
		}
		out += p.Namespace + "/" + p.Name
	}
	return out
}
