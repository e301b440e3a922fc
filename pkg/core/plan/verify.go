package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// With `verifyInterval` the checks of every package run again on complete nodes, alone: the node is not cordoned, nothing is
// installed, and it stays complete. What a check does not find as it should be is drift: it is on the record, and with
// `onDrift: Reapply` the package runs again from its first stage, like one that people asked to rerun.

// maxVerifying bounds how many nodes of a NodeWright are verified at once: their pods cost the API server something, and
// nobody waits for them.
const maxVerifying = 10

// shortestVerifyInterval is what a shorter interval is taken for: the checks of one node take some seconds.
const shortestVerifyInterval = time.Minute

// verify starts the checks that are due, on the nodes that were not checked for the longest time first.
func (p *pass) verify() {
	for _, v := range p.views {
		every := v.verifyInterval()
		if every == 0 || v.held != nil {
			continue
		}
		due := p.dueForVerification(v, every)
		if room := maxVerifying - v.verifying(); room < len(due) {
			due = due[:max(room, 0)]
		}
		for _, m := range due {
			p.startVerification(v, m)
		}
	}
}

// verifyInterval is 0 where hosts are not verified.
func (v *view) verifyInterval() time.Duration {
	every := v.nw.Spec.VerifyInterval
	if every == nil || every.Duration == 0 || v.nw.Deleting {
		return 0
	}
	return max(every.Duration, shortestVerifyInterval)
}

func (p *pass) dueForVerification(v *view, every time.Duration) []*member {
	var due []*member
	for _, m := range v.members {
		if !m.verifiable() {
			continue
		}
		if at := m.rec.LastVerified(p.in.Now).Add(every); at.After(p.in.Now) {
			p.wakeAt(at)
			continue
		}
		if m.node.Ready && m.decision == nil && p.begun[m.node.UID] == (activity{}) && !slices.ContainsFunc(m.node.Executions, notEnded) {
			due = append(due, m)
		}
	}
	slices.SortStableFunc(due, func(a, b *member) int {
		return cmp.Or(a.rec.LastVerified(p.in.Now).Compare(b.rec.LastVerified(p.in.Now)), cmp.Compare(a.pos, b.pos))
	})
	return due
}

// verifiable: the node is at rest with everything that is wanted, and nothing is being looked at on it.
func (m *member) verifiable() bool {
	return m.had && m.targeted && !m.open && m.complete() && !m.standing.running && m.rec.Outcome != noderecord.Failed &&
		m.rec.Interrupt == nil && len(m.rec.Packages) > 0 && m.malformed() == ""
}

// verifying counts the nodes whose checks are under way.
func (v *view) verifying() int {
	n := 0
	for _, m := range v.busy {
		for _, pkg := range m.rec.Packages {
			if pkg.Running == string(PhaseVerify) {
				n++
				break
			}
		}
	}
	return n
}

// startVerification begins the checks of a node, for the object that is there now: one of an earlier object of the name would be
// deleted with it.
func (p *pass) startVerification(v *view, m *member) {
	t := p.newTurn(v, m)
	t.rec.NodeWright = v.nw.UID
	for i := range v.nw.Desired.Packages {
		def := &v.nw.Desired.Packages[i]
		pkg, installed := t.rec.Packages[def.Name]
		if !installed || def.Absent {
			continue
		}
		pkg = pkg.Clone()
		pkg.Running = string(PhaseVerify)
		pkg.Attempt++
		t.put(def.Name, pkg)
		t.launch(t.spec(verification(def, pkg), verifyStages(def)))
	}
	if len(t.d.Start) == 0 {
		return
	}
	t.rec.VerifiedAt = t.now()
	p.markBegun(m.node.UID, activity{execution: true})
	t.act(ActionVerify)
	t.flush()
}

func verification(def *desired.Package, pkg noderecord.Package) item {
	return item{name: def.Name, def: def, rec: pkg, next: PhaseVerify}
}

// verifyStages are the stages whose checks say that the package is on the host as it was left there.
func verifyStages(def *desired.Package) []nwv1.Stage {
	stages := []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig}
	if def.Interrupt != nil {
		stages = append(stages, nwv1.StagePostInterrupt)
	}
	return stages
}

// collectVerification records how the checks of a package ended. Those that were disrupted say nothing, and are made again when
// the next ones are due. So are those that no kubelet begins.
func (t *turn) collectVerification(name string, pkg noderecord.Package) {
	e, seen := t.execution(t.keyOf(name, pkg))
	switch {
	case !seen:
		t.verifyAgain(name, pkg)
		return
	case !e.Ended():
		if !t.overdueVerification(name, e) {
			return
		}
		t.d.Stop = append(t.d.Stop, e.Name)
	case e.State == ExecutionSucceeded:
		pkg.Drift = nil
	case !e.Disrupted && !e.refused():
		pkg.Drift = driftOf(pkg.Drift, e, t.p.in.Now)
	}
	pkg.Running = ""
	t.put(name, pkg)
	t.act(ActionRecord)
}

