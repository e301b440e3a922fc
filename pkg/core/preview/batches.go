package preview

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// defaultVisits is how many nodes the planner may look at for a prediction.
const defaultVisits = 20_000_000

// predict plays the rollouts of all NodeWrights that have something to do: also of those that the change does not touch, as
// others wait for them. Pods are taken to leave when they are asked to.
func (w *work) predict() {
	if len(w.affected) == 0 {
		return
	}
	var moving []plan.NodeWright
	for _, nw := range w.wanted() {
		if w.due[nw.Name] || nw.Paused {
			moving = append(moving, nw)
		}
	}
	nodes := slices.Clone(w.nodes)
	for i := range nodes {
		nodes[i].Pods, nodes[i].PodsListed, nodes[i].Refusals = nil, false, nil
	}
	visits := w.in.Visits
	if visits <= 0 {
		visits = defaultVisits
	}
	result := simulate.Run(simulate.Scenario{
		Start: w.in.Start, NodeWrights: moving, Nodes: nodes, Budgets: w.in.Budgets, Ledger: w.in.Ledger, Snapshots: w.snapshots,
		Settings: w.in.Settings, Seed: 1, Passes: max(20, visits/max(1, len(moving)*len(nodes))),
	})
	w.plan.Seconds, w.plan.Problem, w.plan.OutOfService = seconds(result.End), result.Problem, result.OutOfService.Peak
	for _, r := range result.Rollouts {
		if out := rolloutOf(r); len(out.Lanes) > 0 || len(out.Reasons) > 0 {
			w.plan.Rollouts = append(w.plan.Rollouts, out)
		}
	}
}

func seconds(o simulate.Offset) float64 { return time.Duration(o).Seconds() }

func rolloutOf(r simulate.Rollout) Rollout {
	out := Rollout{NodeWright: r.NodeWright, Outcome: string(r.Outcome), Begin: seconds(r.Begin), End: seconds(r.End), Lanes: []Lane{}}
	for _, c := range r.Compartments {
		if len(c.Batches) > 0 {
			out.Lanes = append(out.Lanes, Lane{c.Name, c.Strategy, c.Nodes, c.Ceiling, runsOf(c.Batches)})
		}
	}
	if r.Outcome != simulate.Complete {
		for _, why := range r.Reasons {
			out.Reasons = append(out.Reasons, Block{
				NodeWright: r.NodeWright, Code: string(why.Code), Count: why.Count, First: why.Nodes[:min(firstNames, len(why.Nodes))], Message: why.Message,
			})
		}
	}
	return out
}

// runsOf joins batches in a row that have the same size.
func runsOf(batches []simulate.Batch) []Run {
	out := []Run{}
	for _, b := range batches {
		next := Run{
			From: b.Number, To: b.Number, Size: len(b.Nodes), Begin: seconds(b.Begin), End: seconds(b.End),
			First: b.Nodes[0], Last: b.Nodes[len(b.Nodes)-1], Open: b.Verdict == simulate.Open,
		}
		if n := len(out) - 1; n >= 0 && out[n].Size == next.Size && out[n].Open == next.Open {
			out[n].To, out[n].End, out[n].Last = next.To, next.End, next.Last
			continue
		}
		out = append(out, next)
	}
	return out
}
