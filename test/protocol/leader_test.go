package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// move is one thing that can happen.
type move struct {
	to state
	// broken says which invariant the move itself breaks; empty: none.
	broken string
	// what tells it to people, if the model is telling.
	what string
}

func (m *model) add(to state, what string) {
	m.moves = append(m.moves, move{to: m.tidied(to), what: what})
}

func (m *model) addBroken(to state, what, broken string) {
	m.moves = append(m.moves, move{to: m.tidied(to), what: what, broken: broken})
}

// leaderMoves are what a process can do next. Without disturbances (calm), every request succeeds and every view is
// the newest.
func (m *model) leaderMoves(s *state, i int, calm bool) {
	l := s.leaders[i]
	switch l.mode {
	case down:
		m.lead(s, i, calm)
	case raised:
		m.freshen(s, i)
	case idle:
		if l.lost || l.unsure && !l.current {
			m.readLedger(s, i)
		}
		if !l.lost && !(calm && len(m.moves) > 0) {
			m.pass(s, i, calm)
		}
	case acting:
		m.act(s, i, calm)
	}
	if !calm && m.mayCrash(l) {
		m.lead(s, i, calm)
	}
}

// mayCrash: a crash is one move with the next life's first request, as a process that is down differs in nothing from
// one that does nothing. An idle process that is alone and knows the ledger loses nothing by a crash.
func (m *model) mayCrash(l leader) bool {
	return l.mode == acting || l.mode == idle && (m.world.leaders > 1 || l.lost)
}

// lead raises the ledger's epoch (Rollout.lead, before Fresh).
func (m *model) lead(s *state, i int, calm bool) {
	if !calm && m.world.leaders > 1 && (s.left.leads == 0 || i > 0 && s.leaders[0] == leader{}) {
		return // the first to lead is called the first
	}
	to := *s
	if !calm && m.world.leaders > 1 {
		to.left.leads--
	}
	to.leaders[i] = leader{mode: raised, current: true, ledger: s.ledger, seen: s.leaders[i].seen}
	if !m.world.broken.noEpoch {
		to.owner = uint8(i + 1)
		to.swap(i, s.ledger)
	}
	if m.world.broken.noList {
		to.leaders[i].mode = idle
	}
	crash := ""
	if s.leaders[i].mode != down {
		crash = "crashes, comes back, "
	}
	m.add(to, m.say("leader %d %stakes the lead and raises the epoch", i+1, crash))
}

// freshen waits until the caches are as new as a list that began now (Observer.Fresh).
func (m *model) freshen(s *state, i int) {
	to := *s
	to.leaders[i].mode = idle
	for kind, h := range to.histories() {
		to.leaders[i].seen[kind] = h.n - 1
	}
	to.leaders[i].met = m.uidsOf(s.nodes.now())
	m.add(to, m.say("leader %d lists everything from the quorum", i+1))
}

// readLedger reads the ledger again after a refused or unanswered write of it (Rollout.readLedger).
func (m *model) readLedger(s *state, i int) {
	to := *s
	if s.owner != uint8(i+1) && !m.world.broken.noEpoch {
		to.leaders[i] = leader{seen: s.leaders[i].seen}
		m.add(to, m.say("leader %d reads the ledger and learns that it is deposed", i+1))
		return
	}
	l := &to.leaders[i]
	l.lost, l.current, l.ledger = false, true, s.ledger
	m.add(to, m.say("leader %d reads the ledger", i+1))
}

// pass observes, plans and writes the ledger (Rollout.Pass up to act). Observing and writing are one move: what happens
// between the two is the same as a view that is as much older.
func (m *model) pass(s *state, i int, calm bool) {
	l := s.leaders[i]
	from := l.seen
	h := s.histories()
	if calm {
		for kind := range h {
			from[kind] = h[kind].n - 1
		}
	}
	var tried []outcome
	for a := from[0]; a < s.nodes.n; a++ {
		for b := from[1]; b < s.jobs.n; b++ {
			for c := from[2]; c < s.wishes.n; c++ {
				v := view{s.nodes.versions[a], s.jobs.versions[b], s.wishes.versions[c], l.ledger}
				o := outcome{m.planFor(v), [3]uint8{a, b, c}}
				if !m.showsVanished(s, l, v) {
					continue
				}
				if p := m.plans.at(o.plan); p.empty() || slices.ContainsFunc(tried, o.beatenBy) {
					continue
				}
				tried = append(tried, o)
				m.follow(s, i, o, calm)
			}
		}
	}
}

