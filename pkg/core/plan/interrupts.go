package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// rank orders interrupts by what they include: reboot ⊃ restartAllServices ⊃ service ⊃ noop.
func rank(t nwv1.InterruptType) int {
	switch t {
	case nwv1.InterruptReboot:
		return 3
	case nwv1.InterruptRestartAllServices:
		return 2
	case nwv1.InterruptService:
		return 1
	}
	return 0
}

// union is the one interrupt that stands for both; nil if both are nil. Services of two service interrupts add up.
func union(a, b *nwv1.Interrupt) *nwv1.Interrupt {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case rank(a.Type) > rank(b.Type):
		return a
	case rank(a.Type) < rank(b.Type):
		return b
	case a.Type != nwv1.InterruptService:
		return a
	}
	services := append(slices.Clone(a.Services), b.Services...)
	slices.Sort(services)
	return &nwv1.Interrupt{Type: a.Type, Services: slices.Compact(services)}
}

// merged is the one interrupt that stands for all that are due on a node now, and the packages that it covers.
func merged(due []item) (interrupt *nwv1.Interrupt, packages []string) {
	for _, it := range due {
		interrupt = union(interrupt, it.due)
		packages = append(packages, it.name)
	}
	return interrupt, packages
}

// interrupt requests the one interrupt that stands for all that are due. It is recorded, with the boot ID, before its
// execution exists.
func (t *turn) interrupt(due work) {
	what, packages := merged(due)
	if !t.provable(what.Type) {
		return
	}
	t.rec.Started = true
	t.rec.Waves++
	t.rec.Interrupt = &noderecord.Interrupt{
		Type: what.Type, Services: what.Services, Packages: packages, Wave: t.rec.Waves, Attempt: 1,
		BootIDBefore: t.m.node.BootID, At: t.p.in.Now,
	}
	for i, it := range due {
		pkg := t.rec.Packages[it.name]
		pkg.Stage, pkg.State = nwv1.StageInterrupt, nwv1.StateInProgress
		if it.removal {
			pkg.Stage = nwv1.StageUninstallInterrupt
		}
		if i > 0 {
			pkg.State = nwv1.StateSkipped
		}
		t.put(it.name, pkg)
	}
	t.startInterrupt()
}

// provable reports whether it could be seen that an interrupt that begins now has happened.
func (t *turn) provable(what nwv1.InterruptType) bool {
	if what != nwv1.InterruptReboot || t.m.node.BootID != "" {
		return true
	}
	t.because(NodeNotReady, "", "the node reports no boot ID, by which a reboot would be proven")
	return false
}

func (t *turn) startInterrupt() {
	t.launch(t.interruptSpec())
	t.p.markBegun(t.m.node.UID, activity{interrupt: true})
	t.act(ActionInterrupt)
	t.becauseInterrupting()
}

func (t *turn) interruptKey() ExecutionKey {
	i := t.rec.Interrupt
	return ExecutionKey{
		NodeWright: t.v.nw.Name, NodeWrightUID: t.rec.NodeWright, NodeUID: t.m.node.UID, Round: t.rec.Round,
		Phase: PhaseInterrupt, Wave: i.Wave, Attempt: i.Attempt,
	}
}

func (t *turn) interruptSpec() ExecutionSpec {
	i := *t.rec.Interrupt
	return ExecutionSpec{
		ExecutionKey: t.interruptKey(), Node: t.m.node.Name, Compartment: t.rec.Compartment, Batch: t.rec.Batch,
		Order: t.rec.Order, Stages: []nwv1.Stage{nwv1.StageInterrupt}, Interrupt: &i,
		InterruptPackage: t.interruptPackage(), Guard: t.guard(), Timeout: t.interruptTimeout(),
		Tolerations: t.v.nw.Spec.AdditionalTolerations, Unowned: t.v.nw.Deleting,
	}
}

