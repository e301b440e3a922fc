package plan_test

import (
	"slices"
	"sort"
)

// The reference model: the batch rules once more, written from the text of the rules and not from the planner, on plain
// data and with the simplest loops. Nothing is fast, nothing is shared with the planner, and what the rules do not depend on
// (records, intents, reasons) is not here. reference_test.go holds the two against each other on random histories.

// refRules are the rules of a compartment.
type refRules struct {
	kind                  string // fixed, linear, exponential, none
	rolling               bool
	initial, step         int // initialBatch; delta or growthFactor
	threshold, limit, max int // batchThreshold, safetyLimit, failureThreshold (0: none)
	count, percent        int // -1: not set
	countUnavailable      bool
}

// refContent is what is wanted: a version (0: the package is removed) and a configuration.
type refContent struct{ version, conf int }

// refHost is what is on a node's host.
type refHost struct {
	refContent
	applied, configured bool
	// due: an interrupt of an install is due. post: post-interrupt is due. removing: an uninstall was begun. uninstalled:
	// it succeeded, and its interrupt is due.
	due, post, removing, uninstalled bool
}

// refTurn is a node's newest turn. State is "", open, succeeded, failed or released.
type refTurn struct {
	state        string
	round, batch int
	compartment  string
	// started: something ran in it. lost: it has a job that did not succeed. counted: a window has counted its end.
	started, lost, counted bool
	order, ended           int
}

type refNode struct {
	name                     string
	zone                     string
	selected, ready          bool
	foreign, cordoned, guard bool
	host                     refHost
	turn                     refTurn
	// running is the phase that runs; fresh says that one ended and nothing followed yet, failed is one that did not succeed.
	running string
	wanted  refContent // what the running phase was begun for
	fresh   bool
	failed  string
	retried int
	// lostIn are earlier admissions with a job that did not succeed.
	lostIn []refGhost
}

// refBatch is the batch state of a compartment.
type refBatch struct {
	number, size, bad            int
	settled, lastBad, cut        bool
	succeeded, failed            int
	windowSucceeded, windowFails int
	halted                       bool
}

// refGhost is a node that vanished at work.
type refGhost struct {
	compartment         string
	round, batch, order int
}

type reference struct {
	interrupt, uninstall, reset, byLabel bool

	content  refContent
	rules    map[string]refRules
	nodes    map[string]*refNode
	ghosts   []refGhost
	counted  map[[2]int]bool // ends that a window has counted, by round and order
	batches  map[string]refBatch
	round    int
	of       refContent // the content of the round
	complete bool
	order    int
	now      int
	retry    int
	resume   int
	resumed  int
	// later are the changes of a pass, which are seen by the next one.
	later []func()
}

var refCompartments = []string{"zone-a", "default"}

func (r *reference) sorted() []*refNode {
	var out []*refNode
	for _, name := range sortedKeys(r.nodes) {
		out = append(out, r.nodes[name])
	}
	return out
}

// in is the compartment of a node by its labels now.
func (n *refNode) in() string {
	if n.zone == "a" {
		return "zone-a"
	}
	return "default"
}

// rest passes until nothing changes any more.
func (r *reference) rest() {
	for range 50 {
		if !r.pass() {
			return
		}
	}
	panic("the reference does not come to rest")
}

func (r *reference) pass() bool {
	r.later = nil
	begun := r.enterRound()
	busy := map[*refNode]bool{}
	for _, n := range r.sorted() {
		before := len(r.later)
		r.turn(n)
		busy[n] = len(r.later) > before
	}
	resumed := r.resume != r.resumed
	if resumed {
		r.endHalts()
	}
	settled := false
	for _, c := range refCompartments {
		settled = r.settle(c) || settled
	}
	admitted := false
	for _, c := range refCompartments {
		admitted = r.admit(c, busy) || admitted
	}
	done := !r.complete && !admitted && r.allComplete() && !r.anyOpen()
	r.complete = r.complete || done
	for _, change := range r.later {
		change()
	}
	return begun || resumed || settled || admitted || done || len(r.later) > 0
}

func (r *reference) then(f func()) { r.later = append(r.later, f) }

