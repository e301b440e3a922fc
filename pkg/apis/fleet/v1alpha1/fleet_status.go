package v1alpha1

import (
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxStatusFindings is how many findings a Fleet's status quotes.
const MaxStatusFindings = 20

// FleetStatus is what the reconciler observes.
type FleetStatus struct {
	// ReconcileRequestStatus echoes the last handled reconcile.fluxcd.io/requestedAt.
	meta.ReconcileRequestStatus `json:",inline"`

	// ObservedGeneration is the metadata.generation that this status speaks about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready, Reconciling and Stalled, as Flux defines them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastAttemptedRevision is the newest revision that was looked at, such as main@sha1:...
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`

	// LastAppliedRevision is the newest revision whose objects are in the cluster.
	// +optional
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`

	// LastRolledOutRevision is the newest revision that every targeted node was complete at.
	// +optional
	LastRolledOutRevision string `json:"lastRolledOutRevision,omitempty"`

	// Inventory are the objects of this Fleet, the only ones that it may prune.
	// +optional
	Inventory *Inventory `json:"inventory,omitempty"`

	// Rollout sums up the nodes of this Fleet's NodeWrights.
	// +optional
	Rollout *RolloutSummary `json:"rollout,omitempty"`

	// Promotion says what the last attempted revision waits for; none if it waits for nothing.
	// +optional
	Promotion *PromotionStatus `json:"promotion,omitempty"`

	// Findings are the first 20 things that are wrong with the last attempted revision.
	// +optional
	Findings []Finding `json:"findings,omitempty"`
}

// Inventory are the objects of a Fleet.
type Inventory struct {
	// Entries, sorted by id.
	Entries []InventoryEntry `json:"entries"`
}

// InventoryEntry identifies one object.
type InventoryEntry struct {
	// ID is `<namespace>_<name>_<group>_<kind>`, as Flux spells it; the namespace is empty for cluster-scoped objects.
	ID string `json:"id"`
	// Version of the API that the object was applied with.
	Version string `json:"v"`
}

// RolloutSummary counts nodes.
type RolloutSummary struct {
	// Complete counts the nodes at which everything is done.
	Complete int32 `json:"complete"`
	// Total counts the targeted nodes.
	Total int32 `json:"total"`
	// Failed counts the nodes at which something failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// Halted says that a compartment is halted.
	// +optional
	Halted bool `json:"halted,omitempty"`
}

// PromotionStatus is a revision that is held back by spec.promotion.
type PromotionStatus struct {
	// Revision that is held back.
	Revision string `json:"revision"`
	// Gates in the order of spec.promotion.after.
	// +optional
	Gates []PromotionGateStatus `json:"gates,omitempty"`
}

// PromotionGateStatus is what one of the wanted statuses says.
type PromotionGateStatus struct {
	// Context is the status's name.
	Context string `json:"context"`
	// State is pending, success, failure or error; empty if the commit has no such status.
	// +optional
	State string `json:"state,omitempty"`
	// Since is when success was first seen, from which the soak counts.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// Finding is one thing that is wrong with a revision.
type Finding struct {
	// Code is stable.
	Code string `json:"code"`
	// Message says it in a sentence.
	Message string `json:"message"`
	// File in the repository.
	// +optional
	File string `json:"file,omitempty"`
	// Line in the file, from 1; none if it is not known.
	// +optional
	Line int32 `json:"line,omitempty"`
	// Object as Kind/name.
	// +optional
	Object string `json:"object,omitempty"`
}

// GetConditions returns the conditions, as fluxcd/pkg/apis/meta expects it.
func (f *Fleet) GetConditions() []metav1.Condition { return f.Status.Conditions }

// SetConditions replaces the conditions.
func (f *Fleet) SetConditions(c []metav1.Condition) { f.Status.Conditions = c }
