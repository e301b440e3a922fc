package plan

import "time"

// OwnPod is the pod in which the reconciler runs. Its node comes last, and it leaves its node like every other pod: another
// process goes on from what is stored.
type OwnPod struct {
	Namespace, Name string
	// Node that it is bound to.
	Node string
}

// RefusalKind is why a pod that was asked to leave may stay for now.
type RefusalKind string

const (
	// RefusedByBudget: a PodDisruptionBudget allows no disruption now.
	RefusedByBudget RefusalKind = "Budget"
	// RefusedByThrottling: the API server asks to come back later, for no reason of the pod's.
	RefusedByThrottling RefusalKind = "Throttling"
	// RefusedByNamespace: the namespace is being deleted, and the pod with it.
	RefusedByNamespace RefusalKind = "Namespace"
	// RefusedByError: the API server failed, or refuses for another reason; the message says which.
	RefusedByError RefusalKind = "Error"
)

// Refusal is the last answer of the API server to a pod that was asked to leave and may stay for now.
type Refusal struct {
	Kind RefusalKind
	// Message is one sentence that names the pod and the cause.
	Message string
	// Again is when the pod may be asked once more; zero: now.
	Again time.Time
	// Deletion says that the pod was to be deleted, not evicted.
	Deletion bool
}

// Blockers are the first few of those that hold nodes up, by node and pod, and how many there are.
type Blockers struct {
	First []Blocker
	Count int32
}

// Blocker is a pod that holds a node up.
type Blocker struct {
	Node string
	// Pod is `ns/name`; of protected pods the first few.
	Pod   string
	Cause BlockCause
	// Message is one sentence that names the pod.
	Message string
}

// BlockCause is the kind of a Blocker: the reason of the condition that shows it.
type BlockCause string

// Causes that hold up a drain; the first three are NVIDIA's words.
const (
	// BlockedByBudget: a PodDisruptionBudget refuses the eviction.
	BlockedByBudget BlockCause = "PodDisruptionBudget"
	// BlockedUnmanaged: no controller would replace the pod, and `drainConfig.force` is false.
	BlockedUnmanaged BlockCause = "UnmanagedPod"
	// BlockedEmptyDir: the pod has emptyDir data, and `drainConfig.deleteEmptyDirData` is false.
	BlockedEmptyDir BlockCause = "EmptyDirData"
	// BlockedDaemonSet: the pod is a DaemonSet's, and `drainConfig.ignoreDaemonSets` is false.
	BlockedDaemonSet BlockCause = "DaemonSetPod"
	// BlockedOwn: the reconciler's own pod would have no node to go to.
	BlockedOwn BlockCause = "ReconcilerPod"
	// BlockedByError: the API server fails to evict the pod, or refuses to for another reason than a budget.
	BlockedByError BlockCause = "EvictionFailed"
	// BlockedStuck: the pod's grace period is over and it is still there.
	BlockedStuck BlockCause = "PodStuck"
	// BlockedByTimeout: the pod is leaving, and the drain has outlasted its timeout.
	BlockedByTimeout BlockCause = "DrainTimeout"
	// BlockedProtected: the pod must not be disturbed.
	BlockedProtected BlockCause = "ProtectedPod"
)
