package plan

import (
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// view is one NodeWright in this pass.
type view struct {
	nw *NodeWright
	// members in the order of their names.
	members []*member
	// departed are nodes that ended a turn and are no longer selected. Where that was in this round they count in their
	// batch: taking a failed node out of the selection does not make it a good one.
	departed []*member
	// at is the member by the position of its node in pass.nodes; nil where the node is none. Nodes that have nothing but
	// an unconfirmed admission are here and not in members.
	at           []*member
	compartments []*compartment
	// named are the compartments by name.
	named  map[string]*compartment
	ledger fleetv1.LedgerRollout
	// changed says that the ledger entry must be written.
	changed bool
	// pending are the nodes with an unconfirmed intent; confirmed intents, by node UID, can be dropped with the next write.
	pending   []*member
	confirmed map[types.UID]bool
	// open counts the nodes with a turn under way or an intent.
	open int
	// executions by key.
	executions map[ExecutionKey]Execution
	// newest is the highest round that the record of any node names, selected or not, so that rounds only ever grow: also
	// when the ledger was lost or the object was created anew. A node whose record is ahead of the ledger could never be
	// admitted, as its record would count as the confirmation.
	newest int64
	// late is the first targeted node that is not complete; empty if all are.
	late string
	// ahead is why later NodeWrights wait for this one: on every node with sequencing `all`, else on the same node.
	ahead cause
	// outdated says that the NodeWright was read from an older view than the one that began its round.
	outdated bool
	// held is why nothing new may start; without a code it may.
	held cause
}

// newView reads what every node says about a NodeWright. Nothing of it changes later in the pass but the reasons, the
// decisions and who holds a slot.
func (p *pass) newView(nw *NodeWright) *view {
	v := &view{nw: nw, executions: map[ExecutionKey]Execution{}, confirmed: map[types.UID]bool{}}
	p.gatherMembers(v)
	v.compartments, v.named = compartmentsOf(nw, v.members)
	for _, m := range v.members {
		if v.late == "" && m.targeted && !m.complete() {
			v.late = m.node.Name
		}
		for _, e := range m.node.Executions {
			if e.NodeWright == nw.Name {
				v.executions[e.ExecutionKey] = e
			}
		}
	}
	v.ahead = v.goesAhead()
	return v
}

func (v *view) hasIncomplete() bool { return v.late != "" }

// setOpen counts a node as having a turn under way or an intent.
func (v *view) setOpen(m *member) {
	if !m.open {
		m.open = true
		v.open++
	}
}