// verifyAgain asks again for checks that the record says were started and that are not there. They are given up where they say
// nothing any more, or may not begin now: the next ones are due in an interval.
func (t *turn) verifyAgain(name string, pkg noderecord.Package) {
	def, wanted := t.v.nw.Desired.ByName(name)
	if !wanted || def.Absent || !t.goesOnVerifying() {
		pkg.Running = ""
		t.put(name, pkg)
		return
	}
	t.launch(t.spec(verification(&def, pkg), verifyStages(&def)))
	t.p.markBegun(t.m.node.UID, activity{execution: true})
	t.act(ActionVerify)
}

// goesOnVerifying: this object still wants to know how the host is, the node is one of its own and there, and nobody else has
// begun anything on it.
func (t *turn) goesOnVerifying() bool {
	m := t.m
	return m.targeted && m.node.Ready && m.standing.done && t.v.held == nil && t.v.verifyInterval() != 0 &&
		t.rec.NodeWright == t.v.nw.UID && t.p.busyElsewhere(m.node, t.v.nw.Name) == activity{}
}

// longestCheck bounds the checks of packages whose stages have no bound: those that hang would be the last ones of their node.
const longestCheck = time.Hour

// overdueVerification: the checks are past their bound, or cannot be begun.
func (t *turn) overdueVerification(name string, e Execution) bool {
	at := e.Created.Add(kubeletSlack)
	if e.Trouble == "" {
		at = at.Add(cmp.Or(t.timeoutOf(name, PhaseVerify), longestCheck))
	}
	t.p.wakeAt(at)
	return !t.p.in.Now.Before(at)
}

// driftOf is what a failed check found, after what the one before found.
func driftOf(before *noderecord.Drift, e Execution, now time.Time) *noderecord.Drift {
	d := &noderecord.Drift{Since: now, Stage: e.Stage, ExitCode: e.ExitCode, Message: tail(e.Message)}
	if e.TimedOut && d.Message == "" {
		d.Message = "the check did not end in time"
	}
	if before != nil {
		d.Since = before.Since
	}
	return d
}

// drifted are the packages of a record that the newest checks did not find as they should be, sorted.
func drifted(rec noderecord.Record) []string {
	var names []string
	for name, pkg := range rec.Packages {
		if pkg.Drift != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// outdatedFindings are the packages whose drift nobody looks at any more, sorted.
func (v *view) outdatedFindings(rec noderecord.Record) []string {
	if v.verifyInterval() != 0 {
		return nil
	}
	return drifted(rec)
}

// causeOfDrift words what the checks found; nil if everything was as it should be.
func (m *member) causeOfDrift() *cause {
	names := drifted(m.rec)
	if len(names) == 0 {
		return nil
	}
	message := DriftText(names[0], *m.rec.Packages[names[0]].Drift)
	if more := len(names) - 1; more > 0 {
		message += fmt.Sprintf(" (%d more packages)", more)
	}
	return &cause{Drifted, "package " + names[0], message}
}

// DriftText is one sentence on what the checks of a package found.
func DriftText(name string, d noderecord.Drift) string {
	text := "the host does not match package " + name + " any more"
	if d.Stage != "" {
		text += ": its " + string(d.Stage) + " check failed"
	}
	if d.Message != "" {
		text += ": " + d.Message
	}
	return text
}

func (m *member) driftedSince() time.Time {
	var first time.Time
	for _, name := range drifted(m.rec) {
		if at := m.rec.Packages[name].Drift.Since; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// askForDrift asks to run again what drifted, where that is wanted.
func (v *view) askForDrift(m *member) {
	names := v.toReapply(m.rec)
	if len(names) == 0 {
		return
	}
	if m.asked == nil {
		m.asked = &asked{}
	}
	m.asked.drifted = names
}

// toReapply are the packages that run again because their host drifted, sorted.
func (v *view) toReapply(rec noderecord.Record) []string {
	if rec.IsOpen() || v.nw.Spec.OnDrift != nwv1.DriftReapply || v.verifyInterval() == 0 {
		return nil
	}
	return slices.DeleteFunc(drifted(rec), func(name string) bool {
		def, wanted := v.nw.Desired.ByName(name)
		return !wanted || def.Absent
	})
}
