package plan

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// turn is one node's turn under one NodeWright in this pass: the gates from cordon to uncordon.
type turn struct {
	p *pass
	v *view
	m *member
	// rec is what the record becomes.
	rec noderecord.Record
	d   Decision
	// packagesOwned says that the packages of rec are its own, and not the seen record's.
	packagesOwned bool
	// running are executions that have not ended; missing are packages whose execution was started and is not seen;
	// overdue are Jobs to delete because their deadline passed.
	running []Execution
	missing []string
	overdue []string
	// stuck is why the turn has to end although an execution is still there.
	stuck *noderecord.Failure
	// healed says that something succeeded in this pass.
	healed bool
}

// turns moves every node that is under way one step on.
func (p *pass) turns(v *view) {
	for _, m := range v.busy {
		if m.intent == nil && m.had && m.malformed() == "" && (m.anythingLeft() || v.stored.abandoned && m.rec.Outcome == noderecord.Failed) {
			t := p.newTurn(v, m)
			t.step()
			t.noteBoot()
			t.flush()
		}
	}
}

// newTurn is a turn with a record of its own: see put for the packages.
func (p *pass) newTurn(v *view, m *member) *turn {
	t := &turn{p: p, v: v, m: m, rec: m.rec, d: Decision{Node: m.node.Name, NodeUID: m.node.UID}}
	if i := m.rec.Interrupt; i != nil {
		own := *i
		t.rec.Interrupt = &own
	}
	return t
}

// anythingLeft reports whether anything is left to do for the record itself.
func (m *member) anythingLeft() bool {
	return m.rec.IsOpen() || m.rec.Interrupt != nil || m.ownsCordon() || m.standing.running
}

func anyRunning(rec noderecord.Record) bool {
	for _, pkg := range rec.Packages {
		if pkg.Running != "" {
			return true
		}
	}
	return false
}

func (t *turn) anyRunning() bool { return anyRunning(t.rec) }

// atRest reports whether no execution and no interrupt of the turn is under way.
func (t *turn) atRest() bool { return !t.anyRunning() && t.rec.Interrupt == nil }

// step records what happened and decides what comes next.
func (t *turn) step() {
	t.sinceNow()
	t.collect()
	t.prove()
	t.abandon()
	switch {
	case t.rec.Outcome == noderecord.Failed:
		t.heal()
	case t.rec.Outcome != noderecord.Open:
		t.giveBack() // an ended turn that still owns a cordon
	case t.hold():
	case t.stuck != nil:
		t.fail(*t.stuck)
	case !t.m.selected && t.v.current(t.rec) && t.exhausted() && t.atRest():
		t.endAfterRunning() // it failed before it left, and its batch counts that
	case !t.m.selected:
		t.deselected()
	case !t.v.current(t.rec):
		t.superseded()
	default:
		t.advance()
	}
}

// hold stops everything but the recording of results, for the reasons that people or configuration give.
func (t *turn) hold() bool {
	why := t.v.held
	if t.m.excluded.is(Ignored) {
		why = t.m.excluded
	}
	if why == nil {
		t.unsuspend()
		return false
	}
	switch paused := why.is(Paused) || t.v.nw.Paused && why.is(Disabled); {
	case paused && len(t.running) > 0: // a pause stops what runs, also of one that is disabled
		t.suspend()
		if why.is(Disabled) {
			why = &cause{Disabled, "nodewright " + t.v.nw.Name, "NodeWright " + t.v.nw.Name + " is paused, and disabled"}
		}
		why = &cause{Suspended, why.object, t.atWork() + " is suspended: " + why.message}
	case why.is(Disabled):
		t.unsuspend()
		if len(t.running) > 0 {
			why = &cause{Disabled, why.object, why.message + "; " + t.atWork() + " goes on to its end"}
		}
	}
	t.m.because(why)
	return true
}

// atWork names what runs.
func (t *turn) atWork() string {
	var parts []string
	for _, e := range t.running {
		part := "package " + e.Package
		if e.Package == "" {
			part = "the interrupt"
		}
		stage := string(e.Stage)
		if stage == "" {
			stage = string(e.Phase)
		}
		parts = append(parts, part+", stage "+stage)
	}
	slices.Sort(parts)
	return strings.Join(parts, " and ")
}

// heldBack is why nothing new may start for a NodeWright.
func (p *pass) heldBack(v *view) *cause {
	switch {
	case p.in.Standby != "":
		return &cause{Standby, "", p.in.Standby}
	case v.nw.Deleting && !v.nw.Finalizer:
		return &cause{Disabled, "", "the NodeWright is being deleted"}
	case v.nw.Disabled:
		return &cause{Disabled, "", "the NodeWright is disabled"}
	case v.nw.Problem != "":
		return &cause{Unresolved, "", v.nw.Problem}
	case v.nw.OutOfScope != "":
		return &cause{OutOfScope, "fleet " + v.nw.Fleet, v.nw.OutOfScope}
	case v.outdated:
		return &cause{Standby, "", "the NodeWright was read from a view that is older than its rollout"}
	}
	for _, other := range p.views {
		if other.nw.Paused && !other.nw.Disabled {
			return &cause{Paused, "nodewright " + other.nw.Name, "NodeWright " + other.nw.Name + " is paused"}
		}
		if other == v {
			break
		}
	}
	return nil
}

func (t *turn) suspend() {
	for _, e := range t.running {
		if !e.Suspended {
			t.d.Suspend = append(t.d.Suspend, e.Name)
		}
	}
}

func (t *turn) unsuspend() {
	for _, e := range t.running {
		if e.Suspended {
			t.d.Unsuspend = append(t.d.Unsuspend, e.Name)
		}
	}
}

