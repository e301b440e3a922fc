package preview

import (
	"slices"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Timeless is the plan without what changes by the clock alone: times of the prediction, and maintenance windows. Two plans whose
// timeless forms are equal say the same thing at different hours.
func (p Plan) Timeless() Plan {
	p.Seconds, p.OutOfService, p.Problem = 0, 0, ""
	p.Blocks = slices.DeleteFunc(slices.Clone(p.Blocks), func(b Block) bool { return b.Code == string(plan.WaitingForWindow) })
	rollouts := []Rollout{}
	for _, r := range p.Rollouts {
		lanes := []Lane{}
		for _, l := range r.Lanes {
			l.Batches = slices.Clone(l.Batches)
			for i := range l.Batches {
				l.Batches[i].Begin, l.Batches[i].End = 0, 0
			}
			lanes = append(lanes, l)
		}
		rollouts = append(rollouts, Rollout{NodeWright: r.NodeWright, Lanes: lanes})
	}
	p.Rollouts = rollouts
	return p
}
