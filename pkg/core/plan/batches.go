package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// admissions judges what ended and admits who is next, in every compartment of a NodeWright.
func (p *pass) admissions(v *view) {
	if v.held == nil {
		p.resume(v)
		for _, c := range v.compartments {
			p.settleBatch(v, c)
		}
	}
	for _, c := range v.compartments {
		waiting := p.candidates(v, c)
		if v.held != nil {
			becauseAll(waiting, v.held)
			continue
		}
		p.admitFrom(v, c, waiting)
	}
	for _, m := range v.busy {
		p.reasonForRest(v, m)
	}
}

// resume ends the halts of a NodeWright whose resume annotation has a new token.
func (p *pass) resume(v *view) {
	if v.resumeToken == "" || v.resumeToken == v.ledger.Resumed {
		return
	}
	for name, led := range v.ledger.Compartments {
		led.Halt, led.ConsecutiveBad = nil, 0
		v.ledger.Compartments[name] = led
	}
	v.ledger.Resumed = v.resumeToken
	v.changed = true
}

// ends are the nodes of a batch, or of a verdict window, that have ended.
type ends struct {
	succeeded, failed int
	// open nodes have not ended; released ones were given back before anything ran.
	open, released int
	// seen are the nodes whose record or intent is there.
	seen     int
	failures []NodeFailure
}

// settleBatch takes the verdict over the newest batch once every node of it has ended. A verdict never changes.
func (p *pass) settleBatch(v *view, c *compartment) {
	if c.rules.rolling {
		p.settleWindow(v, c)
		return
	}
	led := v.ledger.Compartments[c.name]
	if led.Batch == 0 || led.Settled {
		return
	}
	e := v.endsOf(c, led.Batch)
	if e.open > 0 {
		return
	}
	if e.seen < int(led.Admitted) {
		lost := p.lost(v, c.name, led.Batch)
		e.failed += len(lost)
		e.failures = append(e.failures, lost...)
	}
	led = c.rules.verdict(led, e.succeeded, e.failed, v.progress(c))
	led.Settled, led.Cut = true, led.Cut || e.released > 0 || e.succeeded+e.failed == 0 // it has shown less than it was to show
	p.keepVerdict(v, c, led, e.failures)
}

// keepVerdict writes the verdict into the ledger, with the halt if it brings one.
func (p *pass) keepVerdict(v *view, c *compartment, led fleetv1.LedgerCompartment, failures []NodeFailure) {
	if led.Halt == nil && c.rules.halts(led) {
		led.Halt = &fleetv1.LedgerHalt{Batch: led.Batch, At: metav1.NewTime(p.in.Now.UTC()), Message: haltMessage(failures)}
		v.withdrawIntents(c.name)
	}
	v.setCompartment(c.name, led)
}

func (v *view) setCompartment(name string, led fleetv1.LedgerCompartment) {
	if v.ledger.Compartments == nil {
		v.ledger.Compartments = map[string]fleetv1.LedgerCompartment{}
	}
	v.ledger.Compartments[name] = led
	v.changed = true
}

// withdrawIntents takes back the admissions of a compartment that are not confirmed.
func (v *view) withdrawIntents(compartment string) {
	for i, intent := range v.ledger.Intents {
		if intent.Compartment == compartment && !v.confirmed[intent.NodeUID] {
			v.ledger.Intents[i].Withdrawn = true
		}
	}
	for _, m := range v.pending {
		if m.intent.Compartment == compartment {
			m.decision = nil
		}
	}
}

// endsOf counts the nodes of a batch of the current round.
func (v *view) endsOf(c *compartment, batch int32) ends {
	var e ends
	for _, m := range v.turnsIn(c) {
		if m.rec.Batch == batch {
			e.add(m)
		}
	}
	for _, m := range v.pending {
		if i := m.intent; i.Compartment == c.name && i.Batch == batch && i.Round == v.ledger.Round {
			e.seen++
			e.open++
		}
	}
	return e
}

func (e *ends) add(m *member) {
	e.seen++
	switch m.rec.Outcome {
	case noderecord.Open:
		e.open++
	case noderecord.Succeeded:
		e.succeeded++
	case noderecord.Released:
		if m.selected {
			e.released++
		}
	case noderecord.Failed:
		e.failed++
		e.failures = append(e.failures, m.failure())
	}
}

// lost are the nodes that are gone and have an execution of this round that did not succeed, one entry for each, sorted.
// An empty compartment stands for all of them, batch 0 for every batch.
func (p *pass) lost(v *view, compartment string, batch int32) []NodeFailure {
	newest := map[types.UID]Execution{}
	for _, e := range p.in.Orphans {
		if !v.isLost(e, compartment, batch) {
			continue
		}
		if have, known := newest[e.NodeUID]; !known || compareLost(e, have) < 0 {
			newest[e.NodeUID] = e
		}
	}
	out := make([]NodeFailure, 0, len(newest))
	for _, e := range newest {
		out = append(out, NodeFailure{Node: e.Node, Failure: noderecord.Failure{
			Package: e.Package, Stage: e.Stage, Reason: string(NodeLost), Message: "the node vanished while it was under way",
		}})
	}
	slices.SortFunc(out, func(a, b NodeFailure) int {
		return cmp.Or(compareStrings(a.Node, b.Node), compareStrings(a.Package, b.Package), compareStrings(string(a.Stage), string(b.Stage)))
	})
	return out
}

