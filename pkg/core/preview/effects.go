package preview

import (
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// firstNames is how many nodes are named.
const firstNames = 3

// consequences fills in what each package does on a node that is complete at the old state.
func (w *work) consequences(packages []Package, before, after *plan.NodeWright) {
	rec := noderecord.Record{}
	if before != nil {
		rec = completeRecord(*before, 0)
	}
	set := desired.Nothing()
	if after != nil {
		set = after.Desired
	}
	due := map[string]plan.Due{}
	for _, d := range plan.DueOn(set, rec, w.snapshots) {
		due[d.Package] = d
	}
	for i := range packages {
		d, any := due[packages[i].Name]
		if !any {
			continue
		}
		p := &packages[i]
		for _, s := range d.Stages {
			p.Stages = append(p.Stages, string(s))
		}
		p.Uninstall, p.Checked = d.Removal, d.Checked
		if d.Removal && p.New != nil && !absent(after, p.Name) {
			p.Stages = append(p.Stages, string(nwv1.StageApply), string(nwv1.StageConfig))
		}
		if d.Interrupt != nil {
			p.Interrupt, p.Services = string(d.Interrupt.Type), d.Interrupt.Services
		}
	}
}

func absent(nw *plan.NodeWright, name string) bool {
	def, _ := nw.Desired.ByName(name)
	return def.Absent
}

// effects looks at every node under both states.
func (w *work) effects() {
	type key struct{ nodeWright, node string }
	before := map[key]plan.Outlook{}
	for _, o := range plan.Survey(w.inputOf(w.base.nodeWrights)) {
		before[key{o.NodeWright, o.Node}] = o
	}
	w.after = plan.Survey(w.inputOf(w.wanted()))
	at := map[string]*NodeWright{}
	for i := range w.plan.NodeWrights {
		at[w.plan.NodeWrights[i].Name] = &w.plan.NodeWrights[i]
	}
	for _, o := range w.after {
		was, selected := before[key{o.NodeWright, o.Node}]
		delete(before, key{o.NodeWright, o.Node})
		w.due[o.NodeWright] = w.due[o.NodeWright] || len(o.Due) > 0
		if nw := at[o.NodeWright]; nw != nil {
			if !selected {
				nw.Joining++
			}
			w.effect(nw, was, o)
		}
	}
	for k := range before {
		if nw := at[k.nodeWright]; nw != nil {
			nw.Leaving++
		}
	}
	w.plan.Affected = total(w.worst)
}

// effect counts a node that the change gives something to do. One that has the same to do without the change does not count. A node that was
// not selected had nothing to do.
func (w *work) effect(nw *NodeWright, was, o plan.Outlook) {
	nw.Selected++
	waited := len(was.Due) > 0
	switch {
	case len(o.Due) == 0:
		return
	case waited && !nw.Effective:
		nw.Anyway++
		return
	case waited:
		nw.Anyway++
	}
	if w.affected[nw.Name] == nil {
		w.affected[nw.Name] = map[string]bool{}
	}
	w.affected[nw.Name][o.Node] = true
	e := nw.effectOf(o.Compartment)
	one := tallyOf(o)
	e.add(one)
	if len(e.First) < firstNames {
		e.First = append(e.First, o.Node)
	}
	if w.worst[o.Node] == nil {
		w.worst[o.Node] = &Tally{}
	}
	w.worst[o.Node].add(one)
}

func (n *NodeWright) effectOf(compartment string) *Effect {
	for i := range n.Effects {
		if n.Effects[i].Compartment == compartment {
			return &n.Effects[i]
		}
	}
	n.Effects = append(n.Effects, Effect{Compartment: compartment, First: []string{}})
	return &n.Effects[len(n.Effects)-1]
}

// tallyOf counts one node.
func tallyOf(o plan.Outlook) Tally {
	t := Tally{Nodes: 1}
	for _, d := range o.Due {
		if d.Removal {
			t.Uninstall = 1
		}
	}
	switch {
	case o.Interrupt == nil:
		t.NoInterrupt = 1
	case o.Interrupt.Type == nwv1.InterruptReboot:
		t.Reboot = 1
	case o.Interrupt.Type == nwv1.InterruptNoop:
		t.DrainOnly = 1
	default:
		t.ServiceRestart = 1
	}
	return t
}

func (t *Tally) add(o Tally) {
	t.Nodes += o.Nodes
	t.Reboot += o.Reboot
	t.ServiceRestart += o.ServiceRestart
	t.DrainOnly += o.DrainOnly
	t.NoInterrupt += o.NoInterrupt
	t.Uninstall += o.Uninstall
}

// total counts every node once, by the strongest thing that any NodeWright does to it.
func total(nodes map[string]*Tally) Tally {
	var out Tally
	for _, n := range nodes {
		one := Tally{Nodes: 1, Uninstall: min(1, n.Uninstall)}
		switch {
		case n.Reboot > 0:
			one.Reboot = 1
		case n.ServiceRestart > 0:
			one.ServiceRestart = 1
		case n.DrainOnly > 0:
			one.DrainOnly = 1
		default:
			one.NoInterrupt = 1
		}
		out.add(one)
	}
	return out
}
