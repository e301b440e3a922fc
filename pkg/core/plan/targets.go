package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

func compareStrings(a, b string) int { return cmp.Compare(a, b) }

// meet reads what a node says about a NodeWright, if it matters to it: if it is selected, if it still has a turn open, or
// if its cordon is owned. It tells whether the node has a record of it.
func (p *pass) meet(v *view, pos int) bool {
	n := p.nodes[pos]
	rec, had := n.Records[v.nw.Name]
	rec = rebased(rec, v.nw)
	if rec.Round <= lastRound {
		v.newest = max(v.newest, rec.Round)
	}
	selected := selects(v.selector, n) && selects(v.nw.Scope, n)
	if !selected && !rec.IsOpen() && !slices.Contains(n.CordonOwners, v.nw.Name) {
		if rec.Outcome == noderecord.Succeeded || rec.Outcome == noderecord.Failed {
			v.departed = append(v.departed, &member{nw: v.nw, node: n, pos: pos, rec: rec})
		} else if had && n.Labels[nwv1.StatusKey(v.nw.Name)] != "" {
			v.released = append(v.released, &member{nw: v.nw, node: n, pos: pos, rec: rec})
		}
		return had
	}
	m := v.newMember()
	m.node, m.pos, m.rec, m.had, m.selected = n, pos, rec, had, selected
	p.ask(v, m)
	m.standing = v.standingOf(m)
	p.target(m)
	if m.targeted {
		v.assign(m)
	}
	v.know(n.Executions)
	v.at[pos] = m
	v.members = append(v.members, m)
	if m.quiet = m.isQuiet(); m.quiet {
		m.because(m.causeOfRest()) // until something else is known
		return had
	}
	v.busy = append(v.busy, m)
	return had
}

// selects reports whether a selector selects a node; nil selects all.
func selects(s labels.Selector, n *Node) bool { return s == nil || s.Matches(labels.Set(n.Labels)) }

// rebased is the record as this NodeWright object may read it. What is on the host holds whoever put it there; a turn of
// a deleted object of the same name does not.
func rebased(rec noderecord.Record, nw *NodeWright) noderecord.Record {
	if rec.Round > lastRound {
		return noderecord.Record{Round: rec.Round} // it cannot be read, see malformed
	}
	if rec.NodeWright == nw.UID || rec.NodeWright == "" {
		return rec
	}
	rec.Failure, rec.FirstFailure, rec.Healed, rec.Retried = nil, nil, false, ""
	if rec.Outcome == noderecord.Failed {
		rec.Outcome = noderecord.Released
	}
	return rec
}

// target decides whether a selected node is targeted. A taint counts only before admission: a node under way is
// tainted by its own reboot. One that failed and that we still hold cordoned is not let out of the count by a taint, but is
// not admitted again while it has it.
func (p *pass) target(m *member) {
	taint, untolerated := p.untolerated(m.nw, m.node)
	switch {
	case !m.selected:
	case m.node.Labels[nwv1.IgnoreLabel] == nwv1.TrueValue:
		m.excluded = causeIgnored
	case untolerated && !m.rec.IsOpen():
		why := &cause{TaintNotTolerated, "taint " + taint.Key, taintSentence(taint)}
		if m.rec.Outcome != noderecord.Failed || !m.ownsCordon() {
			m.excluded = why
			return
		}
		m.tainted, m.targeted = why, true
	default:
		m.targeted = true
	}
}

// untolerated is the first taint that keeps the NodeWright off the node. The cordon's own taint is always tolerated,
// and those that the node lifecycle sets while a node is away: being NotReady is a reason of its own.
func (p *pass) untolerated(nw *NodeWright, n *Node) (corev1.Taint, bool) {
	for _, t := range n.Taints {
		if t.Effect == corev1.TaintEffectPreferNoSchedule || lifecycleTaint(t.Key) ||
			!goingAway(t.Key) && tolerated(nw.Spec.AdditionalTolerations, t) {
			continue
		}
		if nw.Spec.RuntimeRequired && p.runtimeTaint(t) {
			continue
		}
		return t, true
	}
	return corev1.Taint{}, false
}

func taintSentence(taint corev1.Taint) string {
	if goingAway(taint.Key) {
		return "the node has the taint " + taint.ToString() + ": an autoscaler is about to remove it"
	}
	return "the node has the taint " + taint.ToString() + ", which the NodeWright does not tolerate"
}

// goingAway are the taints with which autoscalers (Cluster Autoscaler, Karpenter) mark a node that they are about to remove.
// No toleration makes it worth while to begin there; work that is under way goes on.
func goingAway(key string) bool {
	switch key {
	case "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption":
		return true
	}
	return false
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
