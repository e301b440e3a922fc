package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
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
	for _, m := range v.members {
		if _, pending := v.intents[m.node.UID]; pending || !m.had {
			continue
		}
		if problem := m.node.Malformed[v.nw.Name]; problem != "" {
			continue
		}
		if t := p.newTurn(v, m); t.underWay() {
			t.step()
			t.flush()
		}
	}
}

func (p *pass) newTurn(v *view, m *member) *turn {
	return &turn{p: p, v: v, m: m, rec: m.rec.Clone(), d: Decision{Node: m.node.Name, NodeUID: m.node.UID}}
}

// underWay reports whether anything is left to do for the record itself.
func (t *turn) underWay() bool {
	return t.rec.IsOpen() || t.rec.Interrupt != nil || t.v.ownsCordon(t.m) || t.anyRunning()
}

func (t *turn) anyRunning() bool {
	for _, pkg := range t.rec.Packages {
		if pkg.Running != "" {
			return true
		}
	}
	return false
}

// atRest reports whether no execution and no interrupt of the turn is under way.
func (t *turn) atRest() bool { return !t.anyRunning() && t.rec.Interrupt == nil }

// step records what happened and decides what comes next.
func (t *turn) step() {
	t.collect()
	t.prove()
	switch {
	case t.rec.Outcome == noderecord.Failed:
		t.heal()
	case t.rec.Outcome != noderecord.Open:
		t.giveBack() // an ended turn that still owns a cordon
	case t.hold():
	case t.stuck != nil:
		t.fail(*t.stuck)
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
	code, object, message := t.p.heldBack(t.v)
	if t.m.excluded.Code == Ignored {
		code, object, message = Ignored, "", t.m.excluded.Message
	}
	if code == "" {
		t.unsuspend()
		return false
	}
	if code == Paused {
		t.suspend()
	}
	t.because(code, object, message)
	return true
}

// heldBack is why nothing new may start for a NodeWright; empty if it may.
func (p *pass) heldBack(v *view) (code Code, object, message string) {
	switch {
	case p.in.Standby != "":
		return Standby, "", p.in.Standby
	case v.nw.Deleting:
		return Disabled, "", "the NodeWright is being deleted"
	case v.nw.Disabled:
		return Disabled, "", "the NodeWright is disabled"
	case v.nw.Problem != "":
		return Unresolved, "", v.nw.Problem
	}
	for _, other := range p.views {
		if other.nw.Paused && !other.nw.Disabled {
			return Paused, "nodewright " + other.nw.Name, "NodeWright " + other.nw.Name + " is paused"
		}
		if other == v {
			break
		}
	}
	return "", "", ""
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
	left := workOf(t.v.nw.Desired, t.rec, t.p.in.Snapshots)
	t.recreateMissing(left)
	switch {
	case t.rec.Interrupt != nil:
		t.interrupting()
	case t.exhausted():
		t.endAfterRunning()
	case len(left) == 0 && t.atRest():
		t.conclude()
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
		t.because(NodeNotReady, "", "the node is not Ready")
		return
	}
	if left.disruptive() && !t.passGates() {
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
	if notBefore == nil || !t.p.in.Now.Before(*notBefore) {
		return false
	}
	t.p.wakeAt(*notBefore)
	return true
}

// start begins the next phase of packages: the record says so before their Jobs exist.
func (t *turn) start(items work) {
	t.d.CheckEarlier = !t.rec.Started
	t.rec.Started = true
	for _, it := range items {
		stages := t.begin(it)
		t.d.Start = append(t.d.Start, t.spec(it, stages))
	}
	t.p.markBegun(t.m.node.UID, activity{execution: true})
	t.act(ActionRun)
	t.because(Starting, "", "starting "+namesOf(items))
}

// spec is the execution of an item whose record says that it has begun.
func (t *turn) spec(it item, stages []nwv1.Stage) ExecutionSpec {
	pkg := t.rec.Packages[it.name]
	return ExecutionSpec{
		ExecutionKey: t.keyOf(it.name, pkg), Node: t.m.node.Name, Compartment: t.rec.Compartment, Batch: t.rec.Batch,
		Order: t.rec.Order, Stages: stages, Definition: it.def, Fresh: pkg.Fresh,
		Timeout: t.timeoutOf(it.name, Phase(pkg.Running)), Tolerations: t.v.nw.Spec.AdditionalTolerations,
	}
}

// begin records that the next phase of a package is started, and returns its stages.
func (t *turn) begin(it item) []nwv1.Stage {
	stages := stagesOf(it)
	pkg := it.rec.Clone()
	switch it.next {
	case PhaseInstall:
		pkg = beginInstall(pkg, it)
		t.d.Snapshots = append(t.d.Snapshots, it.def)
	case PhaseConfig:
		pkg = beginConfig(pkg, it)
		t.d.Snapshots = append(t.d.Snapshots, it.def)
	case PhaseUninstall:
		pkg.Removing, pkg.Applied, pkg.Configured = true, "", ""
	}
	pkg.Running, pkg.Stage, pkg.State, pkg.NotBefore = string(it.next), stages[0], nwv1.StateInProgress, nil
	pkg.Attempt++
	t.put(it.name, pkg)
	return stages
}

// beginInstall invalidates what was there: from now on an older success proves nothing.
func beginInstall(pkg noderecord.Package, it item) noderecord.Package {
	anew := pkg.Attempted != it.def.InstallHash || pkg.Applied != ""
	pkg = beginConfig(pkg, it)
	if !anew {
		return pkg
	}
	if pkg.Version == it.def.Version {
		pkg.Fresh = true
	} else {
		pkg.From, pkg.Fresh = pkg.Version, false
	}
	pkg.Version, pkg.Image, pkg.Digest = it.def.Version, it.def.Image, it.def.Digest
	pkg.Attempted, pkg.Applied = it.def.InstallHash, ""
	pkg.DueInstall, pkg.Removing, pkg.Post = true, false, false
	return pkg
}

func beginConfig(pkg noderecord.Package, it item) noderecord.Package {
	pkg.DueKeys = dueKeysAfter(it.def, pkg)
	pkg.Keys = maps.Clone(it.def.KeyHashes)
	pkg.AttemptedConfig, pkg.Configured, pkg.Snapshot = it.def.ConfigHash, "", it.def.SnapshotHash
	return pkg
}

// recreateMissing asks again for executions that the record says were started and that are not seen. Their names are
// fixed, so one that exists already is as good as created.
func (t *turn) recreateMissing(left work) {
	for _, name := range t.missing {
		i := slices.IndexFunc(left, func(it item) bool { return it.name == name && string(it.next) == it.rec.Running })
		if i < 0 || !t.m.node.Ready {
			continue
		}
		t.d.Start = append(t.d.Start, t.spec(left[i], remainingStages(left[i])))
		t.act(ActionRun)
	}
}

// remainingStages are those of an execution that was begun: the record still says with which stage.
func remainingStages(it item) []nwv1.Stage {
	stages := stagesOf(it)
	if it.next == PhaseInstall {
		stages[0] = it.rec.Stage
	}
	return stages
}

// superseded: the turn is of an earlier round. What runs is finished, nothing more of it starts; nodes that nothing
// ran on are released at once, the others keep their slot and wait for their admission to the newest round.
func (t *turn) superseded() {
	switch {
	case !t.rec.Started:
		t.release()
	case !t.atRest():
		t.stopUnbegun()
		t.because(EarlierExecution, "", "an execution of an earlier round is still running")
	case len(t.m.work) == 0 && len(workOf(t.v.nw.Desired, t.rec, t.p.in.Snapshots)) == 0:
		t.conclude()
	default:
		t.because(Superseded, "", "the node waits for its admission to round "+fmt.Sprint(t.v.ledger.Round))
	}
}

// stopUnbegun deletes executions that have not begun a stage: nothing is lost, and one that cannot pull its image would
// never end. An interrupt is left alone where its execution exists; where it was only recorded it stays due.
func (t *turn) stopUnbegun() {
	if t.rec.Interrupt != nil {
		if _, seen := t.v.executions[t.interruptKey()]; !seen {
			t.rec.Interrupt = nil
		}
	}
	for _, e := range t.running {
		if e.State == ExecutionPending && e.Phase != PhaseInterrupt {
			t.d.Stop = append(t.d.Stop, e.Name)
		}
	}
	for _, name := range t.missing {
		pkg := t.rec.Packages[name]
		pkg.Running = ""
		t.put(name, pkg)
	}
	if len(t.d.Stop) > 0 {
		t.act(ActionRecord)
	}
}

// deselected: the NodeWright does not select the node any more. What runs is finished, then the node is given back.
func (t *turn) deselected() {
	if !t.atRest() {
		t.stopUnbegun()
		t.because(EarlierExecution, "", "the node is no longer selected; an execution is still running")
		return
	}
	t.release()
}

// release takes the turn back and leaves a tombstone.
func (t *turn) release() {
	t.rec.Outcome, t.rec.EndedAt = noderecord.Released, t.now()
	t.dropCordon()
	t.act(ActionRelease)
}

// giveBack releases a cordon that an ended turn still owns.
func (t *turn) giveBack() {
	if !t.v.ownsCordon(t.m) {
		return
	}
	t.dropCordon()
	t.act(ActionUncordon)
	t.because(Uncordoning, "", "the node is being given back")
}

// conclude ends a turn whose work is done: the node is Ready, uncordoned by us and settled.
func (t *turn) conclude() {
	if !t.m.node.Ready {
		t.rec.ReadyAt = nil
		t.because(NodeNotReady, "", "all packages are done; the node is not Ready")
		return
	}
	if t.rec.ReadyAt == nil {
		t.rec.ReadyAt = t.now()
	}
	if t.v.ownsCordon(t.m) {
		t.dropCordon()
		t.act(ActionUncordon)
		t.because(Uncordoning, "", "all packages are done; the node is being uncordoned")
		return
	}
	if until := t.rec.ReadyAt.Add(t.v.settle()); t.p.in.Now.Before(until) {
		t.p.wakeAt(until)
		t.because(Settling, "", "the node has to stay Ready until "+until.UTC().Format(time.RFC3339))
		return
	}
	t.succeedTurn()
}

func (t *turn) succeedTurn() {
	t.rec.Outcome, t.rec.EndedAt, t.rec.Failure, t.rec.Healed = noderecord.Succeeded, t.now(), nil, false
	for name, pkg := range t.rec.Packages {
		if _, wanted := t.v.nw.Desired.ByName(name); !wanted {
			delete(t.rec.Packages, name) // not wanted and nothing to uninstall: the files stay, the record goes
			continue
		}
		pkg.DueInstall, pkg.DueKeys, pkg.Failures, pkg.NotBefore = false, nil, 0, nil
		t.put(name, pkg)
	}
	t.act(ActionComplete)
	t.because(Complete, "", "every package is done")
}

// fail ends the turn. The node stays cordoned if we cordoned it.
func (t *turn) fail(failure noderecord.Failure) {
	t.rec.Outcome, t.rec.EndedAt, t.rec.Failure, t.rec.ReadyAt = noderecord.Failed, t.now(), &failure, nil
	t.d.Stop = append(t.d.Stop, t.overdue...)
	t.act(ActionFail)
	t.becauseFailed()
}

// heal lets a node whose trouble mended itself go on: what came good is recorded, and if nothing is left the node is
// given back. For more it waits to be admitted again.
func (t *turn) heal() {
	left := workOf(t.v.nw.Desired, t.rec, t.p.in.Snapshots)
	switch {
	case !t.m.selected && t.atRest():
		t.release()
	case len(left) == 0 && t.atRest() && t.v.current(t.rec):
		t.conclude()
	case t.healed:
		t.rec.Healed = true
		t.act(ActionRecord)
		t.becauseFailed()
	default:
		t.becauseFailed()
	}
}

func (t *turn) dropCordon() {
	if t.v.ownsCordon(t.m) {
		t.d.Cordon = CordonDrop
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

func (t *turn) put(name string, pkg noderecord.Package) {
	if t.rec.Packages == nil {
		t.rec.Packages = map[string]noderecord.Package{}
	}
	t.rec.Packages[name] = pkg
}

func (t *turn) forget(name string) { delete(t.rec.Packages, name) }

// flush turns what was decided into a decision, with the record if it changed.
func (t *turn) flush() {
	if !reflect.DeepEqual(t.rec, t.m.rec) && noderecord.Encode(t.rec) != noderecord.Encode(t.m.rec) {
		rec, before := t.rec, t.m.node.Records[t.v.nw.Name]
		t.d.Record, t.d.Before = &rec, &before
		t.act(ActionRecord)
	}
	if t.d.Action == "" && len(t.d.Suspend)+len(t.d.Unsuspend) > 0 {
		t.d.Action = ActionRecord
	}
	if t.d.Action == "" {
		return
	}
	if t.d.Before == nil {
		before := t.m.node.Records[t.v.nw.Name]
		t.d.Before = &before
	}
	t.d.Status = statusOf(t.v.reasons[t.m.node.Name].Code)
	t.v.decide(t.d)
}
