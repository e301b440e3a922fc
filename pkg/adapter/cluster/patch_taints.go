package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// untaint takes single entries off the node's taints, from the back, so that the places of the others hold. Each is tested
// as it was seen: a list that changed in between is read again, and nobody else's entry goes.
func (p *nodePatch) untaint(d plan.Decision) {
	if len(d.Untaint) == 0 {
		return
	}
	removed := false
	for i, t := range slices.Backward(p.node.Spec.Taints) {
		ours := slices.ContainsFunc(d.Untaint, func(u corev1.Taint) bool { return u.MatchTaint(&t) && u.Value == t.Value })
		if !ours {
			continue
		}
		path := fmt.Sprintf("/spec/taints/%d", i)
		p.test(path, t)
		p.tested++
		p.ops = append(p.ops, patchOp{Op: "remove", Path: path})
		removed = true
	}
	if removed && d.CordonAfter {
		p.cordonAfter()
	}
}

// taint adds an entry at the end of the node's taints, and the mark that says whose it is. A node that has it is left alone.
func (p *nodePatch) taint(t *corev1.Taint) {
	if t == nil || slices.ContainsFunc(p.node.Spec.Taints, func(have corev1.Taint) bool { return have.MatchTaint(t) }) {
		return
	}
	p.annotate(nwv1.AutoTaintKey(t.Key), nwv1.TrueValue)
	if len(p.node.Spec.Taints) == 0 {
		p.test("/spec/taints", nil)
		p.tested++
		p.ops = append(p.ops, patchOp{"add", "/spec/taints", []corev1.Taint{*t}})
		return
	}
	p.ops = append(p.ops, patchOp{"add", "/spec/taints/-", *t})
}

// cordonAfter keeps a node out of use after its taint is gone. Where a NodeWright's cordon is in place already, the mark
// keeps it when that NodeWright gives its own back; a cordon of somebody else is theirs to take off.
func (p *nodePatch) cordonAfter() {
	if p.node.Spec.Unschedulable && len(cordonOwners(p.annotations)) == 0 {
		return
	}
	p.testUnschedulable()
	p.annotate(nwv1.RuntimeRequiredCordonAnnotation, nwv1.TrueValue)
	if !p.node.Spec.Unschedulable {
		p.ops = append(p.ops, patchOp{"add", "/spec/unschedulable", true})
	}
}
