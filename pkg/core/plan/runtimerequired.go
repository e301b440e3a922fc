package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// runtimeTaint reports whether a taint keeps a node out of use until the runtime-required NodeWrights are complete on it:
// the configured one, and the one of NVIDIA's earlier releases.
func (p *pass) runtimeTaint(t corev1.Taint) bool {
	legacy := corev1.Taint{Key: nwv1.LegacyGroup, Value: nwv1.RuntimeRequiredTaintValue, Effect: corev1.TaintEffectNoSchedule}
	return sameTaint(t, p.in.Settings.RuntimeRequiredTaint) || sameTaint(t, legacy)
}

// runtimeTaints are those of a node, in its order.
func (p *pass) runtimeTaints(n *Node) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range n.Taints {
		if p.runtimeTaint(t) {
			out = append(out, t)
		}
	}
	return out
}

// slotless: the turn was admitted without a slot, and the node is still out of use.
func (p *pass) slotless(m *member) bool { return p.outOfUse(m.node, m.rec) }

// outOfUse is slotless for a record of the node, whichever NodeWright's.
func (p *pass) outOfUse(n *Node, rec noderecord.Record) bool {
	return rec.Batch > 0 && rec.Compartment == "" && len(p.runtimeTaints(n)) > 0
}

// slotlessIn counts the nodes of a compartment that are under way without a slot: no batch is to come for them.
func (p *pass) slotlessIn(v *view, c *compartment) int {
	n := 0
	if !v.nw.Spec.RuntimeRequired {
		return n
	}
	for _, m := range c.busy {
		if m.open && !c.holders[m] {
			n++
		}
	}
	return n
}

// admitUnused admits the nodes that need no slot, because nothing can be disturbed on them, and returns the others.
func (p *pass) admitUnused(v *view, waiting []*member) []*member {
	if !v.nw.Spec.RuntimeRequired {
		return waiting
	}
	var rest []*member
	for _, m := range waiting {
		switch {
		case !p.neverUsed(v, m):
			rest = append(rest, m)
		case !m.node.PodsListed:
			p.needPods[m.node.Name] = true
			m.because(&cause{WaitingForSlot, "", "it is being looked up whether the node is in use"})
		case v.inUseBy(m.node, p.in.Settings.Namespace) != nil:
			rest = append(rest, m)
		default:
			p.admitTo(v, m, "", 1)
		}
	}
	return rest
}

// neverUsed: the node carries the taint and was never complete. A turn of this round that failed is tried again in a slot.
// What an earlier object of the name left on the node does not say whether it was complete.
func (p *pass) neverUsed(v *view, m *member) bool {
	unfinished := m.rec.Batch > 0 && m.rec.Compartment == "" && m.rec.NodeWright == v.nw.UID && m.rec.Outcome != noderecord.Succeeded
	return len(p.runtimeTaints(m.node)) > 0 && !v.current(m.rec) && (!m.had || unfinished)
}

// inUseBy is a pod on the node that is not a DaemonSet's, a mirror pod, finished, or ours; nil if there is none.
func (v *view) inUseBy(n *Node, ourNamespace string) *corev1.Pod {
	for _, pod := range n.Pods {
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		if !mirror && !controlledByDaemonSet(pod) && !finished(pod) && !isOurs(pod, ourNamespace) {
			return pod
		}
	}
	return nil
}

// ungate gives nodes free for use: the taint goes once every runtime-required NodeWright that selects the node is complete
// there, also one that another taint keeps away for now. Where none selects it, it stays unless we put it there.
func (p *pass) ungate() {
	var gates []*view
	for _, v := range p.views {
		if v.nw.Spec.RuntimeRequired && !v.nw.Disabled {
			gates = append(gates, v)
		}
	}
	for pos, n := range p.nodes {
		if taints := p.runtimeTaints(n); len(taints) > 0 {
			p.ungateNode(gates, pos, taints)
		}
	}
}

func (p *pass) ungateNode(gates []*view, pos int, taints []corev1.Taint) {
	var last *member
	cordon := false
	for _, v := range gates {
		m := v.at[pos]
		if m == nil || !m.selected || m.excluded.is(Ignored) {
			continue
		}
		if m.decision != nil || v.held != nil || m.open || !m.targeted || !m.complete() {
			return
		}
		last, cordon = m, cordon || v.nw.Spec.RuntimeRequiredCordonAfter
	}
	if last == nil {
		p.ungateLeft(pos, taints)
		return
	}
	n := last.node
	d := Decision{Node: n.Name, NodeUID: n.UID, Action: ActionUngate, Untaint: taints, CordonAfter: cordon}
	if seen, had := n.Records[last.nw.Name]; had {
		d.Before = &seen
	}
	last.decide(d)
}

