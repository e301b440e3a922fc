package plan

import (
	"slices"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// sweep releases what NodeWrights that are gone left on the nodes: cordons, open turns, status words. What they put on
// the host is kept on record, so that an object of the same name that comes back does not run it again. A record
// that cannot be read says nothing about the host, and goes.
func (p *pass) sweep() {
	known := map[string]bool{}
	for _, v := range p.views {
		known[v.nw.Name] = true
	}
	for _, v := range p.views {
		for _, m := range slices.Concat(v.departed, v.released) {
			p.dropStatus(m)
		}
	}
	for _, n := range p.marked {
		for _, name := range leftBehind(n, known) {
			p.sweepNode(n, name)
		}
	}
}

// dropStatus takes the status word off a node that ended its turn and was taken out of the selection later.
func (p *pass) dropStatus(m *member) {
	if seen := m.node.Records[m.nw.Name]; m.node.Labels[nwv1.StatusKey(m.nw.Name)] != "" {
		rec := seen.Clone()
		p.out.Decisions = append(p.out.Decisions, Decision{
			NodeWright: m.nw.Name, NodeWrightUID: m.nw.UID, Node: m.node.Name, NodeUID: m.node.UID, Action: ActionRelease,
			Before: &seen, Record: &rec,
		})
	}
}

// leftBehind are the names of vanished NodeWrights that still have something on the node, sorted. What NVIDIA's operator left, and
// nobody has adopted yet, is not ours to sweep: the NodeWright may come back, and the node is half-way.
func leftBehind(n *Node, known map[string]bool) []string {
	var out []string
	for _, owner := range n.CordonOwners {
		if !known[owner] && !slices.Contains(n.Unadopted, owner) {
			out = append(out, owner)
		}
	}
	for name, rec := range n.Records {
		if !known[name] && !swept(n, name, rec) {
			out = append(out, name)
		}
	}
	for name := range n.Malformed {
		if !known[name] {
			out = append(out, name)
		}
	}
	out = slices.DeleteFunc(out, func(name string) bool { return slices.Contains(n.Newer, name) }) // it says what this version cannot read
	slices.Sort(out)
	return slices.Compact(out)
}

// swept says that only what is on the host is on record. A turn that was taken back before the NodeWright went left its status.
func swept(n *Node, name string, rec noderecord.Record) bool {
	_, labelled := n.Labels[nwv1.StatusKey(name)]
	return rec.Outcome == noderecord.Released && anythingApplied(rec) && !labelled
}

func (p *pass) sweepNode(n *Node, name string) {
	before, had := n.Records[name]
	d := Decision{
		NodeWright: name, NodeWrightUID: before.NodeWright, Node: n.Name, NodeUID: n.UID, Action: ActionRelease, Erase: true,
	}
	if had {
		d.Before = &before
	}
	if d.Stop = unfinished(n, name); len(d.Stop) > 0 {
		d.Erase = false // the cordon goes when nothing of it runs any more
		p.out.Decisions = append(p.out.Decisions, d)
		return
	}
	if slices.Contains(n.CordonOwners, name) {
		d.Cordon = CordonDrop
	}
	if anythingApplied(before) {
		rec := before.Clone()
		now := p.in.Now
		p.noteReboot(&rec, "")
		rec.Outcome, rec.EndedAt, rec.Interrupt = noderecord.Released, &now, nil
		rec.Failure, rec.FirstFailure = nil, nil
		for pkgName, pkg := range rec.Packages {
			pkg.Running, pkg.NotBefore, pkg.Setback = "", nil, nil
			rec.Packages[pkgName] = pkg
		}
		d.Record = &rec
	}
	p.out.Decisions = append(p.out.Decisions, d)
}

// unfinished are the names of a NodeWright's executions on the node that have not ended, sorted.
func unfinished(n *Node, nodeWright string) []string {
	var out []string
	for _, e := range n.Executions {
		if e.NodeWright == nodeWright && !e.Ended() {
			out = append(out, e.Name)
		}
	}
	slices.Sort(out)
	return out
}

func anythingApplied(rec noderecord.Record) bool {
	for _, pkg := range rec.Packages {
		if pkg.Applied != "" {
			return true
		}
	}
	return false
}
