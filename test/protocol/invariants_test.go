package protocol

import (
	"fmt"
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// check says which invariant a move breaks; empty: none.
func (m *model) check(from, to *state) string {
	if from.ledger != to.ledger {
		if broken := m.checkLedger(to, m.rollout(from), m.rollout(to)); broken != "" {
			return broken
		}
	}
	if from.nodes.now() == to.nodes.now() && from.jobs.now() == to.jobs.now() {
		return ""
	}
	before, after := m.nodesOf(from), m.nodesOf(to)
	for i := range after {
		if broken := m.checkRecord(before[i], after[i]); broken != "" {
			return broken
		}
	}
	if broken := m.checkOrders(after); broken != "" {
		return broken
	}
	return m.checkCeiling(to)
}

func (m *model) rollout(s *state) fleetv1.LedgerRollout {
	return m.ledgers.at(s.ledger).Rollouts[nodeWright]
}

// checkRecord: a record is its node's own, is never erased, and only advances.
func (m *model) checkRecord(before, after nodeObject) string {
	if before == after || after.uid == 0 {
		return ""
	}
	next, ok := m.visible(after)
	if after.record != 0 && !ok && !m.world.broken.noUIDTest {
		return fmt.Sprintf("node %s carries the record of another node", after.uid)
	}
	if before.uid != after.uid {
		return ""
	}
	last, had := m.visible(before)
	switch {
	case !had, !ok && m.world.broken.noTombstone:
		return ""
	case !ok:
		return fmt.Sprintf("the record of node %s is erased", after.uid)
	case !next.Reached(last.Round, last.Order):
		return fmt.Sprintf("the record of node %s goes back: %s, then %s", after.uid, recordWords(last), recordWords(next))
	case last.Round != next.Round || last.Batch != next.Batch:
		return ""
	case last.Started && !next.Started,
		(last.Outcome == noderecord.Released || last.Outcome == noderecord.Succeeded) && next.Outcome != last.Outcome,
		last.Outcome == noderecord.Failed && next.Outcome == noderecord.Open:
		return fmt.Sprintf("the turn of node %s goes back: %s, then %s", after.uid, recordWords(last), recordWords(next))
	}
	return ""
}

// checkOrders: no two nodes have one order number in a round.
func (m *model) checkOrders(nodes nodeList) string {
	for i := range nodes {
		a, ok := m.visible(nodes[i])
		if !ok {
			continue
		}
		for _, other := range nodes[i+1:] {
			if b, ok := m.visible(other); ok && a.Round == b.Round && a.Order == b.Order {
				return fmt.Sprintf("nodes %s and %s both have order %d in round %d", nodes[i].uid, other.uid, a.Order, a.Round)
			}
		}
	}
	return ""
}

// checkCeiling counts the nodes that are out of service or at work because of us: by what is, not by what anyone believes.
func (m *model) checkCeiling(s *state) string {
	at := m.atWork(s)
	if len(at) > m.world.ceiling {
		return fmt.Sprintf("%v hold a slot each; the ceiling is %d", at, m.world.ceiling)
	}
	return ""
}

func (m *model) atWork(s *state) []uid {
	var out []uid
	jobs := m.jobsOf(s)
	for _, n := range m.nodesOf(s) {
		if n.uid == 0 {
			continue
		}
		r, _ := m.visible(n)
		busy := r.IsOpen() || n.cordoned
		for _, j := range jobs {
			busy = busy || j.name != 0 && j.state == running && m.specs.at(j.spec).uid == n.uid && m.works(s, j)
		}
		if busy {
			out = append(out, n.uid)
		}
	}
	return out
}

// works reports whether a running execution does anything: the agent answers stages that it completed in this round with
// the stored result.
func (m *model) works(s *state, j jobObject) bool {
	done := s.hosts[m.machineOf(s, j.name)].done
	for _, stage := range m.specs.at(j.spec).Stages[j.reached:] {
		if done&stageBit[stage] == 0 || m.world.broken.noStoredResult {
			return true
		}
	}
	return false
}

// checkLedger: rounds and order numbers only grow, a settled verdict never changes, nobody is admitted after a halt, who
// vanished at work counts as failed, and older content never comes back by itself.
func (m *model) checkLedger(s *state, old, next fleetv1.LedgerRollout) string {
	was, is := old.Compartments[compartment], next.Compartments[compartment]
	switch {
	case next.Round < old.Round:
		return fmt.Sprintf("the rollout goes back from round %d to %d", old.Round, next.Round)
	case next.Round > old.Round:
		return m.checkRound(s, old, next)
	case next.NextOrder < old.NextOrder || is.Batch < was.Batch:
		return "the ledger's counters go back"
	}
	resumed := next.Resumed != old.Resumed
	for _, i := range next.Intents {
		known := slices.ContainsFunc(old.Intents, func(o fleetv1.LedgerIntent) bool { o.Withdrawn = i.Withdrawn; return o == i })
		switch {
		case known:
		case was.Halt != nil && !resumed:
			return fmt.Sprintf("node %s is admitted after the halt", m.uids[i.NodeUID])
		case i.Order < old.NextOrder:
			return fmt.Sprintf("order %d is given a second time in round %d", i.Order, i.Round)
		}
	}
	if !was.Settled && is.Settled {
		return m.checkVerdict(s, was, is, next.Round)
	}
	if was.Settled && was.Batch == is.Batch && !resumed && verdictOf(was) != verdictOf(is) {
		return fmt.Sprintf("the verdict of batch %d changes: %v, then %v", was.Batch, verdictOf(was), verdictOf(is))
	}
	return ""
}

// checkRound: a round for changed content is for newer content than the last one's.
func (m *model) checkRound(_ *state, old, next fleetv1.LedgerRollout) string {
	if m.world.budget.changes < 2 && next.ContentHash == m.contents[0].Hash && old.ContentHash == m.contents[1].Hash {
		return "the rollout goes back to content A, which nobody asked for"
	}
	return ""
}

type verdict struct {
	settled, bad, halted bool
	succeeded, failed    int32
}

func verdictOf(c fleetv1.LedgerCompartment) verdict {
	return verdict{c.Settled, c.LastBad, c.Halt != nil, c.Succeeded, c.Failed}
}

// checkVerdict: every member of the batch that is gone, and of whose Jobs that began none succeeded, counts as failed.
func (m *model) checkVerdict(s *state, was, is fleetv1.LedgerCompartment, round int64) string {
	nodes := m.nodesOf(s)
	lost := map[uid]bool{}
	for _, j := range m.jobsOf(s) {
		if j.name == 0 || !j.own {
			continue // nothing ran before the node vanished
		}
		spec := m.specs.at(j.spec)
		if spec.Round == round && spec.Batch == is.Batch && nodes[spec.uid.name()].uid != spec.uid {
			if _, known := lost[spec.uid]; !known || j.state == succeeded {
				lost[spec.uid] = j.state != succeeded
			}
		}
	}
	n := int32(0)
	for _, gone := range lost {
		if gone {
			n++
		}
	}
	if is.Failed-was.Failed < n {
		return fmt.Sprintf("batch %d is settled with %d failures, but %d of its nodes vanished at work",
			is.Batch, is.Failed-was.Failed, n)
	}
	return ""
}

// checkRest: a calm run has come to its end; nothing may be left hanging.
func (m *model) checkRest(s *state) string {
	r := m.rollout(s)
	halted := r.Compartments[compartment].Halt != nil
	content := m.contents[m.wishOf(s).content]
	free := m.world.ceiling - len(m.atWork(s))
	for _, i := range r.Intents {
		return fmt.Sprintf("at rest, the admission of node %s to batch %d is still not confirmed", m.uids[i.NodeUID], i.Batch)
	}
	if r.ContentHash != content.Hash {
		return "at rest, the newest content has no round"
	}
	for _, n := range m.nodesOf(s) {
		if n.uid == 0 {
			continue
		}
		rec, _ := m.visible(n)
		done := rec.Packages[packageName].Applied == content.Packages[0].InstallHash
		switch {
		case done && !rec.IsOpen() && rec.Outcome != noderecord.Failed && !n.cordoned:
		case rec.Outcome == noderecord.Failed && rec.Round == r.Round:
		case halted:
		case rec.IsOpen():
			return fmt.Sprintf("at rest, the turn of node %s has not ended: %s", n.uid, recordWords(rec))
		case free > 0:
			return fmt.Sprintf("at rest, node %s waits although a slot is free", n.uid)
		}
	}
	return ""
}
