package cluster

import (
	"context"
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// evict asks the pods of a decision to leave, each with its UID as a precondition: a pod of the same name that came
// later is never touched. A refusal by a budget does not keep the other pods from being asked; the end of the context
// does.
func (a *Actor) evict(ctx context.Context, d plan.Decision, out *report.Outcome) error {
	for _, e := range d.Evict {
		outcome := evictionOutcome(e, a.evictOne(ctx, e))
		if ctx.Err() != nil {
			return fmt.Errorf("evict pod %s/%s: %w", e.Namespace, e.Name, ctx.Err())
		}
		out.Evictions = append(out.Evictions, outcome)
	}
	return nil
}

func (a *Actor) evictOne(ctx context.Context, e plan.Eviction) error {
	options := metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &e.UID}, GracePeriodSeconds: e.GracePeriodSeconds,
	}
	if e.Delete {
		return a.client.CoreV1().Pods(e.Namespace).Delete(ctx, e.Name, options)
	}
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, DeleteOptions: &options,
	}
	eviction.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	// The client waits and asks again by itself where a refusal says when (a budget that is not counted yet does): up to
	// ten times, with everybody else waiting. Here the next pass asks again.
	return a.client.CoreV1().RESTClient().Post().MaxRetries(0).
		Namespace(e.Namespace).Resource("pods").Name(e.Name).SubResource("eviction").
		Body(eviction).Do(ctx).Error()
}

// evictionOutcome tells the server's answers apart.
func evictionOutcome(e plan.Eviction, err error) report.EvictionOutcome {
	out := report.EvictionOutcome{Namespace: e.Namespace, Name: e.Name}
	if err != nil {
		out.Message = err.Error()
	}
	switch {
	case err == nil:
		out.Result = report.EvictionAccepted
	case apierrors.IsNotFound(err):
		out.Result = report.EvictionGone
	case apierrors.IsConflict(err):
		out.Result = report.EvictionReplaced
	case apierrors.IsTooManyRequests(err):
		out.Result, out.Budget = report.EvictionThrottled, budgetOf(err)
		if hasBudgetCause(err) {
			out.Result = report.EvictionRefused
		}
	default:
		out.Result = report.EvictionError
	}
	return out
}

func hasBudgetCause(err error) bool {
	_, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	return ok
}

// budgetOf finds the budget's name in the sentence of the cause, which is the only place where the server says it:
// "The disruption budget web needs 3 healthy pods and has 3 currently".
func budgetOf(err error) string {
	cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if !ok {
		return ""
	}
	_, rest, found := strings.Cut(cause.Message, "disruption budget ")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}