// advance goes through the gates of a turn in the newest round.
func (t *turn) advance() {
	left := t.left()
	t.recreateMissing(left)
	switch {
	case t.rec.Interrupt != nil:
		t.interrupting()
	case t.exhausted():
		t.endAfterRunning()
	case len(left) == 0 && t.atRest():
		if !t.besideLeftover() {
			t.conclude()
		}
	default:
		t.workOn(left)
	}
}

// endAfterRunning ends a turn in which a package failed for good, once nothing runs any more.
func (t *turn) endAfterRunning() {
	if t.anyRunning() {
		t.becauseRunning()
		return
	}
	failure := noderecord.Failure{Reason: string(PackageFailed)}
	if t.rec.Failure != nil {
		failure = *t.rec.Failure
	}
	t.fail(failure)
}

// workOn starts what can be started behind the gates, or says what is waited for.
func (t *turn) workOn(left work) {
	start, interrupt := t.startable(left)
	if len(start) == 0 && len(interrupt) == 0 {
		t.becauseWaiting(left)
		return
	}
	if !t.m.node.Ready {
		t.waitUntilReady(left)
		return
	}
	if t.besideLeftover() {
		return
	}
	if left.disruptive() && !start.onlyChecks() && !t.passGates() {
		return
	}
	if len(start) > 0 {
		t.start(start)
		return
	}
	t.interrupt(interrupt)
}

// startable are the packages whose next phase may start now, or, when no stage that is reachable without them is
// running or runnable, those whose interrupt is due.
func (t *turn) startable(left work) (start, interrupt work) {
	ready, _ := left.ready()
	elsewhere := t.p.busyElsewhere(t.m.node, t.v.nw.Name)
	blocked := elsewhere.interrupt
	pending := t.anyRunning()
	for _, it := range ready {
		switch {
		case it.rec.Running != "":
		case it.awaitsInterrupt():
			interrupt = append(interrupt, it)
		case t.waitsForRetry(it.rec.NotBefore):
			pending = true
		case !blocked:
			start = append(start, it)
		}
	}
	start = t.checksFirst(start)
	if t.v.nw.Spec.Serial && len(start) > 0 {
		start = inOrder(start, t.v.nw.Desired)[:1]
		if t.anyRunning() {
			start = nil
		}
	}
	if pending || len(start) > 0 || blocked || elsewhere.execution {
		interrupt = nil
	}
	return start, interrupt
}

func (t *turn) waitsForRetry(notBefore *time.Time) bool {
	if notBefore == nil || !t.p.isAhead(*notBefore) {
		return false
	}
	t.p.wakeAt(*notBefore)
	return true
}

// isAhead reports whether a time for the next attempt is still to come. One that lies further ahead than the longest wait was
// written by a process whose clock was wrong, and has come.
func (p *pass) isAhead(notBefore time.Time) bool {
	longest := max(p.in.Settings.RetryBackoff<<longestShift, maxSetbackWait)
	return p.in.Now.Before(notBefore) && !p.in.Now.Add(longest).Before(notBefore)
}

// sinceNow keeps what counts from a moment from counting from one that is still to come, by another process's clock.
func (t *turn) sinceNow() {
	for _, at := range []**time.Time{&t.rec.ReadyAt, &t.rec.WaitSince, &t.rec.DrainSince} {
		if *at != nil && t.p.in.Now.Before(**at) {
			*at = t.now()
		}
	}
	if i := t.rec.Interrupt; i != nil && t.p.in.Now.Before(i.At) {
		i.At = t.p.in.Now
	}
}

// act names the decision; the first name stays, as it says most.
func (t *turn) act(a Action) {
	if t.d.Action == "" {
		t.d.Action = a
	}
}

func (t *turn) now() *time.Time {
	now := t.p.in.Now
	return &now
}

// put writes a package of the turn's record. The packages are the seen record's until the first write.
func (t *turn) put(name string, pkg noderecord.Package) {
	t.ownPackages()
	t.rec.Packages[name] = pkg
}

func (t *turn) forget(name string) {
	t.ownPackages()
	delete(t.rec.Packages, name)
}

func (t *turn) ownPackages() {
	if t.packagesOwned {
		return
	}
	t.packagesOwned = true
	own := make(map[string]noderecord.Package, len(t.rec.Packages))
	maps.Copy(own, t.rec.Packages)
	t.rec.Packages, t.rec.Shared = own, 0
}

// left is what is left to do by the turn's record.
func (t *turn) left() work { return workOf(&t.v.nw.Desired, t.rec, t.v.stored) }

// flush turns what was decided into a decision, with the record if it changed.
func (t *turn) flush() {
	if !reflect.DeepEqual(t.rec, t.m.rec) && noderecord.Encode(t.rec) != noderecord.Encode(t.m.rec) {
		rec := t.rec
		t.d.Record = &rec
		t.act(ActionRecord)
	}
	if len(t.d.Stop) > 0 { // a Job that is deleted goes on with nothing
		t.d.Unsuspend = slices.DeleteFunc(t.d.Unsuspend, func(job string) bool { return slices.Contains(t.d.Stop, job) })
	}
	if t.d.Action == "" && len(t.d.Suspend)+len(t.d.Unsuspend)+len(t.d.Stop) > 0 {
		t.d.Action = ActionRecord
	}
	if t.d.Action == "" {
		return
	}
	if seen, had := t.m.node.Records[t.v.nw.Name]; had {
		t.d.Before = &seen
	}
	t.d.Status = statusOf(t.m.code())
	if failedFor(t.rec, t.m.code()) {
		t.d.Status = nwv1.StatusErroring
	}
	if !t.m.selected && t.rec.Outcome != noderecord.Open {
		t.d.Status = "" // nobody reads a word about a node that left
	}
	t.m.decide(t.d)
}
