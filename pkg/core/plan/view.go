package plan

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// view is one NodeWright in this pass.
type view struct {
	nw *NodeWright
	// members in the order of their names; busy are those that are not quiet.
	members, busy []*member
	// departed are nodes that ended a turn and are no longer selected. Where that was in this round they count in their
	// batch: taking a failed node out of the selection does not make it a good one.
	departed []*member
	// released are nodes that are no longer selected and whose turn was taken back, with the status word of that time.
	released []*member
	// at is the member by the position of its node in pass.nodes; nil where the node is none. Nodes that have nothing but
	// an unconfirmed admission are here and not in members.
	at           []*member
	compartments []*compartment
	// selector of the nodes, and index of the compartments' selectors.
	selector labels.Selector
	index    *selectorIndex
	// matching is memory for assign; several are the nodes that it cannot assign yet.
	matching []*compartment
	several  []contested
	// standings of the packages that nodes share, by noderecord.Record.Shared.
	standings map[uint32]standing
	// block is where the next members are.
	block []member
	// named are the compartments by name.
	named  map[string]*compartment
	ledger fleetv1.LedgerRollout
	// changed says that the ledger entry must be written.
	changed bool
	// pending are the nodes with an unconfirmed intent; confirmed intents, by node UID, can be dropped with the next write.
	pending   []*member
	confirmed map[types.UID]bool
	// grouped says that the compartments know their turns, see turnsIn.
	grouped bool
	// open counts the nodes with a turn under way or an intent.
	open int
	// executions by key.
	executions map[ExecutionKey]*Execution
	// newest is the highest round that the record of any node names, selected or not, so that rounds only ever grow: also
	// when the ledger was lost or the object was created anew. A node whose record is ahead of the ledger could never be
	// admitted, as its record would count as the confirmation.
	newest int64
	// late is the first targeted node that is not complete; empty if all are.
	late string
	// ahead is why later NodeWrights wait for this one: on every node with sequencing `all`, else on the same node.
	ahead *cause
	// outdated says that the NodeWright was read from an older view than the one that began its round.
	outdated bool
	// reapplying: see reapplies.
	reapplying bool
	// requests are what people ask of the NodeWright, refused what cannot be met; asksAgain: a node is asked to run again.
	requests    []standingRequest
	refused     []RequestStatus
	resumeToken string
	asksAgain   bool
	// held is why nothing new may start; nil: it may.
	held *cause
	// stored are the definitions of what is on the hosts; abandons says that the abandon annotation has a new token.
	stored   stored
	abandons bool
	// uninstalls says whether anything asks for an uninstall; nil: not looked at yet.
	uninstalls *bool
}

// newView is the view of a NodeWright before any node was met.
func newView(nw *NodeWright, nodes int) *view {
	v := &view{
		nw: nw, at: make([]*member, nodes), selector: selectorOf(nw.Spec.NodeSelectors), compartments: declared(nw),
		executions: map[ExecutionKey]*Execution{}, confirmed: map[types.UID]bool{}, named: map[string]*compartment{},
		standings: map[uint32]standing{},
	}
	v.index, v.reapplying = indexOf(v.compartments), v.reapplies()
	for _, c := range v.compartments {
		v.named[c.name] = c
	}
	v.readRequests()
	return v
}

// know makes the NodeWright's own executions on a node known by their keys.
func (v *view) know(executions []Execution) {
	for i := range executions {
		if e := &executions[i]; e.NodeWright == v.nw.Name {
			v.executions[e.ExecutionKey] = e
		}
	}
}

// newMember is a node under the NodeWright. Members are allocated in blocks.
func (v *view) newMember() *member {
	const atOnce = 256
	if len(v.block) == cap(v.block) {
		v.block = make([]member, 0, min(atOnce, len(v.at)))
	}
	v.block = v.block[:len(v.block)+1]
	m := &v.block[len(v.block)-1]
	m.nw = v.nw
	return m
}

func (v *view) hasIncomplete() bool { return v.late != "" }

// setOpen counts a node as having a turn under way or an intent.
func (v *view) setOpen(m *member) {
	if !m.open {
		m.open = true
		v.open++
	}
}
