package report

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// EvictionResult is how the API server answered one eviction.
type EvictionResult string

const (
	// EvictionAccepted: the pod is asked to leave. Whether it has left is for the next pass to see.
	EvictionAccepted EvictionResult = "Accepted"
	// EvictionGone: no pod of that name and UID is left.
	EvictionGone EvictionResult = "Gone"
	// EvictionReplaced: a pod of that name is there with another UID; it is not ours to judge by the old decision.
	EvictionReplaced EvictionResult = "Replaced"
	// EvictionRefused: a PodDisruptionBudget does not allow it now.
	EvictionRefused EvictionResult = "Refused"
	// EvictionSeveralBudgets: several PodDisruptionBudgets select the pod, which the API server answers as a failure of its
	// own. No retry cures it.
	EvictionSeveralBudgets EvictionResult = "SeveralBudgets"
	// EvictionThrottled: the API server asks to come back later, for no reason of the pod's.
	EvictionThrottled EvictionResult = "Throttled"
	// EvictionNamespaceTerminating: the namespace is being deleted, and the pod goes with it.
	EvictionNamespaceTerminating EvictionResult = "NamespaceTerminating"
	// EvictionForbidden: an admission webhook denied it, or the reconciler lacks the right.
	EvictionForbidden EvictionResult = "Forbidden"
	// EvictionError: the API server, or an admission webhook, failed.
	EvictionError EvictionResult = "Error"
)

// EvictionOutcome is what came of one eviction.
type EvictionOutcome struct {
	Namespace, Name string
	UID             types.UID
	// Deletion says that the pod was to be deleted, not evicted.
	Deletion bool
	Result   EvictionResult
	// Budget is the PodDisruptionBudget that refused, where the server names it.
	Budget string
	// Message is the server's sentence, for what was not accepted.
	Message string
	// RetryAfter is how long the server asks to wait at least; 0: it does not say.
	RetryAfter time.Duration
}

// String says it for a log, a reason or an event.
func (o EvictionOutcome) String() string {
	pod := o.Namespace + "/" + o.Name
	switch o.Result {
	case EvictionRefused:
		return fmt.Sprintf("eviction of pod %s refused by PodDisruptionBudget %s", pod, orUnknown(o.Budget)) + behind(": ", o.Message)
	case EvictionSeveralBudgets:
		return fmt.Sprintf("eviction of pod %s is not possible: several PodDisruptionBudgets select it; leave it to one of them", pod)
	case EvictionThrottled:
		return fmt.Sprintf("the API server asks to wait before pod %s is asked to leave", pod)
	case EvictionNamespaceTerminating:
		return fmt.Sprintf("pod %s goes with its namespace, which is being deleted", pod)
	case EvictionForbidden, EvictionError:
		return o.unsuccessful(pod)
	case EvictionReplaced:
		return fmt.Sprintf("pod %s was replaced by another of the same name", pod)
	case EvictionGone:
		return fmt.Sprintf("pod %s has left", pod)
	case EvictionAccepted:
		return fmt.Sprintf("pod %s is asked to leave", pod)
	}
	return pod
}

func (o EvictionOutcome) unsuccessful(pod string) string {
	what, how := "eviction", "failed"
	if o.Deletion {
		what = "deletion"
	}
	if o.Result == EvictionForbidden {
		how = "was denied"
	}
	return fmt.Sprintf("%s of pod %s %s: %s", what, pod, how, cut(o.Message, maxAnswer))
}

// maxAnswer bounds what is quoted of the API server's sentence.
const maxAnswer = 300

// Refusal is the outcome as the planner has to know it; refused is false if the pod is asked to leave, or gone.
func (o EvictionOutcome) Refusal() (r plan.Refusal, refused bool) {
	r = plan.Refusal{Message: o.String(), Deletion: o.Deletion}
	switch o.Result {
	case EvictionRefused:
		r.Kind = plan.RefusedByBudget
	case EvictionThrottled:
		r.Kind = plan.RefusedByThrottling
	case EvictionNamespaceTerminating:
		r.Kind = plan.RefusedByNamespace
	case EvictionSeveralBudgets, EvictionForbidden, EvictionError:
		r.Kind = plan.RefusedByError
	case EvictionAccepted, EvictionGone, EvictionReplaced:
		return plan.Refusal{}, false
	}
	return r, true
}

func behind(separator, s string) string {
	if s == "" {
		return ""
	}
	return separator + s
}

func orUnknown(s string) string {
	if s == "" {
		return "(unnamed)"
	}
	return s
}
