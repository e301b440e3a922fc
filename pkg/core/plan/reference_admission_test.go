package plan_test

import (
	"slices"
	"sort"
)

// Who is admitted next: the part of the reference model that opens batches.

// sizeAfter is the size of the batch that follows another.
func (r *reference) sizeAfter(c string, b refBatch) int {
	rules, ceiling := r.rules[c], r.ceiling(c)
	size := rules.initial
	switch {
	case rules.kind == "none":
		return max(1, ceiling)
	case b.size == 0 || rules.kind == "fixed":
		return size
	case b.number == 0: // carried over
		return b.size
	case b.lastBad && rules.kind == "linear":
		return max(1, b.size-rules.step)
	case b.lastBad:
		return max(1, b.size/rules.step)
	case b.cut || b.size >= ceiling:
		return b.size
	case rules.kind == "linear":
		return min(b.size+rules.step, ceiling)
	}
	return min(b.size*rules.step, ceiling)
}

// candidates may be admitted now: those that hold a slot first, then those that failed.
func (r *reference) candidates(c string, busy map[*refNode]bool) []*refNode {
	var out []*refNode
	for _, n := range r.sorted() {
		if n.selected && n.in() == c && n.ready && n.running == "" && !busy[n] && r.wants(n) {
			out = append(out, n)
		}
	}
	urgency := func(n *refNode) int {
		switch {
		case r.holds(n, c):
			return 0
		case n.turn.state == "failed":
			return 1
		}
		return 2
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if urgency(a) != urgency(b) || !r.byLabel {
			return urgency(a) < urgency(b)
		}
		return a.zone < b.zone
	})
	return out
}

func (r *reference) wants(n *refNode) bool {
	now := n.turn.round == r.round
	switch n.turn.state {
	case "open":
		return !now && n.turn.started
	case "failed":
		if now {
			return n.retried != r.retry
		}
		return n.cordoned || len(r.phases(n)) > 0
	}
	return len(r.phases(n)) > 0
}

// admit opens the next batch of a compartment, or under `advance: Rolling` fills its free slots.
func (r *reference) admit(c string, busy map[*refNode]bool) bool {
	rules, b, ceiling := r.rules[c], r.batches[c], r.ceiling(c)
	if b.halted || ceiling == 0 || !rules.rolling && b.number > 0 && !b.settled {
		return false
	}
	waiting := r.candidates(c, busy)
	size := len(waiting)
	if !rules.rolling {
		size = r.sizeAfter(c, b)
	}
	used := r.used(c)
	before, held := len(used), 0
	for _, n := range r.nodes {
		if r.holds(n, c) {
			held++
		}
	}
	var admitted []*refNode
	for _, n := range waiting {
		with := len(used)
		if !used[n] {
			with++
		}
		counted := used[n] && held < ceiling // unavailable anyway, and beside few enough of ours
		if len(admitted) < size && (r.holds(n, c) || with <= ceiling || counted) {
			if !r.holds(n, c) {
				held++
			}
			used[n] = true
			admitted = append(admitted, n)
		}
	}
	if len(admitted) == 0 {
		return false
	}
	room := ceiling - before + len(admitted) - (len(used) - before) // slots that nobody else uses
	b.number, b.size, b.settled, b.lastBad = b.number+1, size, false, false
	b.cut = len(admitted) < min(size, r.left(c), room)
	r.batches[c] = b
	for _, n := range admitted {
		r.open(n, c, b.number)
	}
	return true
}

// left are the nodes of a compartment that this round has still to do. One that is under way there by the admission of
// another compartment counts: the batch is smaller than it would be, and does not grow.
func (r *reference) left(c string) int {
	left := 0
	for _, n := range r.nodes {
		if n.selected && n.in() == c && !r.hasEnded(n) && !r.isComplete(n) {
			left++
		}
	}
	return left
}

func (r *reference) open(n *refNode, c string, batch int) {
	started := n.turn.started && (n.turn.state == "open" || n.turn.state == "failed" && n.cordoned)
	disruptive := slices.Contains(r.phases(n), "interrupt")
	order := r.order
	r.order++
	r.then(func() {
		n.lostIn = n.lost()
		n.turn = refTurn{state: "open", round: r.round, batch: batch, compartment: c, started: started, order: order}
		n.failed, n.retried = "", r.retry
		n.cordoned = n.cordoned || disruptive
	})
}

// lost are the admissions of a node in which it has a job that did not succeed.
func (n *refNode) lost() []refGhost {
	if !n.turn.lost {
		return n.lostIn
	}
	return append(slices.Clone(n.lostIn), refGhost{n.turn.compartment, n.turn.round, n.turn.batch, n.turn.order})
}
