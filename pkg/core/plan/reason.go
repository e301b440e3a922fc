package plan

// Code is the stable name of a reason. Codes are part of the product's interface: alerts and scripts match on them.
type Code string

// Codes of nodes that are done.
const (
	// Complete: every package is done, in this round or an earlier one with the same content.
	Complete Code = "Complete"
	// Drifted: every package is done, and the newest check did not find the host as one of them left it (`verifyInterval`).
	Drifted Code = "Drifted"
)

// Codes of nodes that are not targeted.
const (
	// Ignored: the node carries the ignore label.
	Ignored Code = "Ignored"
	// TaintNotTolerated: the node has a taint that the NodeWright does not tolerate.
	TaintNotTolerated Code = "TaintNotTolerated"
)

// Codes of nodes that wait to be admitted.
const (
	// WaitingForPriority: a NodeWright that goes first is not complete here (or anywhere, with sequencing `all`).
	WaitingForPriority Code = "WaitingForPriority"
	// WaitingForBatch: the batch that is under way has not ended.
	WaitingForBatch Code = "WaitingForBatch"
	// WaitingForSlot: the compartment's ceiling is used up.
	WaitingForSlot Code = "WaitingForSlot"
	// WaitingForClusterBudget: a Fleet's `disruption.maxNodes` is used up.
	WaitingForClusterBudget Code = "WaitingForClusterBudget"
	// WaitingForWindow: the policy's maintenance windows are closed.
	WaitingForWindow Code = "WaitingForWindow"
	// Yielding: the node, or one of its group, has protected pods and is left alone until they have finished.
	Yielding Code = "Yielding"
	// Gating: the node is new and gets the runtime-required taint before anything else.
	Gating Code = "Gating"
	// BudgetIsZero: the compartment's budget admits nobody.
	BudgetIsZero Code = "BudgetIsZero"
	// WaitingForRound: the node is asked to run again and had its turn in this round.
	WaitingForRound Code = "WaitingForRound"
	// Halted: the compartment halted after bad batches.
	Halted Code = "Halted"
	// Paused: the NodeWright, or one that goes first, is paused.
	Paused Code = "Paused"
	// Disabled: the NodeWright is disabled.
	Disabled Code = "Disabled"
	// Unresolved: the NodeWright refers to something that does not exist.
	Unresolved Code = "Unresolved"
	// OutOfScope: the NodeWright wants what the scope of its Fleet does not allow.
	OutOfScope Code = "OutOfScope"
	// Standby: the reconciler acts on nothing now.
	Standby Code = "Standby"
	// RecordUnreadable: the node's record cannot be read.
	RecordUnreadable Code = "RecordUnreadable"
	// NotAdopted: the node has the state of NVIDIA's operator and no record of ours.
	NotAdopted Code = "NotAdopted"
	// NodeNotReady: the node is not Ready.
	NodeNotReady Code = "NodeNotReady"
	// Superseded: the node is under way in an earlier round and waits for its admission to the newest.
	Superseded Code = "Superseded"
)

// Codes of nodes that are under way.
const (
	// AdmissionUnconfirmed: the admission was decided and its record is not yet seen on the node.
	AdmissionUnconfirmed Code = "AdmissionUnconfirmed"
	// Cordoning: the cordon is not yet seen.
	Cordoning Code = "Cordoning"
	// ProtectedPod: a pod that must not be disturbed is on the node.
	ProtectedPod Code = "ProtectedPod"
	// Draining: pods are asked to leave, or are leaving.
	Draining Code = "Draining"
	// DisruptionBudget: a PodDisruptionBudget refuses an eviction.
	DisruptionBudget Code = "DisruptionBudget"
	// EvictionFailed: the API server fails to evict a pod, or refuses to for another reason than a budget.
	EvictionFailed Code = "EvictionFailed"
	// DrainBlocked: a pod may not be evicted under the NodeWright's drainConfig.
	DrainBlocked Code = "DrainBlocked"
	// PodStuck: a pod is still there although its grace period is over.
	PodStuck Code = "PodStuck"
	// Running: an execution is under way.
	Running Code = "Running"
	// Starting: executions are being created.
	Starting Code = "Starting"
	// RetryBackoff: an attempt failed and the next one is due later.
	RetryBackoff Code = "RetryBackoff"
	// ImagePull: the image cannot be pulled.
	ImagePull Code = "ImagePull"
	// InsufficientResources: the execution's pod does not fit on the node.
	InsufficientResources Code = "InsufficientResources"
	// ContainerCannotRun: the kubelet cannot create or start a container.
	ContainerCannotRun Code = "ContainerCannotRun"
	// CrashLoop: a container fails again and again, and the kubelet starts it again and again.
	CrashLoop Code = "CrashLoop"
	// NoPod: nothing makes a pod of the execution's Job.
	NoPod Code = "NoPod"
	// PodNotAcknowledged: the execution's pod is bound to the node, and the kubelet does nothing with it.
	PodNotAcknowledged Code = "PodNotAcknowledged"
	// PodRefused: the kubelet refused the execution's pod before anything of it ran; it is tried again.
	PodRefused Code = "PodRefused"
	// Disrupted: the execution's pod was lost through no fault of the package; it is tried again.
	Disrupted Code = "Disrupted"
	// InterruptRefused: the agent found the node not safe to interrupt; it is drained and tried again.
	InterruptRefused Code = "InterruptRefused"
	// Dependency: a package waits for one that it depends on.
	Dependency Code = "Dependency"
	// Interrupting: the interrupt was requested and is not proven yet.
	Interrupting Code = "Interrupting"
	// OtherInterrupt: another NodeWright's work on the node has to end first.
	OtherInterrupt Code = "OtherInterrupt"
	// Uncordoning: the node is being given back.
	Uncordoning Code = "Uncordoning"
	// Settling: the node has to stay Ready for a while.
	Settling Code = "Settling"
	// EarlierExecution: an execution of an earlier round is not finished yet.
	EarlierExecution Code = "EarlierExecution"
	// Suspended: running executions are suspended by a pause.
	Suspended Code = "Suspended"
)

// Codes of failures. They are also noderecord.Failure.Reason.
const (
	// PackageFailed: a stage of a package failed in every attempt.
	PackageFailed Code = "PackageFailed"
	// OutOfMemory: a stage used more memory than its container, or the node, has.
	OutOfMemory Code = "OutOfMemory"
	// StageTimeout: a stage took longer than it may.
	StageTimeout Code = "StageTimeout"
	// InterruptFailed: the interrupt failed, or could not be proven in time.
	InterruptFailed Code = "InterruptFailed"
	// NodeLost: the node vanished while it was under way.
	NodeLost Code = "NodeLost"
	// DrainTimeout: the node could not be drained in `drainConfig.timeout`.
	DrainTimeout Code = "DrainTimeout"
	// ProtectedPodTimeout: protected pods were there for longer than `protectedPodsTimeout`.
	ProtectedPodTimeout Code = "ProtectedPodTimeout"
)
