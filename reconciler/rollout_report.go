package reconciler

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
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
		handled := report.Handled(old.Status.HandledRequests, r.memory.ledger.Rollouts[s.NodeWright])
		if token := retried(in, out, s); token != "" {
			handled = withRequest(handled, fleetv1.VerbRetry, token)
		}
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
	return errors.Join(errs...)
}

// retried is the token of a NodeWright's retry annotation once no node has to be retried for it any more: each that failed in
// this round was admitted again since. Empty: there is none, or it is not done.
func retried(in plan.Input, out plan.Output, s plan.Status) string {
	i := slices.IndexFunc(in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == s.NodeWright })
	if i < 0 || in.NodeWrights[i].Retry == "" {
		return ""
	}
	token, targeted := in.NodeWrights[i].Retry, map[string]bool{}
	for _, reason := range out.Reasons {
		targeted[reason.Node] = targeted[reason.Node] || reason.NodeWright == s.NodeWright
	}
	for i := range in.Nodes {
		record := in.Nodes[i].Records[s.NodeWright]
		failed := record.Outcome == noderecord.Failed && record.Round == s.Round && record.NodeWright == s.UID
		if failed && targeted[in.Nodes[i].Name] && record.Retried != token {
			return ""
		}
	}
	return token
}

func withRequest(handled map[string]string, verb, token string) map[string]string {
	if handled == nil {
		handled = map[string]string{}
	}
	handled[verb] = token
	return handled
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