// enterRound: a round begins when the content changes, also back, and when a completed rollout gains nodes.
func (r *reference) enterRound() bool {
	if r.round > 0 && r.content == r.of && !(r.complete && !r.allComplete()) {
		return false
	}
	r.round++
	r.of, r.complete, r.order = r.content, false, 0
	carried := map[string]refBatch{}
	for _, c := range refCompartments {
		if b := r.batches[c]; !r.reset && b.size > 0 {
			carried[c] = refBatch{size: r.sizeAfter(c, b)}
		}
	}
	r.batches = carried
	return true
}

func (r *reference) endHalts() {
	for c, b := range r.batches {
		b.halted, b.bad = false, 0
		r.batches[c] = b
	}
	r.resumed = r.resume
}

// isComplete: everything is there, and no turn or cordon of a failed one is open.
func (r *reference) isComplete(n *refNode) bool {
	return len(r.phases(n)) == 0 && n.turn.state != "open" && !(n.turn.state == "failed" && n.cordoned)
}

func (r *reference) allComplete() bool {
	for _, n := range r.nodes {
		if n.selected && !r.isComplete(n) {
			return false
		}
	}
	return true
}

func (r *reference) anyOpen() bool {
	for _, n := range r.nodes {
		if n.turn.state == "open" {
			return true
		}
	}
	return false
}

// turn moves one node one step on.
func (r *reference) turn(n *refNode) {
	fresh := n.fresh
	if fresh {
		r.then(func() { n.fresh = false })
	}
	switch {
	case n.turn.state == "failed":
		if !n.selected && n.ready && n.running == "" && n.cordoned {
			r.then(func() { n.cordoned = false }) // given back; it has failed all the same
		}
	case n.turn.state != "open":
		if n.selected && r.content.version == 0 && !r.uninstall && n.host.version != 0 {
			r.then(func() { n.host = refHost{} }) // not wanted and nothing to uninstall
		}
	case n.running != "":
	case n.failed == "interrupt", n.failed != "" && n.turn.round == r.round:
		r.end(n, "failed") // selected or not; of an interrupt, in whichever round
	case !n.selected:
		r.release(n)
	case n.turn.round != r.round:
		r.superseded(n)
	default:
		r.advance(n)
	}
}

// release: nothing ran, or the node is no longer selected.
func (r *reference) release(n *refNode) {
	r.then(func() { n.turn.state, n.cordoned = "released", false })
}

func (r *reference) superseded(n *refNode) {
	switch {
	case !n.turn.started:
		r.release(n)
	case len(r.phases(n)) == 0:
		r.conclude(n)
	}
}

func (r *reference) end(n *refNode, state string) {
	r.then(func() {
		if n.turn.state, n.turn.ended = state, r.now; state == "failed" {
			n.retried = r.retry // a retry that was asked for before is for what had failed then
		}
	})
}

// conclude: a node is given back when it is Ready, and only then it has ended.
func (r *reference) conclude(n *refNode) {
	switch {
	case !n.ready:
	case n.cordoned:
		r.then(func() { n.cordoned = false })
	default:
		r.end(n, "succeeded")
	}
}

func (r *reference) advance(n *refNode) {
	phases := r.phases(n)
	switch {
	case len(phases) == 0:
		r.conclude(n)
	case !n.ready:
	case slices.Contains(phases, "interrupt") && n.guard:
	default:
		r.then(func() { n.running, n.wanted, n.turn.started, n.turn.lost = phases[0], r.content, true, true })
	}
}

// settle takes the verdict over the newest batch once all its nodes have ended.
func (r *reference) settle(c string) bool {
	if r.rules[c].rolling {
		return r.settleWindows(c)
	}
	b := r.batches[c]
	if b.number == 0 || b.settled {
		return false
	}
	succeeded, failed, released := 0, 0, 0
	for _, n := range r.nodes {
		if t := n.turn; t.round == r.round && t.compartment == c && t.batch == b.number {
			switch t.state {
			case "open":
				return false
			case "succeeded":
				succeeded++
			case "failed":
				failed++
			case "released":
				if n.selected {
					released++
				}
			}
		}
	}
	for _, g := range r.ghosts {
		if g.compartment == c && g.round == r.round && g.batch == b.number {
			failed++
		}
	}
	b = r.verdict(c, b, succeeded, failed)
	b.settled = true
	b.cut = b.cut || released > 0 || succeeded+failed == 0
	r.batches[c] = b
	return true
}

