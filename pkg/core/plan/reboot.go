package plan

import (
	"slices"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// With `reapplyOnReboot` a record names the boot that its packages hold for. When the node runs in another one, and no reboot
// of ours leads there, what is recorded is forgotten with the node's next turn, as after a reset. So it waits for budgets,
// windows and its round like any other work; the runtime-required taint does not (see gateNodes).
//
// The records of all NodeWrights on the node say which reboots are ours:
//
//	b1 ──tune's interrupt──► b2 ──tune's interrupt──► b3      a record that names b1 is as good as one that names b3
//	b1 ──tune's interrupt──► b2 ──somebody else────► b3      it has to run again
//
// A reboot during a turn is no exception: what the turn put on the host before it may be lost. A node whose turn failed
// begins no round because it was rebooted; should it be tried again, everything runs.

// bootState is what the boot of a node says about its record.
type bootState uint8

const (
	// bootKnown: the record names the present boot, or none where nobody asks.
	bootKnown bootState = iota
	// bootUnnoted: the record has to name another one, and nothing has to be done for it.
	bootUnnoted
	// bootForeign: the node was rebooted, and not by us.
	bootForeign
)

// mostReboots bounds the reboots that a record names. Others note a boot in the pass that sees it, unless they are held.
const mostReboots = 4

// reapplies reports whether a reboot undoes what the NodeWright did.
func (v *view) reapplies() bool { return v.nw.Spec.ReapplyOnReboot && !v.nw.Deleting }

// bootOf compares the boot that a record names with the present one.
func (v *view) bootOf(m *member) bootState {
	named, now := m.rec.Boot, m.node.BootID
	switch {
	case !m.had || v.reapplying && (named == now || now == "") || !v.reapplying && named == "":
		return bootKnown
	case !v.reapplying || named == "" || rebootedByUs(m.node, named):
		return bootUnnoted
	}
	return bootForeign
}

// rebootedByUs reports whether reboots of ours, of whichever NodeWright, lead from a boot to the node's present one.
func rebootedByUs(n *Node, boot string) bool {
	for range (mostReboots + 1) * len(n.Records) {
		next, asked := bootAfter(n, boot)
		if !asked || next == "" || next == n.BootID {
			return asked
		}
		boot = next
	}
	return false
}

// bootAfter is the boot that a reboot of ours led to from another one; empty if it is not known which.
func bootAfter(n *Node, boot string) (next string, asked bool) {
	for _, r := range n.Records {
		if i := r.Interrupt; i != nil && i.Type == nwv1.InterruptReboot && i.BootIDBefore == boot {
			asked = true
		}
		for _, reboot := range r.Reboots {
			if reboot.From == boot {
				asked, next = true, max(next, reboot.To)
			}
		}
	}
	return next, asked
}

// askAfterReboot asks for everything on a node that was rebooted behind our back.
func (m *member) askAfterReboot() {
	if m.boot != bootForeign {
		return
	}
	if m.asked == nil {
		m.asked = &asked{}
	}
	m.asked.rebooted = true
}

// noteBoot names the present boot in the record, unless what is recorded has to be forgotten because of it.
func (t *turn) noteBoot() {
	if t.m.boot == bootUnnoted && t.m.had {
		t.rec.Boot = t.v.bootToName(t.m.node, "")
	}
}

// bootToName is the boot that a record of the NodeWright has to name; last where the node does not tell.
func (v *view) bootToName(n *Node, last string) string {
	switch {
	case !v.reapplying:
		return ""
	case n.BootID == "":
		return last
	}
	return n.BootID
}

// noteReboot keeps a reboot that is proven, or whose request is given up, for the records that name the boot before it.
func (p *pass) noteReboot(rec *noderecord.Record, to string) {
	i := rec.Interrupt
	if !p.asksForBoots || i == nil || i.Type != nwv1.InterruptReboot {
		return
	}
	rec.Reboots = append(slices.Clone(rec.Reboots), noderecord.Reboot{From: i.BootIDBefore, To: to})
	rec.Reboots = rec.Reboots[max(0, len(rec.Reboots)-mostReboots):]
}

// dropRequest takes an interrupt back that is not proven. A reboot that was tried may still come.
func (t *turn) dropRequest() {
	if i := t.rec.Interrupt; i != nil && (i.Failures > 0 || t.rec.Outcome == noderecord.Failed) {
		t.p.noteReboot(&t.rec, "")
	}
	t.rec.Interrupt = nil
}
