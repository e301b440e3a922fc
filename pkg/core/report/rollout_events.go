package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Reasons of a rollout's events. Apply, Drain and Interrupt are NVIDIA's.
const (
	EventRolloutStarted  = "RolloutStarted"
	EventRolloutComplete = "RolloutComplete"
	EventRolloutHalted   = "RolloutHalted"
	EventUnresolved      = "Unresolved"
	EventOutOfScope      = "OutOfScope"
	EventAdmitted        = "Admitted"
	EventApply           = "Apply"
	EventDrain           = "Drain"
	EventInterrupt       = "Interrupt"
	EventNodeComplete    = "NodeComplete"
	EventNodeFailed      = "NodeFailed"
	EventReleased        = "Released"
	EventGated           = "Gated"
	EventUngated         = "Ungated"
	EventAutoTaint       = "AutoTaint"
	EventAskedFor        = "AskedFor"
	EventRequestRefused  = "RequestRefused"
	EventReset           = "Reset"
	EventHostDrifted     = "HostDrifted"
	EventHostMatches     = "HostMatches"
	EventCompartmentGone = "CompartmentGone"
)

// Actions of a rollout's events: what the reconciler was doing.
const (
	ActionPlan    = "Plan"
	ActionExecute = "Execute"
	ActionEvict   = "Evict"
)

// Object is what an event speaks about.
type Object struct {
	Kind, Name string
	UID        types.UID
}

// RolloutEvent is one event of events.k8s.io/v1.
type RolloutEvent struct {
	About   Object
	Related *Object
	// Warning: type Warning, otherwise Normal.
	Warning              bool
	Reason, Action, Note string
}

// NodeWrightObject is the object of a NodeWright's events.
func NodeWrightObject(name string, uid types.UID) Object {
	return Object{nwv1.KindNodeWright, name, uid}
}

// maxNote is the API's bound of an event's note.
const maxNote = 1024

// StatusEvents are the events of a NodeWright whose status goes from old, as it is written, to s. A restart repeats
// none: old survives it.
func StatusEvents(old nwv1.NodeWrightStatus, s plan.Status) []RolloutEvent {
	var out []RolloutEvent
	say := func(warning bool, reason, note string) {
		out = append(out, RolloutEvent{
			About: NodeWrightObject(s.NodeWright, s.UID), Warning: warning, Reason: reason, Action: ActionPlan, Note: cut(note, maxNote),
		})
	}
	if s.Round > old.Round {
		say(false, EventRolloutStarted, startText(s))
	}
	if s.Status == nwv1.StatusComplete && (old.Status != nwv1.StatusComplete || old.Round != s.Round) && s.Round > 0 {
		say(false, EventRolloutComplete, fmt.Sprintf("round %d is complete on %d nodes", s.Round, s.Total))
	}
	if s.Problem != "" && stalledMessage(old) != s.Problem {
		say(true, EventUnresolved, s.Problem)
	}
	if s.OutOfScope != "" && stalledMessage(old) != s.OutOfScope {
		say(true, EventOutOfScope, s.OutOfScope)
	}
	for _, r := range s.Requests {
		if r.Problem != "" && !strings.Contains(refusedMessage(old), r.Problem) {
			say(true, EventRequestRefused, r.Problem)
		}
	}
	for _, c := range s.Compartments {
		if c.Halt != nil && !haltedBefore(old, c.Name) {
			say(true, EventRolloutHalted, fmt.Sprintf("compartment %s halted in batch %d: %s", c.Name, c.Halt.Batch, c.Halt.Message))
		}
	}
	for _, name := range compartmentsGone(old, s) {
		say(true, EventCompartmentGone, "compartment "+name+" left the policy in the middle of a round; its nodes go on in the compartments "+
			"that select them now, with those compartments' batches")
	}
	return out
}