// settleWindows takes a verdict over each initialBatch consecutive ends.
func (r *reference) settleWindows(c string) bool {
	rules, b := r.rules[c], r.batches[c]
	if rules.max == 0 {
		return false // nothing follows from a verdict
	}
	var ended []*refNode
	for _, n := range r.nodes {
		if t := n.turn; t.round == r.round && t.compartment == c && !t.counted && (t.state == "succeeded" || t.state == "failed") {
			ended = append(ended, n)
		}
	}
	sort.Slice(ended, func(i, j int) bool {
		a, b := ended[i].turn, ended[j].turn
		return a.ended < b.ended || a.ended == b.ended && a.order < b.order
	})
	ends := []bool{}
	for _, n := range ended {
		n.turn.counted = true
		r.counted[[2]int{r.round, n.turn.order}] = true
		ends = append(ends, n.turn.state == "succeeded")
	}
	ghosts := slices.Clone(r.ghosts) // a node that vanished at work has failed
	sort.Slice(ghosts, func(i, j int) bool { return ghosts[i].order < ghosts[j].order })
	for _, g := range ghosts {
		if at := [2]int{g.round, g.order}; g.round == r.round && g.compartment == c && !r.counted[at] {
			r.counted[at] = true
			ends = append(ends, false)
		}
	}
	for _, succeeded := range ends {
		if succeeded {
			b.windowSucceeded++
		} else {
			b.windowFails++
		}
		if b.windowSucceeded+b.windowFails == rules.initial {
			b = r.verdict(c, b, b.windowSucceeded, b.windowFails)
			b.windowSucceeded, b.windowFails = 0, 0
		}
	}
	r.batches[c] = b
	return len(ends) > 0
}

func (r *reference) verdict(c string, b refBatch, succeeded, failed int) refBatch {
	rules := r.rules[c]
	b.succeeded, b.failed = b.succeeded+succeeded, b.failed+failed
	if succeeded+failed > 0 {
		bad := 100*succeeded/(succeeded+failed) < rules.threshold
		early := r.progress(c) < rules.limit
		b.lastBad = bad && early
		if b.lastBad {
			b.bad++
		}
		if !bad {
			b.bad = 0
		}
	}
	if rules.max > 0 && b.bad >= rules.max {
		b.halted = true
	}
	return b
}

// progress: ended / (ended + incomplete) of this round, in percent.
func (r *reference) progress(c string) int {
	ended, left := 0, 0
	for _, n := range r.nodes {
		switch {
		case !n.selected || n.in() != c:
		case r.hasEnded(n):
			ended++
		case !r.isComplete(n):
			left++
		}
	}
	if ended == 0 {
		return 0
	}
	return 100 * ended / (ended + left)
}

func (r *reference) hasEnded(n *refNode) bool {
	return n.turn.round == r.round && (n.turn.state == "succeeded" || n.turn.state == "failed")
}

// ceiling of a compartment: 0 for no nodes under a percentage, else at least 1.
func (r *reference) ceiling(c string) int {
	rules, matched := r.rules[c], 0
	for _, n := range r.nodes {
		if n.selected && n.in() == c {
			matched++
		}
	}
	switch {
	case rules.count >= 0:
		return rules.count
	case rules.percent < 0:
		return matched
	case matched == 0 || rules.percent == 0:
		return 0
	}
	most := 1
	for k := 1; k <= matched; k++ {
		if 100*k <= rules.percent*matched {
			most = k
		}
	}
	return most
}

// holds: a turn is open, we hold the node cordoned, or it failed and is not Ready. A node whose labels moved holds a slot
// where it was admitted, and where it is now.
func (r *reference) holds(n *refNode, c string) bool {
	if n.turn.compartment != c && !(n.selected && n.in() == c) {
		return false
	}
	return n.turn.state == "open" || n.cordoned || n.turn.state == "failed" && !n.ready && !r.isComplete(n) && n.selected
}

// used are the nodes that use up the budget of a compartment.
func (r *reference) used(c string) map[*refNode]bool {
	out := map[*refNode]bool{}
	for _, n := range r.nodes {
		unavailable := r.rules[c].countUnavailable && n.selected && n.in() == c && (!n.ready || n.foreign)
		if r.holds(n, c) || unavailable {
			out[n] = true
		}
	}
	return out
}