// showsVanished: when a node has vanished since the last view, its Jobs are listed, and the view is no older than that
// list. Else a verdict could miss a node that vanished at work (Observer.awaitJobsOfVanished).
func (m *model) showsVanished(s *state, l leader, v view) bool {
	if m.world.broken.noVanishedList {
		return true
	}
	next, have := m.nodeLists.at(v.nodes), m.jobLists.at(v.jobs)
	for i, u := range l.met {
		if u == 0 || u == next[i].uid {
			continue
		}
		for _, j := range m.jobsOf(s) {
			if shown, ok := have.find(j.name); j.name != 0 && m.specs.at(j.spec).uid == u && (!ok || have[shown] != j) {
				return false
			}
		}
	}
	return true
}

func (p *planned) empty() bool { return p.ledger == 0 && p.duties == [maxNodes]*duty{} }

// outcome is a plan and the view that it was made from.
type outcome struct {
	plan uint16
	seen [3]uint8
}

// beatenBy: the same plan from a view that is nowhere newer leaves more to happen.
func (o outcome) beatenBy(other outcome) bool {
	return o.plan == other.plan && other.seen[0] <= o.seen[0] && other.seen[1] <= o.seen[1] && other.seen[2] <= o.seen[2]
}

func (m *model) uidsOf(nodes uint16) (out [maxNodes]uid) {
	for i, n := range m.nodeLists.at(nodes) {
		out[i] = n.uid
	}
	return out
}

// follow writes the plan's ledger and begins to act.
func (m *model) follow(s *state, i int, o outcome, calm bool) {
	p := m.plans.at(o.plan)
	to := *s
	to.leaders[i].seen = o.seen
	to.leaders[i].met = m.uidsOf(s.nodes.versions[o.seen[0]])
	what := m.say("leader %d plans%s%s", i+1, m.lagWords(s, o), p.words())
	if p.ledger == 0 || m.world.broken.ledgerLast {
		m.start(&to, i, o.plan)
		to.leaders[i].after = p.ledger != 0
		m.add(to, what)
		return
	}
	written := to
	if m.commit(&written, i, p.ledger) {
		m.start(&written, i, o.plan)
		m.add(written, what+m.say(" and writes the ledger: %s", m.ledgerWords(p.ledger)))
	} else {
		m.add(written, what+m.say(" and finds the ledger changed"))
	}
	if slot, ok := to.freeSlot(); ok && !calm {
		to.late[slot] = request{kind: lateCommit, plan: o.plan, valid: to.leaders[i].current}
		to.left.late--
		to.leaders[i].lost, to.leaders[i].unsure = true, true
		m.add(to, what+m.say(" and gets no answer from the ledger"))
	}
}

// commit swaps the ledger for a leader, or makes it read it again.
func (m *model) commit(s *state, i int, ledger uint16) bool {
	if !s.leaders[i].current && !m.world.broken.noVersion {
		s.leaders[i].lost = true
		return false
	}
	s.swap(i, m.written(ledger))
	return true
}

// start begins to carry out a plan.
func (m *model) start(s *state, i int, id uint16) {
	l := &s.leaders[i]
	l.mode, l.plan = acting, id
	for n, d := range m.plans.at(id).duties {
		l.next[n] = over
		if d != nil && len(d.steps) > 0 {
			l.next[n] = 0
		}
	}
}

// act makes the next request for any one node: nodes go in parallel, all admissions and cordons before the rest
// (Rollout.act).
func (m *model) act(s *state, i int, calm bool) {
	l := s.leaders[i]
	p := m.plans.at(l.plan)
	if !l.busy() {
		m.commitLast(s, i)
		return
	}
	firsts := false
	for n, d := range p.duties {
		firsts = firsts || l.next[n] != over && d.first
	}
	for n, d := range p.duties {
		if l.next[n] != over && d.first == firsts {
			m.request(s, i, n, calm)
		}
	}
}

// commitLast writes the ledger after everything else, which no real leader does.
func (m *model) commitLast(s *state, i int) {
	to := *s
	l := &to.leaders[i]
	l.after = false
	m.commit(&to, i, m.plans.at(l.plan).ledger)
	m.add(to, m.say("leader %d writes the ledger after everything else", i+1))
}

