package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/window"
)

// Input is everything that a pass decides from. Nothing in it is changed.
type Input struct {
	// Now is the clock.
	Now time.Time
	// Changes is the next instant at which time alone changes what is seen here; zero: never.
	Changes time.Time
	// Ledger as it was last read or written by this leader.
	Ledger fleetv1.LedgerSpec
	// NodeWrights in any order.
	NodeWrights []NodeWright
	// Nodes of the cluster, in any order.
	Nodes []Node
	// Orphans are our executions whose node (by UID) is gone.
	Orphans []Execution
	// Snapshots are the stored definitions by their hash (see noderecord.Package.Snapshot). One that a record names and
	// that is not here reads as a package that needs no uninstall.
	Snapshots map[string]desired.Package
	// Budgets are the cluster-wide caps of the Fleets.
	Budgets []Budget
	// Occupancies by NodeWright name, of those that the caller was asked for; see Output.NeedOccupancy.
	Occupancies map[string]Occupancy
	// Own is the pod of this very process; zero where it does not run in the cluster.
	Own OwnPod
	// Settings of the reconciler.
	Settings Settings
	// Standby, when not empty, says why nothing may be done now (NVIDIA's operator is active, say). Statuses and
	// reasons are still computed.
	Standby string
}

// Settings are the reconciler's own flags that decide something.
type Settings struct {
	// Attempts is how often a phase is tried in one turn. Default 3, least 1.
	Attempts int32
	// StageTimeout bounds a stage whose package sets none. Default 1h; 0 is no bound.
	StageTimeout time.Duration
	// RetryBackoff is the wait before the second attempt; it doubles. Default 10s.
	RetryBackoff time.Duration
	// PullTolerance is how long an image may fail to be pulled before the node counts as failed. Default 1m.
	PullTolerance time.Duration
	// RebootGrace is how long after the end of a reboot's execution an unchanged boot ID on a Ready node is not yet a
	// failure. Default 2m.
	RebootGrace time.Duration
	// DrainRetry is how often a drain looks again. Default 5s.
	DrainRetry time.Duration
	// Namespace is where our executions run; their pods are never evicted.
	Namespace string
	// RuntimeRequiredTaint is the taint that runtime-required NodeWrights tolerate and remove.
	// Default nodewright.nvidia.com=runtime-required:NoSchedule.
	RuntimeRequiredTaint corev1.Taint
}

// NodeWright is one rollout object with everything that it refers to, resolved and defaulted.
type NodeWright struct {
	Name       string
	UID        types.UID
	Generation int64
	Spec       nwv1.NodeWrightSpec
	// Fleet that delivers the object, `namespace/name`, and its Limits; see Confine. Scope narrows the selection to the nodes that
	// it may touch; nil does not narrow. OutOfScope says what of the object the Fleet does not allow: nothing new starts.
	Fleet      string
	Limits     *fleetv1.Scope
	Scope      labels.Selector
	OutOfScope string
	// Desired is the exact package set.
	Desired desired.Set
	// Policy is the DeploymentPolicy; nil if the spec names none.
	Policy *nwv1.DeploymentPolicySpec
	// Windows are the policy's maintenance windows, read; none: nodes may be admitted at any time.
	Windows window.Set
	// Problem says why the object cannot be resolved (unknown policy or package, invalid selector): nothing new starts.
	Problem string
	// Paused, Disabled: the pause and disable annotations.
	Paused   bool
	Disabled bool
	// Retry, Rerun, Reset and Resume are the values of the verb annotations (package verb); a token that was handled does
	// nothing. Abandon is the token of `abandon-uninstall`.
	Retry, Rerun, Reset, Resume, Abandon string
	// Created is when the object was created.
	Created time.Time
	// Deleting says that the object has a deletion timestamp, Finalizer that it stays until its uninstalls are done.
	Deleting  bool
	Finalizer bool
}

// Node is what a pass knows of one node.
type Node struct {
	Name          string
	UID           types.UID
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	Ready         bool
	BootID        string
	Created       time.Time
	// Records by NodeWright name; entries of another node UID were dropped by the reader.
	Records map[string]noderecord.Record
	// Malformed holds what was wrong with a record that cannot be read, by NodeWright name.
	Malformed map[string]string
	// Newer are those of them that a newer version wrote.
	Newer []string
	// Unadopted are the NodeWrights of which NVIDIA's operator left state here, and we have no record, sorted.
	Unadopted []string
	// Requests are the values of the verb annotations on the node, by verb; see package verb.
	Requests map[string]string
	// Touched says that the node carries annotations of NodeWright's or ours: it is not new.
	Touched bool
	// AutoTainted says that we put the runtime-required taint on the node once.
	AutoTainted bool
	// CordonOwners are the names of the NodeWrights that own a cordon here, sorted.
	CordonOwners []string
	// Pods of the node; nil if they were not listed. See Output.NeedPods.
	Pods []*corev1.Pod
	// PodsListed says that Pods is the truth of this pass, also when it is empty.
	PodsListed bool
	// Refusals are the answers to pods that were asked to leave and may stay for now, by UID.
	Refusals map[types.UID]Refusal
	// Executions of all NodeWrights on this node (by UID), in any order.
	Executions []Execution
}

