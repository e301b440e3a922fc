package plan

import (
	"fmt"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// Outlook is all that a NodeWright has left to do on a node, whoever goes first and whatever the budget says.
type Outlook struct {
	NodeWright, Node string
	// Compartment of the node; empty for one that is not targeted.
	Compartment string
	// Excluded is why a selected node is not targeted: Ignored or TaintNotTolerated; empty: it is.
	Excluded Code
	// Message is the sentence of Excluded.
	Message string
	// Due is what is left to do, by package; none: the node is complete.
	Due []Due
	// Interrupt stands for all that are to come; nil: the node is not disturbed.
	Interrupt *nwv1.Interrupt
	// Obstacles are the pods that would hold up the drain if it began now. Only on nodes whose pods are known.
	Obstacles []Blocker
}

// Due is what is left to do for one package on a node.
type Due struct {
	Package string
	// Stages that are to come before an interrupt; none: only the interrupt is left.
	Stages []nwv1.Stage
	// Interrupt that follows them; nil: none.
	Interrupt *nwv1.Interrupt
	// Removal says that the package, or an older version of it, is taken off the host first.
	Removal bool
	// Checked says that the checks run first, and that nothing else happens if they find the wanted state (`skipIfSatisfied`).
	Checked bool
}

// Survey is what is left to do on every node that a NodeWright selects: in the order of the NodeWrights' priorities, then the
// nodes' names. It decides with the same rules as Compute, and nothing of it begins.
func Survey(in Input) []Outlook {
	p := newPass(in)
	var out []Outlook
	for _, v := range p.views {
		for _, m := range v.members {
			if m.selected {
				out = append(out, p.outlook(v, m))
			}
		}
	}
	return out
}

func (p *pass) outlook(v *view, m *member) Outlook {
	o := Outlook{NodeWright: v.nw.Name, Node: m.node.Name}
	if m.excluded != nil {
		o.Excluded, o.Message = m.excluded.code, m.excluded.message
		return o
	}
	if m.compartment != nil {
		o.Compartment = m.compartment.name
	}
	if o.Due = duesOf(v.workOf(m)); len(o.Due) == 0 {
		return o
	}
	for _, d := range o.Due {
		o.Interrupt = union(o.Interrupt, d.Interrupt)
	}
	if o.Interrupt != nil && m.node.PodsListed {
		o.Obstacles = p.obstacles(m)
	}
	return o
}

// DueOn is what is left to do for a package set on a node with a record, given the stored definitions by their hash.
func DueOn(set desired.Set, rec noderecord.Record, snapshots map[string]desired.Package) []Due {
	has := stored{definitions: make(map[string]*desired.Package, len(snapshots))}
	for hash, def := range snapshots {
		has.definitions[hash] = &def
	}
	return duesOf(workOf(&set, rec, has))
}

func duesOf(w work) []Due {
	var out []Due
	for _, it := range w {
		d := Due{Package: it.name, Stages: stagesOf(it), Interrupt: it.due, Removal: it.removal}
		if it.next == PhaseCheck {
			d.Interrupt, d.Checked = it.later, true
			d.Stages = []nwv1.Stage{installStage(it.def, it.rec), nwv1.StageConfig}
			if it.rec.Applied == it.def.InstallHash {
				d.Stages = []nwv1.Stage{nwv1.StageConfig}
			}
		}
		out = append(out, d)
	}
	return out
}

// obstacles are the pods of a node that would not leave if they were asked to now, by pod.
func (p *pass) obstacles(m *member) []Blocker {
	pods := viewPods(m.node.Pods, protectedBy(m.nw), m.nw.Spec.DrainConfig.Settings(), p.in.Settings.Namespace)
	var out []Blocker
	for _, pod := range pods.protected {
		out = append(out, Blocker{m.node.Name, podName(pod), BlockedProtected, podRef(pod) + " is protected: the node waits for it to finish"})
	}
	for _, b := range pods.blocked {
		out = append(out, Blocker{m.node.Name, podName(b.pod), b.cause, fmt.Sprintf("%s is not evicted: %s", podRef(b.pod), b.why)})
	}
	for _, pod := range pods.evict {
		if r, refused := m.node.Refusals[pod.UID]; refused && r.Kind == RefusedByBudget {
			out = append(out, Blocker{m.node.Name, podName(pod), BlockedByBudget, r.Message})
		}
	}
	return out
}
