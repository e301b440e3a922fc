package simulate

import (
	"fmt"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

const (
	// year is the default limit of virtual time.
	year = 365 * 24 * time.Hour
	// mostWakes is how often in a row the planner may ask to be woken with nothing to come of it. Windows and back-offs
	// take a few; a wait for something that the scenario never brings about asks again and again.
	mostWakes = 200
	// mostPasses at one instant: each pass moves nodes by a step, and a turn has about a dozen.
	mostPasses = 2000
)

// Run plays a scenario until nothing changes any more. It cannot fail: a rollout that never finishes is Halted or Stuck,
// with the reasons that remain.
func Run(sc Scenario) Result {
	r, _ := RunFrom(sc)
	return r
}

// State is what a simulation leaves behind: another one can start from it.
type State struct {
	Now       time.Time
	Nodes     []plan.Node
	Ledger    fleetv1.LedgerSpec
	Snapshots map[string]desired.Package
}

// RunFrom is Run, and returns the state at the end too.
func RunFrom(sc Scenario) (Result, State) {
	w := newWorld(sc)
	passes, problem := w.play(sc)
	out := w.watch.result()
	out.Passes, out.Problem, out.Nodes, out.Imagined = passes, problem, len(sc.Nodes), sc.Imagined
	return out, State{w.now, w.in.Nodes, w.in.Ledger, w.in.Snapshots}
}

// play is the loop: plan and carry out until this instant has nothing more to do, then go on to the next.
func (w *world) play(sc Scenario) (passes int, problem string) {
	limit := sc.Limit
	if limit <= 0 {
		limit = year
	}
	wakes, here := 0, 0
	for {
		if sc.Passes > 0 && passes >= sc.Passes {
			w.watch.tick(w.now)
			return passes, fmt.Sprintf("the plan was made %d times, and more was not asked for", passes)
		}
		passes++
		here++
		out := w.pass()
		if w.carryOut(out) {
			wakes, w.watch.changed = 0, w.watch.at(w.now)
			if here > mostPasses {
				w.watch.tick(w.now)
				return passes, fmt.Sprintf("the plan is still changing after %d passes at one instant", here)
			}
			continue
		}
		next := w.next(out.Next)
		if next.IsZero() || wakes >= mostWakes {
			w.watch.tick(w.now)
			return passes, ""
		}
		if next.Sub(sc.Start) > limit {
			w.watch.tick(w.now)
			return passes, fmt.Sprintf("not at rest after %s", limit)
		}
		w.watch.tick(w.now)
		wakes, here = wakes+1, 0
		if w.advance(next) {
			wakes = 0
		}
	}
}

func (w *world) pass() plan.Output {
	w.in.Now = w.now
	w.in.Occupancies = map[string]plan.Occupancy{}
	out := plan.Compute(w.in)
	for len(out.NeedOccupancy) > 0 {
		for _, q := range out.NeedOccupancy {
			w.in.Occupancies[q.NodeWright] = plan.OccupancyOf(q, w.in.Nodes)
		}
		out = plan.Compute(w.in)
	}
	w.watch.last = out
	return out
}
