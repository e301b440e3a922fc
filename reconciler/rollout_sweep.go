package reconciler

import (
	"context"
	"fmt"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

const (
	// sweepEvery is how often finished Jobs are looked through.
	sweepEvery = time.Minute
	// tidyEvery is how often stored definitions and configurations are looked through.
	tidyEvery = 10 * time.Minute
	// keepSucceeded and keepFailed are the defaults of KeepSucceeded and KeepFailed.
	keepSucceeded = time.Hour
	keepFailed    = 24 * time.Hour
)

// retention is how long finished Jobs stay.
type retention struct{ succeeded, failed time.Duration }

func (r *Rollout) retention() retention {
	return retention{orDefault(r.KeepSucceeded, keepSucceeded), orDefault(r.KeepFailed, keepFailed)}
}

// discard deletes the Jobs of settled batches that ended a while ago.
func (r *Rollout) discard(ctx context.Context, in plan.Input) error {
	if in.Now.Sub(r.memory.swept) < sweepEvery || in.Standby != "" {
		return nil
	}
	r.memory.swept = in.Now
	jobs := r.retention().disposable(in, r.memory.ledger)
	if len(jobs) == 0 {
		return nil
	}
	if may, err := r.mayAct(ctx, in); err != nil || !may {
		return err
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	return r.Actor.Discard(ctx, jobs)
}

// disposable are the Jobs that no verdict and no record can need any more: finished ones after a while, failed ones at once
// where more of a package failed than are kept, and those whose node is gone and that will therefore never finish.
func (k retention) disposable(in plan.Input, ledger fleetv1.LedgerSpec) []string {
	var out []string
	for i := range in.Nodes {
		tooMany := superfluous(in.Nodes[i].Executions)
		for _, e := range in.Nodes[i].Executions {
			outlived := e.Ended() && k.outlived(e, in.Now) && settled(e, ledger) && !awaited(e, in.Nodes[i])
			if outlived || tooMany[e.Name] {
				out = append(out, e.Name)
			}
		}
	}
	tooMany := superfluous(in.Orphans)
	for _, e := range in.Orphans {
		if (e.Ended() && k.outlived(e, in.Now) || e.Suspended) && settled(e, ledger) || tooMany[e.Name] {
			out = append(out, e.Name)
		}
	}
	return out
}

// outlived: it ended longer ago than its logs are kept.
func (k retention) outlived(e plan.Execution, now time.Time) bool {
	keep := k.succeeded
	if e.State == plan.ExecutionFailed {
		keep = k.failed
	}
	return now.Sub(e.Finished) > keep
}

// awaited: the node's record says that the execution is running, because its end could not be recorded yet. Without the
// Job it would be run again.
func awaited(e plan.Execution, n plan.Node) bool {
	record := n.Records[e.NodeWright]
	if e.Phase == plan.PhaseInterrupt {
		return record.Interrupt != nil && record.Round == e.Round
	}
	return record.Packages[e.Package].Running != "" && record.Round == e.Round
}

func settled(e plan.Execution, ledger fleetv1.LedgerSpec) bool {
	rollout, ok := ledger.Rollouts[e.NodeWright]
	if !ok || rollout.UID != e.NodeWrightUID || e.Round < rollout.Round || rollout.Complete {
		return true
	}
	c := rollout.Compartments[e.Compartment]
	return e.Batch < c.Batch || e.Batch == c.Batch && c.Settled
}

// sweep has stored definitions and configurations deleted that nothing uses. What is used is read from a view that is as new
// as the API server: a record that is not seen must not lose its definition.
func (r *Rollout) sweep(ctx context.Context, in plan.Input) error {
	if r.Sweeper == nil || in.Standby != "" || in.Now.Sub(r.memory.tidied) < tidyEvery {
		return nil
	}
	r.memory.tidied = in.Now
	if anything, err := r.sweepable(ctx, in); err != nil || !anything {
		return err
	}
	if may, err := r.mayAct(ctx, in); err != nil || !may {
		return err
	}
	if err := r.Observer.Fresh(ctx); err != nil {
		return err
	}
	fresh, err := r.Observer.Observe(ctx, in.Now)
	if err != nil {
		return fmt.Errorf("observe cluster: %w", err)
	}
	used, known := usedSnapshots(fresh)
	if !known {
		return nil
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	return r.Sweeper.Sweep(ctx, used, in.Now)
}

// sweepable looks in the caches whether there is anything to sweep, so that a cluster at rest is not asked.
func (r *Rollout) sweepable(ctx context.Context, in plan.Input) (bool, error) {
	used, known := usedSnapshots(in)
	if !known {
		return false, nil
	}
	return r.Sweeper.Unused(ctx, used)
}

// usedSnapshots are the hashes of the definitions that a record names or that are wanted. known is false while a record
// cannot be read: it may name any.
func usedSnapshots(in plan.Input) (used map[string]bool, known bool) {
	used = map[string]bool{}
	for i := range in.Nodes {
		if len(in.Nodes[i].Malformed) > 0 {
			return nil, false
		}
		for _, record := range in.Nodes[i].Records {
			for _, pkg := range record.Packages {
				used[pkg.Snapshot] = true
			}
		}
	}
	for _, nw := range in.NodeWrights {
		for _, pkg := range nw.Desired.Packages {
			used[pkg.SnapshotHash] = true
		}
	}
	return used, true
}
