package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// admitFrom opens the next batch of a compartment if it may, and gives everyone else the reason to wait.
func (p *pass) admitFrom(v *view, c *compartment, waiting []*member) {
	if len(waiting) == 0 {
		return
	}
	led := v.ledger.Compartments[c.name]
	if why := p.closed(v, c, led); why != nil {
		becauseAll(waiting, why)
		if waiting = slices.DeleteFunc(slices.Clone(waiting), func(m *member) bool { return !m.mustBeFinished(why) }); len(waiting) == 0 {
			return
		}
	}
	waiting = p.admitUnused(v, waiting)
	if !c.rules.rolling && led.Batch > 0 && !led.Settled {
		becauseAll(waiting, &cause{WaitingForBatch, c.ref(),
			fmt.Sprintf("batch %d of compartment %s has not ended%s", led.Batch, c.name, v.openIn(c, led.Batch))})
		return
	}
	s := &choice{p: p, v: v, c: c, size: len(waiting), free: c.ceiling - c.inUse()}
	if !c.rules.rolling {
		s.size = c.rules.nextSize(led, c.ceiling)
	}
	occupancy, known := s.occupancy(waiting)
	if !known {
		becauseAll(waiting, causeLookedUp)
		return
	}
	s.take(p.unitsOf(v, c, p.withoutProtected(v, c, waiting, occupancy), occupancy))
	if len(s.admitted) > 0 {
		p.openBatch(s)
	}
}

// mustBeFinished: the node is out of service because of us and under way, in an earlier round. The end of a window does not
// leave it there until the next one.
func (m *member) mustBeFinished(why *cause) bool {
	return why.is(WaitingForWindow) && m.underWay() && m.ownsCordon()
}

func becauseAll(waiting []*member, why *cause) {
	for _, m := range waiting {
		m.because(why)
	}
}

// closed is why a compartment admits nobody now, whatever has ended.
func (p *pass) closed(v *view, c *compartment, led fleetv1.LedgerCompartment) *cause {
	switch {
	case led.Halt != nil:
		return &cause{Halted, c.ref(), "compartment " + c.name + " is halted: " + led.Halt.Message}
	case c.ceiling == 0:
		return &cause{BudgetIsZero, c.ref(), "the budget of compartment " + c.name + " is 0"}
	}
	open, change := v.nw.Windows.At(p.in.Now)
	p.wakeAt(change)
	if open {
		return nil
	}
	return &cause{WaitingForWindow, c.ref(), "the maintenance windows are closed; the next one opens " + instantOrNever(change)}
}

func instantOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return "at " + t.UTC().Format(time.RFC3339)
}

// openBatch writes the admission of all its nodes into the ledger at once; their records follow.
func (p *pass) openBatch(s *choice) {
	v, c := s.v, s.c
	led := v.ledger.Compartments[c.name]
	led.Batch++
	led.Size, led.Admitted = int32(s.size), int32(len(s.admitted))
	led.Settled, led.LastBad = false, false
	free := c.ceiling - c.inUse() + c.alreadyHolding(s.admitted)
	led.Cut = len(s.admitted)+s.left < min(s.size, v.incompleteIn(c)-p.slotlessIn(v, c), max(free, 0))
	v.setCompartment(c.name, led)
	for _, m := range s.admitted {
		c.hold(m)
		p.admitTo(v, m, c.name, led.Batch)
	}
}

// admitTo decides one admission: the intent in the ledger, and the record that confirms it.
func (p *pass) admitTo(v *view, m *member, compartment string, batch int32) {
	intent := fleetv1.LedgerIntent{
		NodeUID: m.node.UID, Node: m.node.Name, Compartment: compartment, Round: v.ledger.Round, Batch: batch,
		Order: v.ledger.NextOrder, At: metav1.NewTime(p.in.Now.UTC()),
	}
	v.ledger.NextOrder++
	v.ledger.Intents, v.changed = append(v.dropped(m), intent), true
	v.setOpen(m)
	t := p.newTurn(v, m)
	t.admit(intent)
	t.because(AdmissionUnconfirmed, "", "the node is admitted to "+placeOf(intent))
	t.flush()
}

func placeOf(intent fleetv1.LedgerIntent) string {
	if intent.Compartment == "" {
		return fmt.Sprintf("round %d without a slot: it is new and not in use", intent.Round)
	}
	return fmt.Sprintf("batch %d of compartment %s", intent.Batch, intent.Compartment)
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
	case p.gating[m.node.UID] != nil:
		m.because(p.gating[m.node.UID])
	case m.excluded != nil:
		m.because(m.excluded)
	case !m.targeted:
	case problem != "":
		m.because(m.unreadable(problem))
	case v.waitsForRound(m):
		m.because(v.becauseOfRound(m))
	case m.complete():
		m.because(m.causeOfRest())
	case m.rec.Outcome == noderecord.Failed:
		p.newTurn(v, m).becauseFailed()
	default:
		m.because(causeSuperseded)
	}
}
