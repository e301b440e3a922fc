package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// findHolders finds the nodes that hold a slot of each compartment: everything that is out of service or at work
// because of us. A node whose labels moved holds one in the compartment that admitted it and in the one it is in now.
func (p *pass) findHolders(v *view) {
	for _, m := range v.busy {
		if m.rec.IsOpen() {
			v.setOpen(m)
		}
		if v.holdsSlot(m) && !p.slotless(m) {
			v.admittedBy(m).hold(m)
			m.compartment.hold(m)
		}
	}
	for _, m := range v.pending {
		v.setOpen(m)
		v.named[m.intent.Compartment].hold(m)
		if m.intent.Compartment == "" && len(p.runtimeTaints(m.node)) == 0 { // it is in use by now
			m.compartment.hold(m)
		}
	}
}

// turnsIn are the nodes that a compartment admitted in this round, those that departed last.
func (v *view) turnsIn(c *compartment) []*member {
	if !v.grouped {
		v.grouped = true
		v.groupTurns(v.members)
		v.groupTurns(v.departed)
	}
	return c.turns
}

func (v *view) groupTurns(members []*member) {
	for _, m := range members {
		if c := v.admittedBy(m); c != nil && v.current(m.rec) {
			c.turns = append(c.turns, m)
		}
	}
}

// admittedBy is the compartment of the node's last turn; nil if there is none, or no such compartment any more.
func (v *view) admittedBy(m *member) *compartment {
	if c := m.compartment; c != nil && c.name == m.rec.Compartment {
		return c
	}
	return v.named[m.rec.Compartment]
}

// hold gives the node a slot. A compartment that is not there any more has none to give.
func (c *compartment) hold(m *member) {
	if c == nil {
		return
	}
	if c.holders == nil {
		c.holders = map[*member]bool{}
	}
	c.holders[m] = true
}

// holdsSlot: an open turn; a cordon that is not yet released, of a failed node too; a node that failed, in whichever
// round, and is not Ready; a node whose record cannot be read while something of ours runs on it.
func (v *view) holdsSlot(m *member) bool {
	return m.rec.IsOpen() || m.ownsCordon() || m.rec.Outcome == noderecord.Failed && !m.node.Ready && !m.complete() ||
		m.malformed() != "" && m.anyExecution(notEnded)
}

func notEnded(e Execution) bool { return !e.Ended() }

// inUse counts the slots of a compartment, with the nodes that are out of service for other reasons where the budget
// says so.
func (c *compartment) inUse() int {
	n := len(c.holders)
	if !c.budget.countUnavailable {
		return n
	}
	for _, m := range c.members {
		if !c.holders[m] && c.counts(m) {
			n++
		}
	}
	return n
}

// counts reports whether inUse counts a node of the compartment already, so that its admission takes nothing more out of
// service.
func (c *compartment) counts(m *member) bool {
	return c.holders[m] || c.budget.countUnavailable && (!m.node.Ready || m.node.Unschedulable)
}

// clusterCap is one Fleet's budget over all NodeWrights.
type clusterCap struct {
	Budget
	max  int
	used map[types.UID]bool
	// full is why it has no room, once somebody asked in vain.
	full   *cause
	fullAt int
}

// capsOf counts the nodes that each budget is about and those that use it up.
func (p *pass) capsOf(budgets []Budget, nodes []*Node) []*clusterCap {
	var out []*clusterCap
	for _, b := range budgets {
		c := &clusterCap{Budget: b, used: map[types.UID]bool{}}
		total := 0
		for _, n := range nodes {
			if !c.covers(n) {
				continue
			}
			total++
			if p.outOfServiceByUs(n) {
				c.used[n.UID] = true
			}
		}
		c.max = budget{count: b.Count, percent: b.Percent}.ceiling(total)
		out = append(out, c)
	}
	return out
}

func (c *clusterCap) covers(n *Node) bool { return selects(c.Scope, n) }

// outOfServiceByUs: we hold it cordoned, a turn with an interrupt to come is open, or it is away since an interrupt of ours. What
// is done without a slot takes nothing out of service.
func (p *pass) outOfServiceByUs(n *Node) bool {
	for _, owner := range n.CordonOwners {
		if !p.outOfUse(n, n.Records[owner]) {
			return true
		}
	}
	for _, rec := range n.Records {
		if disrupts(rec, n) && !p.outOfUse(n, rec) {
			return true
		}
	}
	return false
}

// disrupts: the interrupt of a turn that has ended counts for as long as the node is away; its cordon has an owner.
func disrupts(rec noderecord.Record, n *Node) bool {
	if rec.IsOpen() {
		return rec.Disruptive || rec.Interrupt != nil
	}
	return rec.Interrupt != nil && !n.Ready
}

// clusterRoom takes the room for all of these nodes in every budget that covers them, or for none and says which budget
// has none left.
func (p *pass) clusterRoom(nodes ...*Node) *cause {
	for _, c := range p.caps {
		need := 0
		for _, n := range nodes {
			if c.covers(n) && !c.used[n.UID] {
				need++
			}
		}
		if need > 0 && len(c.used)+need > c.max {
			return c.noRoom()
		}
	}
	for _, c := range p.caps {
		for _, n := range nodes {
			if c.covers(n) {
				c.used[n.UID] = true
			}
		}
	}
	return nil
}

// scarce reports whether a budget has room for some of the nodes and not for all.
func (p *pass) scarce(nodes []*Node) bool {
	for _, c := range p.caps {
		need := 0
		for _, n := range nodes {
			if c.covers(n) && !c.used[n.UID] {
				need++
			}
		}
		if room := c.max - len(c.used); room > 0 && need > room {
			return true
		}
	}
	return false
}

// noRoom is worded once for as long as it is true: a budget only fills up in a pass.
func (c *clusterCap) noRoom() *cause {
	if c.full == nil || c.fullAt != len(c.used) {
		c.fullAt = len(c.used)
		c.full = &cause{WaitingForClusterBudget, "fleet " + c.Name,
			fmt.Sprintf("%d of the %d nodes that Fleet %s allows are out of service", len(c.used), c.max, c.Name)}
	}
	return c.full
}
