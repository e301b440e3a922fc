package v1alpha1

// Stage is a step in the life of a package on a node.
//
// +kubebuilder:validation:Enum=uninstall;uninstall-interrupt;upgrade;apply;interrupt;post-interrupt;config
type Stage string

// Stages, as they are spelled in records and in the packages' own configuration.
const (
	StageUninstall          Stage = "uninstall"
	StageUninstallInterrupt Stage = "uninstall-interrupt"
	StageUpgrade            Stage = "upgrade"
	StageApply              Stage = "apply"
	StageConfig             Stage = "config"
	StageInterrupt          Stage = "interrupt"
	StagePostInterrupt      Stage = "post-interrupt"
)

// State is how a package's Stage stands on a node.
//
// +kubebuilder:validation:Enum=complete;in_progress;skipped;erroring;unknown
type State string

// States.
const (
	StateComplete   State = "complete"
	StateInProgress State = "in_progress"
	// StateSkipped is an interrupt that another package's interrupt of the same node stands for.
	StateSkipped  State = "skipped"
	StateErroring State = "erroring"
	StateUnknown  State = "unknown"
)

// Status is how a NodeWright, or one node under it, stands.
//
// +kubebuilder:validation:Enum=unknown;complete;blocked;waiting;disabled;paused;in_progress;erroring
type Status string

// Statuses.
const (
	StatusUnknown    Status = "unknown"
	StatusComplete   Status = "complete"
	StatusBlocked    Status = "blocked"
	StatusWaiting    Status = "waiting"
	StatusDisabled   Status = "disabled"
	StatusPaused     Status = "paused"
	StatusInProgress Status = "in_progress"
	StatusErroring   Status = "erroring"
)

// InterruptType is what has to happen to a node before a change takes effect.
//
// +kubebuilder:validation:Enum=service;reboot;noop;restartAllServices
type InterruptType string

// Interrupt types. `reboot` includes `restartAllServices`, which includes `service`, which includes `noop`.
const (
	InterruptService            InterruptType = "service"
	InterruptReboot             InterruptType = "reboot"
	InterruptNoop               InterruptType = "noop"
	InterruptRestartAllServices InterruptType = "restartAllServices"
)

// Sequencing is what a NodeWright asks of its nodes before the ones behind it go on.
//
// +kubebuilder:validation:Enum=node;all
type Sequencing string

// Sequencings.
const (
	// SequencingNode lets each node go on alone.
	SequencingNode Sequencing = "node"
	// SequencingAll holds everyone until every targeted node is complete.
	SequencingAll Sequencing = "all"
)

// DrainTimeoutAction is what happens when a drain outlasts its time limit.
//
// +kubebuilder:validation:Enum=Report;Skip;Force
type DrainTimeoutAction string

// Drain time-out actions.
const (
	// DrainReport reports the blocking pods and goes on waiting.
	DrainReport DrainTimeoutAction = "Report"
	// DrainSkip gives the node up for this round and uncordons it.
	DrainSkip DrainTimeoutAction = "Skip"
	// DrainForce deletes the pods that eviction did not remove; never protected ones.
	DrainForce DrainTimeoutAction = "Force"
)

// ProtectedPodsPolicy is what happens with a node that runs protected pods.
//
// +kubebuilder:validation:Enum=Hold;Yield
type ProtectedPodsPolicy string

// Policies for nodes with protected pods.
const (
	// ProtectedPodsHold cordons the node, keeps its slot and waits until the pods have ended.
	ProtectedPodsHold ProtectedPodsPolicy = "Hold"
	// ProtectedPodsYield neither cordons nor admits the node until it is free of them; others go first.
	ProtectedPodsYield ProtectedPodsPolicy = "Yield"
)

// DriftPolicy is what happens when a node no longer matches what was put on it.
//
// +kubebuilder:validation:Enum=Report;Reapply
type DriftPolicy string

// Drift policies.
const (
	// DriftReport reports the node.
	DriftReport DriftPolicy = "Report"
	// DriftReapply also admits it again, under the budget.
	DriftReapply DriftPolicy = "Reapply"
)

// NodeOrder is which nodes are admitted first.
//
// +kubebuilder:validation:Enum=Idle;Name;Label
type NodeOrder string

// Node orders.
const (
	// OrderIdle prefers nodes without protected or budget-bound pods.
	OrderIdle NodeOrder = "Idle"
	// OrderName goes by node name.
	OrderName NodeOrder = "Name"
	// OrderLabel goes by the value of the label that orderBy names, then by name.
	OrderLabel NodeOrder = "Label"
)

// Advance is when the next nodes of a compartment are admitted.
//
// +kubebuilder:validation:Enum=Batch;Rolling
type Advance string

// Advances.
const (
	// AdvanceBatch waits until every node of the last batch has ended.
	AdvanceBatch Advance = "Batch"
	// AdvanceRolling admits a node whenever a slot is free.
	AdvanceRolling Advance = "Rolling"
)
