package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// codeOf is the reason of a node of which a drain is held up for that cause.
func codeOf(c BlockCause) Code {
	switch c {
	case BlockedByBudget:
		return DisruptionBudget
	case BlockedByError:
		return EvictionFailed
	case BlockedStuck:
		return PodStuck
	case BlockedByTimeout:
		return DrainTimeout
	case BlockedProtected:
		return ProtectedPod
	case BlockedUnmanaged, BlockedEmptyDir, BlockedDaemonSet, BlockedOwn:
	}
	return DrainBlocked
}

// becauseDraining says what the drain waits for: first the pods that do not leave by themselves.
func (t *turn) becauseDraining(pods drainView, blockers []Blocker, late bool) {
	switch {
	case late:
		t.because(DrainTimeout, "", "the drain has outlasted its timeout: "+names(pods.inTheWay())+mostly(blockers))
	case len(blockers) > 0:
		t.because(codeOf(blockers[0].Cause), "pod "+blockers[0].Pod, all(blockers))
	default:
		t.because(Draining, "", "pods are leaving: "+names(pods.inTheWay())+t.meanwhile(pods.evict))
	}
}

// meanwhile is why pods were not taken although nothing is wrong with them.
func (t *turn) meanwhile(pods []*corev1.Pod) string {
	for _, p := range pods {
		if answer, refused := t.m.node.Refusals[p.UID]; refused {
			return "; " + answer.Message
		}
	}
	return ""
}

// mostly is the first of the blockers behind a semicolon; empty if there is none, or none that says more than a name.
func mostly(blockers []Blocker) string {
	i := slices.IndexFunc(blockers, func(b Blocker) bool { return b.Cause != BlockedByTimeout })
	if i < 0 {
		return ""
	}
	return "; " + blockers[i].Message
}

// all words the first few blockers.
func all(blockers []Blocker) string {
	const most = 3
	var parts []string
	for _, b := range blockers[:min(most, len(blockers))] {
		parts = append(parts, b.Message)
	}
	if more := len(blockers) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more pods", more))
	}
	return strings.Join(parts, "; ")
}

// heldUpBy notes what holds the node up, for the status.
func (m *member) heldUpBy(blockers ...Blocker) {
	for i := range blockers {
		blockers[i].Node = m.node.Name
	}
	m.blockers = blockers
}

// add counts the blockers of a node and keeps the first.
func (b *Blockers) add(more ...Blocker) {
	b.Count += int32(len(more))
	b.First = append(b.First, more[:min(len(more), firstNames-len(b.First))]...)
}

// isStuck reports whether a pod that is leaving has outlived its own grace period.
func (t *turn) isStuck(p *corev1.Pod) bool { return t.over(stuckAt(p)) }

// hopeless is why waiting does not help against a budget that refuses: no other node can take the pod, so that no budget
// will ever have one to spare; or the pod is not ready and counts for nothing already.
func (t *turn) hopeless(p *corev1.Pod) string {
	switch {
	case !isReady(p):
		return "; the pod is not ready itself, so the budget cannot be met by waiting for it" +
			" (unhealthyPodEvictionPolicy: AlwaysAllow would let it go)"
	case !t.p.hasPlace(p, t.m.node):
		return "; there is nowhere to move it: no other node is Ready, schedulable and selected by the pod"
	}
	return ""
}

// hasPlace reports whether a node other than this one could take the pod, as far as nodes and pod say: it is Ready,
// schedulable, without a taint that the pod does not tolerate, and what the pod selects.
func (p *pass) hasPlace(pod *corev1.Pod, from *Node) bool {
	return slices.ContainsFunc(p.nodes, func(n *Node) bool {
		return n.UID != from.UID && n.Ready && !n.Unschedulable && tolerates(pod, n) && selectedBy(pod, n)
	})
}

func tolerates(pod *corev1.Pod, n *Node) bool {
	return !slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(pod.Spec.Tolerations, t)
	})
}

// selectedBy follows the scheduler: nodeSelector and, of the required node affinity, one of its terms.
func selectedBy(pod *corev1.Pod, n *Node) bool {
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		return slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool { return termMatches(term, n) })
	}
	return true
}

// termMatches: a term without any requirement matches nothing.
func termMatches(term corev1.NodeSelectorTerm, n *Node) bool {
	matches := func(set labels.Set) func(corev1.NodeSelectorRequirement) bool {
		return func(r corev1.NodeSelectorRequirement) bool { return requirementHolds(r, set) }
	}
	return len(term.MatchExpressions)+len(term.MatchFields) > 0 &&
		every(term.MatchExpressions, matches(n.Labels)) && every(term.MatchFields, matches(labels.Set{"metadata.name": n.Name}))
}

func every[T any](items []T, holds func(T) bool) bool {
	return !slices.ContainsFunc(items, func(item T) bool { return !holds(item) })
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func requirementHolds(r corev1.NodeSelectorRequirement, set labels.Set) bool {
	requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
	return err == nil && requirement.Matches(set)
}
