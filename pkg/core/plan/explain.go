package plan

import (
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// explained is the reason of a node in full: with since when, and what would end it.
func (v *view) explained(m *member) Reason {
	return Reason{
		NodeWright: m.nw.Name, Node: m.node.Name, Code: m.reason.code, Message: m.reason.message, Object: m.reason.object,
		Since: v.since(m, m.reason.code), Ends: m.reason.code.Ends(),
	}
}

// since is when a reason began. Times come from where they are stored: the record, the ledger, the execution.
func (v *view) since(m *member, c Code) time.Time {
	switch c {
	case Complete:
		return orZero(m.rec.EndedAt)
	case Drifted:
		return m.driftedSince()
	case Halted:
		if halt := m.halt(v); halt != nil {
			return halt.At.Time
		}
	case Interrupting:
		if m.rec.Interrupt != nil {
			return m.rec.Interrupt.At
		}
	case Settling:
		return orZero(m.rec.ReadyAt)
	case ProtectedPod:
		if m.rec.WaitSince != nil {
			return *m.rec.WaitSince
		}
	case Draining, DisruptionBudget, EvictionFailed, DrainBlocked, PodStuck, DrainTimeout:
		if m.rec.DrainSince != nil {
			return *m.rec.DrainSince
		}
	case Running, ImagePull, InsufficientResources, ContainerCannotRun, CrashLoop, NoPod, PodNotAcknowledged:
		return v.sinceExecution(m, c)
	case Ignored, TaintNotTolerated, Disabled, Paused, Standby, Unresolved, OutOfScope, RecordUnreadable, NotAdopted:
		return time.Time{} // nobody writes down when
	}
	return v.sinceTurn(m)
}

// sinceTurn is when the turn began, or, before it, when the node began to wait for one.
func (v *view) sinceTurn(m *member) time.Time {
	switch {
	case m.rec.Outcome == noderecord.Failed:
		return orZero(m.rec.EndedAt)
	case m.rec.IsOpen():
		return orZero(m.rec.AdmittedAt)
	case m.node.Created.After(v.ledger.StartedAt.Time):
		return m.node.Created
	}
	return v.ledger.StartedAt.Time
}

// sinceExecution is when the first execution with this trouble got into it, or when the first one began.
func (v *view) sinceExecution(m *member, c Code) time.Time {
	var first time.Time
	for _, e := range m.node.Executions {
		at := e.Created
		if c != Running {
			at = e.TroubleSince
		}
		matches := e.NodeWright == v.nw.Name && !e.Ended() && (c == Running || e.Trouble == c)
		if matches && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

func (m *member) halt(v *view) *fleetv1.LedgerHalt {
	if m.compartment == nil {
		return nil
	}
	return v.ledger.Compartments[m.compartment.name].Halt
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// Ends is what ends a reason, in half a sentence that completes "until"; empty for Complete.
func (c Code) Ends() string {
	switch c {
	case Ignored, TaintNotTolerated, WaitingForPriority, WaitingForBatch, WaitingForSlot, WaitingForClusterBudget,
		WaitingForWindow, Gating, Yielding, BudgetIsZero, Halted, Paused, Disabled, Unresolved, OutOfScope, Standby, RecordUnreadable,
		NodeNotReady, Superseded, WaitingForRound, NotAdopted:
		return c.endsWaiting()
	case PackageFailed, OutOfMemory, StageTimeout, InterruptFailed, NodeLost, DrainTimeout, ProtectedPodTimeout:
		return c.endsFailure()
	}
	return c.endsTurn()
}

func (c Code) endsWaiting() string {
	switch c {
	case Ignored:
		return "the label is taken off the node"
	case TaintNotTolerated:
		return "the taint goes, or spec.additionalTolerations tolerates it"
	case WaitingForPriority:
		return "the NodeWright that goes first is complete"
	case WaitingForBatch:
		return "every node of the batch has ended"
	case WaitingForSlot:
		return "a node gives its slot back, or the budget grows"
	case WaitingForClusterBudget:
		return "a node is back in service, or spec.disruption.maxNodes grows"
	case WaitingForWindow:
		return "the next window opens"
	case NotAdopted:
		return "the node is adopted, or a reset is asked for"
	case WaitingForRound:
		return "nothing of this round is under way"
	case Gating:
		return "the taint is on the node"
	case Yielding:
		return "the pod has finished"
	case BudgetIsZero:
		return "the budget is more than 0"
	case Halted:
		return "new content is pushed, or a resume is asked for"
	case Paused:
		return "the pause annotation is taken off"
	case Disabled:
		return "the NodeWright is enabled again"
	case Unresolved:
		return "what the message names exists"
	case OutOfScope:
		return "the object or the Fleet's spec.scope is changed"
	case Standby:
		return "what the message names is over"
	case RecordUnreadable:
		return "a reset is asked for, or the record annotation is mended"
	case NodeNotReady:
		return "the node is Ready"
	}
	return "the turn of the earlier round is closed" // Superseded
}

func (c Code) endsFailure() string {
	switch c {
	case InterruptFailed:
		return "the node comes back as the interrupt wants it, new content is pushed, or a retry is asked for"
	case NodeLost:
		return "the next round begins"
	case DrainTimeout:
		return "the pods are gone; where the node was given up, new content is pushed, or a retry is asked for"
	}
	return "new content is pushed, or a retry is asked for"
}

func (c Code) endsTurn() string {
	switch c {
	case Drifted:
		return "a check finds the host as it should be, or spec.onDrift is Reapply"
	case AdmissionUnconfirmed, Cordoning, Starting, Uncordoning:
		return "the API server has taken the write"
	case ProtectedPod:
		return "the protected pods have finished"
	case Draining:
		return "the pods are gone"
	case DisruptionBudget:
		return "the PodDisruptionBudget allows a disruption"
	case EvictionFailed:
		return "the API server takes the eviction"
	case DrainBlocked:
		return "the pod is gone, or spec.drainConfig allows to evict it"
	case PodStuck:
		return "the kubelet confirms the pod's end, and its finalizers are removed"
	case Running:
		return "the stage has ended, or its timeout is over"
	case RetryBackoff:
		return "the next attempt is due"
	case ImagePull:
		return "the image can be pulled"
	case InsufficientResources:
		return "the node has room for the pod"
	case ContainerCannotRun:
		return "the kubelet can start the container"
	case CrashLoop:
		return "the container comes good, or new content is pushed"
	case NoPod:
		return "the Job controller can make the pod, or the stage's timeout is over"
	case PodNotAcknowledged:
		return "the kubelet starts the pod, or the stage's timeout is over"
	case PodRefused, Disrupted:
		return "an attempt comes to its end, or too many in a row did not"
	case InterruptRefused:
		return "the node is empty and cordoned when the agent looks, or it was not too many times in a row"
	case Dependency:
		return "the package that it depends on is done"
	case Interrupting:
		return "the interrupt is proven, or its deadline is over"
	case OtherInterrupt:
		return "the other NodeWright's work on the node has ended"
	case Settling:
		return "the node has stayed Ready for long enough"
	case EarlierExecution:
		return "the execution has ended"
	case Suspended:
		return "the pause annotation is taken off"
	}
	return "" // Complete
}