// Budget caps the nodes that we hold out of service over all NodeWrights (`Fleet.spec.disruption.maxNodes`).
type Budget struct {
	// Name of the Fleet, `namespace/name`.
	Name string
	// Scope of the nodes that it counts; nil counts all.
	Scope labels.Selector
	// Count or Percent, exactly one is set.
	Count   *int32
	Percent *int32
}

// Output is the plan: what is done now, and why everything else is not.
type Output struct {
	// Ledger, when not nil, must be written by compare-and-swap before anything of Decisions is done. If the write is
	// refused, nothing is done and the pass begins anew.
	Ledger *fleetv1.LedgerSpec
	// Decisions in order of NodeWright priority, then node name: at most one for each NodeWright and node.
	Decisions []Decision
	// Reasons: one for each NodeWright and node that it targets, in the same order.
	Reasons []Reason
	// Statuses: one for each NodeWright, in order of priority.
	Statuses []Status
	// Finalizers to write before anything of Decisions is done for their NodeWrights: what has to be uninstalled must not be
	// lost with a deletion.
	Finalizers []FinalizerChange
	// NeedPods names the nodes whose pods must be listed before more can be decided. The caller lists them and
	// computes once more in the same pass.
	NeedPods []string
	// NeedOccupancy asks for occupancies on which a choice depends, sorted by NodeWright. The caller reads them and
	// computes once more in the same pass; until then nobody is admitted on their account.
	NeedOccupancy []OccupancyQuery
	// RefusedRequests are verb annotations on nodes that cannot be met, by node and verb.
	RefusedRequests []RefusedRequest
	// Next is the next instant at which time alone changes the answer; zero: never.
	Next time.Time
}

// FinalizerChange adds our finalizer to a NodeWright, or, as nothing is left to uninstall, takes it off.
type FinalizerChange struct {
	NodeWright string
	UID        types.UID
	Wanted     bool
}

// Action is what a decision does, for logs, events and people. The parts of Decision say it exactly.
type Action string

const (
	// ActionAdmit opens a turn: record, and cordon where an interrupt is to come.
	ActionAdmit Action = "Admit"
	// ActionCordon cordons a node that lost its cordon.
	ActionCordon Action = "Cordon"
	// ActionDrain asks for evictions.
	ActionDrain Action = "Drain"
	// ActionRun starts executions.
	ActionRun Action = "Run"
	// ActionVerify starts the periodic checks of a complete node.
	ActionVerify Action = "Verify"
	// ActionInterrupt starts the merged interrupt.
	ActionInterrupt Action = "Interrupt"
	// ActionRecord records results.
	ActionRecord Action = "Record"
	// ActionUncordon gives the node back.
	ActionUncordon Action = "Uncordon"
	// ActionComplete ends a turn with success.
	ActionComplete Action = "Complete"
	// ActionFail ends a turn with failure.
	ActionFail Action = "Fail"
	// ActionUngate takes the runtime-required taint off a node that is ready for use.
	ActionUngate Action = "Ungate"
	// ActionReset replaces a record that cannot be read, because a reset was asked for.
	ActionReset Action = "Reset"
	// ActionGate puts the runtime-required taint on a new node.
	ActionGate Action = "Gate"
	// ActionRelease takes back a turn that has not started, or sweeps what a deleted NodeWright left.
	ActionRelease Action = "Release"
)

// CordonChange is what happens to the cordon and its owner annotation.
type CordonChange string

const (
	// CordonKeep changes nothing.
	CordonKeep CordonChange = ""
	// CordonTake sets unschedulable and this NodeWright's owner annotation.
	CordonTake CordonChange = "Take"
	// CordonDrop removes the owner annotation, and unschedulable if it was the last owner.
	CordonDrop CordonChange = "Drop"
)

// Decision is what is done for one NodeWright on one node in this pass. The parts are carried out in the order of the
// fields; what fails stops the rest of this decision only.
type Decision struct {
	NodeWright    string
	NodeWrightUID types.UID
	Node          string
	NodeUID       types.UID
	Action        Action

	// Snapshots must exist before Record is written.
	Snapshots []desired.Package
	// Record to write, in one patch that tests the node's UID and the whole old record (Before); nil: unchanged.
	Record *noderecord.Record
	// Before is the record that was seen; nil: none.
	Before *noderecord.Record
	// Status is NVIDIA's status word for the node, written with Record; empty: it is taken off.
	Status nwv1.Status
	// Cordon changes the cordon in the same patch.
	Cordon CordonChange
	// Erase removes what a NodeWright that is gone left on the node: its cordon, status and version, and the record too
	// unless Record is set (what is on the host is kept for an object that comes back).
	Erase bool
	// Asked says what people asked for that begins with this decision, for the event; empty: nothing.
	Asked string
	// Taint is put on the node in the same patch, and marked as ours (`autoTaintNewNodes`); nil: none.
	Taint *corev1.Taint
	// Untaint are taints to take off in the same patch. CordonAfter cordons the node in its place, for somebody else to
	// lift (`runtimeRequiredCordonAfter`).
	Untaint     []corev1.Taint
	CordonAfter bool
	// CheckEarlier asks for a live list that shows no unfinished execution of an earlier round for this node UID
	// before anything is started.
	CheckEarlier bool
	// Stop are the names of Jobs to delete; Suspend and Unsuspend those to pause and to let go on.
	Stop, Suspend, Unsuspend []string
	// Start are the executions to create; one that exists already is as good as created.
	Start []ExecutionSpec
	// Evict are pods to be asked to leave.
	Evict []Eviction
}

