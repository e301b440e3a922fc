package protocol

import (
	"fmt"
	"strings"
	"time"
)

// result is what an exploration found.
type result struct {
	states, moves, depth int
	took                 time.Duration
	// breach is the invariant that is broken, and trace the shortest way there; both are empty if all hold.
	breach string
	trace  []string
	// met is what was the case in some state.
	met map[string]bool
}

// origin is how a state was first reached.
type origin struct {
	from  int32
	which uint16
}

// explore visits every state that can be reached, the nearest first, and stops at the first breach.
func explore(w world) result {
	began := time.Now()
	m := newModel(w)
	first := m.tidied(m.initial())
	known := map[state]int32{first: 0}
	origins := []origin{{from: -1}}
	level, from := []state{first}, []int32{0}
	r := result{}
	for ; len(level) > 0 && (w.depth == 0 || r.depth < w.depth); r.depth++ {
		var next []state
		var ids []int32
		for k := range level {
			s := level[k]
			for which, mv := range m.successors(&s) {
				r.moves++
				_, seen := known[mv.to]
				if !seen {
					id := int32(len(origins))
					known[mv.to] = id
					origins = append(origins, origin{from[k], uint16(which)})
					next, ids = append(next, mv.to), append(ids, id)
				}
				breach := m.breachOf(&s, mv)
				if breach == "" && !seen {
					breach = m.convergence(mv.to)
				}
				if breach != "" {
					r.breach, r.trace = m.retell(append(pathTo(origins, from[k]), uint16(which)))
					return r.with(len(known), began)
				}
			}
		}
		level, from = next, ids
	}
	r.met = m.witnesses(known)
	return r.with(len(known), began)
}

func (r result) with(states int, began time.Time) result {
	r.states, r.took = states, time.Since(began)
	return r
}

// witnesses tell what was the case somewhere, so that a world in which nothing happens is noticed.
func (m *model) witnesses(known map[state]int32) map[string]bool {
	met := map[string]bool{}
	for s := range known {
		met["both act"] = met["both act"] || s.leaders[0].mode == acting && s.leaders[1].mode == acting
	}
	for _, l := range m.ledgers.values {
		r := l.Rollouts[nodeWright]
		c := r.Compartments[compartment]
		met["complete"] = met["complete"] || r.Complete
		met["halted"] = met["halted"] || c.Halt != nil
		met["failed"] = met["failed"] || c.Failed > 0
		for _, i := range r.Intents {
			met["withdrawn"] = met["withdrawn"] || i.Withdrawn
		}
	}
	for _, jobs := range m.jobLists.list {
		for _, j := range jobs {
			met["lost"] = met["lost"] || j.own && j.state == failed && m.world.budget.failures == 0
		}
	}
	return met
}

// breachOf is the invariant that a move breaks by itself, or by what it leads to.
func (m *model) breachOf(s *state, mv move) string {
	if mv.broken != "" {
		return mv.broken
	}
	return m.check(s, &mv.to)
}

// successors are everything that can happen in a state. The slice is used again.
func (m *model) successors(s *state) []move {
	m.moves = nil
	for i := range m.world.leaders {
		m.leaderMoves(s, i, false)
	}
	m.lateMoves(s)
	m.clusterMoves(s, false)
	return m.moves
}

func pathTo(origins []origin, id int32) []uint16 {
	var path []uint16
	for ; origins[id].from >= 0; id = origins[id].from {
		path = append([]uint16{origins[id].which}, path...)
	}
	return path
}

// retell walks a path once more, aloud, and words the breach at its end.
func (m *model) retell(path []uint16) (breach string, trace []string) {
	m.telling = true
	defer func() { m.telling = false }()
	s := m.tidied(m.initial())
	for i, which := range path {
		mv := m.successors(&s)[which]
		trace = append(trace, fmt.Sprintf("%2d. %s", i+1, mv.what))
		if breach = m.breachOf(&s, mv); breach != "" {
			return breach, trace
		}
		s = mv.to
	}
	m.calm = map[state]string{}
	start, breach := m.stuckFrom(s)
	return breach, append(trace, m.retellCalm(start)...)
}

func (r result) String() string {
	if r.breach == "" {
		return fmt.Sprintf("%d states, %d moves, depth %d, %s", r.states, r.moves, r.depth, r.took.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s\n%s", r.breach, strings.Join(r.trace, "\n"))
}

// convergence makes a calm run from a state: the disturbances are over, a leader takes over (or, if it is the only one,
// goes on), every request succeeds, every view is fresh. It must come to rest, and well. Requests that are under way
// are lost, or take effect first.
func (m *model) convergence(s state) (breach string) {
	_, breach = m.stuckFrom(s)
	return breach
}

// stuckFrom is the calm run from a state that does not end well, if there is one.
func (m *model) stuckFrom(s state) (start move, breach string) {
	for _, start := range m.calmStarts(s) {
		start.to = m.tidied(start.to)
		if breach := m.calmRun(start.to); breach != "" {
			return start, breach
		}
	}
	return move{}, ""
}

// calmStarts are where calm runs from a state begin: after a handover, with or without a late request, or with the only
// leader going on.
func (m *model) calmStarts(s state) []move {
	starts := []move{{to: s.handedOver(), what: "every leader dies"}}
	m.moves = nil
	m.lateMoves(&s)
	for _, mv := range m.moves {
		starts = append(starts, move{to: mv.to.handedOver(), what: mv.what + ", and every leader dies"})
	}
	if m.world.leaders == 1 {
		on := s
		on.late, on.left = [maxLate]request{}, budget{}
		starts = append(starts, move{to: on, what: "the leader goes on"})
	}
	return starts
}

// handedOver is the state in which every process has died and nothing is under way.
func (s state) handedOver() state {
	s.leaders, s.late, s.left, s.owner = [maxLeaders]leader{}, [maxLate]request{}, budget{}, 0
	return s
}

const calmLimit = 400

// calmRun follows the only way that a calm run can take, until its end is known.
func (m *model) calmRun(s state) string {
	var path []state
	breach := ""
	for {
		if known, ok := m.calm[s]; ok {
			breach = known
			break
		}
		path = append(path, s)
		m.calm[s] = ""
		next, ok := m.calmStep(&s)
		if !ok {
			breach = m.checkRest(&s)
			break
		}
		if breach = m.breachOf(&s, next); breach != "" {
			break
		}
		if len(path) > calmLimit {
			breach = "a calm run does not come to rest"
			break
		}
		s = next.to
	}
	for _, p := range path {
		m.calm[p] = breach
	}
	return breach
}

// calmStep is the next move of a calm run: what the first leader does, else what the cluster does.
func (m *model) calmStep(s *state) (move, bool) {
	m.moves = nil
	m.leaderMoves(s, 0, true)
	if len(m.moves) == 0 {
		m.clusterMoves(s, true)
	}
	if len(m.moves) == 0 {
		return move{}, false
	}
	return m.moves[0], true
}

// retellCalm walks a calm run aloud, to its end or to the first breach.
func (m *model) retellCalm(start move) []string {
	s := start.to
	out := []string{"    from here on nothing is disturbed any more: " + start.what}
	for range calmLimit {
		next, ok := m.calmStep(&s)
		if !ok {
			break
		}
		out = append(out, "    "+next.what)
		if m.breachOf(&s, next) != "" {
			break
		}
		s = next.to
	}
	return out
}