// request makes the next request for a node: with its answer, or given up before an answer came.
func (m *model) request(s *state, i, n int, calm bool) {
	l := s.leaders[i]
	d := m.plans.at(l.plan).duties[n]
	st := d.steps[l.next[n]]
	to := *s
	done, _, what := m.perform(&to, d, st)
	m.advance(&to, i, n, done)
	m.add(to, m.say("leader %d %s", i+1, what)+m.refused(done))
	slot, ok := s.freeSlot()
	if calm || !ok || st.kind == confirmNode || st.kind == listEarlier {
		return
	}
	late := *s
	late.late[slot] = request{kind: lateStep, plan: l.plan, node: uint8(n), step: l.next[n]}
	late.left.late--
	late.leaders[i].next[n] = over
	m.droppedOnError(&late, i, d)
	m.add(late, m.say("leader %d gets no answer: it %s", i+1, what))
}

func (m *model) refused(done bool) string {
	if done {
		return ""
	}
	return m.say(": the rest of this decision is dropped")
}

// advance goes on to the next step of a duty. The next view is at least as new as what was just written.
func (m *model) advance(s *state, i, n int, done bool) {
	l := &s.leaders[i]
	d := m.plans.at(l.plan).duties[n]
	st := d.steps[l.next[n]]
	l.next[n]++
	if !done || int(l.next[n]) == len(d.steps) {
		l.next[n] = over
	}
	if !done {
		m.droppedOnConflict(s, i, d)
		return
	}
	switch st.kind {
	case patchNode:
		l.seen[0] = s.nodes.n - 1
	case createJob:
		for k := l.seen[1]; k < s.jobs.n; k++ {
			if _, shown := m.jobLists.at(s.jobs.versions[k]).find(m.nameID(m.specs.at(st.job).name)); shown {
				l.seen[1] = k
				return
			}
		}
	case deleteJob, confirmNode, listEarlier:
	}
}

func (s *state) freeSlot() (int, bool) {
	if s.left.late == 0 {
		return 0, false
	}
	for i, r := range s.late {
		if r.kind == noRequest {
			return i, true
		}
	}
	return 0, false
}

// lateMoves are requests that take effect after their sender gave up. One that changes nothing might as well be lost.
func (m *model) lateMoves(s *state) {
	for i, r := range s.late {
		to := *s
		to.late[i] = request{}
		p := m.plans
		switch r.kind {
		case lateCommit:
			if !r.valid && !m.world.broken.noVersion {
				continue
			}
			ledger := m.written(p.at(r.plan).ledger)
			to.swap(-1, ledger)
			m.add(to, m.say("a late write of the ledger takes effect: %s", m.ledgerWords(ledger)))
		case lateStep:
			d := p.at(r.plan).duties[r.node]
			if _, changed, what := m.perform(&to, d, d.steps[r.step]); changed {
				m.add(to, m.say("a late request takes effect: it %s", what))
			}
		case noRequest:
		}
	}
}

// words tell what a plan is about to do to which nodes.
func (p *planned) words() string {
	var out []string
	for _, d := range p.duties {
		if d != nil {
			out = append(out, fmt.Sprintf("%s %s", d.decision.Action, d.uid))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

// lagWords tell how old a view is.
func (m *model) lagWords(s *state, o outcome) string {
	var lags []string
	for kind, h := range s.histories() {
		if lag := h.n - 1 - o.seen[kind]; lag > 0 {
			lags = append(lags, fmt.Sprintf("%s %d behind", []string{"nodes", "jobs", "nodewright"}[kind], lag))
		}
	}
	if len(lags) == 0 {
		return ""
	}
	return " from a stale view (" + strings.Join(lags, ", ") + ")"
}

func (m *model) ledgerWords(id uint16) string {
	r := m.ledgers.at(id).Rollouts[nodeWright]
	c := r.Compartments[compartment]
	words := []string{fmt.Sprintf("round %d", r.Round)}
	if c.Batch > 0 {
		words = append(words, fmt.Sprintf("batch %d", c.Batch))
	}
	if c.Settled {
		words = append(words, fmt.Sprintf("settled with %d succeeded and %d failed so far", c.Succeeded, c.Failed))
	}
	if c.Halt != nil {
		words = append(words, "halted")
	}
	if r.Complete {
		words = append(words, "complete")
	}
	for _, i := range r.Intents {
		word := "admits "
		if i.Withdrawn {
			word = "withdraws "
		}
		words = append(words, fmt.Sprintf("%s%s to batch %d as order %d", word, m.uids[i.NodeUID], i.Batch, i.Order))
	}
	return strings.Join(words, ", ")
}
