package reconciler

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// occupancyFor is how long an answer about the pods of the whole cluster is good enough to wait by.
const occupancyFor = 5 * time.Second

// occupancyMemory is what was seen of the pods of the whole cluster, by NodeWright. Whatever wakes the loop, it is not
// listed more often than that; but nobody is admitted on it.
type occupancyMemory map[string]seenOccupancy

type seenOccupancy struct {
	at     time.Time
	answer plan.Occupancy
}

// compute plans, and reads which nodes carry protected or budget-bound pods where a choice depends on it, until nothing more
// is asked. A choice that admits a node is made on what is seen now: recalled are the queries of this pass that live on what
// is remembered. What cannot be read keeps everybody waiting who depends on it; the error asks for another pass.
func (r *Rollout) compute(ctx context.Context, in *plan.Input, recalled map[string]plan.OccupancyQuery) (plan.Output, error) {
	for {
		out := plan.Compute(*in)
		ask := r.recall(in, out.NeedOccupancy, recalled)
		if len(out.NeedOccupancy) == 0 {
			if ask = admitting(out.Decisions, recalled); len(ask) == 0 {
				return out, nil
			}
		}
		if err := r.look(ctx, in, ask); err != nil {
			for _, q := range ask {
				delete(in.Occupancies, q.NodeWright)
			}
			return plan.Compute(*in), err
		}
		for _, q := range ask {
			delete(recalled, q.NodeWright)
		}
	}
}

// recall answers what was seen a moment ago, and returns the queries that are to be asked.
func (r *Rollout) recall(in *plan.Input, queries []plan.OccupancyQuery, recalled map[string]plan.OccupancyQuery) (ask []plan.OccupancyQuery) {
	if in.Occupancies == nil {
		in.Occupancies = map[string]plan.Occupancy{}
	}
	for _, q := range queries {
		seen, known := r.memory.occupancy[q.NodeWright]
		if !known {
			ask = append(ask, q)
			continue
		}
		recalled[q.NodeWright], in.Occupancies[q.NodeWright] = q, seen.answer
	}
	return ask
}

// look reads the answers from the API server.
func (r *Rollout) look(ctx context.Context, in *plan.Input, queries []plan.OccupancyQuery) error {
	if len(queries) == 0 {
		return nil
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	answers, err := r.Observer.Occupancies(ctx, queries)
	if err != nil {
		return fmt.Errorf("look which nodes have protected pods: %w", err)
	}
	for name, answer := range answers {
		in.Occupancies[name], r.memory.occupancy[name] = answer, seenOccupancy{in.Now, answer}
	}
	return nil
}

// forgetOccupancies keeps nothing that is too old to wait by.
func (r *Rollout) forgetOccupancies(now time.Time) {
	if r.memory.occupancy == nil {
		r.memory.occupancy = occupancyMemory{}
	}
	maps.DeleteFunc(r.memory.occupancy, func(_ string, seen seenOccupancy) bool { return now.Sub(seen.at) >= occupancyFor })
}

// admitting are the queries, by NodeWright, whose remembered answer would admit a node.
func admitting(decisions []plan.Decision, recalled map[string]plan.OccupancyQuery) []plan.OccupancyQuery {
	var out []plan.OccupancyQuery
	found := map[string]bool{}
	for _, d := range decisions {
		if q, ok := recalled[d.NodeWright]; ok && d.Action == plan.ActionAdmit && !found[d.NodeWright] {
			out = append(out, q)
			found[d.NodeWright] = true
		}
	}
	return out
}
