package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeWrightStatus is what the reconciler observes. It stays small at any number of nodes: what each node is at stands on
// the node itself.
type NodeWrightStatus struct {
	// ObservedGeneration is the metadata.generation that this status speaks about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Status in one word.
	// +optional
	Status Status `json:"status,omitempty"`

	// Conditions: Ready, and others that say what is unusual.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Round of the current rollout, from 1. It grows when the content changes and when nodes join a completed rollout.
	// +optional
	Round int64 `json:"round,omitempty"`

	// ContentHash identifies what the current round puts on a host.
	// +optional
	ContentHash string `json:"contentHash,omitempty"`

	// CompleteNodes is `<complete>/<targeted>` nodes.
	// +optional
	CompleteNodes string `json:"completeNodes,omitempty"`

	// NodesInProgress counts the nodes whose turn has begun and not ended, failed ones that hold their slot included.
	// +optional
	NodesInProgress int32 `json:"nodesInProgress,omitempty"`

	// NodesFailed counts the nodes that failed in the current round.
	// +optional
	NodesFailed int32 `json:"nodesFailed,omitempty"`

	// PackageList is `name:version,...`, sorted by name.
	// +optional
	PackageList string `json:"packageList,omitempty"`

	// CompartmentStatuses by compartment name; `default` holds the nodes that match none.
	// +optional
	CompartmentStatuses map[string]CompartmentStatus `json:"compartmentStatuses,omitempty"`

	// Reasons counts the nodes that are not complete by what they wait for, sorted by reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	Reasons []ReasonCount `json:"reasons,omitempty"`

	// HandledRequests echoes the last handled token of each verb annotation, by verb (`retry`, `resume`, ...).
	// +optional
	HandledRequests map[string]string `json:"handledRequests,omitempty"`
}

// CompartmentStatus is how a rollout stands in one compartment.
type CompartmentStatus struct {
	// Matched counts the nodes of the compartment.
	Matched int32 `json:"matched"`
	// Ceiling is the most nodes that may be at work or out of service at once.
	Ceiling int32 `json:"ceiling"`
	// InProgress counts the slots in use.
	InProgress int32 `json:"inProgress"`
	// Completed counts the nodes that are complete.
	Completed int32 `json:"completed"`
	// Failed counts the nodes that failed in this round.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// ProgressPercent is the share of this round's nodes that have ended, rounded down.
	ProgressPercent int32 `json:"progressPercent"`
	// SplitGroups are the first groups of nodes, by the value of groupBy, that do not fit whole because they are larger than
	// the ceiling. Extension.
	// +optional
	SplitGroups []string `json:"splitGroups,omitempty"`
	// BatchState is where the strategy stands; none without a strategy.
	// +optional
	BatchState *BatchState `json:"batchState,omitempty"`
}

// BatchState is where a compartment's strategy stands.
type BatchState struct {
	// CurrentBatch is the number of the newest batch, from 1.
	// +optional
	CurrentBatch int32 `json:"currentBatch,omitempty"`
	// ConsecutiveFailures counts bad batches in a row below the safety limit.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// CompletedNodes counts the nodes that ended well in this round.
	// +optional
	CompletedNodes int32 `json:"completedNodes,omitempty"`
	// FailedNodes counts the nodes that failed in this round.
	// +optional
	FailedNodes int32 `json:"failedNodes,omitempty"`
	// ShouldStop says that the compartment is halted.
	// +optional
	ShouldStop bool `json:"shouldStop,omitempty"`
	// LastBatchSize is how many nodes the newest settled batch had.
	// +optional
	LastBatchSize int32 `json:"lastBatchSize,omitempty"`
	// LastBatchFailed says that the newest settled batch was bad.
	// +optional
	LastBatchFailed bool `json:"lastBatchFailed,omitempty"`
}

// ReasonCount is how many nodes wait for the same thing.
type ReasonCount struct {
	// Reason is a stable code.
	Reason string `json:"reason"`
	// Count of nodes.
	Count int32 `json:"count"`
	// Nodes are the first few of them by name.
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// Message says it in a sentence for the first of them.
	// +optional
	Message string `json:"message,omitempty"`
}

// GetConditions returns the conditions, as fluxcd/pkg/apis/meta expects it.
func (n *NodeWright) GetConditions() []metav1.Condition { return n.Status.Conditions }

// SetConditions replaces the conditions.
func (n *NodeWright) SetConditions(c []metav1.Condition) { n.Status.Conditions = c }