// guard lets exactly those pods stay that are there now, as the gates have just let the interrupt pass with them, and what
// stays on every node. Any other pod has come since, and nobody has asked whether it may be disturbed.
func (t *turn) guard() InterruptGuard {
	cfg := t.v.nw.Spec.DrainConfig.Settings()
	g := InterruptGuard{Protect: protectedBy(t.v.nw), DaemonSets: cfg.IgnoreDaemonSets}
	for _, p := range t.m.node.Pods {
		_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
		staysAnyway := mirror || cfg.IgnoreDaemonSets && controlledByDaemonSet(p)
		if !finished(p) && !isOurs(p, t.p.in.Settings.Namespace) && !staysAnyway {
			g.Stay = append(g.Stay, p.UID)
		}
	}
	slices.Sort(g.Stay)
	return g
}

// interruptPackage is the package in whose directory the interrupt runs: the first of which the definition is known.
func (t *turn) interruptPackage() (def desired.Package) {
	for _, name := range t.rec.Interrupt.Packages {
		if def = t.definition(name); def.Image != "" {
			break
		}
	}
	return def
}

// definition of a package: the wanted one, or the snapshot of what is on the host.
func (t *turn) definition(name string) desired.Package {
	if def, ok := t.v.nw.Desired.ByName(name); ok && !def.Absent {
		return def
	}
	return t.p.snapshot(t.rec.Packages[name].Snapshot)
}

// interruptTimeout is the longest stage time-out of the packages that the interrupt is for; 0 is no bound.
func (t *turn) interruptTimeout() time.Duration {
	longest := time.Duration(0)
	for _, name := range t.rec.Interrupt.Packages {
		limit := t.timeoutOf(name, PhaseInterrupt)
		if limit == 0 {
			return 0
		}
		longest = max(longest, limit)
	}
	return longest
}

// prove looks for the proof that a requested interrupt has happened: for a reboot another boot ID and nothing else,
// for the others the success of the execution.
func (t *turn) prove() {
	i := t.rec.Interrupt
	if i == nil {
		return
	}
	e, seen := t.execution(t.interruptKey())
	if t.proven(e) {
		t.interruptDone() // its execution may not have ended, or not even begun: see leftover
		return
	}
	if seen && !e.Ended() {
		t.running = append(t.running, e)
		t.watchTrouble(i.Packages[0], e)
	}
	switch {
	case t.rec.Outcome == noderecord.Failed:
	case t.interruptOverdue(e):
		if seen && e.stuck() {
			t.overdue = append(t.overdue, e.Name) // one that has not begun must not begin late
		}
		t.giveUpInterrupt(e, "was not proven within "+t.interruptTimeout().String())
	case i.NotBefore != nil || !seen || !e.Ended():
	case e.refused() || e.Disrupted && i.Type != nwv1.InterruptReboot:
		t.setInterruptBack(e)
	case t.rebootMayStillShow(e):
	default:
		t.countInterruptFailure(e)
	}
}

func (t *turn) proven(e Execution) bool {
	i := t.rec.Interrupt
	if i.Type == nwv1.InterruptReboot {
		return i.BootIDBefore != "" && t.m.node.BootID != "" && t.m.node.BootID != i.BootIDBefore
	}
	return e.State == ExecutionSucceeded
}

// interruptOverdue: a pause takes nothing of the time, which begins anew when the execution goes on.
func (t *turn) interruptOverdue(e Execution) bool {
	limit := t.interruptTimeout()
	if limit == 0 || e.Suspended {
		return false
	}
	since := t.rec.Interrupt.At
	if e.Created.After(since) {
		since = e.Created
	}
	return t.over(since.Add(limit))
}

// rebootMayStillShow: the execution of a reboot ends one way or another with the machine; that says nothing until the
// node has been Ready with the old boot ID for a while.
func (t *turn) rebootMayStillShow(e Execution) bool {
	if t.rec.Interrupt.Type != nwv1.InterruptReboot {
		return false
	}
	at := e.Finished.Add(t.p.in.Settings.RebootGrace)
	t.p.wakeAt(at)
	return !t.m.node.Ready || t.p.in.Now.Before(at)
}

