package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// readIntents looks for the records of admissions that were decided. One whose record is seen, or whose node is gone,
// can be dropped; the others are written (again), as an admission or, when withdrawn, as a release.
func (p *pass) readIntents(v *view) {
	for _, intent := range v.ledger.Intents {
		pos, exists := p.positionOf(intent.NodeUID)
		if !exists || p.nodes[pos].Records[v.nw.Name].Reached(intent.Round, intent.Order) {
			v.confirmed[intent.NodeUID] = true
			continue
		}
		m := p.memberAt(v, pos)
		if m.intent == nil {
			v.pending = append(v.pending, m)
		}
		m.intent = &intent
		p.writeIntent(v, m)
	}
}

// positionOf a node by its UID.
func (p *pass) positionOf(uid types.UID) (int, bool) {
	if p.position == nil {
		p.position = make(map[types.UID]int, len(p.nodes))
		for pos, n := range p.nodes {
			p.position[n.UID] = pos
		}
	}
	pos, exists := p.position[uid]
	return pos, exists
}

// memberAt is the node at a position, as a guest if it is no member.
func (p *pass) memberAt(v *view, pos int) *member {
	if v.at[pos] == nil {
		n := p.nodes[pos]
		m := &member{nw: v.nw, node: n, pos: pos, rec: rebased(n.Records[v.nw.Name], v.nw)}
		m.standing = v.standingOf(m)
		v.know(n.Executions)
		v.at[pos] = m
	}
	return v.at[pos]
}

func (p *pass) writeIntent(v *view, m *member) {
	if problem := m.malformed(); problem != "" {
		m.because(m.unreadable(problem))
		return
	}
	if v.held != nil && !m.intent.Withdrawn {
		m.because(v.held) // the intent keeps its slot; nothing new starts
		return
	}
	t := p.newTurn(v, m)
	t.admit(*m.intent)
	if m.intent.Withdrawn {
		t.withdraw()
	}
	t.because(AdmissionUnconfirmed, "", "the node's admission is not confirmed yet")
	t.flush()
}

// withdraw takes an admission back. A node that was under way before it, or failed half-way, keeps its slot and its cordon until
// it is admitted again: in an earlier round it stays open; in this one a halt is why, and it stands back. The others leave a
// tombstone.
func (t *turn) withdraw() {
	t.d.Action, t.d.Cordon = ActionRelease, CordonKeep
	switch {
	case t.rec.Started && t.v.current(t.rec):
		t.standBack()
	case !t.rec.Started:
		t.rec.Outcome, t.rec.EndedAt = noderecord.Released, t.now()
		t.dropCordon()
	}
}

// standBack: the node goes on with nothing of what is halted. It is half-way, as one that failed and waits for its turn, and is
// admitted again when the halt ends. No verdict counts it a second time.
func (t *turn) standBack() {
	t.rec.Outcome, t.rec.EndedAt, t.rec.Healed = noderecord.Failed, t.now(), true
	t.rec.Failure, t.rec.FirstFailure = t.m.rec.Failure, t.m.rec.FirstFailure
	if t.rec.Failure == nil {
		t.rec.Failure = &noderecord.Failure{
			Reason: string(Halted), Message: "compartment " + t.rec.Compartment + " was halted while the node, half-way in an earlier round, waited for this one",
		}
	}
	led := t.v.ledger.Compartments[t.rec.Compartment]
	if c := t.v.named[t.rec.Compartment]; c != nil && c.rules.rolling && !isCounted(led, t.rec.Order) {
		t.v.setCompartment(c.name, counted(led, t.rec.Order))
	}
}

// admit opens the turn: the record, and the cordon where an interrupt is to come.
func (t *turn) admit(intent fleetv1.LedgerIntent) {
	r := &t.rec
	t.keepDone()
	t.takeOver()
	if r.Round != intent.Round || r.NodeWright != t.v.nw.UID {
		for name, pkg := range r.Packages {
			pkg.Attempt = 0
			t.put(name, pkg)
		}
		r.Waves = 0
	}
	t.dropRequest()
	r.NodeWright, r.Node, r.Boot = t.v.nw.UID, t.m.node.UID, t.v.bootToName(t.m.node, r.Boot)
	r.Round, r.Batch, r.Compartment, r.Order = intent.Round, intent.Batch, intent.Compartment, intent.Order
	r.AdmittedAt = nil
	if !intent.At.IsZero() {
		r.AdmittedAt = new(intent.At.Time.UTC())
	}
	r.Started = t.m.underWay() || t.m.failedHalfWay() // what ran in an earlier turn forbids to release this one
	r.Outcome, r.EndedAt, r.ReadyAt, r.WaitSince, r.DrainSince = noderecord.Open, nil, nil, nil, nil
	r.Failure, r.FirstFailure, r.Healed, r.Retried = nil, nil, false, t.v.retryToken()
	for name, pkg := range r.Packages {
		pkg.Failures, pkg.Setback, pkg.NotBefore, pkg.Running, pkg.Checked = 0, nil, nil, "", ""
		t.put(name, pkg)
	}
	t.stopStuck()
	r.Disruptive = t.v.workOf(t.m).disruptive() && t.room() == nil // without room its cordon waits at the gate
	if n := t.m.node; r.Disruptive && (!n.Unschedulable || len(n.CordonOwners) > 0) && !t.m.ownsCordon() {
		t.d.Cordon = CordonTake
	}
	t.act(ActionAdmit)
}

// keepDone keeps the stages that succeeded in an execution that the new turn gives up.
func (t *turn) keepDone() {
	for name, pkg := range t.rec.Packages {
		if pkg.Running == "" {
			continue
		}
		if e, seen := t.execution(t.keyOf(name, pkg)); seen && installed(e) {
			t.put(name, applied(pkg))
		}
	}
}

// stopStuck deletes executions of an earlier turn that have not begun a stage or cannot go on: they would never end, and
// nothing of this turn starts before they have.
func (t *turn) stopStuck() {
	for _, e := range t.m.node.Executions {
		if e.NodeWright == t.v.nw.Name && e.stuck() {
			t.d.Stop = append(t.d.Stop, e.Name)
		}
	}
	slices.Sort(t.d.Stop)
}
