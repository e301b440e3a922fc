package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of NodeWrightSpec for objects that did not pass through an API server.
const (
	DefaultPriority      int32 = 200
	DefaultSequencing          = SequencingNode
	DefaultProtectedPods       = ProtectedPodsHold
	DefaultOnDrift             = DriftReport
	DefaultOnTimeout           = DrainReport
)

// NodeWright puts packages on the nodes that it selects, a few at a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=nodewrights,singular=nodewright,shortName=nw,categories=fleetwright
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Nodes In-Progress",type=integer,JSONPath=`.status.nodesInProgress`
// +kubebuilder:printcolumn:name="Complete Nodes",type=string,JSONPath=`.status.completeNodes`
// +kubebuilder:printcolumn:name="Packages",type=string,JSONPath=`.status.packageList`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.deploymentPolicy`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 53",message="metadata.name: must be at most 53 characters, because it becomes part of annotation keys"
type NodeWright struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what people want. It may be empty: a NodeWright without packages does nothing.
	// +optional
	Spec NodeWrightSpec `json:"spec,omitempty"`

	// Status is what the reconciler observes. Until it has looked, observedGeneration is -1: tools that wait (kstatus) do not take
	// an object without conditions for one that is done.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status NodeWrightStatus `json:"status,omitempty"`
}

// NodeWrightList is a list of NodeWrights.
//
// +kubebuilder:object:root=true
type NodeWrightList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeWright `json:"items"`
}

// NodeWrightSpec is which packages go on which nodes, and how carefully.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deploymentPolicy) || size(self.deploymentPolicy) == 0 || !has(self.interruptionBudget) || (!has(self.interruptionBudget.percent) && !has(self.interruptionBudget.count))",message="set deploymentPolicy or interruptionBudget, not both",fieldPath=".deploymentPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.runtimeRequiredCordonAfter) || !self.runtimeRequiredCordonAfter || (has(self.runtimeRequired) && self.runtimeRequired)",message="runtimeRequiredCordonAfter needs runtimeRequired: true",fieldPath=".runtimeRequiredCordonAfter"
// +kubebuilder:validation:XValidation:rule="!has(self.autoTaintNewNodes) || !self.autoTaintNewNodes || (has(self.runtimeRequired) && self.runtimeRequired)",message="autoTaintNewNodes needs runtimeRequired: true",fieldPath=".autoTaintNewNodes"
type NodeWrightSpec struct {
	// Serial runs one package at a time on a node. Set by people. Default false: packages that do not depend on each
	// other may run at the same time.
	// +optional
	// +kubebuilder:default=false
	Serial bool `json:"serial,omitempty"`

	// PodNonInterruptLabels selects pods that must end by themselves before their node is interrupted; they are never
	// evicted. Set by people. Default empty, which protects no pod.
	// +optional
	PodNonInterruptLabels metav1.LabelSelector `json:"podNonInterruptLabels,omitempty"`

	// NodeSelectors selects the nodes. Set by people. Default empty, which selects every node.
	// +optional
	NodeSelectors metav1.LabelSelector `json:"nodeSelectors,omitempty"`

	// DeploymentPolicy is the name of the DeploymentPolicy that says how many nodes at a time. Set by people. Default
	// none; exclusive with interruptionBudget.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DeploymentPolicy string `json:"deploymentPolicy,omitempty"`

	// DeploymentPolicyOptions overrides fields of the DeploymentPolicy for this NodeWright. Set by people. Default none.
	// +optional
	DeploymentPolicyOptions *DeploymentPolicyOptions `json:"deploymentPolicyOptions,omitempty"`

	// InterruptionBudget is how many selected nodes may be at work or out of service at once, for every kind of change.
	// Set by people. Default none; with neither budget nor policy all nodes may. Exclusive with deploymentPolicy.
	// +optional
	InterruptionBudget *InterruptionBudget `json:"interruptionBudget,omitempty"`

	// DrainConfig says how a node is drained before an interrupt. Set by people. Default: the defaults of its fields.
	// +optional
	// +nullable
	DrainConfig *DrainConfig `json:"drainConfig,omitempty"`

	// Packages by name. A name has 2 to 43 lower-case letters, digits and hyphens, and starts and ends with a letter. Set
	// by people. Default none. Removing one leaves its files on the host, unless its uninstall is enabled.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][-a-z0-9]{0,41}[a-z]$'))",message="a package name must have 2 to 43 lower-case letters, digits or hyphens, and start and end with a letter"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !has(self[k].name) || self[k].name == k)",message="name must be left out or equal the key of the package"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !has(self[k].version) || size(k) + size(self[k].version) <= 62)",message="<package>-<version> must be at most 63 characters, because it becomes a label value"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !has(self[k].dependsOn) || !(k in self[k].dependsOn))",message="a package cannot depend on itself"
	Packages map[string]Package `json:"packages,omitempty"`

	// AdditionalTolerations are added to every execution, and make nodes with such taints eligible. Set by people.
	// Default none.
	// +optional
	AdditionalTolerations []corev1.Toleration `json:"additionalTolerations,omitempty"`

	// RuntimeRequired says that nodes must be complete before anything else runs on them: the runtime-required taint is
	// removed from a node when it is. Set by people. Default false.
	// +optional
	// +kubebuilder:default=false
	RuntimeRequired bool `json:"runtimeRequired,omitempty"`

	// RuntimeRequiredCordonAfter cordons a node in the same write that removes its runtime-required taint. Set by people.
	// Default false. Only with runtimeRequired.
	// +optional
	// +kubebuilder:default=false
	RuntimeRequiredCordonAfter bool `json:"runtimeRequiredCordonAfter,omitempty"`

	// AutoTaintNewNodes puts the runtime-required taint on selected nodes that were created after this NodeWright. Set by
	// people. Default false. Only with runtimeRequired.
	// +optional
	// +kubebuilder:default=false
	AutoTaintNewNodes bool `json:"autoTaintNewNodes,omitempty"`

	// ReapplyOnReboot runs every package again on a node that rebooted without an interrupt of ours, for hosts that lose what
	// was put on them: under the budget, and, with autoTaintNewNodes, behind the runtime-required taint. Set by people.
	// Default false. Extension.
	// +optional
	// +kubebuilder:default=false
	ReapplyOnReboot bool `json:"reapplyOnReboot,omitempty"`

	// Priority orders NodeWrights on a node: the lower goes first, equal ones by name. Set by people. Default 200, at least 1.
	// +optional
	// +kubebuilder:default=200
	// +kubebuilder:validation:Minimum=1
	Priority int32 `json:"priority,omitempty"`

	// Sequencing is when NodeWrights behind this one go on: `node`, each node alone; `all`, when every targeted node is
	// complete. Set by people. Default node.
	// +optional
	// +kubebuilder:default=node
	Sequencing Sequencing `json:"sequencing,omitempty"`

	// ProtectedPods is what happens with a node that runs protected pods: `Hold` cordons it, keeps its slot and waits;
	// `Yield` leaves it alone until it is free of them and takes others first. Set by people. Default Hold. Extension.
	// +optional
	// +kubebuilder:default=Hold
	ProtectedPods ProtectedPodsPolicy `json:"protectedPods,omitempty"`

	// ProtectedPodsTimeout bounds the wait for protected pods of a cordoned node. After it the node is given up in this round:
	// our cordon is rolled back, the slot is free, and the pods go on undisturbed. Set by people. Default none and zero: the
	// wait has no limit. Extension.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	ProtectedPodsTimeout *metav1.Duration `json:"protectedPodsTimeout,omitempty"`

	// VerifyInterval is how often the check steps run again on complete nodes, alone and without disturbing anything. Set by
	// people. Default none and zero: never; less than a minute counts as one. Extension.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	VerifyInterval *metav1.Duration `json:"verifyInterval,omitempty"`

	// OnDrift is what happens when such a check fails: `Report` it, or `Reapply` the package under the budget, interrupts
	// included. Set by people. Default Report. Extension.
	// +optional
	// +kubebuilder:default=Report
	OnDrift DriftPolicy `json:"onDrift,omitempty"`
}

