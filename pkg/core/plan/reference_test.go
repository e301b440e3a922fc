package plan_test

import (
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// historiesVariable sets how many random histories the planner and the reference have to agree on.
const historiesVariable = "FLEETWRIGHT_REFERENCE_HISTORIES"

// TestPlannerAgreesWithTheReference: after each event of random histories, planner and reference have admitted the same
// nodes to the same batches, taken the same verdicts, and halted the same compartments.
func TestPlannerAgreesWithTheReference(t *testing.T) {
	histories := 2000
	if v := os.Getenv(historiesVariable); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err, historiesVariable)
		histories = n
	}
	percent := debug.SetGCPercent(400) // garbage is much of the cost
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	workers := min(runtime.GOMAXPROCS(0), 8)
	for worker := range workers {
		t.Run(fmt.Sprint("worker ", worker), func(t *testing.T) {
			t.Parallel()
			for seed := worker; seed < histories; seed += workers {
				agree(t, seed)
			}
		})
	}
}

func agree(t *testing.T, seed int) {
	h := refHistoryOf(int64(seed))
	if err := h.run(); err != nil {
		h, err = h.shortest(err)
		t.Fatalf("history %d: %v\nthe shortest history that shows it:\n%s", seed, err, h)
	}
}

// refEvent is something that happens; a and b choose to what and how, so that an event means something in any history.
type refEvent struct {
	kind string
	a, b int
}

// refHistory is how a fleet begins, and what happens to it.
type refHistory struct {
	start  reference
	rules  map[string]refRules
	events []refEvent
}

// refKinds are the kinds of events, as often as they shall happen.
var refKinds = slices.Concat(
	slices.Repeat([]string{"ok"}, 22), slices.Repeat([]string{"fail"}, 7), slices.Repeat([]string{"content"}, 2), []string{
		"join", "join", "leave", "recreate", "zone", "select", "ready", "foreign", "guard", "budget", "rules", "retry", "resume",
	})

func refHistoryOf(seed int64) refHistory {
	rng := rand.New(rand.NewSource(seed))
	h := refHistory{rules: map[string]refRules{}}
	h.start = reference{interrupt: rng.Intn(2) == 0, uninstall: rng.Intn(3) == 0, reset: rng.Intn(3) > 0, byLabel: rng.Intn(4) == 0}
	for _, c := range refCompartments {
		h.rules[c] = refRulesOf(rng)
	}
	if rng.Intn(6) == 0 { // an interruptionBudget alone: rolling, and never halting
		h.start.byLabel, h.start.reset = false, true
		h.rules["default"] = refRules{kind: "budget", rolling: true, initial: 1, count: rng.Intn(4), percent: -1}
		if rng.Intn(2) == 0 {
			h.rules["default"] = refRules{kind: "budget", rolling: true, initial: 1, count: -1, percent: []int{0, 20, 34, 50, 100}[rng.Intn(5)]}
		}
	}
	for range 1 + rng.Intn(5) {
		h.events = append(h.events, refEvent{"join", rng.Intn(64), rng.Intn(64)})
	}
	h.events = append(h.events, refEvent{"content", 1, 0})
	for range 4 + rng.Intn(20) {
		h.events = append(h.events, refEvent{refKinds[rng.Intn(len(refKinds))], rng.Intn(64), rng.Intn(64)})
	}
	return h
}

func refRulesOf(rng *rand.Rand) refRules {
	r := refRules{
		kind: []string{"fixed", "fixed", "linear", "exponential", "none"}[rng.Intn(5)], initial: 1 + rng.Intn(3), step: 2,
		threshold: []int{100, 100, 50, 67}[rng.Intn(4)], limit: []int{50, 50, 100, 30}[rng.Intn(4)], max: rng.Intn(3),
		count: -1, percent: -1, countUnavailable: rng.Intn(4) == 0,
	}
	switch {
	case r.kind == "none":
		r.initial, r.threshold, r.limit, r.max = 1, 100, 50, 0
	case r.kind == "linear":
		r.step = 1 + rng.Intn(2)
	case r.kind == "fixed":
		r.rolling = rng.Intn(3) == 0
	}
	if rng.Intn(2) == 0 {
		r.count = 1 + rng.Intn(4)
	} else {
		r.percent = []int{10, 34, 50, 75, 100}[rng.Intn(5)]
	}
	return r
}

func (h refHistory) String() string {
	lines := []string{fmt.Sprintf("interrupt %t, uninstall %t, reset %t, by label %t, rules %+v",
		h.start.interrupt, h.start.uninstall, h.start.reset, h.start.byLabel, h.rules)}
	for _, e := range h.events {
		lines = append(lines, fmt.Sprintf("%s %d %d", e.kind, e.a, e.b))
	}
	return strings.Join(lines, "\n")
}

