package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Phase is a run of stages that need nothing in between: one execution, one pod.
type Phase string

const (
	// PhaseInstall is apply or upgrade, then config.
	PhaseInstall Phase = "install"
	// PhaseConfig is config alone.
	PhaseConfig Phase = "config"
	// PhaseInterrupt is the merged interrupt of a node.
	PhaseInterrupt Phase = "interrupt"
	// PhasePost is post-interrupt.
	PhasePost Phase = "post-interrupt"
	// PhaseCheck is the checks of the stages that would follow, and nothing else (`skipIfSatisfied`).
	PhaseCheck Phase = "check"
	// PhaseVerify is the checks of every stage, on a node that is complete (`verifyInterval`).
	PhaseVerify Phase = "verify"
	// PhaseUninstall is uninstall.
	PhaseUninstall Phase = "uninstall"
)

// OnlyChecks reports whether nothing of the phase changes the host.
func (p Phase) OnlyChecks() bool { return p == PhaseCheck || p == PhaseVerify }

// ExecutionState is how far an execution is.
type ExecutionState string

const (
	// ExecutionPending: no stage has begun.
	ExecutionPending ExecutionState = "Pending"
	// ExecutionRunning: a stage is running.
	ExecutionRunning ExecutionState = "Running"
	// ExecutionSucceeded: every stage succeeded.
	ExecutionSucceeded ExecutionState = "Succeeded"
	// ExecutionFailed: it ended without success.
	ExecutionFailed ExecutionState = "Failed"
)

// ExecutionKey identifies an execution; its Job's name is derived from it.
type ExecutionKey struct {
	NodeWright    string
	NodeWrightUID types.UID
	NodeUID       types.UID
	Round         int64
	// Package is empty for the merged interrupt of a node, whose Wave is then part of the key.
	Package string
	Phase   Phase
	// Wave distinguishes the interrupts of one turn; 0 for other phases.
	Wave    int32
	Attempt int32
}

// Execution is what is seen of one of our Jobs.
type Execution struct {
	ExecutionKey
	// Name of the Job.
	Name string
	// Node is the node's name.
	Node        string
	Compartment string
	Batch       int32
	// Order is the order number of the node's admission; nil: not known.
	Order *int32
	State ExecutionState
	// Stage is the stage that is running, or that failed.
	Stage nwv1.Stage
	// Done are the stages that succeeded with their checks, in order.
	Done []nwv1.Stage
	// Trouble is set while the pod cannot run: see Code.isTrouble.
	Trouble Code
	// TroubleMessage is the kubelet's or the scheduler's sentence.
	TroubleMessage string
	// TroubleSince is when the trouble was first seen.
	TroubleSince time.Time
	// ExitCode, Message: of the failed container. Message is the last lines of its log, redacted.
	ExitCode int32
	Message  string
	// Disrupted says that it did not end by a fault of the package: the pod was lost, or it was refused. Cause says which.
	Disrupted bool
	// TimedOut says that a deadline ended it.
	TimedOut bool
	// Cause is why it ended without success, where the stage itself is not all there is to say: PodRefused, Disrupted,
	// InterruptRefused, OutOfMemory, or the trouble in which its deadline found it.
	Cause Code
	// Suspended says that it is suspended by a pause.
	Suspended bool
	// Created is when its time began to run: when it was created, or let go on after it was suspended.
	Created time.Time
	// Finished is when it ended; zero while it has not.
	Finished time.Time
}

// Ended reports whether the execution has ended.
func (e Execution) Ended() bool { return e.State == ExecutionSucceeded || e.State == ExecutionFailed }

// Counts reports whether the execution failed by a fault of what it ran: it has spent an attempt, and its log says why. Checks
// that find something to do are no failure.
func (e Execution) Counts() bool {
	return e.State == ExecutionFailed && !e.Phase.OnlyChecks() && !e.Disrupted && !e.refused()
}
