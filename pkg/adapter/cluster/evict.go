package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// evictAtOnce is how many pods of one node are asked to leave at the same time: one that hangs in an admission webhook
// does not keep the others.
const evictAtOnce = 8

// evictTimeout bounds one request: an admission webhook has ten seconds by default.
const evictTimeout = 15 * time.Second

// evict asks the pods of a decision to leave, each with its UID as a precondition: a pod of the same name that came
// later is never touched. A refusal keeps none of the other pods from being asked; an API server that throttles, and the end
// of the context, do.
func (a *Actor) evict(ctx context.Context, d plan.Decision, out *report.Outcome) error {
	outcomes := make([]report.EvictionOutcome, len(d.Evict))
	var throttled atomic.Int64 // how long the server asked to wait, once it did
	var asked sync.WaitGroup
	slots := make(chan struct{}, evictAtOnce)
	for i, e := range d.Evict {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		asked.Go(func() {
			defer func() { <-slots }()
			outcomes[i] = a.askUnlessThrottled(ctx, e, &throttled)
		})
	}
	asked.Wait()
	var unasked error
	for i, o := range outcomes {
		if o.Result != "" {
			out.Evictions = append(out.Evictions, o)
		} else if unasked == nil {
			unasked = fmt.Errorf("evict pod %s/%s: %w", d.Evict[i].Namespace, d.Evict[i].Name, ctx.Err())
		}
	}
	return unasked
}

// askUnlessThrottled leaves a pod alone, and says so, once the server has asked to come back later. The outcome is empty if
// the context ended.
func (a *Actor) askUnlessThrottled(ctx context.Context, e plan.Eviction, throttled *atomic.Int64) report.EvictionOutcome {
	if wait := throttled.Load(); wait > 0 {
		return report.EvictionOutcome{
			Namespace: e.Namespace, Name: e.Name, UID: e.UID, Deletion: e.Delete, Result: report.EvictionThrottled,
			RetryAfter: time.Duration(wait), Message: "it was not asked, as the API server throttles",
		}
	}
	limited, cancel := context.WithTimeout(ctx, evictTimeout)
	defer cancel()
	outcome := evictionOutcome(e, a.evictOne(limited, e))
	switch {
	case outcome.Result != report.EvictionAccepted && ctx.Err() != nil:
		return report.EvictionOutcome{}
	case outcome.Result == report.EvictionThrottled:
		throttled.Store(int64(max(outcome.RetryAfter, time.Second)))
	}
	return outcome
}

// evictOne asks once. The client would wait and ask again by itself where an answer says when to come back: up to ten times,
// with everybody else waiting. Here the next pass asks again.
func (a *Actor) evictOne(ctx context.Context, e plan.Eviction) error {
	options := metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &e.UID}, GracePeriodSeconds: e.GracePeriodSeconds,
	}
	client := a.client.CoreV1().RESTClient()
	if e.Delete {
		return client.Delete().MaxRetries(0).Namespace(e.Namespace).Resource("pods").Name(e.Name).Body(&options).Do(ctx).Error()
	}
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, DeleteOptions: &options,
	}
	eviction.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	return client.Post().MaxRetries(0).Namespace(e.Namespace).Resource("pods").Name(e.Name).SubResource("eviction").
		Body(eviction).Do(ctx).Error()
}

// evictionOutcome tells the server's answers apart.
func evictionOutcome(e plan.Eviction, err error) report.EvictionOutcome {
	out := report.EvictionOutcome{
		Namespace: e.Namespace, Name: e.Name, UID: e.UID, Deletion: e.Delete, Result: report.EvictionAccepted,
	}
	if err == nil {
		return out
	}
	out.Message, out.Result = report.APIAnswer(err), evictionResult(err)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		out.RetryAfter = time.Duration(seconds) * time.Second
	}
	if out.Result == report.EvictionRefused {
		out.Budget, out.Message = budgetOf(err)
	}
	return out
}

func evictionResult(err error) report.EvictionResult {
	switch {
	case apierrors.IsNotFound(err):
		return report.EvictionGone
	case apierrors.IsConflict(err):
		return report.EvictionReplaced
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return report.EvictionRefused
	case apierrors.IsTooManyRequests(err):
		return report.EvictionThrottled
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return report.EvictionNamespaceTerminating
	case apierrors.IsForbidden(err):
		return report.EvictionForbidden
	case strings.Contains(report.APIAnswer(err), "more than one PodDisruptionBudget"): // the only mark that the server puts on it
		return report.EvictionSeveralBudgets
	}
	return report.EvictionError
}

// budgetOf finds the budget's name in the sentence of the cause, which is the only place where the server says it, and what
// the sentence says of it: "The disruption budget web needs 3 healthy pods and has 3 currently".
func budgetOf(err error) (name, says string) {
	cause, _ := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	_, rest, found := strings.Cut(cause.Message, "disruption budget ")
	if !found {
		return "", cause.Message
	}
	name, says, _ = strings.Cut(rest, " ")
	return name, "it " + strings.TrimSuffix(says, ".")
}
