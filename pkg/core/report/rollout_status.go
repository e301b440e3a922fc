package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Conditions of a NodeWright beside Ready, Reconciling and Stalled, in NVIDIA's words.
const (
	ConditionBlocked            = "Blocked"
	ConditionDrainBlocked       = "DrainBlocked"
	ConditionTaintNotTolerable  = "TaintNotTolerable"
	ConditionNodesIgnored       = "NodesIgnored"
	ConditionNodeStateMalformed = "NodeStateMalformed"
	ConditionNodesGated         = "NodesGated"
	ConditionHostsDrifted       = "HostsDrifted"
	ConditionUninstallProgress  = "UninstallInProgress"
	ConditionUninstallFailed    = "UninstallFailed"
	ConditionDeletionBlocked    = "DeletionBlocked"
	ConditionRequestRefused     = "RequestRefused"
)

// Reasons of a NodeWright's conditions, in NVIDIA's words where it has them. Those of DrainBlocked are plan.BlockCause.
const (
	NodesConverged          = "NodesConverged"
	NodesProgressing        = "Progressing"
	NodesBlocked            = "Blocked"
	NodesErroring           = "Erroring"
	NodesPaused             = "Paused"
	NodesWaiting            = "Waiting"
	NodesDisabled           = "Disabled"
	NodesUnknown            = "Unknown"
	NonInterruptPodsRunning = "NonInterruptPodsRunning"
	MultipleCauses          = "MultipleCauses"
	ParseError              = "ParseError"
	UnresolvedReference     = "UnresolvedReference"
	OutOfScope              = "OutOfScope"
	RuntimeRequired         = "RuntimeRequired"
	CheckFailed             = "CheckFailed"
	UninstallPodFailing     = "UninstallPodFailing"
	MalformedNodeState      = "MalformedNodeState"
	PausedWithUninstall     = "PausedWithPendingUninstall"
	DisabledWithUninstall   = "DisabledWithPendingUninstall"
	NodesExcluded           = "NodesExcluded"
	InvalidRequest          = "InvalidRequest"
)

// maxNames is how many node names a message holds.
const maxNames = 10

// maxMessage bounds a condition's message; the API allows 32768 bytes, a reader far fewer.
const maxMessage = 2048

// NodeWrightStatus words the status of one NodeWright. old is the status that is written now: conditions that did not
// change keep their time. handled are the tokens of the verb annotations that are done, by verb.
func NodeWrightStatus(s plan.Status, old nwv1.NodeWrightStatus, handled map[string]string, now time.Time) nwv1.NodeWrightStatus {
	out := nwv1.NodeWrightStatus{
		ObservedGeneration: s.Generation, Status: s.Status, Round: s.Round, ContentHash: s.ContentHash,
		CompleteNodes: fmt.Sprintf("%d/%d", s.Complete, s.Total), NodesInProgress: s.InProgress, NodesFailed: s.Failed,
		PackageList: strings.Join(s.PackageList, ","), CompartmentStatuses: compartmentStatuses(s.Compartments),
		Reasons: reasonCounts(s.Reasons), HandledRequests: handled,
	}
	for _, c := range old.Conditions {
		out.Conditions = append(out.Conditions, *c.DeepCopy())
	}
	for _, c := range wantedConditions(s) {
		if c.Status == "" {
			apimeta.RemoveStatusCondition(&out.Conditions, c.Type)
			continue
		}
		c.ObservedGeneration, c.Message = s.Generation, cut(c.Message, maxMessage)
		c.LastTransitionTime = metav1.NewTime(now)
		apimeta.SetStatusCondition(&out.Conditions, c)
	}
	return out
}

// wantedConditions are all conditions that this package speaks about; one without a status is to be removed.
func wantedConditions(s plan.Status) []metav1.Condition {
	return []metav1.Condition{
		ready(s), reconciling(s), stalled(s), blocked(s), drainBlocked(s),
		counted(s, ConditionTaintNotTolerable, plan.TaintNotTolerated), counted(s, ConditionNodesIgnored, plan.Ignored),
		malformed(s), uninstalling(s), uninstallFailed(s), deletionBlocked(s), refused(s), gated(s), drifted(s),
	}
}

var readyReasons = map[nwv1.Status]string{
	nwv1.StatusComplete: NodesConverged, nwv1.StatusInProgress: NodesProgressing, nwv1.StatusBlocked: NodesBlocked,
	nwv1.StatusErroring: NodesErroring, nwv1.StatusPaused: NodesPaused, nwv1.StatusWaiting: NodesWaiting,
	nwv1.StatusDisabled: NodesDisabled, nwv1.StatusUnknown: NodesUnknown,
}

