package plan

import (
	"fmt"
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// admitFrom opens the next batch of a compartment if it may, and gives everyone else the reason to wait.
func (p *pass) admitFrom(v *view, c *compartment, waiting []*member) {
	led := v.ledger.Compartments[c.name]
	if why := c.closed(led); why != nil {
		becauseAll(waiting, why)
		return
	}
	size := len(waiting)
	if !c.rules.rolling {
		size = c.rules.nextSize(led, c.ceiling)
	}
	admitted := p.take(c, waiting, size)
	if len(admitted) > 0 {
		p.openBatch(v, c, admitted, size)
	}
}

func becauseAll(waiting []*member, why *cause) {
	for _, m := range waiting {
		m.because(why)
	}
}

// closed is why a compartment admits nobody now.
func (c *compartment) closed(led fleetv1.LedgerCompartment) *cause {
	switch {
	case led.Halt != nil:
		return &cause{Halted, c.ref(), "compartment " + c.name + " is halted: " + led.Halt.Message}
	case c.ceiling == 0:
		return &cause{BudgetIsZero, c.ref(), "the budget of compartment " + c.name + " is 0"}
	case !c.rules.rolling && led.Batch > 0 && !led.Settled:
		return &cause{WaitingForBatch, c.ref(), fmt.Sprintf("batch %d of compartment %s has not ended", led.Batch, c.name)}
	}
	return nil
}

// take picks up to size nodes that the ceiling and the cluster's budgets have room for. A node that holds a slot
// already needs no other.
func (p *pass) take(c *compartment, waiting []*member, size int) []*member {
	used := c.inUse()
	free := c.ceiling - used
	noSlot := &cause{WaitingForSlot, c.ref(),
		fmt.Sprintf("%d of the %d slots of compartment %s are in use", max(used, c.ceiling), c.ceiling, c.name)}
	nextBatch := &cause{WaitingForBatch, c.ref(), "the next batch of compartment " + c.name + " is full"}
	var admitted []*member
	for _, m := range waiting {
		holds, takes := c.holders[m], 1
		if c.counts(m) {
			takes = 0
		}
		switch {
		case len(admitted) >= size:
			m.because(nextBatch)
		case !holds && free < takes:
			m.because(noSlot)
		default:
			if p.workOf(m).disruptive() {
				if full := p.clusterRoom(m.node); full != nil {
					m.because(full)
					continue
				}
			}
			free -= takes
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
	free := c.ceiling - c.inUse() + c.alreadyHolding(admitted)
	led.Cut = len(admitted) < min(size, left, max(free, 0))
	v.setCompartment(c.name, led)
	for _, m := range admitted {
		intent := fleetv1.LedgerIntent{
			NodeUID: m.node.UID, Node: m.node.Name, Compartment: c.name, Round: v.ledger.Round, Batch: led.Batch,
			Order: v.ledger.NextOrder,
		}
		v.ledger.NextOrder++
		v.ledger.Intents = append(v.dropped(m), intent)
		v.setOpen(m)
		c.hold(m)
		t := p.newTurn(v, m)
		t.admit(intent)
		t.because(AdmissionUnconfirmed, "", fmt.Sprintf("the node is admitted to batch %d of compartment %s", led.Batch, c.name))
		t.flush()
	}
}

// dropped are the intents without a confirmed one of the same node, of which there may be only one.
func (v *view) dropped(m *member) []fleetv1.LedgerIntent {
	if !v.confirmed[m.node.UID] {
		return v.ledger.Intents
	}
	delete(v.confirmed, m.node.UID)
	return slices.DeleteFunc(v.ledger.Intents, func(i fleetv1.LedgerIntent) bool { return i.NodeUID == m.node.UID })
}

func (c *compartment) alreadyHolding(admitted []*member) int {
	n := 0
	for _, m := range admitted {
		if c.counts(m) {
			n++
		}
	}
	return n
}

// reasonForRest gives a reason to every node that has none yet.
func (p *pass) reasonForRest(v *view, m *member) {
	switch problem := m.malformed(); {
	case m.reason != nil:
	case m.excluded != nil:
		m.because(m.excluded)
	case !m.targeted:
	case problem != "":
		m.because(&cause{RecordUnreadable, "", problem})
	case m.complete():
		m.because(causeComplete)
	case m.rec.Outcome == noderecord.Failed:
		p.newTurn(v, m).becauseFailed()
	default:
		m.because(causeSuperseded)
	}
}
