package plan

import (
	"maps"
	"slices"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// firstNames is how many node names a count keeps.
const firstNames = 10

// statusOf is NVIDIA's word for a node with this reason.
func statusOf(c Code) nwv1.Status {
	switch c {
	case Complete, Drifted:
		return nwv1.StatusComplete
	case Paused, Suspended:
		return nwv1.StatusPaused
	case Disabled:
		return nwv1.StatusDisabled
	case PackageFailed, OutOfMemory, StageTimeout, InterruptFailed, NodeLost, DrainTimeout, ProtectedPodTimeout, ImagePull, ContainerCannotRun, CrashLoop:
		return nwv1.StatusErroring
	case Ignored, TaintNotTolerated, Halted, BudgetIsZero, Unresolved, OutOfScope, Standby, RecordUnreadable, NotAdopted:
		return nwv1.StatusBlocked
	case WaitingForPriority, WaitingForRound, WaitingForBatch, WaitingForSlot, WaitingForClusterBudget, WaitingForWindow,
		Gating, Yielding, NodeNotReady, "":
		return nwv1.StatusWaiting
	}
	return nwv1.StatusInProgress
}

// status folds the reasons of a NodeWright's nodes.
func (p *pass) status(v *view) Status {
	s := Status{
		NodeWright: v.nw.Name, UID: v.nw.UID, Generation: v.nw.Generation, Round: v.ledger.Round,
		ContentHash: v.ledger.ContentHash, LateJoiners: v.ledger.LateJoiners, Problem: v.nw.Problem,
		OutOfScope: v.nw.OutOfScope,
	}
	for _, pkg := range v.nw.Desired.Packages {
		s.PackageList = append(s.PackageList, pkg.Name+":"+pkg.Version)
	}
	counts := map[Code]*ReasonCount{}
	for _, m := range v.members {
		switch {
		case m.reason == nil:
		case m.quiet && (m.reason == causeComplete || m.reason == causeSatisfied):
			s.Total++
			s.Complete++
		default:
			s.count(m)
			s.countBlockers(m)
			countReason(counts, m)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		s.Reasons = append(s.Reasons, *counts[code])
	}
	if v.hasIncomplete() {
		s.Failures = append(s.Failures, p.lost(v, "", 0)...)
		slices.SortStableFunc(s.Failures, func(a, b NodeFailure) int { return compareStrings(a.Node, b.Node) })
	}
	for _, c := range v.compartments {
		s.Compartments = append(s.Compartments, v.compartmentStatus(c))
		if v.ledger.Compartments[c.name].Halt != nil {
			s.Halted = append(s.Halted, c.name)
		}
	}
	slices.SortFunc(s.Compartments, func(a, b CompartmentStatus) int { return compareStrings(a.Name, b.Name) })
	slices.Sort(s.Halted)
	s.Uninstall, s.Gated = p.uninstallStatus(v), p.gated(v)
	s.Requests = v.requestStatuses()
	s.Status = v.fold(s)
	return s
}

// count adds a node to the totals. Nodes that are under way although nothing targets them any more count as under way.
func (s *Status) count(m *member) {
	code := m.reason.code
	if m.selected && !m.targeted {
		s.Excluded++
		return
	}
	s.Total++
	failed := failedFor(m.rec, code) || m.rec.Outcome == noderecord.Failed && code != Complete && !inProgress(code)
	if failed && m.rec.Failure != nil {
		s.Failures = append(s.Failures, m.failure())
	}
	switch status := statusOf(code); {
	case status == nwv1.StatusComplete:
		s.Complete++
	case failed || status == nwv1.StatusErroring && !m.rec.IsOpen():
		s.Failed++
	case status == nwv1.StatusErroring || status == nwv1.StatusInProgress || m.rec.IsOpen():
		s.InProgress++
	case status == nwv1.StatusBlocked:
		s.Blocked++
	default:
		s.Waiting++
	}
}

// countBlockers keeps protected pods and those that a drain cannot get rid of apart: they are two conditions.
func (s *Status) countBlockers(m *member) {
	switch {
	case len(m.blockers) == 0:
	case m.blockers[0].Cause == BlockedProtected:
		s.Protected.add(m.blockers...)
	default:
		s.Blockers.add(m.blockers...)
	}
}

// goesOn reports whether a node with this reason moves on without anybody's help, and soon.
func (c Code) goesOn() bool {
	switch c {
	case Complete, Drifted, Gating, AdmissionUnconfirmed, Cordoning, Draining, Running, Starting, Dependency, Interrupting, OtherInterrupt,
		Uncordoning, EarlierExecution, Superseded:
		return true
	}
	return false
}

// failedFor reports whether the code is what the turn failed for, also where it is one that a turn can go on from.
func failedFor(rec noderecord.Record, c Code) bool {
	return rec.Outcome == noderecord.Failed && rec.Failure != nil && rec.Failure.Reason == string(c)
}

func inProgress(c Code) bool { return statusOf(c) == nwv1.StatusInProgress }

// countReason counts the reason of a node that is not complete.
func countReason(counts map[Code]*ReasonCount, m *member) {
	code := m.reason.code
	if code == Complete {
		return
	}
	c := counts[code]
	if c == nil {
		c = &ReasonCount{Code: code, Message: m.reason.message}
		counts[code] = c
	}
	c.Count++
	if len(c.Nodes) < firstNames {
		c.Nodes = append(c.Nodes, m.node.Name)
	}
}

func (v *view) compartmentStatus(c *compartment) CompartmentStatus {
	led := v.ledger.Compartments[c.name]
	out := CompartmentStatus{
		Name: c.name, Strategy: string(c.rules.kind), Matched: int32(len(c.members)), Ceiling: int32(c.ceiling),
		InUse: int32(c.inUse()), Batch: led.Batch, BatchSize: led.Admitted, ConsecutiveFailures: led.ConsecutiveBad,
		Halt: led.Halt, SplitGroups: c.splitGroups(),
	}
	for _, m := range c.members {
		switch {
		case m.quiet || m.complete():
			out.Complete++
		case m.rec.Outcome == noderecord.Failed && v.current(m.rec):
			out.Failed++
		case m.open:
			out.InProgress++
		}
	}
	if out.Matched > 0 {
		out.ProgressPercent = out.Complete * 100 / out.Matched
	}
	return out
}

// splitGroups are the first groups with more nodes to do than the ceiling.
func (c *compartment) splitGroups() []string {
	if c.groupBy == "" {
		return nil
	}
	todo := map[string]int{}
	for _, m := range c.members {
		if group := c.groupOf(m); group != "" && !m.complete() {
			todo[group]++
		}
	}
	var out []string
	for _, group := range slices.Sorted(maps.Keys(todo)) {
		if todo[group] > c.ceiling && len(out) < firstNames {
			out = append(out, group)
		}
	}
	return out
}

// fold is the status of the whole object: complete only if every targeted node is complete in this content.
func (v *view) fold(s Status) nwv1.Status {
	switch {
	case v.nw.Disabled:
		return nwv1.StatusDisabled
	case v.held.is(Paused) && s.Complete < s.Total:
		return nwv1.StatusPaused
	case v.held.is(Unresolved) || v.held.is(OutOfScope) || v.held.is(Standby):
		return nwv1.StatusBlocked
	case s.Complete == s.Total && v.open == 0:
		return nwv1.StatusComplete
	case s.InProgress > 0 || v.open > 0:
		return nwv1.StatusInProgress
	case s.Failed > 0:
		return nwv1.StatusErroring
	case s.Blocked > 0:
		return nwv1.StatusBlocked
	case v.begun():
		return nwv1.StatusInProgress // between two batches
	}
	return nwv1.StatusWaiting
}

// begun reports whether this round has admitted anybody.
func (v *view) begun() bool {
	for _, led := range v.ledger.Compartments {
		if led.Batch > 0 {
			return true
		}
	}
	return false
}
