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

// compute plans, and reads which nodes carry protected or budget-bound pods where a choice depends on it. A choice that
// admits a node is made on what is seen now. What cannot be read keeps everybody waiting who depends on it; the error asks
// for another pass.
func (r *Rollout) compute(ctx context.Context, in *plan.Input) (plan.Output, error) {
	out := plan.Compute(*in)
	if len(out.NeedOccupancy) == 0 {
		return out, nil
	}
	asked := out.NeedOccupancy
	ask, remembered := r.recall(in, asked)
	if err := r.look(ctx, in, ask); err != nil {
		return out, err
	}
	if out = plan.Compute(*in); !admitsAny(out.Decisions, remembered) {
		return out, nil
	}
	in.Occupancies = nil
	if err := r.look(ctx, in, asked); err != nil {
		return plan.Compute(*in), err
	}
	return plan.Compute(*in), nil
}

// recall answers what was seen a moment ago, forgets the rest, and returns the queries to be asked and the NodeWrights that
// live on what is remembered.
func (r *Rollout) recall(in *plan.Input, queries []plan.OccupancyQuery) (ask []plan.OccupancyQuery, remembered map[string]bool) {
	kept := occupancyMemory{}
	answers, remembered := map[string]plan.Occupancy{}, map[string]bool{}
	maps.Copy(answers, in.Occupancies)
	for _, q := range queries {
		seen, known := r.memory.occupancy[q.NodeWright]
		if !known || in.Now.Sub(seen.at) >= occupancyFor {
			ask = append(ask, q)
			continue
		}
		kept[q.NodeWright], remembered[q.NodeWright] = seen, true
		answers[q.NodeWright] = seen.answer
	}
	r.memory.occupancy, in.Occupancies = kept, answers
	return ask, remembered
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
	merged := map[string]plan.Occupancy{}
	maps.Copy(merged, in.Occupancies)
	for name, answer := range answers {
		merged[name] = answer
		r.memory.occupancy[name] = seenOccupancy{in.Now, answer}
	}
	in.Occupancies = merged
	return nil
}

func admitsAny(decisions []plan.Decision, nodeWrights map[string]bool) bool {
	for _, d := range decisions {
		if d.Action == plan.ActionAdmit && nodeWrights[d.NodeWright] {
			return true
		}
	}
	return false
}
