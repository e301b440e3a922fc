package plan

import (
	"fmt"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// superseded: the turn is of an earlier round. What runs is finished, nothing more of it starts; nodes that nothing
// ran on are released at once, the others keep their slot and wait for their admission to the newest round.
func (t *turn) superseded() {
	switch {
	case !t.rec.Started:
		t.release()
	case !t.atRest():
		t.stopUnbegun()
		t.because(EarlierExecution, "", "an execution of an earlier round is still running")
	case t.m.standing.done && len(t.left()) == 0:
		t.conclude()
	default:
		t.because(Superseded, "", "the node waits for its admission to round "+fmt.Sprint(t.v.ledger.Round))
	}
}

// stopUnbegun deletes executions that have not begun a stage or cannot go on: nothing is lost, and one that cannot pull
// its image would never end. So are attempts of a package that failed before: what is wanted now may be the fix. What the record says was started and is not there is forgotten.
func (t *turn) stopUnbegun() {
	t.dropInterrupt()
	for _, e := range t.running {
		if (e.stuck() || t.rec.Packages[e.Package].Failures > 0) && e.Phase != PhaseInterrupt {
			t.d.Stop = append(t.d.Stop, e.Name)
			t.keepStages(e)
		}
	}
	t.forgetMissing()
	if len(t.d.Stop) > 0 {
		t.act(ActionRecord)
	}
}

// dropInterrupt takes an interrupt back that is between two attempts, or that was recorded and never requested: it stays
// due. One that was requested is left alone, also when its execution is gone while the node is away: it may be rebooting.
func (t *turn) dropInterrupt() {
	if t.rec.Interrupt == nil {
		return
	}
	e, seen := t.execution(t.interruptKey())
	over := !seen || e.Ended() && t.endsHere()
	if t.rec.Interrupt.NotBefore != nil || over && t.m.node.Ready {
		t.dropRequest()
	}
}

// endsHere: the turn has failed, and no other one is to come that would take its interrupt over.
func (t *turn) endsHere() bool {
	return t.rec.Outcome == noderecord.Failed && (!t.m.selected || t.m.standing.done && !t.m.ownsCordon())
}

// forgetMissing notes that executions which are not there will not end.
func (t *turn) forgetMissing() {
	for _, name := range t.missing {
		t.forgetRunning(name)
	}
}

func (t *turn) forgetRunning(name string) {
	pkg := t.rec.Packages[name]
	pkg.Running = ""
	t.put(name, pkg)
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
	t.rec.Outcome, t.rec.EndedAt, t.rec.Interrupt = noderecord.Released, t.now(), nil
	t.dropCordon()
	t.act(ActionRelease)
}

// giveBack releases a cordon that an ended turn still owns.
func (t *turn) giveBack() {
	if !t.m.ownsCordon() {
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
	if t.m.ownsCordon() {
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
	t.rec.Outcome, t.rec.EndedAt, t.rec.Healed = noderecord.Succeeded, t.now(), false
	t.rec.Failure, t.rec.FirstFailure = nil, nil
	for name, pkg := range t.rec.Packages {
		if def, wanted := t.v.nw.Desired.ByName(name); !wanted || def.Absent {
			t.forget(name) // not wanted and nothing to uninstall: the files stay, the record goes
			continue
		}
		pkg.DueInstall, pkg.DueKeys, pkg.Failures, pkg.Setback, pkg.NotBefore = false, nil, 0, nil, nil
		t.put(name, pkg)
	}
	t.act(ActionComplete)
	t.because(Complete, "", "every package is done")
}

// fail ends the turn. The node stays cordoned if we cordoned it.
func (t *turn) fail(failure noderecord.Failure) {
	t.rec.Outcome, t.rec.EndedAt, t.rec.ReadyAt = noderecord.Failed, t.now(), nil
	t.noteFailure(failure)
	if !t.exhausted() {
		t.noteRetries()
	}
	t.d.Stop = append(t.d.Stop, t.overdue...)
	t.act(ActionFail)
	t.becauseFailed()
}

// heal lets a node whose trouble mended itself go on: what came good is recorded, and if nothing is left the node is
// given back. For more it waits to be admitted again.
func (t *turn) heal() {
	t.forgetMissing()
	if t.v.held != nil {
		t.becauseFailed() // what is wanted may not be known, and nothing may be given back
		return
	}
	if !t.m.selected || !t.v.current(t.rec) {
		t.stopUnbegun() // of an older content nothing starts any more
	}
	left := t.left()
	switch {
	case !t.m.selected && t.given():
		t.giveBack() // it has failed all the same, and its batch counts it
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

// given reports whether a failed node that is no longer selected can be given back: nothing of ours runs on it, and it is
// not away in an interrupt.
func (t *turn) given() bool {
	return t.m.node.Ready && !t.m.anyExecution(notEnded)
}

func (t *turn) dropCordon() {
	if t.m.ownsCordon() {
		t.d.Cordon = CordonDrop
	}
}
