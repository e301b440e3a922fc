package plan

import (
	"fmt"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// candidates are the nodes of a compartment that wait for their admission and have no other reason not to get it, by name.
func (p *pass) candidates(v *view, c *compartment) []*member {
	var out []*member
	for _, m := range c.busy {
		if p.gating[m.node.UID] != nil || !v.wantsAdmission(m) {
			continue
		}
		if why := p.inadmissible(v, m); why != nil {
			m.because(why)
			continue
		}
		out = append(out, m)
	}
	return out
}

// wantsAdmission: not complete, no turn of this round open, nothing of an earlier one still running, and, if it failed
// in this round, healed or asked to be retried.
func (v *view) wantsAdmission(m *member) bool {
	if m.intent != nil || m.writesRecord() || m.underRelease() {
		return false // what this pass records is seen first
	}
	if m.rec.Outcome == noderecord.Failed && m.anyExecution(Execution.running) {
		return false // it may still come good, and its end is recorded before anything else
	}
	if v.waitsForRound(m) {
		return false
	}
	if v.current(m.rec) {
		switch m.rec.Outcome {
		case noderecord.Open:
			return false
		case noderecord.Failed:
			return m.mayRetry()
		}
	}
	if m.rec.IsOpen() {
		return m.rec.Started && atRest(m.rec)
	}
	return !m.standing.done || m.rec.Outcome == noderecord.Failed && m.ownsCordon()
}

func (m *member) writesRecord() bool { return m.decision != nil && m.decision.Record != nil }

// underRelease: the node is being given back in this pass; it is admitted when that is seen.
func (m *member) underRelease() bool { return m.decision != nil && m.decision.Cordon == CordonDrop }

func atRest(rec noderecord.Record) bool {
	return rec.Outcome != noderecord.Open || rec.Interrupt == nil && !anyRunning(rec)
}

// inadmissible is why a node cannot be admitted now whatever the budget says.
func (p *pass) inadmissible(v *view, m *member) *cause {
	switch problem := m.malformed(); {
	case problem != "":
		return m.unreadable(problem)
	case !m.node.Ready:
		return causeNotReady
	case m.tainted != nil:
		return m.tainted
	}
	return p.goesFirst(v, m)
}

// goesFirst is why a node waits for a NodeWright of higher priority, which has to be complete there before this one may
// start.
func (p *pass) goesFirst(v *view, m *member) *cause {
	for _, other := range p.views {
		switch {
		case other == v:
			return nil
		case other.nw.Disabled:
		case other.nw.Spec.Sequencing == nwv1.SequencingAll:
			if other.hasIncomplete() {
				return other.ahead
			}
		default:
			if o := other.at[m.pos]; o != nil && o.targeted && !o.complete() {
				return other.ahead
			}
		}
	}
	return nil
}

// goesAhead words goesFirst once for all nodes that wait for this NodeWright.
func (v *view) goesAhead() *cause {
	message := "NodeWright " + v.nw.Name + " goes first and is not complete on this node"
	if v.nw.Spec.Sequencing == nwv1.SequencingAll {
		message = fmt.Sprintf("NodeWright %s goes first on every node; node %s is not complete", v.nw.Name, v.late)
	}
	return &cause{WaitingForPriority, "nodewright " + v.nw.Name, message}
}