// Eviction is one pod that has to leave.
type Eviction struct {
	Namespace, Name string
	UID             types.UID
	// Delete instead of evict (`drainConfig.disableEviction`).
	Delete bool
	// GracePeriodSeconds overrides the pod's own; nil keeps it.
	GracePeriodSeconds *int64
}

// ExecutionSpec is an execution to create.
type ExecutionSpec struct {
	ExecutionKey
	Node        string
	Compartment string
	Batch       int32
	Order       int32
	// Stages in order; each is followed by its check, except an interrupt.
	Stages []nwv1.Stage
	// Definition of the package; zero for an interrupt.
	Definition desired.Package
	// Fresh says that the step flags of the package have to be cleared first.
	Fresh bool
	// Interrupt for PhaseInterrupt.
	Interrupt *noderecord.Interrupt
	// InterruptPackage is the package in whose copy directory the interrupt runs.
	InterruptPackage desired.Package
	// Guard is what the node must look like when the interrupt begins.
	Guard InterruptGuard
	// Timeout of the whole execution; 0 is no bound.
	Timeout time.Duration
	// Tolerations beyond our own (`additionalTolerations`).
	Tolerations []corev1.Toleration
	// Unowned says that the NodeWright is being deleted: a deletion in the foreground takes with it whatever it owns, before the
	// uninstall that it waits for.
	Unowned bool
}

// InterruptGuard is what an interrupt's agent asks for directly before it acts, beside the cordon: no pod on the node but those
// that may stay.
type InterruptGuard struct {
	// Protect selects the pods that must not be disturbed; nil protects none.
	Protect labels.Selector
	// DaemonSets says that pods of DaemonSets may stay.
	DaemonSets bool
	// Stay are the UIDs of the other pods that were on the node when the gates let the interrupt pass, sorted.
	Stay []types.UID
}

// Reason is why a node stands where it stands for one NodeWright.
type Reason struct {
	NodeWright string
	Node       string
	Code       Code
	// Message is one sentence for people.
	Message string
	// Object is what is waited for: `pod ns/name`, `nodewright x`, `fleet ns/name` … empty if nothing is.
	Object string
	// Since is when what is waited for, or done, began, where that is known.
	Since time.Time
	// Ends is what would end it, in half a sentence; empty for a node that is complete.
	Ends string
}

// Status is the state of one NodeWright, folded from its nodes.
type Status struct {
	NodeWright  string
	UID         types.UID
	Generation  int64
	Status      nwv1.Status
	Round       int64
	ContentHash string
	// LateJoiners: this round is for nodes that joined a completed rollout.
	LateJoiners bool
	// Counts of the targeted nodes.
	Total, Complete, InProgress, Failed, Waiting, Blocked int32
	// Excluded counts selected nodes that are not targeted (ignored, taint not tolerated).
	Excluded int32
	// Halted names the compartments that are halted.
	Halted []string
	// Compartments sorted by name.
	Compartments []CompartmentStatus
	// Reasons counts the codes of nodes that are not complete, with the first names, sorted by code.
	Reasons []ReasonCount
	// Failures are the failed nodes, sorted by name.
	Failures []NodeFailure
	// Gated are the nodes that carry the runtime-required taint and are not complete.
	Gated ReasonCount
	// Uninstall is what is still to be uninstalled; nil: nothing.
	Uninstall *UninstallStatus
	// Protected are the nodes that wait for protected pods; Blockers the pods that a drain cannot get rid of by itself.
	Protected, Blockers Blockers
	// PackageList is `name:version` of the desired packages, sorted.
	PackageList []string
	// Problem and OutOfScope repeat those of the NodeWright.
	Problem, OutOfScope string
	// Requests are the verb annotations of the NodeWright, those that cannot be met first.
	Requests []RequestStatus
}

// ReasonCount is how many nodes have a reason, and the first few of them.
type ReasonCount struct {
	Code    Code
	Count   int32
	Nodes   []string
	Message string
}

// NodeFailure is why a node failed.
type NodeFailure struct {
	Node string
	noderecord.Failure
	// First is the first failure of the turn where that is another one.
	First *noderecord.Failure
}

// CompartmentStatus is the state of one compartment.
type CompartmentStatus struct {
	Name     string
	Strategy string
	Matched, Ceiling, InUse, InProgress, Complete,
	Failed, ProgressPercent int32
	Batch, BatchSize, ConsecutiveFailures int32
	// SplitGroups are the first groups of `groupBy` with more nodes to do than the ceiling, sorted: they are not taken whole.
	SplitGroups []string
	Halt        *fleetv1.LedgerHalt
}
