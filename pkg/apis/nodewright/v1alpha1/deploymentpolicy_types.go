package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Defaults of strategies for objects that did not pass through an API server.
const (
	DefaultInitialBatch   int32 = 1
	DefaultBatchThreshold int32 = 100
	DefaultSafetyLimit    int32 = 50
	DefaultDelta          int32 = 1
	DefaultGrowthFactor   int32 = 2
)

// DefaultCompartment is the name, in status and ledger, of the compartment for nodes that match none.
const DefaultCompartment = "default"

// ReservedCompartment is a compartment name that NVIDIA's API reserves.
const ReservedCompartment = "__default__"

// DeploymentPolicy says how many nodes change at a time, where, when and in which order.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=deploymentpolicies,singular=deploymentpolicy,shortName=dpol,categories=fleetwright
type DeploymentPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what people want.
	// +optional
	Spec DeploymentPolicySpec `json:"spec,omitempty"`
}

// DeploymentPolicyList is a list of DeploymentPolicies.
//
// +kubebuilder:object:root=true
type DeploymentPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeploymentPolicy `json:"items"`
}

// DeploymentPolicySpec says how many nodes change at a time, where, when and in which order.
//
// +kubebuilder:validation:XValidation:rule="has(self.order) && self.order == 'Label' ? has(self.orderBy) : !has(self.orderBy)",message="order: Label needs orderBy, and only order: Label takes it",fieldPath=".orderBy"
type DeploymentPolicySpec struct {
	// Default holds for the nodes that match no compartment. Set by people. Required.
	Default PolicyDefault `json:"default"`

	// Compartments divide the nodes. A node that matches several belongs to the safest one: fixed before linear before
	// exponential before none, then the smaller ceiling, then the name. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.name == a.name))",message="compartment names must be unique"
	Compartments []Compartment `json:"compartments,omitempty"`

	// ResetBatchStateOnCompletion starts the next round from initialBatch; false carries the strategy's size over. Set by
	// people. Default true.
	// +optional
	// +nullable
	// +kubebuilder:default=true
	ResetBatchStateOnCompletion *bool `json:"resetBatchStateOnCompletion,omitempty"`

	// Windows are maintenance windows: outside of them no node is admitted; a node under way is finished. Set by people.
	// Default none: always. Extension.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Windows []Window `json:"windows,omitempty"`

	// Order is which nodes are admitted first: `Idle` prefers nodes without protected or budget-bound pods, `Name` goes by
	// name, `Label` by the value of the label orderBy. Set by people. Default Idle. Extension.
	// +optional
	// +kubebuilder:default=Idle
	Order NodeOrder `json:"order,omitempty"`

	// OrderBy is the key of the node label that `order: Label` sorts by. Set by people. Default none. Extension.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	OrderBy string `json:"orderBy,omitempty"`

	// Settle is how long a node must stay Ready before its slot is free. Set by people. Default none and zero: at once.
	// Extension.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	Settle *metav1.Duration `json:"settle,omitempty"`
}

// PolicyDefault holds for the nodes that match no compartment.
type PolicyDefault struct {
	// Budget is the hard ceiling. Set by people. Required.
	Budget DeploymentBudget `json:"budget"`
	// Strategy divides the nodes into batches. Set by people. Default none: batches as large as the ceiling.
	// +optional
	Strategy *DeploymentStrategy `json:"strategy,omitempty"`
}

// Compartment is a part of the nodes with its own budget and strategy.
type Compartment struct {
	// Name, unique in the policy. Set by people. Required. `default` and `__default__` are reserved.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self != 'default' && self != '__default__'",message="default and __default__ are reserved names"
	Name string `json:"name"`
	// Selector of the nodes. Set by people. Required; empty selects every node.
	Selector metav1.LabelSelector `json:"selector"`
	// Budget is the hard ceiling. Set by people. Required.
	Budget DeploymentBudget `json:"budget"`
	// Strategy divides the nodes into batches. Set by people. Default none: batches as large as the ceiling.
	// +optional
	Strategy *DeploymentStrategy `json:"strategy,omitempty"`
	// GroupBy is the key of a node label: a batch takes whole groups of nodes with the same value (rack, NVLink domain,
	// zone), never more than the ceiling. Set by people. Default none. Extension.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	GroupBy string `json:"groupBy,omitempty"`
}

