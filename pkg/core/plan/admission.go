package plan

import (
	"cmp"
	"fmt"
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// candidates are the nodes of a compartment that wait for their admission and have no other reason not to get it, in
// the order in which they are admitted: those that hold a slot already, those that failed, then by the policy's order.
func (p *pass) candidates(v *view, c *compartment) []*member {
	var out []*member
	for _, m := range c.members {
		if v.wantsAdmission(m) && p.admissible(v, m) {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int { return v.compareCandidates(c, a, b) })
	return out
}

// wantsAdmission: not complete, no turn of this round open, nothing of an earlier one still running, and, if it failed
// in this round, healed or asked to be retried.
func (v *view) wantsAdmission(m *member) bool {
	if _, pending := v.intents[m.node.UID]; pending || v.decisions[m.node.Name].Record != nil || v.underRelease(m) {
		return false // what this pass records is seen first
	}
	if m.rec.Outcome == noderecord.Failed && v.anyExecution(m.node, Execution.running) {
		return false // it may still come good, and its end is recorded before anything else
	}
	if v.current(m.rec) {
		switch m.rec.Outcome {
		case noderecord.Open:
			return false
		case noderecord.Failed:
			return m.rec.Healed || v.nw.Retry != "" && m.rec.Retried != v.nw.Retry
		}
	}
	if m.rec.IsOpen() {
		return m.rec.Started && atRest(m.rec)
	}
	return len(m.work) > 0 || m.rec.Outcome == noderecord.Failed && v.ownsCordon(m)
}

// underRelease: the node is being given back in this pass; it is admitted when that is seen.
func (v *view) underRelease(m *member) bool { return v.decisions[m.node.Name].Cordon == CordonDrop }

func atRest(rec noderecord.Record) bool {
	if rec.Interrupt != nil && rec.Outcome == noderecord.Open {
		return false
	}
	for _, pkg := range rec.Packages {
		if pkg.Running != "" && rec.Outcome == noderecord.Open {
			return false
		}
	}
	return true
}

// admissible gives the reason of a node that cannot be admitted now whatever the budget says.
func (p *pass) admissible(v *view, m *member) bool {
	n := m.node
	switch {
	case n.Malformed[v.nw.Name] != "":
		v.because(n.Name, RecordUnreadable, "", n.Malformed[v.nw.Name])
		return false
	case !n.Ready:
		v.because(n.Name, NodeNotReady, "", "the node is not Ready")
		return false
	}
	if first, message := p.goesFirst(v, m); first != nil {
		v.because(n.Name, WaitingForPriority, "nodewright "+first.nw.Name, message)
		return false
	}
	return true
}

// goesFirst is a NodeWright of higher priority that has to be complete before this one may start on the node.
func (p *pass) goesFirst(v *view, m *member) (*view, string) {
	for _, other := range p.views {
		if other == v {
			return nil, ""
		}
		if other.nw.Disabled {
			continue
		}
		if other.nw.Spec.Sequencing == nwv1.SequencingAll {
			if late := other.firstIncomplete(); late != "" {
				return other, fmt.Sprintf("NodeWright %s goes first on every node; node %s is not complete", other.nw.Name, late)
			}
			continue
		}
		if o := other.memberOf(m.node); o != nil && o.targeted && !o.complete() {
			return other, "NodeWright " + other.nw.Name + " goes first and is not complete on this node"
		}
	}
	return nil, ""
}

// firstIncomplete names a targeted node that is not complete; empty if all are.
func (v *view) firstIncomplete() string {
	if v.late != nil {
		return *v.late
	}
	late := ""
	if i := slices.IndexFunc(v.members, func(m *member) bool { return m.targeted && !m.complete() }); i >= 0 {
		late = v.members[i].node.Name
	}
	v.late = &late
	return late
}

func (v *view) compareCandidates(c *compartment, a, b *member) int {
	if d := v.urgency(c, a) - v.urgency(c, b); d != 0 {
		return d
	}
	if policy := v.nw.Policy; policy != nil && policy.Order == nwv1.OrderLabel {
		if d := cmp.Compare(a.node.Labels[policy.OrderBy], b.node.Labels[policy.OrderBy]); d != 0 {
			return d
		}
	}
	return compareStrings(a.node.Name, b.node.Name)
}

func (v *view) urgency(c *compartment, m *member) int {
	switch {
	case v.holders[c.name][m.node.UID]:
		return 0
	case m.rec.Outcome == noderecord.Failed:
		return 1
	}
	return 2
}

// admitFrom opens the next batch of a compartment if it may, and gives everyone else the reason to wait.
func (p *pass) admitFrom(v *view, c *compartment, waiting []*member) {
	led := v.ledger.Compartments[c.name]
	code, message := v.closed(c, led)
	if code != "" {
		for _, m := range waiting {
			v.because(m.node.Name, code, "compartment "+c.name, message)
		}
		return
	}
	size := len(waiting)
	if !c.rules.rolling {
		size = c.rules.nextSize(led, c.ceiling)
	}
	admitted := p.take(v, c, waiting, size)
	if len(admitted) > 0 {
		p.openBatch(v, c, admitted, size)
	}
}

// closed is why a compartment admits nobody now.
func (v *view) closed(c *compartment, led fleetv1.LedgerCompartment) (Code, string) {
	switch {
	case led.Halt != nil:
		return Halted, "compartment " + c.name + " is halted: " + led.Halt.Message
	case c.ceiling == 0:
		return BudgetIsZero, "the budget of compartment " + c.name + " is 0"
	case !c.rules.rolling && led.Batch > 0 && !led.Settled:
		return WaitingForBatch, fmt.Sprintf("batch %d of compartment %s has not ended", led.Batch, c.name)
	}
	return "", ""
}

// take picks up to size nodes that the ceiling and the cluster's budgets have room for. A node that holds a slot
// already needs no other.
func (p *pass) take(v *view, c *compartment, waiting []*member, size int) []*member {
	used := v.inUse(c)
	var admitted []*member
	for _, m := range waiting {
		holds := v.holders[c.name][m.node.UID]
		switch {
		case len(admitted) >= size:
			v.because(m.node.Name, WaitingForBatch, "compartment "+c.name, "the next batch of compartment "+c.name+" is full")
		case !holds && used >= c.ceiling:
			v.because(m.node.Name, WaitingForSlot, "compartment "+c.name,
				fmt.Sprintf("%d of the %d slots of compartment %s are in use", used, c.ceiling, c.name))
		default:
			if m.work.disruptive() {
				if blocking, ok := p.clusterRoom(m.node); !ok {
					v.because(m.node.Name, WaitingForClusterBudget, "fleet "+blocking.Name, blocking.sentence())
					continue
				}
			}
			if !holds {
				used++
			}
			admitted = append(admitted, m)
		}
	}
	return admitted
}

// openBatch writes the admission of all its nodes into the ledger at once; their records follow.
func (p *pass) openBatch(v *view, c *compartment, admitted []*member, size int) {
	led := v.ledger.Compartments[c.name]
	led.Batch++
	led.Size, led.Admitted = int32(size), int32(len(admitted))
	led.Settled, led.LastBad = false, false
	left := v.incompleteIn(c)
	free := c.ceiling - v.inUse(c) + v.alreadyHolding(c, admitted)
	led.Cut = len(admitted) < min(size, left, max(free, 0))
	v.setCompartment(c.name, led)
	for _, m := range admitted {
		intent := fleetv1.LedgerIntent{
			NodeUID: m.node.UID, Node: m.node.Name, Compartment: c.name, Round: v.ledger.Round, Batch: led.Batch,
			Order: v.ledger.NextOrder,
		}
		v.ledger.NextOrder++
		v.ledger.Intents = append(v.dropped(m), intent)
		v.open[m.node.UID] = true
		v.hold(c.name, m.node.UID)
		t := p.newTurn(v, m)
		t.admit(intent)
		t.because(AdmissionUnconfirmed, "", fmt.Sprintf("the node is admitted to batch %d of compartment %s", led.Batch, c.name))
		t.flush()
	}
}

// dropped are the intents without a confirmed one of the same node, of which there may be only one.
func (v *view) dropped(m *member) []fleetv1.LedgerIntent {
	delete(v.confirmed, m.node.UID)
	return slices.DeleteFunc(v.ledger.Intents, func(i fleetv1.LedgerIntent) bool { return i.NodeUID == m.node.UID })
}

func (v *view) alreadyHolding(c *compartment, admitted []*member) int {
	n := 0
	for _, m := range admitted {
		if v.holders[c.name][m.node.UID] {
			n++
		}
	}
	return n
}

// reasonForRest gives a reason to every node that has none yet.
func (p *pass) reasonForRest(v *view, m *member) {
	name := m.node.Name
	if _, has := v.reasons[name]; has {
		return
	}
	switch {
	case m.excluded.Code != "":
		v.because(name, m.excluded.Code, m.excluded.Object, m.excluded.Message)
	case !m.targeted:
	case m.node.Malformed[v.nw.Name] != "":
		v.because(name, RecordUnreadable, "", m.node.Malformed[v.nw.Name])
	case m.complete():
		v.because(name, Complete, "", "every package is done")
	case m.rec.Outcome == noderecord.Failed:
		p.newTurn(v, m).becauseFailed()
	default:
		v.because(name, Superseded, "", "an earlier turn of the node is being closed")
	}
}