// compartmentsGone are the compartments that had begun to admit nodes in this round and are not in the policy any more.
func compartmentsGone(old nwv1.NodeWrightStatus, s plan.Status) []string {
	var out []string
	for name, c := range old.CompartmentStatuses {
		stays := slices.ContainsFunc(s.Compartments, func(c plan.CompartmentStatus) bool { return c.Name == name })
		if !stays && old.Round == s.Round && c.BatchState != nil && c.BatchState.CurrentBatch > 0 && s.Status != nwv1.StatusComplete {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func startText(s plan.Status) string {
	what := "packages " + strings.Join(s.PackageList, ", ")
	if s.LateJoiners {
		what = "nodes that joined later"
	}
	return fmt.Sprintf("round %d begins on %d nodes: %s", s.Round, s.Total, what)
}

func refusedMessage(old nwv1.NodeWrightStatus) string {
	if c := condition(old.Conditions, ConditionRequestRefused); c != nil {
		return c.Message
	}
	return ""
}

// AskedEvent says what people asked for that begins with a decision; found is false if they asked for nothing.
func AskedEvent(d plan.Decision) (e RolloutEvent, found bool) {
	related := NodeWrightObject(d.NodeWright, d.NodeWrightUID)
	return RolloutEvent{
		About: Object{"Node", d.Node, d.NodeUID}, Related: &related, Reason: EventAskedFor, Action: ActionExecute,
		Note: cut("nodewright "+d.NodeWright+": "+d.Asked, maxNote),
	}, d.Asked != ""
}

// GateFailedEvent warns of a node that does not get the runtime-required taint: until it does, workloads may come to it.
func GateFailedEvent(d plan.Decision, err error) (e RolloutEvent, found bool) {
	if d.Taint == nil {
		return RolloutEvent{}, false
	}
	related := NodeWrightObject(d.NodeWright, d.NodeWrightUID)
	return RolloutEvent{
		About: Object{"Node", d.Node, d.NodeUID}, Related: &related, Warning: true, Reason: EventAutoTaint, Action: ActionExecute,
		Note: cut("the taint "+d.Taint.ToString()+" cannot be set, and nothing begins before it is: "+APIAnswer(err), maxNote),
	}, true
}

// DriftEvents say which packages a check did not find as they should be, and which it found so again.
func DriftEvents(d plan.Decision) []RolloutEvent {
	if d.Record == nil || d.Before == nil {
		return nil
	}
	related := NodeWrightObject(d.NodeWright, d.NodeWrightUID)
	var out []RolloutEvent
	for _, name := range slices.Sorted(maps.Keys(d.Record.Packages)) {
		was, is := d.Before.Packages[name].Drift, d.Record.Packages[name].Drift
		e := RolloutEvent{About: Object{"Node", d.Node, d.NodeUID}, Related: &related, Action: ActionExecute}
		switch {
		case was == nil && is != nil:
			e.Warning, e.Reason = true, EventHostDrifted
			e.Note = cut("nodewright "+d.NodeWright+": "+plan.DriftText(name, *is), maxNote)
		case was != nil && is == nil && d.Record.Packages[name].Running == "":
			e.Reason, e.Note = EventHostMatches, fmt.Sprintf("nodewright %s: the host matches package %s again", d.NodeWright, name)
		default:
			continue
		}
		out = append(out, e)
	}
	return out
}

// RefusedEvent is the warning of a request on a node that cannot be met.
func RefusedEvent(r plan.RefusedRequest) RolloutEvent {
	return RolloutEvent{
		About: Object{"Node", r.Node, r.NodeUID}, Warning: true, Reason: EventRequestRefused, Action: ActionPlan, Note: cut(r.Message, maxNote),
	}
}

func stalledMessage(old nwv1.NodeWrightStatus) string {
	if c := condition(old.Conditions, "Stalled"); c != nil {
		return c.Message
	}
	return ""
}

func haltedBefore(old nwv1.NodeWrightStatus, compartment string) bool {
	c, ok := old.CompartmentStatuses[compartment]
	return ok && c.BatchState != nil && c.BatchState.ShouldStop
}

// DecisionEvent is the event of a decision that was carried out; found is false for those that nobody needs to hear of.
func DecisionEvent(d plan.Decision) (e RolloutEvent, found bool) {
	e = RolloutEvent{About: Object{"Node", d.Node, d.NodeUID}, Action: ActionExecute}
	related := NodeWrightObject(d.NodeWright, d.NodeWrightUID)
	e.Related = &related
	switch d.Action {
	case plan.ActionAdmit:
		e.Reason, e.Note = EventAdmitted, "admitted to "+turnText(d)
	case plan.ActionDrain:
		if len(d.Evict) == 0 {
			return e, false
		}
		e.Reason, e.Action, e.Note = EventDrain, ActionEvict, drainText(d)
	case plan.ActionRun:
		if len(d.Start) == 0 {
			return e, false
		}
		e.Reason, e.Note = EventApply, startedText(d)
	case plan.ActionInterrupt:
		e.Reason, e.Note = EventInterrupt, interruptText(d)
	case plan.ActionComplete:
		e.Reason, e.Note = EventNodeComplete, "complete in "+turnText(d)+satisfiedText(d)
	case plan.ActionFail:
		e.Reason, e.Warning, e.Note = EventNodeFailed, true, failText(d)
	case plan.ActionRelease:
		e.Reason, e.Note = EventReleased, "released by nodewright "+d.NodeWright
	case plan.ActionReset:
		e.Reason, e.Note = EventReset, "nodewright "+d.NodeWright+": the record cannot be read and is replaced by one that says that nothing is known"
	case plan.ActionGate:
		e.Reason, e.Note = EventGated, "the taint "+d.Taint.ToString()+" keeps workloads away until every runtime-required NodeWright is complete"
	case plan.ActionUngate:
		e.Reason, e.Note = EventUngated, "ready for use: every runtime-required NodeWright is complete; the taint is taken off"
	case plan.ActionCordon, plan.ActionUncordon, plan.ActionRecord, plan.ActionVerify:
		return e, false
	}
	e.Note = cut(e.Note, maxNote)
	return e, true
}

// satisfiedText names the packages whose wanted state was there already.
func satisfiedText(d plan.Decision) string {
	var names []string
	if d.Record != nil {
		for name, p := range d.Record.Packages {
			if p.Satisfied {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; already satisfied: " + strings.Join(names, ", ")
}

func turnText(d plan.Decision) string {
	switch {
	case d.Record == nil:
		return "nodewright " + d.NodeWright
	case d.Record.Compartment == "":
		return fmt.Sprintf("round %d of nodewright %s, without a slot", d.Record.Round, d.NodeWright)
	}
	return fmt.Sprintf("round %d, batch %d of nodewright %s (compartment %s)", d.Record.Round, d.Record.Batch, d.NodeWright, d.Record.Compartment)
}

func drainText(d plan.Decision) string {
	var pods []string
	for _, e := range d.Evict {
		pods = append(pods, e.Namespace+"/"+e.Name)
	}
	return fmt.Sprintf("asking %d pods to leave for nodewright %s: %s", len(pods), d.NodeWright, strings.Join(limit(int32(len(pods)), pods), ", "))
}

func startedText(d plan.Decision) string {
	var parts []string
	for _, s := range d.Start {
		stages := make([]string, 0, len(s.Stages))
		for _, stage := range s.Stages {
			stages = append(stages, string(stage))
		}
		parts = append(parts, fmt.Sprintf("%s %s (%s), attempt %d", s.Definition.Name, s.Definition.Version, strings.Join(stages, ", "), s.Attempt))
	}
	return "nodewright " + d.NodeWright + " runs " + strings.Join(parts, "; ")
}

func interruptText(d plan.Decision) string {
	for _, s := range d.Start {
		if s.Interrupt != nil {
			return fmt.Sprintf("%s for %s of nodewright %s", s.Interrupt.Type, strings.Join(s.Interrupt.Packages, ", "), d.NodeWright)
		}
	}
	return "interrupt of nodewright " + d.NodeWright
}

func failText(d plan.Decision) string {
	if d.Record == nil || d.Record.Failure == nil {
		return "failed under nodewright " + d.NodeWright
	}
	return FailureText(plan.NodeFailure{Node: d.Node, Failure: *d.Record.Failure, First: d.Record.FirstFailure})
}

// loudReasons are what a node waits for that people should hear of.
var loudReasons = map[plan.Code]bool{
	plan.ProtectedPod: true, plan.DisruptionBudget: true, plan.EvictionFailed: true, plan.DrainBlocked: true, plan.PodStuck: true,
	plan.DrainTimeout: true, plan.ImagePull: true,
	plan.InsufficientResources: true, plan.ContainerCannotRun: true, plan.RecordUnreadable: true, plan.NotAdopted: true, plan.CrashLoop: true, plan.NoPod: true,
	plan.PodNotAcknowledged: true, plan.PodRefused: true, plan.Disrupted: true, plan.InterruptRefused: true,
}

// ReasonEvent is the warning of a node that is held up; found is false for the ordinary course.
func ReasonEvent(r plan.Reason, node, nodeWright Object) (e RolloutEvent, found bool) {
	if !loudReasons[r.Code] {
		return RolloutEvent{}, false
	}
	return RolloutEvent{
		About: node, Related: &nodeWright, Warning: true, Reason: string(r.Code), Action: ActionPlan,
		Note: cut(fmt.Sprintf("nodewright %s: %s", r.NodeWright, r.Message), maxNote),
	}, true
}

// APIVersion of the object's kind.
func (o Object) APIVersion() string {
	switch o.Kind {
	case nwv1.KindNodeWright, nwv1.KindDeploymentPolicy:
		return nwv1.GroupVersion.String()
	case fleetv1.KindFleet, fleetv1.KindPackage, fleetv1.KindLedger:
		return fleetv1.GroupVersion.String()
	}
	return "v1"
}
