package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

func compareStrings(a, b string) int { return cmp.Compare(a, b) }

// member is one node under one NodeWright: what the node says, what is left to do, and where it stands.
type member struct {
	node *Node
	rec  noderecord.Record
	// had says that the node has a record of this NodeWright.
	had bool
	// selected: the selector matches. targeted: selected, not ignored, taints tolerated.
	selected, targeted bool
	// excluded is why a selected node is not targeted.
	excluded Reason
	// compartment that the node's labels put it in now.
	compartment string
	work        work
}

// complete reports whether the node has everything that is wanted and no turn is open on it.
func (m *member) complete() bool {
	return len(m.work) == 0 && !m.rec.IsOpen() && !(m.rec.Outcome == noderecord.Failed && m.owns())
}

// owns reports whether the NodeWright owns a cordon of the node.
func (m *member) owns() bool {
	return m.rec.NodeWright != "" && slices.Contains(m.node.CordonOwners, m.nodeWright())
}

func (m *member) nodeWright() string { return m.excluded.NodeWright }

// members are the nodes that matter to a NodeWright: those that it selects, and those where it still has a turn open
// or owns a cordon. Sorted by node name.
func (p *pass) members(nw *NodeWright) []*member {
	selector := selectorOf(nw.Spec.NodeSelectors)
	var out []*member
	for _, n := range p.nodes {
		rec, had := n.Records[nw.Name]
		m := &member{node: n, rec: rebased(rec, nw), had: had, excluded: Reason{NodeWright: nw.Name, Node: n.Name}}
		m.selected = selector.Matches(labels.Set(n.Labels)) && (nw.Scope == nil || nw.Scope.Matches(labels.Set(n.Labels)))
		if !m.selected && !m.rec.IsOpen() && !slices.Contains(n.CordonOwners, nw.Name) {
			continue
		}
		p.target(nw, m)
		if m.selected {
			m.work = workOf(nw.Desired, m.rec, p.in.Snapshots)
		}
		out = append(out, m)
	}
	return out
}

// rebased is the record as this NodeWright object may read it. What is on the host holds whoever put it there; a turn of
// a deleted object of the same name does not.
func rebased(rec noderecord.Record, nw *NodeWright) noderecord.Record {
	if rec.NodeWright == nw.UID || rec.NodeWright == "" {
		return rec
	}
	rec = rec.Clone()
	rec.Failure, rec.Healed, rec.Retried = nil, false, ""
	if rec.Outcome == noderecord.Failed {
		rec.Outcome = noderecord.Released
	}
	return rec
}

// target decides whether a selected node is targeted. A taint counts only before admission: a node under way is
// tainted by its own reboot.
func (p *pass) target(nw *NodeWright, m *member) {
	switch taint, untolerated := p.untolerated(nw, m.node); {
	case !m.selected:
	case m.node.Labels[nwv1.IgnoreLabel] == nwv1.TrueValue:
		m.excluded.Code, m.excluded.Message = Ignored, "the node carries the label "+nwv1.IgnoreLabel+"=true"
	case untolerated && !m.rec.IsOpen():
		m.excluded.Code = TaintNotTolerated
		m.excluded.Message = "the node has the taint " + taint.ToString() + ", which the NodeWright does not tolerate"
		m.excluded.Object = "taint " + taint.Key
	default:
		m.targeted = true
	}
}

// untolerated is the first taint that keeps the NodeWright off the node. The cordon's own taint is always tolerated,
// and those that the node lifecycle sets while a node is away: being NotReady is a reason of its own.
func (p *pass) untolerated(nw *NodeWright, n *Node) (corev1.Taint, bool) {
	for _, t := range n.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || lifecycleTaint(t.Key) || tolerated(nw.Spec.AdditionalTolerations, t) {
			continue
		}
		if nw.Spec.RuntimeRequired && sameTaint(t, p.in.Settings.RuntimeRequiredTaint) {
			continue
		}
		return t, true
	}
	return corev1.Taint{}, false
}

func lifecycleTaint(key string) bool {
	switch key {
	case corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return true
	}
	return false
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// tolerated follows the scheduler's rule: an empty key with Exists matches every taint, an empty effect every effect.
func tolerated(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		if t.Operator == corev1.TolerationOpExists {
			return true
		}
		equal := t.Operator == "" || t.Operator == corev1.TolerationOpEqual
		return equal && t.Key != "" && t.Value == taint.Value
	})
}

// selectorOf returns the selector; one that does not parse was refused before and matches nothing.
func selectorOf(s metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// protectedBy is the selector of the pods that a NodeWright must not disturb; nil protects none.
func protectedBy(nw *NodeWright) labels.Selector {
	s := nw.Spec.PodNonInterruptLabels
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	return selectorOf(s)
}
