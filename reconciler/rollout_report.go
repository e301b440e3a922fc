package reconciler

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// reasonKey is whose reason it is.
type reasonKey struct{ nodeWright, node string }

// report writes statuses that changed, events of transitions, and metrics. What cannot be written for one object keeps
// no other from being reported.
func (r *Rollout) report(ctx context.Context, in plan.Input, out plan.Output) error {
	r.Metrics.statuses(out.Statuses)
	objects, err := r.Statuses.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range out.Statuses {
		old, ok := objects[s.NodeWright]
		if !ok || old.UID != s.UID {
			continue
		}
		handled := report.Handled(old.Status.HandledRequests, r.memory.ledger.Rollouts[s.NodeWright], s.Requests)
		status := report.NodeWrightStatus(s, old.Status, handled, in.Now)
		if equality.Semantic.DeepEqual(old.Status, status) {
			continue
		}
		if err := r.Statuses.Write(ctx, old, status); err != nil {
			errs = append(errs, err) // the events come with the write that succeeds
			continue
		}
		for _, e := range report.StatusEvents(old.Status, s) {
			r.Events.Emit(e)
		}
	}
	r.reportReasons(in, out)
	r.reportRefused(out)
	return errors.Join(errs...)
}

// reportRefused tells of each request on a node that is newly seen and cannot be met.
func (r *Rollout) reportRefused(out plan.Output) {
	next := make(map[plan.RefusedRequest]bool, len(out.RefusedRequests))
	for _, refused := range out.RefusedRequests {
		next[refused] = true
		if !r.memory.refused[refused] {
			r.Events.Emit(report.RefusedEvent(refused))
		}
	}
	r.memory.refused = next
}

// reportReasons tells of each node that is newly held up.
func (r *Rollout) reportReasons(in plan.Input, out plan.Output) {
	nodes := make(map[string]report.Object, len(in.Nodes))
	for _, n := range in.Nodes {
		nodes[n.Name] = report.Object{Kind: "Node", Name: n.Name, UID: n.UID}
	}
	owners := make(map[string]report.Object, len(in.NodeWrights))
	for _, nw := range in.NodeWrights {
		owners[nw.Name] = report.NodeWrightObject(nw.Name, nw.UID)
	}
	next := make(map[reasonKey]plan.Code, len(out.Reasons))
	for _, reason := range out.Reasons {
		key := reasonKey{reason.NodeWright, reason.Node}
		next[key] = reason.Code
		if r.memory.reasons[key] == reason.Code {
			continue
		}
		if e, ok := report.ReasonEvent(reason, nodes[reason.Node], owners[reason.NodeWright]); ok {
			r.Events.Emit(e)
		}
	}
	r.memory.reasons = next
}
