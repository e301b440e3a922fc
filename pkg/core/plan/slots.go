package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// findHolders finds the nodes that hold a slot of each compartment: everything that is out of service or at work
// because of us. A node whose labels moved holds one in the compartment that admitted it and in the one it is in now.
func (v *view) findHolders() {
	v.holders = map[string]map[types.UID]bool{}
	for _, m := range v.members {
		if m.rec.IsOpen() {
			v.open[m.node.UID] = true
		}
		if v.holdsSlot(m) {
			v.hold(m.rec.Compartment, m.node.UID)
			v.hold(m.compartment, m.node.UID)
		}
	}
	for uid, intent := range v.intents {
		v.open[uid] = true
		v.hold(intent.Compartment, uid)
	}
}

func (v *view) hold(compartment string, node types.UID) {
	if compartment == "" {
		return
	}
	if v.holders[compartment] == nil {
		v.holders[compartment] = map[types.UID]bool{}
	}
	v.holders[compartment][node] = true
}

// holdsSlot: an open turn; a cordon that is not yet released, of a failed node too; a node that failed, in whichever
// round, and is not Ready; a node whose record cannot be read while something of ours runs on it.
func (v *view) holdsSlot(m *member) bool {
	return m.rec.IsOpen() || v.ownsCordon(m) || m.rec.Outcome == noderecord.Failed && !m.node.Ready && !m.complete() ||
		m.node.Malformed[v.nw.Name] != "" && v.anyExecution(m.node, notEnded)
}

func notEnded(e Execution) bool { return !e.Ended() }

// anyExecution reports whether one of the NodeWright's executions on the node is as asked.
func (v *view) anyExecution(n *Node, is func(Execution) bool) bool {
	return slices.ContainsFunc(n.Executions, func(e Execution) bool { return e.NodeWright == v.nw.Name && is(e) })
}

// inUse counts the slots of a compartment, with the nodes that are out of service for other reasons where the budget
// says so.
func (v *view) inUse(c *compartment) int {
	n := len(v.holders[c.name])
	if !c.budget.countUnavailable {
		return n
	}
	for _, m := range c.members {
		if !v.holders[c.name][m.node.UID] && (!m.node.Ready || m.node.Unschedulable) {
			n++
		}
	}
	return n
}

// clusterCap is one Fleet's budget over all NodeWrights.
type clusterCap struct {
	Budget
	max  int
	used map[types.UID]bool
}

// capsOf counts the nodes that each budget is about and those that use it up.
func capsOf(budgets []Budget, nodes []*Node) []*clusterCap {
	var out []*clusterCap
	for _, b := range budgets {
		c := &clusterCap{Budget: b, used: map[types.UID]bool{}}
		total := 0
		for _, n := range nodes {
			if !c.covers(n) {
				continue
			}
			total++
			if outOfServiceByUs(n) {
				c.used[n.UID] = true
			}
		}
		c.max = budget{count: b.Count, percent: b.Percent}.ceiling(total)
		out = append(out, c)
	}
	return out
}

func (c *clusterCap) covers(n *Node) bool {
	return c.Scope == nil || c.Scope.Matches(labels.Set(n.Labels))
}

// outOfServiceByUs: we hold it cordoned, or a turn with an interrupt to come is open.
func outOfServiceByUs(n *Node) bool {
	if len(n.CordonOwners) > 0 {
		return true
	}
	for _, rec := range n.Records {
		if rec.Interrupt != nil || rec.IsOpen() && rec.Disruptive {
			return true
		}
	}
	return false
}

// clusterRoom reports whether every budget that covers the node has room for it, and takes the room.
func (p *pass) clusterRoom(n *Node) (blocking *clusterCap, ok bool) {
	for _, c := range p.caps {
		if c.covers(n) && !c.used[n.UID] && len(c.used) >= c.max {
			return c, false
		}
	}
	for _, c := range p.caps {
		if c.covers(n) {
			c.used[n.UID] = true
		}
	}
	return nil, true
}

func (c *clusterCap) sentence() string {
	return fmt.Sprintf("%d of the %d nodes that Fleet %s allows are out of service", len(c.used), c.max, c.Name)
}