// gateNodes puts the runtime-required taint on the nodes that joined after a NodeWright which asks for it (`autoTaintNewNodes`),
// and back on those whose packages have to run again behind it. It comes before any admission, of whichever NodeWright, and also
// where another taint keeps the NodeWright away for now: that one may go at any moment. A pause does not hold it, as the node
// would be used unprepared.
func (p *pass) gateNodes() {
	for _, v := range p.views {
		if !v.nw.Spec.RuntimeRequired || v.nw.Deleting || v.nw.Disabled {
			continue
		}
		for _, m := range v.busy {
			again := v.gatesAgain(m)
			if (again || v.isNew(m)) && p.gating[m.node.UID] == nil && len(p.runtimeTaints(m.node)) == 0 {
				p.gate(v, m, again)
			}
		}
	}
}

// isNew: selected, created after a NodeWright that asks for the taint, and never touched by any NodeWright.
func (v *view) isNew(m *member) bool {
	n := m.node
	return v.nw.Spec.AutoTaintNewNodes && m.mayBeGated() && !n.Touched && len(n.Records)+len(n.Malformed)+len(n.CordonOwners) == 0 &&
		n.Created.After(v.nw.Created)
}

func (m *member) mayBeGated() bool { return m.selected && !m.excluded.is(Ignored) }

// gatesAgain: somebody asks for the taint, or a reboot undid what the node was complete with. Where nothing has to run the taint
// would go at once. A record that cannot be read is replaced in the write that sets it.
func (v *view) gatesAgain(m *member) bool {
	return m.asked != nil && (m.asked.regate || m.asked.rebooted && v.nw.Spec.AutoTaintNewNodes) && m.mayBeGated() && !m.complete() && m.malformed() == ""
}

// gate taints a node before anything else happens to it. One that is new has to be free of workloads.
func (p *pass) gate(v *view, m *member, again bool) {
	why := causeGating
	switch {
	case again:
		why = causeGatingAgain
		m.regate(p.in.Settings.RuntimeRequiredTaint)
	case !m.node.PodsListed:
		p.needPods[m.node.Name] = true
	case v.inUseBy(m.node, p.in.Settings.Namespace) != nil:
		return // it runs workloads already
	default:
		taint := p.in.Settings.RuntimeRequiredTaint
		m.decide(Decision{Node: m.node.Name, NodeUID: m.node.UID, Action: ActionGate, Taint: &taint})
	}
	p.gating[m.node.UID] = why
	m.because(why)
}

// regate taints a node that has a record, or a turn under way: what this pass writes of that comes first.
func (m *member) regate(taint corev1.Taint) {
	if m.decision != nil {
		return
	}
	d := Decision{Node: m.node.Name, NodeUID: m.node.UID, Action: ActionGate, Taint: &taint}
	if seen, had := m.node.Records[m.nw.Name]; had {
		d.Before = &seen
	}
	m.decide(d)
}

// gated are the nodes of a runtime-required NodeWright that carry the taint and are not complete.
func (p *pass) gated(v *view) ReasonCount {
	var out ReasonCount
	if !v.nw.Spec.RuntimeRequired {
		return out
	}
	for _, m := range v.members {
		if m.selected && !m.quiet && len(p.runtimeTaints(m.node)) > 0 {
			if out.Count++; len(out.Nodes) < firstNames {
				out.Nodes = append(out.Nodes, m.node.Name)
			}
		}
	}
	return out
}

// ungateLeft frees a node that was gated as it was new, and that no runtime-required NodeWright selects any more.
func (p *pass) ungateLeft(pos int, taints []corev1.Taint) {
	n := p.nodes[pos]
	selected := slices.ContainsFunc(p.views, func(v *view) bool {
		return v.nw.Spec.RuntimeRequired && selects(v.selector, n) && selects(v.nw.Scope, n)
	})
	if n.AutoTainted && !selected {
		p.out.Decisions = append(p.out.Decisions, Decision{Node: n.Name, NodeUID: n.UID, Action: ActionUngate, Untaint: taints})
	}
}