// ready is True if and only if every targeted node is complete.
func ready(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: readyReasons[s.Status], Message: Progress(s)}
	if s.Status == nwv1.StatusComplete {
		c.Status = metav1.ConditionTrue
	}
	if c.Reason == "" {
		c.Reason = NodesUnknown
	}
	return c
}

func reconciling(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: meta.ReconcilingCondition, Reason: meta.ProgressingReason, Message: Progress(s)}
	if s.Status == nwv1.StatusInProgress || s.Status == nwv1.StatusWaiting {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// stalled is True when only people can help: a reference that does not exist, a halt.
func stalled(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: meta.StalledCondition}
	switch {
	case s.Problem != "":
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, UnresolvedReference, s.Problem
	case s.OutOfScope != "":
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, OutOfScope, s.OutOfScope
	case len(s.Halted) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonHalted, HaltMessage(s)
	}
	return c
}

func blocked(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionBlocked, Reason: NonInterruptPodsRunning}
	if s.Protected.Count > 0 {
		c.Status, c.Message = metav1.ConditionTrue, blockersText(s.Protected, "nodes")
	}
	return c
}

// drainBlocked names node, pod and cause of what a drain cannot get rid of by itself. It goes with what blocks, and when the
// NodeWright is paused, disabled or complete: then nothing is drained.
func drainBlocked(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionDrainBlocked}
	if s.Blockers.Count == 0 {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, string(s.Blockers.First[0].Cause), blockersText(s.Blockers, "pods")
	for _, b := range s.Blockers.First {
		if b.Cause != s.Blockers.First[0].Cause {
			c.Reason = MultipleCauses
		}
	}
	return c
}

func blockersText(b plan.Blockers, what string) string {
	var parts []string
	for _, blocker := range b.First {
		parts = append(parts, "node "+blocker.Node+": "+blocker.Message)
	}
	if more := int(b.Count) - len(b.First); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more %s", more, what))
	}
	return strings.Join(parts, "; ")
}

// counted is always written, True or False, as NVIDIA does.
func counted(s plan.Status, kind string, code plan.Code) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: kind, Message: "no node"}
	if r, ok := reasonOf(s, code); ok {
		c.Status, c.Message = metav1.ConditionTrue, names(r.Count, r.Nodes)
	}
	return c
}

func malformed(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionNodeStateMalformed, Reason: ParseError}
	if r, ok := reasonOf(s, plan.RecordUnreadable); ok {
		c.Status, c.Message = metav1.ConditionTrue, names(r.Count, r.Nodes)+": "+r.Message
	}
	return c
}

// refused is True while a verb annotation of the NodeWright cannot be met.
func refused(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionRequestRefused, Reason: InvalidRequest}
	var problems []string
	for _, r := range s.Requests {
		if r.Problem != "" {
			problems = append(problems, r.Problem)
		}
	}
	if len(problems) > 0 {
		c.Status, c.Message = metav1.ConditionTrue, strings.Join(problems, "; ")
	}
	return c
}

// gated says how many nodes wait behind their taint, and what the first failure of a package said.
func gated(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionNodesGated, Reason: RuntimeRequired}
	if s.Gated.Count == 0 {
		return c
	}
	c.Status, c.Message = metav1.ConditionTrue, fmt.Sprintf("%d nodes gated: %s", s.Gated.Count, strings.Join(limit(s.Gated.Count, s.Gated.Nodes), ", "))
	if len(s.Failures) > 0 {
		c.Message += "; " + FailureText(s.Failures[0])
	}
	return c
}

// drifted names the complete nodes whose newest check did not find the host as it should be, and what the first one said.
func drifted(s plan.Status) metav1.Condition {
	c := metav1.Condition{Type: ConditionHostsDrifted, Reason: CheckFailed}
	if r, any := reasonOf(s, plan.Drifted); any {
		c.Status, c.Message = metav1.ConditionTrue, fmt.Sprintf("%d nodes: %s; %s: %s", r.Count, strings.Join(limit(r.Count, r.Nodes), ", "), r.Nodes[0], r.Message)
	}
	return c
}

func reasonOf(s plan.Status, code plan.Code) (plan.ReasonCount, bool) {
	i := slices.IndexFunc(s.Reasons, func(r plan.ReasonCount) bool { return r.Code == code })
	if i < 0 {
		return plan.ReasonCount{}, false
	}
	return s.Reasons[i], true
}

