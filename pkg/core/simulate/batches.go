package simulate

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// batchKey identifies a batch of one NodeWright.
type batchKey struct {
	round       int64
	compartment string
	number      int32
}

// batch is a batch with what is needed to tell its end.
type batch struct {
	Batch
	key  batchKey
	has  map[string]bool
	left map[string]bool
	// settled: the ledger has its verdict. Batches of a rolling compartment have none and end with their last node.
	settled bool
}

// alreadyOpen finds the batches that are under way when the simulation begins.
func (r *recorder) alreadyOpen(nodeWright string, sc Scenario) {
	roll := sc.Ledger.Rollouts[nodeWright]
	h := r.rollouts[nodeWright]
	keyOf := func(n plan.Node) batchKey {
		rec := n.Records[nodeWright]
		return batchKey{rec.Round, rec.Compartment, rec.Batch}
	}
	open := map[batchKey]bool{}
	for _, n := range sc.Nodes {
		if rec := n.Records[nodeWright]; rec.Round == roll.Round && rec.IsOpen() {
			open[keyOf(n)] = true
		}
	}
	for _, n := range sc.Nodes {
		key := keyOf(n)
		if !open[key] {
			continue
		}
		h.admit(key, n.Name, 0)
		if rec := n.Records[nodeWright]; !rec.IsOpen() {
			h.byKey[key].ended(n.Name, rec.Outcome, 0)
		}
	}
	r.admissions(h, sc.Start, roll)
}

// admit puts a node into a batch. It reports whether it was not there yet.
func (h *history) admit(key batchKey, node string, at Offset) bool {
	b := h.byKey[key]
	if b == nil {
		b = &batch{
			key: key, has: map[string]bool{}, left: map[string]bool{},
			Batch: Batch{Round: key.round, Number: int(key.number), Begin: at, Verdict: Open},
		}
		h.byKey[key] = b
		h.batches = append(h.batches, b)
	}
	if b.has[node] {
		return false
	}
	b.has[node], b.left[node] = true, true
	b.Nodes = append(b.Nodes, node)
	return true
}

// ended notes how the turn of a node ended.
func (b *batch) ended(node string, outcome noderecord.Outcome, at Offset) {
	if !b.left[node] {
		return
	}
	delete(b.left, node)
	if outcome == noderecord.Failed {
		b.Failed++
	}
	if len(b.left) == 0 && b.Verdict == Open {
		b.End, b.Verdict = at, b.ofFailures()
	}
}

// settle notes the verdict that the ledger has come to.
func (b *batch) settle(bad bool, at Offset) {
	b.settled = true
	if len(b.left) > 0 {
		return // of a rolling compartment: it ends with its last node
	}
	b.End, b.Verdict = at, b.ofFailures()
	if bad {
		b.Verdict = Bad
	}
}

func (b *batch) ofFailures() Verdict {
	if b.Failed > 0 {
		return Tolerated
	}
	return Good
}

// result puts everything together.
func (r *recorder) result() Result {
	out := Result{Start: r.start, End: r.changed, OutOfService: r.cluster.load(r.changed)}
	for _, s := range r.last.Statuses {
		out.Rollouts = append(out.Rollouts, r.rollout(s))
	}
	return out
}

func (r *recorder) rollout(s plan.Status) Rollout {
	h := r.rollouts[s.NodeWright]
	out := Rollout{
		NodeWright: s.NodeWright, Outcome: outcomeOf(s), Total: int(s.Total), Complete: int(s.Complete), Failed: int(s.Failed),
		Waiting: int(s.Waiting + s.Blocked + s.InProgress), Excluded: int(s.Excluded), Begin: h.begin, End: h.end,
		OutOfService: h.out.load(r.changed), Timeline: h.timeline,
	}
	for _, c := range s.Compartments {
		out.Compartments = append(out.Compartments, h.compartment(c, r.changed))
	}
	for _, f := range s.Failures {
		out.Failures = append(out.Failures, failureOf(f.Node, &f.Failure))
	}
	slices.SortStableFunc(out.Failures, func(a, b Failure) int { return cmp.Compare(a.Node, b.Node) })
	for _, c := range s.Reasons {
		out.Reasons = append(out.Reasons, Reason{Code: c.Code, Count: int(c.Count), Nodes: c.Nodes, Message: c.Message})
	}
	return out
}

func (h *history) compartment(c plan.CompartmentStatus, end Offset) Compartment {
	out := Compartment{
		Name: c.Name, Strategy: c.Strategy, Nodes: int(c.Matched), Ceiling: int(c.Ceiling), Halt: h.halts[c.Name],
	}
	for _, b := range h.batches {
		if b.key.compartment != c.Name {
			continue
		}
		done := b.Batch
		if done.Verdict == Open {
			done.End = end
		}
		out.Batches = append(out.Batches, done)
	}
	return out
}

// outcomeOf folds the last status.
func outcomeOf(s plan.Status) Outcome {
	switch {
	case s.Total == 0:
		return NoNodes
	case len(s.Halted) > 0:
		return Halted
	case s.Complete == s.Total:
		return Complete
	case s.Complete+s.Failed == s.Total:
		return Failed
	}
	return Stuck
}
