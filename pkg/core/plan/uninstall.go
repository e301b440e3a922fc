package plan

import (
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// stored are the definitions of what is on the hosts, by their hash. abandoned: what has to be uninstalled is left where it
// is.
type stored struct {
	definitions map[string]*desired.Package
	abandoned   bool
}

// UninstallStatus is what is still to be uninstalled, because packages or the NodeWright itself were removed.
type UninstallStatus struct {
	// Deleting says that the NodeWright waits for it to be gone.
	Deleting bool
	// Count of the nodes, and the first names.
	Count int32
	Nodes []string
	// Failures are the nodes where it failed, sorted by name.
	Failures []NodeFailure
	// Held is why nothing goes on: Paused, Disabled, RecordUnreadable, Ignored or TaintNotTolerated; empty: it does.
	Held Code
	// HeldNodes are the first nodes where that is so; none if it is so everywhere.
	HeldNodes []string
}

// leave makes a NodeWright that is being deleted want nothing: what has to be uninstalled goes like any other removal, by
// batch and budget. A policy that is gone already leaves one node at a time.
func (n *NodeWright) leave() {
	if !n.Deleting || !n.Finalizer {
		return
	}
	n.Desired, n.Problem, n.OutOfScope = desired.Nothing(), "", ""
	n.checkSelectors() // it must not pass for one without nodes
	if n.Policy == nil && n.Spec.DeploymentPolicy != "" {
		n.Spec.InterruptionBudget = &nwv1.InterruptionBudget{Count: new(int32(1))}
	}
}

// readAbandon reports whether what has to be uninstalled is left where it is: in the round in which that was asked for.
func (v *view) readAbandon(led fleetv1.LedgerRollout) bool {
	token, same := v.nw.Abandon, led.UID == v.nw.UID
	v.abandons = token != "" && !(same && token == led.Abandoned)
	return v.abandons || same && led.AbandonedRound == led.Round && led.Round > 0 && led.ContentHash == v.nw.Desired.Hash
}

// noteAbandoned writes down that the request is handled, in the round that the NodeWright is in.
func (v *view) noteAbandoned() {
	if v.abandons && !v.nw.isHeldBack() && !v.outdated {
		v.ledger.Abandoned, v.ledger.AbandonedRound, v.changed = v.nw.Abandon, v.ledger.Round, true
	}
}

// abandon leaves what is being uninstalled where it is: its executions are stopped, and the record forgets it. The rest of
// the turn goes on, also where it had failed for it.
func (t *turn) abandon() {
	if !t.v.stored.abandoned || t.v.held.is(Standby) {
		return
	}
	for _, name := range t.leaving() {
		pkg := t.rec.Packages[name]
		if e, seen := t.execution(t.keyOf(name, pkg)); pkg.Running != "" && seen && !e.Ended() {
			t.d.Stop = append(t.d.Stop, e.Name)
		}
		t.running = slices.DeleteFunc(t.running, func(e Execution) bool { return e.Package == name })
		t.missing = slices.DeleteFunc(t.missing, func(m string) bool { return m == name })
		if def, wanted := t.v.nw.Desired.ByName(name); wanted && !def.Absent { // another version is to be installed
			pkg.Running, pkg.Removing, pkg.DueUninstall, pkg.Failures, pkg.NotBefore = "", false, false, 0, nil
			pkg.Setback = nil
			t.put(name, pkg)
		} else {
			t.forget(name)
		}
		t.healed = true
		t.forgive(name)
		if f := t.stuck; f != nil && f.Package == name {
			t.stuck = nil
		}
	}
	t.abandonInterrupt()
}

// leaving are the packages whose uninstall has begun or would, sorted.
func (t *turn) leaving() []string {
	var out []string
	for name, pkg := range t.rec.Packages {
		def, wanted := t.v.nw.Desired.ByName(name)
		old := t.p.snapshots[pkg.Snapshot]
		if pkg.Removing || pkg.DueUninstall || wanted && def.Absent || !wanted && old != nil && old.UninstallOnRemoval {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// abandonInterrupt takes back the interrupt of packages that are all forgotten, unless it may be under way. Where some are not,
// it is for those.
func (t *turn) abandonInterrupt() {
	i := t.rec.Interrupt
	if i == nil {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(i.Packages), func(name string) bool { _, kept := t.rec.Packages[name]; return !kept })
	if len(kept) > 0 {
		i.Packages = kept
		return
	}
	e, seen := t.execution(t.interruptKey())
	switch {
	case seen && e.running():
	case t.rec.Outcome == noderecord.Failed, i.NotBefore != nil, seen && e.stuck():
		if seen && !e.Ended() {
			t.d.Stop = append(t.d.Stop, e.Name)
		}
		t.dropRequest()
		t.healed = true
	}
}

// finalize keeps NodeWrights that have something to uninstall from vanishing before that is done.
func (p *pass) finalize() {
	for _, v := range p.views {
		wanted := !v.nw.Deleting && slices.ContainsFunc(v.nw.Desired.Packages, func(d desired.Package) bool { return d.UninstallOnRemoval })
		switch {
		case wanted && !v.nw.Finalizer, v.nw.Deleting && v.nw.Finalizer && v.uninstalled() && v.nw.Problem == "":
			p.out.Finalizers = append(p.out.Finalizers, FinalizerChange{v.nw.Name, v.nw.UID, wanted})
		}
	}
}

// uninstalled reports whether nothing is left to uninstall, or to wait for, of a NodeWright that is being deleted.
func (v *view) uninstalled() bool {
	return !slices.ContainsFunc(v.members, v.keepsDeletion)
}

// keepsDeletion: something has to be uninstalled from the node, or is under way there. Where it was abandoned, only what can
// still be forgotten is waited for.
func (v *view) keepsDeletion(m *member) bool {
	if v.stored.abandoned {
		return m.targeted && m.malformed() == "" && v.toUninstall(m)
	}
	return v.toUninstall(m) || m.malformed() != "" || m.open || m.rec.Interrupt != nil || m.standing.running || m.ownsCordon()
}

// anyUninstall reports whether anything at all, wanted or stored, asks for an uninstall; few fleets have such a package, and
// then no node has to be looked at.
func (v *view) anyUninstall() bool {
	if v.uninstalls == nil {
		found := slices.ContainsFunc(v.nw.Desired.Packages, func(p desired.Package) bool { return p.Absent })
		for _, old := range v.stored.definitions {
			found = found || old != nil && old.UninstallOnRemoval
		}
		v.uninstalls = &found
	}
	return *v.uninstalls
}

// toUninstall: the node's record names something that has to be uninstalled, whether or not that was abandoned.
func (v *view) toUninstall(m *member) bool {
	if !m.selected || m.quiet || !v.anyUninstall() {
		return false
	}
	all := stored{definitions: v.stored.definitions}
	return slices.ContainsFunc(workOf(&v.nw.Desired, m.rec, all), func(it item) bool { return it.removal })
}

// uninstallStatus is what is still to be uninstalled; nil if nothing is.
func (p *pass) uninstallStatus(v *view) *UninstallStatus {
	out := &UninstallStatus{Deleting: v.nw.Deleting}
	for _, m := range v.members {
		pending := v.toUninstall(m)
		if !pending && !(v.nw.Deleting && v.nw.Finalizer && m.malformed() != "") {
			continue
		}
		out.Count++
		if len(out.Nodes) < firstNames {
			out.Nodes = append(out.Nodes, m.node.Name)
		}
		if f := m.rec.Failure; f != nil && (f.Stage == nwv1.StageUninstall || f.Stage == nwv1.StageInterrupt) && pending {
			out.Failures = append(out.Failures, NodeFailure{Node: m.node.Name, Failure: *f})
		}
		out.hold(m)
	}
	if out.Count == 0 {
		return nil
	}
	if h := v.held; h.is(Paused) || h.is(Disabled) {
		out.Held, out.HeldNodes = h.code, nil
	}
	return out
}

// hold notes that nothing goes on for a node. Of several reasons the first one in order of the nodes is named.
func (s *UninstallStatus) hold(m *member) {
	var code Code
	switch {
	case m.malformed() != "":
		code = RecordUnreadable
	case m.excluded != nil:
		code = m.excluded.code
	default:
		return
	}
	if s.Held == "" {
		s.Held = code
	}
	if s.Held == code && len(s.HeldNodes) < firstNames {
		s.HeldNodes = append(s.HeldNodes, m.node.Name)
	}
}