// compareLost is which of the executions of a vanished node speaks for it: of the first package the newest attempt.
func compareLost(a, b Execution) int {
	return cmp.Or(
		compareStrings(a.Package, b.Package), cmp.Compare(b.Attempt, a.Attempt), compareStrings(string(a.Phase), string(b.Phase)),
		cmp.Compare(b.Wave, a.Wave), compareStrings(a.Name, b.Name),
	)
}

// isLost reports whether an execution of a node that is gone did not succeed in this round, compartment and batch.
func (v *view) isLost(e Execution, compartment string, batch int32) bool {
	return e.NodeWrightUID == v.nw.UID && e.Round == v.ledger.Round && e.State != ExecutionSucceeded &&
		(compartment == "" || e.Compartment == compartment) && (batch == 0 || e.Batch == batch)
}

// progress is the share, in percent, of the compartment's nodes that ended in this round, of those that ended or are still
// to come. It is counted on the nodes that exist: one that fails, is deleted and created anew makes no progress.
func (v *view) progress(c *compartment) int {
	ended := 0
	for _, m := range c.members {
		if v.endedNow(m) {
			ended++
		}
	}
	if ended == 0 {
		return 0
	}
	return ended * 100 / (ended + v.incompleteIn(c))
}

func (v *view) endedNow(m *member) bool {
	return v.current(m.rec) && (m.rec.Outcome == noderecord.Succeeded || m.rec.Outcome == noderecord.Failed)
}

// incompleteIn counts the nodes of a compartment that have not ended in this round and are not complete.
func (v *view) incompleteIn(c *compartment) int {
	n := 0
	for _, m := range c.members {
		if !m.quiet && !v.endedNow(m) && !m.complete() {
			n++
		}
	}
	return n
}

// settleWindow takes a verdict over each `initialBatch` consecutive ends of a rolling compartment. Without a
// failureThreshold nothing would follow from it.
func (p *pass) settleWindow(v *view, c *compartment) {
	led := v.ledger.Compartments[c.name]
	if c.rules.failureThreshold == 0 || led.Batch == 0 {
		return
	}
	for _, e := range p.uncountedEnds(v, c, led) {
		led = counted(led, e.order)
		if e.succeeded {
			led.WindowSucceeded++
		} else {
			led.WindowFailed++
		}
		if int(led.WindowSucceeded+led.WindowFailed) >= c.rules.initial {
			led = c.rules.verdict(led, int(led.WindowSucceeded), int(led.WindowFailed), v.progress(c))
			led.WindowSucceeded, led.WindowFailed = 0, 0
		}
		p.keepVerdict(v, c, led, append(v.failuresIn(c), p.lost(v, c.name, 0)...))
		led = v.ledger.Compartments[c.name]
	}
}

// failuresIn are the nodes that the compartment admitted in this round and that failed, in the order of their names.
func (v *view) failuresIn(c *compartment) []NodeFailure {
	var out []NodeFailure
	for _, m := range v.turnsIn(c) {
		if m.rec.Outcome == noderecord.Failed {
			out = append(out, m.failure())
		}
	}
	return out
}

// end is a turn that has ended, by its order number.
type end struct {
	order     int32
	succeeded bool
}

// uncountedEnds are the ends that no window has counted, in their order; nodes that vanished at work come last.
func (p *pass) uncountedEnds(v *view, c *compartment, led fleetv1.LedgerCompartment) []end {
	var ended []*member
	for _, m := range v.turnsIn(c) {
		if !m.rec.IsOpen() && m.rec.Outcome != noderecord.Released && !isCounted(led, m.rec.Order) {
			ended = append(ended, m)
		}
	}
	sortByEnd(ended)
	var out []end
	for _, m := range ended {
		out = append(out, end{m.rec.Order, m.rec.Outcome == noderecord.Succeeded})
	}
	var lost []int32
	for _, e := range p.in.Orphans {
		if v.isLost(e, c.name, 0) && e.Order != nil && !isCounted(led, *e.Order) {
			lost = append(lost, *e.Order)
		}
	}
	slices.Sort(lost)
	for _, order := range slices.Compact(lost) {
		out = append(out, end{order, false})
	}
	return out
}

func sortByEnd(members []*member) {
	slices.SortFunc(members, func(a, b *member) int {
		if a.rec.EndedAt != nil && b.rec.EndedAt != nil {
			if d := a.rec.EndedAt.Compare(*b.rec.EndedAt); d != 0 {
				return d
			}
		}
		return int(a.rec.Order - b.rec.Order)
	})
}

// isCounted reports whether a window has counted the end of the turn with that order number.
func isCounted(led fleetv1.LedgerCompartment, order int32) bool {
	return order < led.CountedBelow || slices.Contains(led.Counted, order)
}

// counted notes an order number as counted, compactly.
func counted(led fleetv1.LedgerCompartment, order int32) fleetv1.LedgerCompartment {
	led.Counted = append(slices.Clone(led.Counted), order)
	slices.Sort(led.Counted)
	for len(led.Counted) > 0 && led.Counted[0] == led.CountedBelow {
		led.Counted, led.CountedBelow = led.Counted[1:], led.CountedBelow+1
	}
	if len(led.Counted) == 0 {
		led.Counted = nil
	}
	return led
}

// haltMessage names the first failed nodes with package, stage and exit code.
func haltMessage(failures []NodeFailure) string {
	const most = 3
	var parts []string
	for i, f := range failures {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(failures)-most))
			break
		}
		parts = append(parts, strings.TrimSpace(f.Node+": "+FailureSentence(f.Failure)))
	}
	return strings.Join(parts, "; ")
}