// DeploymentBudget is how many nodes of a compartment may be at work or out of service because of us at once.
//
// +kubebuilder:validation:XValidation:rule="has(self.percent) != has(self.count)",message="set exactly one of percent and count"
type DeploymentBudget struct {
	// Percent of the compartment's nodes, rounded down, but at least one node. Set by people. Default none.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
	// Count of nodes. Set by people. Default none.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=1
	Count *int32 `json:"count,omitempty"`
	// CountUnavailable lets nodes that are NotReady, or cordoned by others, use up the budget. Set by people. Default
	// false. Extension.
	// +optional
	// +kubebuilder:default=false
	CountUnavailable bool `json:"countUnavailable,omitempty"`
}

// DeploymentStrategy is how large batches are. Exactly one of its fields is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.fixed), has(self.linear), has(self.exponential)].filter(x, x).size() == 1",message="set exactly one of fixed, linear and exponential"
type DeploymentStrategy struct {
	// Fixed batches all have the size initialBatch. Set by people.
	// +optional
	Fixed *FixedStrategy `json:"fixed,omitempty"`
	// Linear batches grow by delta, and shrink by it after a bad batch below the safety limit. Set by people.
	// +optional
	Linear *LinearStrategy `json:"linear,omitempty"`
	// Exponential batches grow by growthFactor, and shrink by it after a bad batch below the safety limit. Set by people.
	// +optional
	Exponential *ExponentialStrategy `json:"exponential,omitempty"`
}

// BatchRules are what all strategies share.
type BatchRules struct {
	// InitialBatch is the size of the first batch, in nodes. Set by people. Default 1; zero means the default.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	InitialBatch int32 `json:"initialBatch,omitempty"`
	// BatchThreshold is the share of nodes, in percent, that must succeed for a batch to be good. Set by people. Default
	// 100; zero means the default.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	BatchThreshold int32 `json:"batchThreshold,omitempty"`
	// SafetyLimit is the progress, in percent, from which bad batches neither count nor shrink the next one. Set by
	// people. Default 50; zero means the default.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SafetyLimit int32 `json:"safetyLimit,omitempty"`
	// FailureThreshold is how many bad batches in a row halt the compartment. Set by people. Default none: never.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=1
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// FixedStrategy keeps one batch size.
type FixedStrategy struct {
	BatchRules `json:",inline"`
	// Advance is when the next nodes are admitted: `Batch`, when the last batch has ended; `Rolling`, whenever a slot is
	// free. Set by people. Default Batch. Extension.
	// +optional
	// +kubebuilder:default=Batch
	Advance Advance `json:"advance,omitempty"`
}

// LinearStrategy adds to the batch size.
type LinearStrategy struct {
	BatchRules `json:",inline"`
	// Delta is what a batch is larger than the one before, in nodes. Set by people. Default 1; zero means the default.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Delta int32 `json:"delta,omitempty"`
}

// ExponentialStrategy multiplies the batch size.
type ExponentialStrategy struct {
	BatchRules `json:",inline"`
	// GrowthFactor is how many times larger a batch is than the one before. Set by people. Default 2; zero means the
	// default.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=2
	GrowthFactor int32 `json:"growthFactor,omitempty"`
}

// Window is a maintenance window that opens again and again.
type Window struct {
	// Cron is when the window opens: minute, hour, day of month, month, day of week. Set by people. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Cron string `json:"cron"`
	// Duration is how long it stays open. Set by people. Required, more than zero.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:Type=string
	Duration metav1.Duration `json:"duration"`
	// TimeZone of cron: a name of the tz database. Set by people. Default UTC.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}
