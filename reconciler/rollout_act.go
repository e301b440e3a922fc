package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// act carries out the decisions: first all admissions and cordons, so that every node of an admission is cordoned
// before the first drain; then the rest. Nodes go in parallel, the decisions of one node one after the other. What fails
// on one node keeps no other from going on.
func (r *Rollout) act(ctx context.Context, out plan.Output) error {
	r.memory.resting.keep(out.Decisions)
	var first, rest []plan.Decision
	for _, d := range out.Decisions {
		if d.Action == plan.ActionAdmit || d.Action == plan.ActionCordon || d.Action == plan.ActionGate {
			first = append(first, d)
			continue
		}
		rest = append(rest, d)
	}
	return errors.Join(r.carryOut(ctx, first), r.carryOut(ctx, rest))
}

// finalize writes finalizers. Nothing is done for a NodeWright that did not get its own: it could vanish with something
// installed that has to be uninstalled.
func (r *Rollout) finalize(ctx context.Context, out *plan.Output) error {
	var errs []error
	for _, change := range out.Finalizers {
		limited, cancel := r.bounded(ctx)
		gone, err := r.Statuses.Finalize(limited, change)
		cancel()
		errs = append(errs, err)
		if change.Wanted && (gone || err != nil) {
			out.Decisions = slices.DeleteFunc(slices.Clone(out.Decisions), func(d plan.Decision) bool { return d.NodeWrightUID == change.UID })
		}
	}
	return errors.Join(errs...)
}

func (r *Rollout) carryOut(ctx context.Context, decisions []plan.Decision) error {
	byNode := map[string][]plan.Decision{}
	var nodes []string
	for _, d := range decisions {
		if _, ok := byNode[d.Node]; !ok {
			nodes = append(nodes, d.Node)
		}
		byNode[d.Node] = append(byNode[d.Node], d)
	}
	return r.forEach(nodes, func(node string) error {
		var errs []error
		for _, d := range byNode[node] {
			if ctx.Err() != nil {
				return errors.Join(append(errs, ctx.Err())...)
			}
			errs = append(errs, r.do(ctx, d))
		}
		return errors.Join(errs...)
	})
}

// do carries out one decision and tells of it, unless the node rests from one that failed.
func (r *Rollout) do(ctx context.Context, d plan.Decision) error {
	if r.memory.resting.rests(d, r.Now()) {
		return nil
	}
	outcome, err := r.try(ctx, d)
	r.Metrics.decision(d, outcome, err)
	log := r.Log.With("nodewright", d.NodeWright, "node", d.Node, "action", string(d.Action))
	switch {
	case err != nil:
		if e, ok := report.GateFailedEvent(d, err); ok {
			r.Events.Emit(e)
		}
		return fmt.Errorf("%s node %s for nodewright %s: %w", d.Action, d.Node, d.NodeWright, err)
	case outcome.Conflict:
		log.Debug("the node changed since the plan; it is planned again", "detail", outcome.Detail)
		return nil
	case outcome.EarlierRunning != "":
		log.Info("an execution of an earlier round is unfinished", "job", outcome.EarlierRunning)
		return nil
	}
	for _, e := range outcome.Evictions {
		if e.Result != report.EvictionAccepted && e.Result != report.EvictionGone {
			log.Info("eviction was not accepted", "pod", e.Namespace+"/"+e.Name, "result", string(e.Result), "budget", e.Budget, "answer", e.Message)
		}
	}
	log.Info("decision carried out", "started", outcome.Started, "stopped", outcome.Stopped)
	if e, ok := report.AskedEvent(d); ok {
		r.Events.Emit(e)
	}
	for _, e := range report.DriftEvents(d) {
		r.Events.Emit(e)
	}
	if e, ok := report.DecisionEvent(accepted(d, outcome)); ok {
		r.Events.Emit(e)
	}
	return nil
}

// try carries out one decision within its time and remembers what came of it.
func (r *Rollout) try(ctx context.Context, d plan.Decision) (report.Outcome, error) {
	limited, cancel := r.bounded(ctx)
	defer cancel()
	start := r.Now()
	outcome, err := r.Actor.Do(limited, d)
	end := r.Now()
	r.memory.evict.note(d, outcome, end, r.drainRetry())
	if ctx.Err() != nil {
		return outcome, err // the process is told to stop; that says nothing about the node
	}
	if r.memory.resting.note(d, attempt{at: end, took: end.Sub(start), outcome: outcome, err: err}) {
		r.Wake() // the change may have been seen before this pass ended, and then nothing else wakes the loop
	}
	return outcome, err
}

// strand keeps executions whose node is gone from running on another one that has its name by now. They stay: verdicts
// are made from them.
func (r *Rollout) strand(ctx context.Context, in plan.Input) error {
	var jobs []string
	for _, e := range in.Orphans {
		if !e.Ended() && !e.Suspended {
			jobs = append(jobs, e.Name)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if may, err := r.mayAct(ctx, in); err != nil || !may {
		return err
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	return r.Actor.Strand(ctx, jobs)
}

// forEach calls do for each name, Parallel at a time, and joins the errors.
func (r *Rollout) forEach(names []string, do func(name string) error) error {
	parallel := r.Parallel
	if parallel <= 0 {
		parallel = 16
	}
	slots := make(chan struct{}, parallel)
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		wg.Add(1)
		go func() {
			defer func() { <-slots; wg.Done() }()
			errs[i] = do(name)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}
