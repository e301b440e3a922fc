package simulate

import (
	"cmp"
	"slices"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// recorder writes down what happens.
type recorder struct {
	start    time.Time
	rollouts map[string]*history
	// cluster counts the nodes that are cordoned by anybody of ours.
	cluster meter
	names   map[string]string // of nodes, by UID
	// last is the newest plan; changed is when something last happened.
	last    plan.Output
	changed Offset
}

// history is what happened to one NodeWright.
type history struct {
	batches  []*batch
	byKey    map[batchKey]*batch
	halts    map[string]*Halt
	failures map[string]Failure // of the newest turn, by node
	timeline []Point
	out      meter
	begin    Offset
	end      Offset
	admitted bool
}

func newRecorder(sc Scenario) *recorder {
	r := &recorder{start: sc.Start, rollouts: map[string]*history{}, names: map[string]string{}}
	for _, n := range sc.Nodes {
		r.names[string(n.UID)] = n.Name
	}
	for _, nw := range sc.NodeWrights {
		r.rollouts[nw.Name] = &history{byKey: map[batchKey]*batch{}, halts: map[string]*Halt{}, failures: map[string]Failure{}}
		for _, n := range sc.Nodes {
			if f := n.Records[nw.Name]; f.Outcome == noderecord.Failed {
				r.rollouts[nw.Name].failures[n.Name] = failureOf(n.Name, f.Failure)
			}
		}
		r.alreadyOpen(nw.Name, sc)
	}
	return r
}

func (r *recorder) at(now time.Time) Offset { return Offset(now.Sub(r.start)) }

// outOfService notes that the owners of a node's cordon changed.
func (r *recorder) outOfService(now time.Time, before, after []string) {
	at := r.at(now)
	for _, name := range before {
		r.meterOf(name).add(at, -1)
	}
	for _, name := range after {
		r.meterOf(name).add(at, 1)
	}
	r.cluster.add(at, sign(len(after))-sign(len(before)))
}

func sign(n int) int { return cmp.Compare(n, 0) }

// meterOf is the meter of a NodeWright; of one that is not simulated nothing is kept.
func (r *recorder) meterOf(nodeWright string) *meter {
	if h, ok := r.rollouts[nodeWright]; ok {
		return &h.out
	}
	return &meter{}
}

// tick notes the state at the end of an instant, before time goes on to another one.
func (r *recorder) tick(now time.Time) {
	for _, s := range r.last.Statuses {
		h := r.rollouts[s.NodeWright]
		p := Point{
			At: r.at(now), Complete: int(s.Complete), InProgress: int(s.InProgress), Failed: int(s.Failed),
			Waiting: int(s.Waiting + s.Blocked), OutOfService: h.out.count,
		}
		h.note(p)
	}
}

// note adds a point where it says something new.
func (h *history) note(p Point) {
	if n := len(h.timeline); n > 0 && h.timeline[n-1].At == p.At {
		h.timeline = h.timeline[:n-1] // time did not go on
	}
	if n := len(h.timeline); n > 0 {
		same := h.timeline[n-1]
		same.At = p.At
		if same == p {
			return
		}
	}
	h.timeline = append(h.timeline, p)
}

// record notes that a turn begins or ends.
func (r *recorder) record(now time.Time, d plan.Decision) {
	h, rec := r.rollouts[d.NodeWright], d.Record
	if h == nil {
		return
	}
	key := batchKey{rec.Round, rec.Compartment, rec.Batch}
	switch rec.Outcome {
	case noderecord.Open:
		delete(h.failures, d.Node)
		return
	case noderecord.Failed:
		if d.Before != nil && d.Before.Outcome == noderecord.Failed && d.Before.Round == rec.Round && d.Before.Batch == rec.Batch {
			return // it had failed before; this only notes what came good
		}
		h.failures[d.Node] = failureOf(d.Node, rec.Failure)
	case noderecord.Succeeded, noderecord.Released:
		delete(h.failures, d.Node)
	}
	if d.Before != nil && !d.Before.IsOpen() && d.Before.Outcome == rec.Outcome {
		return
	}
	h.end = r.at(now)
	if b := h.byKey[key]; b != nil {
		b.ended(d.Node, rec.Outcome, h.end)
	}
}

func failureOf(node string, f *noderecord.Failure) Failure {
	if f == nil {
		return Failure{Node: node, Reason: string(plan.PackageFailed)}
	}
	return Failure{
		Node: node, Package: f.Package, Stage: string(f.Stage), ExitCode: f.ExitCode, Reason: f.Reason, Message: f.Message,
	}
}

// ledger notes admissions, verdicts and halts.
func (r *recorder) ledger(now time.Time, old, next fleetv1.LedgerSpec) {
	for name, roll := range next.Rollouts {
		if h := r.rollouts[name]; h != nil {
			r.admissions(h, now, roll)
			r.verdicts(h, now, ledgers{old.Rollouts[name], roll})
		}
	}
}

// ledgers are the entry of one NodeWright before and after a write.
type ledgers struct{ old, next fleetv1.LedgerRollout }

func (r *recorder) admissions(h *history, now time.Time, roll fleetv1.LedgerRollout) {
	for _, i := range roll.Intents {
		if i.Withdrawn {
			continue
		}
		if h.admit(batchKey{i.Round, i.Compartment, i.Batch}, i.Node, r.at(now)) && !h.admitted {
			h.begin, h.end, h.admitted = r.at(now), r.at(now), true
		}
	}
}

func (r *recorder) verdicts(h *history, now time.Time, l ledgers) {
	for name, led := range l.next.Compartments {
		was := l.old.Compartments[name]
		if l.old.Round != l.next.Round {
			was = fleetv1.LedgerCompartment{}
		}
		b := h.byKey[batchKey{l.next.Round, name, was.Batch}]
		if b != nil && !b.settled && (led.Settled || led.Batch > was.Batch) { // the next one may open in the same write
			b.settle(led.ConsecutiveBad > was.ConsecutiveBad, r.at(now))
		}
		if led.Halt != nil && was.Halt == nil {
			h.halts[name] = &Halt{
				Batch: int(led.Halt.Batch), At: r.at(now), Message: led.Halt.Message, Failures: h.failuresIn(l.next.Round, name, b),
			}
			if b != nil && len(b.left) == 0 {
				b.Verdict = Halting
			}
		}
	}
}

// failuresIn are the failed nodes of the batch that halted a compartment, sorted by name. A rolling compartment is halted by
// the ends of several batches: then they are all of the round.
func (h *history) failuresIn(round int64, compartment string, b *batch) []Failure {
	out := []Failure{}
	for _, other := range h.batches {
		if other.key.round != round || other.key.compartment != compartment || b != nil && b.Failed > 0 && other != b {
			continue
		}
		for _, node := range other.Nodes {
			if f, failed := h.failures[node]; failed {
				out = append(out, f)
			}
		}
	}
	slices.SortFunc(out, func(a, b Failure) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// meter adds up a number of nodes over time.
type meter struct {
	count, peak int
	since       Offset // when count began
	nodeSeconds float64
}

func (m *meter) add(at Offset, n int) {
	m.nodeSeconds += float64(m.count) * time.Duration(at-m.since).Seconds()
	m.since, m.count = at, m.count+n
	m.peak = max(m.peak, m.count)
}

// load is what the meter shows at the end.
func (m *meter) load(end Offset) Load {
	m.add(max(end, m.since), 0)
	return Load{Peak: m.peak, NodeSeconds: m.nodeSeconds, AtEnd: m.count}
}