// Progress is one line: `12/400 nodes complete, 3 WaitingForBatch (a, b, c)`.
func Progress(s plan.Status) string {
	parts := []string{fmt.Sprintf("%d/%d nodes complete", s.Complete, s.Total)}
	if s.Problem != "" {
		parts = append(parts, s.Problem)
	}
	if s.OutOfScope != "" {
		parts = append(parts, s.OutOfScope)
	}
	for _, f := range s.Failures[:min(len(s.Failures), 1)] {
		parts = append(parts, FailureText(f))
	}
	for _, r := range s.Reasons {
		parts = append(parts, segment(string(r.Code), r))
	}
	return strings.Join(parts, ", ")
}

func segment(word string, r plan.ReasonCount) string {
	return fmt.Sprintf("%d %s (%s)", r.Count, word, strings.Join(limit(r.Count, r.Nodes), ", "))
}

func names(count int32, nodes []string) string {
	return fmt.Sprintf("%d nodes: %s", count, strings.Join(limit(count, nodes), ", "))
}

// limit keeps the first names and says how many are left out.
func limit(count int32, nodes []string) []string {
	out := slices.Clone(nodes[:min(len(nodes), maxNames)])
	if more := int(count) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// FailureText names node, package, stage and exit code of a failure, and the first failure of the turn where that is another one.
func FailureText(f plan.NodeFailure) string {
	out := "node " + f.Node + " failed"
	for _, part := range []struct{ word, value string }{{"package", f.Package}, {"stage", string(f.Stage)}} {
		if part.value != "" {
			out += ", " + part.word + " " + part.value
		}
	}
	if f.ExitCode != 0 {
		out += ", exit code " + strconv.Itoa(int(f.ExitCode))
	}
	if f.Message != "" {
		out += ": " + f.Message
	} else {
		out += ": " + f.Reason
	}
	if f.First != nil {
		out += "; the first failure was " + plan.FailureSentence(*f.First)
	}
	return out
}

// HaltMessage says which compartments are halted, and why.
func HaltMessage(s plan.Status) string {
	var parts []string
	for _, c := range s.Compartments {
		if c.Halt != nil {
			parts = append(parts, fmt.Sprintf("compartment %s halted in batch %d: %s", c.Name, c.Halt.Batch, c.Halt.Message))
		}
	}
	return strings.Join(parts, "; ")
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}

func reasonCounts(in []plan.ReasonCount) []nwv1.ReasonCount {
	var out []nwv1.ReasonCount
	for _, r := range in {
		out = append(out, nwv1.ReasonCount{
			Reason: string(r.Code), Count: r.Count, Nodes: r.Nodes[:min(len(r.Nodes), maxNames)], Message: cut(r.Message, maxMessage),
		})
	}
	return out
}

func compartmentStatuses(in []plan.CompartmentStatus) map[string]nwv1.CompartmentStatus {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]nwv1.CompartmentStatus, len(in))
	for _, c := range in {
		status := nwv1.CompartmentStatus{
			Matched: c.Matched, Ceiling: c.Ceiling, InProgress: c.InUse, Completed: c.Complete, Failed: c.Failed,
			ProgressPercent: c.ProgressPercent, SplitGroups: c.SplitGroups,
		}
		if c.Strategy != "" || c.Halt != nil {
			status.BatchState = &nwv1.BatchState{
				CurrentBatch: c.Batch, ConsecutiveFailures: c.ConsecutiveFailures, CompletedNodes: c.Complete,
				FailedNodes: c.Failed, ShouldStop: c.Halt != nil, LastBatchSize: c.BatchSize,
			}
		}
		out[c.Name] = status
	}
	return out
}

// Handled are the verb tokens of a NodeWright that are done: `resume` stands in the ledger, the others are done when no node
// still has to see them.
func Handled(old map[string]string, ledger fleetv1.LedgerRollout, requests []plan.RequestStatus) map[string]string {
	out := map[string]string{}
	for verb, token := range old {
		out[verb] = token
	}
	if ledger.Resumed != "" {
		out[fleetv1.VerbResume] = ledger.Resumed
	}
	if ledger.Abandoned != "" {
		out[fleetv1.VerbAbandonUninstall] = ledger.Abandoned
	}
	for _, r := range requests {
		if r.Problem == "" && r.Pending == 0 {
			out[r.Verb] = r.Token
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// RedactSecrets replaces the values of Secrets in a text. Values of fewer than four characters are left: they would
// tear the text apart and hide nothing.
func RedactSecrets(values []string, text string) string {
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, func(a, b string) int { return len(b) - len(a) }) // the longest first: one may hold another
	for _, v := range sorted {
		if len(v) >= 4 {
			text = strings.ReplaceAll(text, v, "[redacted]")
		}
	}
	return text
}
