package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LedgerName is the name of the one Ledger object of a cluster.
const LedgerName = "cluster"

// Ledger holds the few rollout decisions that cannot be derived again from NodeWrights and nodes. There is one, named
// `cluster`; the reconciler's leader writes it with compare-and-swap on its resourceVersion. People read it, never edit it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=ledgers,singular=ledger
// +kubebuilder:printcolumn:name="Epoch",type=integer,JSONPath=`.spec.epoch`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Ledger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the ledger itself.
	// +optional
	Spec LedgerSpec `json:"spec,omitempty"`
}

// LedgerList is a list of Ledgers.
//
// +kubebuilder:object:root=true
type LedgerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ledger `json:"items"`
}

// LedgerSpec is what the leader remembers. A missing ledger reads as the zero value.
type LedgerSpec struct {
	// Epoch counts the leaders. A new leader raises it before it reads the nodes that it acts on, so that a write of an
	// earlier leader can no longer succeed.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Rollouts holds one entry per NodeWright, by its name.
	// +optional
	Rollouts map[string]LedgerRollout `json:"rollouts,omitempty"`
}

// LedgerRollout is the rollout of one NodeWright: `{contentHash, round}` and who was admitted.
type LedgerRollout struct {
	// UID of the NodeWright; another UID under the same name is another object, whose rollout starts anew.
	UID types.UID `json:"uid"`

	// Round grows when the content changes and when nodes join a completed rollout. 1 is the first.
	Round int64 `json:"round"`

	// ContentHash is what this round puts on a host.
	ContentHash string `json:"contentHash"`

	// Generation of the NodeWright that started the round. Only a higher one starts another, so that a lagging cache
	// cannot go back to earlier content.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// StartedAt is when the round was started.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty"`
	// LateJoiners says that the round was started for nodes that joined a completed rollout.
	// +optional
	LateJoiners bool `json:"lateJoiners,omitempty"`

	// Complete says that every targeted node was complete in this round at least once; nodes that are not complete
	// afterwards start the next round.
	// +optional
	Complete bool `json:"complete,omitempty"`

	// NextOrder is the order number of the next admission in this round, from 0, never used twice.
	// +optional
	NextOrder int32 `json:"nextOrder,omitempty"`

	// Resumed is the token of the last `resume` annotation that was handled.
	// +optional
	Resumed string `json:"resumed,omitempty"`

	// Abandoned is the token of the last `abandon-uninstall` annotation that was handled, and AbandonedRound the round in
	// which it was: what has to be uninstalled in that round is left where it is.
	// +optional
	Abandoned string `json:"abandoned,omitempty"`
	// +optional
	AbandonedRound int64 `json:"abandonedRound,omitempty"`

	// Reset is the token of the `reset` annotation that stood when the round began: only another one begins a round.
	// +optional
	Reset string `json:"reset,omitempty"`

	// Compartments holds the batch state per compartment, by its name (`default` for nodes that match none).
	// +optional
	Compartments map[string]LedgerCompartment `json:"compartments,omitempty"`

	// Intents are admissions whose record is not yet seen on the node. Each holds a slot.
	// +optional
	Intents []LedgerIntent `json:"intents,omitempty"`
}

// LedgerCompartment is the batch state of one compartment in the current round. A settled verdict never changes.
type LedgerCompartment struct {
	// Batch is the number of the newest batch, from 1; 0: none was opened in this round.
	// +optional
	Batch int32 `json:"batch,omitempty"`

	// Size is the strategy size that the newest batch was opened with (how many it wanted, before ceiling and end).
	// +optional
	Size int32 `json:"size,omitempty"`

	// Admitted is how many nodes the newest batch took.
	// +optional
	Admitted int32 `json:"admitted,omitempty"`

	// Cut says that the newest batch took fewer nodes than Size for another reason than the ceiling or the end.
	// +optional
	Cut bool `json:"cut,omitempty"`

	// Settled says that the newest batch has its verdict.
	// +optional
	Settled bool `json:"settled,omitempty"`

	// LastBad says that the newest settled batch was bad while progress was below the safety limit.
	// +optional
	LastBad bool `json:"lastBad,omitempty"`

	// ConsecutiveBad counts bad batches in a row below the safety limit.
	// +optional
	ConsecutiveBad int32 `json:"consecutiveBad,omitempty"`

	// Succeeded and Failed count the nodes that ended in settled batches of this round.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// Counted are the order numbers that were counted towards a verdict under `advance: Rolling`, compacted: all below
	// CountedBelow, and these.
	// +optional
	CountedBelow int32 `json:"countedBelow,omitempty"`
	// +optional
	Counted []int32 `json:"counted,omitempty"`

	// WindowSucceeded and WindowFailed are the ends of the open verdict window under `advance: Rolling`.
	// +optional
	WindowSucceeded int32 `json:"windowSucceeded,omitempty"`
	// +optional
	WindowFailed int32 `json:"windowFailed,omitempty"`

	// Halt is set while nobody may be admitted because batches failed.
	// +optional
	Halt *LedgerHalt `json:"halt,omitempty"`
}

// LedgerHalt says why and since when a compartment is halted.
type LedgerHalt struct {
	// Batch whose verdict halted the compartment.
	Batch int32 `json:"batch"`
	// At is when the halt was decided.
	At metav1.Time `json:"at"`
	// Message names the failed nodes, package, stage and exit code at the time of the verdict.
	Message string `json:"message"`
}

// LedgerIntent is one admission that was decided, whose record is not yet seen on its node.
type LedgerIntent struct {
	// NodeUID identifies the node; a re-created node of the same name is another one.
	NodeUID types.UID `json:"nodeUID"`
	// Node is its name, for people.
	Node string `json:"node"`
	// Compartment, Round and Batch the node is admitted to.
	Compartment string `json:"compartment"`
	Round       int64  `json:"round"`
	Batch       int32  `json:"batch"`
	// Order is the admission's order number in the round.
	Order int32 `json:"order"`
	// At is when it was decided.
	// +optional
	At metav1.Time `json:"at,omitempty"`
	// Withdrawn says that the admission is being taken back: the node's record is first written as released.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`
}