// shortest leaves out what is not needed to fail.
func (h refHistory) shortest(err error) (refHistory, error) {
	for i := len(h.events) - 1; i >= 0; i-- {
		less := h
		less.events = slices.Delete(slices.Clone(h.events), i, i+1)
		if e := less.run(); e != nil {
			h, err = less, e
		}
	}
	return h, err
}

// run plays the history to both.
func (h refHistory) run() error {
	r := h.start
	r.counted = map[[2]int]bool{}
	r.nodes, r.batches, r.rules = map[string]*refNode{}, map[string]refBatch{}, map[string]refRules{}
	for c, rules := range h.rules {
		r.rules[c] = rules
	}
	p := &refPair{reference: &r, driver: newDriver(&r)}
	p.driver.policy(&r)
	for i, e := range h.events {
		if err := p.happen(e); err != nil {
			return fmt.Errorf("event %d, %s %d %d: %w", i+1, e.kind, e.a, e.b, err)
		}
		if r.content == (refContent{}) && r.round == 0 {
			continue // the NodeWright is not there yet
		}
		r.now++
		if err := p.driver.rest(); err != nil {
			return err
		}
		r.rest()
		if err := p.compare(); err != nil {
			return fmt.Errorf("after event %d, %s %d %d: %w", i+1, e.kind, e.a, e.b, err)
		}
	}
	return nil
}

// refPair is the reference and the planner under the same history.
type refPair struct {
	*reference
	driver  *driver
	created int
}

// compare holds the two against each other.
func (p *refPair) compare() error {
	rollout := p.driver.in.Ledger.Rollouts["tune"]
	if int(rollout.Round) != p.round || rollout.Complete != p.complete {
		return fmt.Errorf("round %d, complete %t; the reference has %d, %t", rollout.Round, rollout.Complete, p.round, p.complete)
	}
	orders := map[int32]string{}
	for _, n := range p.sorted() {
		got, want := p.planned(n), n.line()
		if got != want {
			return fmt.Errorf("%s: %s; the reference has %s", n.name, got, want)
		}
		rec := p.driver.node(n.name).Records["tune"]
		if other := orders[rec.Order]; other != "" && rec.Round == rollout.Round {
			return fmt.Errorf("%s has order %d, as %s has", n.name, rec.Order, other)
		}
		if rec.Round == rollout.Round {
			orders[rec.Order] = n.name
		}
	}
	for _, c := range p.driver.out.Statuses[0].Compartments {
		if int(c.Ceiling) != p.ceiling(c.Name) || int(c.InUse) != len(p.used(c.Name)) {
			return fmt.Errorf("%s: %d of %d slots are in use; the reference has %d of %d", c.Name, c.InUse, c.Ceiling, len(p.used(c.Name)), p.ceiling(c.Name))
		}
		if got, want := p.batchLine(rollout.Compartments[c.Name], c.Name), p.batches[c.Name].line(p.rules[c.Name]); got != want {
			return fmt.Errorf("%s: %s; the reference has %s", c.Name, got, want)
		}
	}
	return nil
}

// line is what is compared of a node.
func (n *refNode) line() string {
	t := n.turn
	if t.state == "" {
		return "no turn"
	}
	return fmt.Sprintf("%s in batch %d of %s, round %d, cordoned %t, running %t", t.state, t.batch, t.compartment, t.round, n.cordoned, n.running != "")
}

func (p *refPair) planned(n *refNode) string {
	node := p.driver.node(n.name)
	rec, has := node.Records["tune"]
	if !has {
		return "no turn"
	}
	state := string(rec.Outcome)
	if rec.Outcome == noderecord.Open {
		state = "open"
	}
	running := false
	for _, e := range node.Executions {
		running = running || !e.Ended()
	}
	batch := int(rec.Batch)
	if p.rules[rec.Compartment].rolling {
		batch = n.turn.batch // a rolling compartment has no batches that mean anything
	}
	return fmt.Sprintf("%s in batch %d of %s, round %d, cordoned %t, running %t", state, batch, rec.Compartment, rec.Round,
		len(node.CordonOwners) > 0, running)
}

// line is what is compared of a batch state.
func (b refBatch) line(rules refRules) string {
	if rules.rolling {
		return fmt.Sprintf("rolling, %d bad, window %d+%d, halted %t", b.bad, b.windowSucceeded, b.windowFails, b.halted)
	}
	return fmt.Sprintf("batch %d of size %d, settled %t, %d succeeded, %d failed, %d bad, last bad %t, halted %t",
		b.number, b.size, b.settled, b.succeeded, b.failed, b.bad, b.lastBad, b.halted)
}

func (p *refPair) batchLine(l fleetv1.LedgerCompartment, c string) string {
	return refBatch{
		number: int(l.Batch), size: int(l.Size), settled: l.Settled, succeeded: int(l.Succeeded), failed: int(l.Failed),
		bad: int(l.ConsecutiveBad), lastBad: l.LastBad, halted: l.Halt != nil,
		windowSucceeded: int(l.WindowSucceeded), windowFails: int(l.WindowFailed),
	}.line(p.rules[c])
}