// DeploymentPolicyOptions overrides fields of a DeploymentPolicy for one NodeWright.
type DeploymentPolicyOptions struct {
	// ResetBatchStateOnCompletion overrides the policy's field of that name. Set by people. Default true when
	// deploymentPolicyOptions is present.
	// +optional
	// +nullable
	// +kubebuilder:default=true
	ResetBatchStateOnCompletion *bool `json:"resetBatchStateOnCompletion,omitempty"`
}

// InterruptionBudget is a number of nodes, absolute or as a share of the selected ones.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.percent) && has(self.count))",message="set percent or count, not both",fieldPath=".count"
type InterruptionBudget struct {
	// Percent of the selected nodes, rounded down, but at least one node. Set by people. Default none. Zero admits nobody.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`

	// Count of nodes. Set by people. Default none. Zero admits nobody.
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=0
	Count *int32 `json:"count,omitempty"`
}

// DrainConfig says how a node is drained before an interrupt.
type DrainConfig struct {
	// DisableEviction deletes pods instead of evicting them, so that PodDisruptionBudgets do not hold. Set by people.
	// Default false.
	// +optional
	// +nullable
	// +kubebuilder:default=false
	DisableEviction *bool `json:"disableEviction,omitempty"`

	// DeleteEmptyDirData evicts pods with emptyDir volumes, whose data is lost. Set by people. Default true; false waits.
	// +optional
	// +nullable
	// +kubebuilder:default=true
	DeleteEmptyDirData *bool `json:"deleteEmptyDirData,omitempty"`

	// Force evicts pods that no controller will create again. Set by people. Default true; false waits for them.
	// +optional
	// +nullable
	// +kubebuilder:default=true
	Force *bool `json:"force,omitempty"`

	// IgnoreDaemonSets leaves pods of DaemonSets on the node. Set by people. Default true.
	// +optional
	// +nullable
	// +kubebuilder:default=true
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`

	// Timeout of the whole drain of a node, from when its pods are asked to leave; the wait for protected pods before it does not
	// count. A limit shorter than the pods' grace periods is taken at its word. Set by people. Default none and zero: no limit.
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// GracePeriod that evicted pods get, in whole seconds (fractions round up). Set by people. Default: each pod's own.
	// Zero ends them at once.
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`

	// OnTimeout is what happens after timeout: `Report` and go on waiting; `Skip`: the node is given up in this round and our
	// cordon rolled back; `Force`: the pods that refused their eviction are deleted. Protected pods are left alone, and so are
	// those that drainConfig forbids to evict. Set by people. Default Report. Extension.
	// +optional
	// +kubebuilder:default=Report
	OnTimeout DrainTimeoutAction `json:"onTimeout,omitempty"`
}
