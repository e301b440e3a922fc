package plan

import (
	"fmt"
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// member is one node under one NodeWright: what the node says, what is left to do, and where it stands.
type member struct {
	nw   *NodeWright
	node *Node
	// asked is what people ask of the node and is not taken over yet; again is the record with what has to run again for it.
	// Both are nil if there is nothing.
	asked *asked
	again *noderecord.Record
	// compartment that the node's labels put it in now; nil for a node that is not targeted.
	compartment *compartment
	// quiet: see isQuiet.
	quiet bool
	// boot is what the node's boot says about its record.
	boot bootState
	// had says that the node has a record of this NodeWright.
	had bool
	// selected: the selector matches. targeted: selected, not ignored, taints tolerated.
	selected, targeted bool
	// open says that a turn is under way, or that there is an intent.
	open bool
	// standing of the recorded packages.
	standing standing
	// intent is the node's admission while it is not confirmed.
	intent *fleetv1.LedgerIntent
	// reason and decision of this pass, as soon as there are any.
	reason   *cause
	decision *Decision
	// blockers are the pods that hold the node up.
	blockers []Blocker
	rec      noderecord.Record
	// excluded is why a selected node is not targeted; tainted why one that is targeted all the same is not admitted.
	excluded, tainted *cause
	// pos is the node's position in pass.nodes.
	pos int
}

// because sets the reason of the node. The last one counts. It is the only place that sets one.
func (m *member) because(why *cause) { m.reason = why }

// causeOfRest is that of a node of which nothing has to be done.
func (m *member) causeOfRest() *cause {
	if m.standing.drifted {
		return m.causeOfDrift()
	}
	if m.standing.satisfied {
		return causeSatisfied
	}
	return causeComplete
}

// code of the reason; empty while there is none.
func (m *member) code() Code {
	if m.reason == nil {
		return ""
	}
	return m.reason.code
}

// decide sets the decision for the node; there is at most one for each NodeWright and node.
func (m *member) decide(d Decision) {
	d.NodeWright, d.NodeWrightUID = m.nw.Name, m.nw.UID
	m.decision = &d
}

// complete reports whether the node has everything that is wanted and no turn is open on it.
func (m *member) complete() bool {
	return m.standing.done && !m.rec.IsOpen() && !(m.rec.Outcome == noderecord.Failed && m.rec.NodeWright != "" && m.ownsCordon())
}

// isQuiet tells the nodes apart of which nothing is to be done and nothing to be waited for: most of them, most of the
// time. A pass looks at them once; only an admission that is not confirmed yet can make one of them interesting.
func (m *member) isQuiet() bool {
	return m.targeted && m.complete() && m.rec.Outcome != noderecord.Failed && m.rec.Interrupt == nil && !m.standing.running &&
		!m.standing.untidy && m.boot == bootKnown && !m.ownsCordon() && m.malformed() == ""
}

// ownsCordon reports whether the NodeWright owns a cordon of the node.
func (m *member) ownsCordon() bool { return slices.Contains(m.node.CordonOwners, m.nw.Name) }

// underWay reports whether a turn of the node has begun to run something and is not ended.
func (m *member) underWay() bool { return m.rec.IsOpen() && m.rec.Started }

// failedHalfWay reports whether the node's turn failed after something had run, on a node that is out of service since.
func (m *member) failedHalfWay() bool {
	return m.rec.Outcome == noderecord.Failed && m.rec.Started && m.ownsCordon()
}

// lastRound is more rounds than can ever begin. A record beyond it was written by hand, and no round could follow it.
const lastRound = 1 << 40

// malformed says what is wrong with the node's record; empty if it can be read.
func (m *member) malformed() string {
	if m.rec.Round > lastRound {
		return fmt.Sprintf("the record names round %d; the rounds of a NodeWright end at %d", m.rec.Round, int64(lastRound))
	}
	if m.unadopted() {
		return "the node has the state of NVIDIA's operator and no record: run `fleetwright adopt`, or ask for a reset to run everything as new"
	}
	return m.node.Malformed[m.nw.Name]
}

func (m *member) unadopted() bool { return !m.had && slices.Contains(m.node.Unadopted, m.nw.Name) }

// unreadable is the cause of a record that says nothing.
func (m *member) unreadable(problem string) *cause {
	if m.unadopted() {
		return &cause{NotAdopted, "", problem}
	}
	return &cause{RecordUnreadable, "", problem}
}

// anyExecution reports whether one of the NodeWright's executions on the node is as asked.
func (m *member) anyExecution(is func(Execution) bool) bool {
	return slices.ContainsFunc(m.node.Executions, func(e Execution) bool { return e.NodeWright == m.nw.Name && is(e) })
}

// failure is why the turn of a node failed.
func (m *member) failure() NodeFailure {
	f := NodeFailure{Node: m.node.Name, Failure: noderecord.Failure{Reason: string(PackageFailed)}}
	if m.rec.Failure != nil {
		f.Failure, f.First = *m.rec.Failure, m.rec.FirstFailure
	}
	return f
}
