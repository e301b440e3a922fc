package report

import "fmt"

// Outcome is what came of one decision that was carried out. What has to be waited for is a value here; an error beside
// it is a surprise.
type Outcome struct {
	// Conflict says that the node, or its record, is no longer what the decision was made from. Nothing was written;
	// the next pass decides anew.
	Conflict bool
	// Detail says what had changed, for a log.
	Detail string
	// Written says that the node was changed.
	Written bool
	// EarlierRunning names an unfinished execution of an earlier round, because of which nothing was started.
	EarlierRunning string
	// Started and Stopped are the Jobs that were created (or existed) and deleted.
	Started, Stopped []string
	// Evictions are what came of each eviction, in the order of the decision.
	Evictions []EvictionOutcome
}

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
	// EvictionThrottled: the API server asks to come back later, for no reason of the pod's.
	EvictionThrottled EvictionResult = "Throttled"
	// EvictionError: the API server failed, or several budgets select the pod, which it answers as a failure.
	EvictionError EvictionResult = "Error"
)

// EvictionOutcome is what came of one eviction.
type EvictionOutcome struct {
	Namespace, Name string
	Result          EvictionResult
	// Budget is the PodDisruptionBudget that refused, where the server names it.
	Budget string
	// Message is the server's sentence, for what was not accepted.
	Message string
}

// String says it for a log or an event.
func (o EvictionOutcome) String() string {
	pod := o.Namespace + "/" + o.Name
	switch o.Result {
	case EvictionRefused:
		return fmt.Sprintf("eviction of pod %s refused by PodDisruptionBudget %s", pod, orUnknown(o.Budget))
	case EvictionThrottled, EvictionError:
		return fmt.Sprintf("eviction of pod %s failed: %s", pod, o.Message)
	case EvictionReplaced:
		return fmt.Sprintf("pod %s was replaced by another of the same name", pod)
	case EvictionGone:
		return fmt.Sprintf("pod %s has left", pod)
	case EvictionAccepted:
		return fmt.Sprintf("pod %s is asked to leave", pod)
	}
	return pod
}

func orUnknown(s string) string {
	if s == "" {
		return "(unnamed)"
	}
	return s
}