// refused reports whether nothing of the execution ran: no reboot can have been asked for.
func (e Execution) refused() bool { return e.Cause == PodRefused || e.Cause == InterruptRefused }

// setInterruptBack has an attempt made again that did not count. The gates are asked again before it.
func (t *turn) setInterruptBack(e Execution) {
	i := t.rec.Interrupt
	i.Setback = setback(i.Setback, e)
	i.NotBefore = t.after(t.setbackWait(i.Setback))
	if i.Setback.Count >= maxSetbacks {
		f := setbackFailure(i.Packages[0], nwv1.StageInterrupt, i.Setback)
		t.stuck = &f
	}
}

// countInterruptFailure counts an attempt once: the last one has no next whose time would say that it was counted, and is
// looked at again in each pass while a pause keeps the turn from failing.
func (t *turn) countInterruptFailure(e Execution) {
	i := t.rec.Interrupt
	if i.Failures < t.p.in.Settings.Attempts {
		i.Failures++
	}
	i.Setback = nil
	if i.Failures >= t.p.in.Settings.Attempts {
		t.giveUpInterrupt(e, "failed in every attempt")
		return
	}
	t.retryInterrupt()
}

func (t *turn) retryInterrupt() {
	i := t.rec.Interrupt
	i.NotBefore = t.after(t.p.in.Settings.RetryBackoff << max(0, min(i.Failures-1, longestShift)))
}

// giveUpInterrupt makes the turn fail. The request stays on the record: should the node come back late, it is proven
// then.
func (t *turn) giveUpInterrupt(e Execution, why string) {
	message := "the " + string(t.rec.Interrupt.Type) + " interrupt " + why
	if e.Message != "" {
		message += ": " + tail(e.Message)
	}
	t.stuck = &noderecord.Failure{
		Package: t.rec.Interrupt.Packages[0], Stage: nwv1.StageInterrupt, ExitCode: e.ExitCode,
		Reason: string(InterruptFailed), Message: message,
	}
}

// interruptDone clears what was due and makes the post-interrupt stages due.
func (t *turn) interruptDone() {
	for _, name := range t.rec.Interrupt.Packages {
		pkg, ok := t.rec.Packages[name]
		switch {
		case !ok:
			continue
		case pkg.DueUninstall:
			t.forget(name)
			continue
		}
		pkg.DueInstall, pkg.DueKeys, pkg.Post = false, nil, true
		pkg.Stage, pkg.State = nwv1.StageInterrupt, nwv1.StateComplete
		t.put(name, pkg)
	}
	t.p.noteReboot(&t.rec, t.m.node.BootID)
	t.rec.Interrupt = nil
	t.healed = true
}

// interrupting is a turn whose interrupt is in flight.
func (t *turn) interrupting() {
	i := t.rec.Interrupt
	_, seen := t.execution(t.interruptKey())
	switch {
	case i.NotBefore != nil && t.waitsForRetry(i.NotBefore):
		t.becauseInterruptWaits(i)
	case i.NotBefore != nil && t.m.node.Ready:
		if t.provable(i.Type) && t.passGates() {
			i.Attempt++
			i.NotBefore, i.At, i.BootIDBefore = nil, t.p.in.Now, t.m.node.BootID
			t.startInterrupt()
		}
	case i.NotBefore == nil && !seen && t.m.node.Ready:
		if t.leftover() == "" && t.passGates() {
			t.startInterrupt()
		}
	default:
		t.becauseInterrupting()
	}
}

func (t *turn) becauseInterruptWaits(i *noderecord.Interrupt) {
	if s := i.Setback; s != nil {
		t.because(Code(s.Reason), packageRef(i.Packages[0]), "the "+string(i.Type)+" interrupt: "+setbackSentence(s, *i.NotBefore))
		return
	}
	t.because(RetryBackoff, "", "the next attempt of the interrupt is due at "+i.NotBefore.UTC().Format(time.RFC3339))
}
