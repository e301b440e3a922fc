package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// collect records the results of executions that ended.
func (t *turn) collect() {
	for _, name := range slices.Sorted(maps.Keys(t.rec.Packages)) {
		pkg := t.rec.Packages[name]
		if pkg.Running == "" {
			continue
		}
		if pkg.Running == string(PhaseVerify) {
			t.collectVerification(name, pkg)
			continue
		}
		e, seen := t.execution(t.keyOf(name, pkg))
		switch {
		case !seen:
			t.missing = append(t.missing, name)
		case e.State == ExecutionSucceeded, e.State == ExecutionFailed && e.whole():
			t.succeed(name, pkg)
		case e.State == ExecutionFailed:
			t.recordFailure(name, pkg, e)
		default:
			t.watch(name, e)
		}
	}
}

// execution that is seen with that key.
func (t *turn) execution(key ExecutionKey) (Execution, bool) {
	e := t.v.executions[key]
	if e == nil {
		return Execution{}, false
	}
	return *e, true
}

func (t *turn) keyOf(name string, pkg noderecord.Package) ExecutionKey {
	return ExecutionKey{
		NodeWright: t.v.nw.Name, NodeWrightUID: t.rec.NodeWright, NodeUID: t.m.node.UID, Round: t.rec.Round,
		Package: name, Phase: Phase(pkg.Running), Attempt: pkg.Attempt,
	}
}

// succeed records a phase that ended well.
func (t *turn) succeed(name string, pkg noderecord.Package) {
	phase := Phase(pkg.Running)
	pkg.Running, pkg.Failures, pkg.Setback, pkg.NotBefore, pkg.State = "", 0, nil, nil, nwv1.StateComplete
	switch phase {
	case PhaseCheck:
		if def := t.p.snapshots[pkg.Checked]; def != nil {
			pkg = satisfied(pkg, *def)
		}
	case PhaseInstall:
		pkg = applied(pkg)
		pkg.Configured, pkg.Stage = pkg.AttemptedConfig, nwv1.StageConfig
	case PhaseConfig:
		pkg.Configured, pkg.Stage = pkg.AttemptedConfig, nwv1.StageConfig
	case PhasePost:
		pkg.Post, pkg.Stage = false, nwv1.StagePostInterrupt
	case PhaseUninstall:
		if t.removed(name, pkg).Interrupt == nil {
			t.forget(name)
			t.forgive(name)
			return
		}
		pkg.DueUninstall, pkg.Stage, pkg.State = true, nwv1.StageUninstallInterrupt, nwv1.StateInProgress
	}
	t.put(name, pkg)
	t.forgive(name)
	t.healed = true
}

// removed is the definition of a package that is being taken off: its snapshot, or else what is wanted.
func (t *turn) removed(name string, pkg noderecord.Package) desired.Package {
	if old := t.p.snapshots[pkg.Snapshot]; old != nil {
		return *old
	}
	def, _ := t.v.nw.Desired.ByName(name)
	return def
}

// applied is the package after its apply or upgrade stage.
func applied(pkg noderecord.Package) noderecord.Package {
	pkg.Applied, pkg.From, pkg.Fresh = pkg.Attempted, "", false
	return pkg
}

// installed reports whether the apply or upgrade stage of the execution succeeded.
func installed(e Execution) bool {
	return slices.Contains(e.Done, nwv1.StageApply) || slices.Contains(e.Done, nwv1.StageUpgrade)
}

// whole reports whether the last stage of the execution succeeded. Its pod may fail all the same, by a deadline or with its
// machine, directly after that: the work is done, and running it again would be a second time.
func (e Execution) whole() bool {
	switch e.Phase {
	case PhaseInstall, PhaseConfig:
		return slices.Contains(e.Done, nwv1.StageConfig)
	case PhasePost:
		return slices.Contains(e.Done, nwv1.StagePostInterrupt)
	case PhaseUninstall:
		return slices.Contains(e.Done, nwv1.StageUninstall)
	}
	return false
}

// stuck reports whether the execution has not begun a stage or cannot go on: deleting it loses nothing.
func (e Execution) stuck() bool {
	return !e.Ended() && (e.State == ExecutionPending || e.Trouble != "")
}

// isTrouble reports whether the code is one of an execution whose pod cannot run.
func (c Code) isTrouble() bool {
	switch c {
	case ImagePull, ContainerCannotRun, CrashLoop, InsufficientResources, NoPod, PodNotAcknowledged:
		return true
	}
	return false
}

// tolerated reports whether a trouble makes the node fail when it lasts longer than Settings.PullTolerance. The others are
// the cluster's and may last; the stage's timeout bounds them.
func (c Code) tolerated() bool { return c == ImagePull || c == ContainerCannotRun || c == CrashLoop }

// running reports whether a stage of the execution is running.
func (e Execution) running() bool { return e.State == ExecutionRunning && e.Trouble == "" }

// atWork reports whether a stage of the execution is running, or may begin at any moment: a pod that does not fit runs as
// soon as another one leaves.
func (e Execution) atWork() bool {
	return !e.Ended() && e.Trouble != ImagePull && e.Trouble != ContainerCannotRun
}

// kubeletSlack is what an execution may take beyond its bound: the pod's own deadline ends it first, unless no kubelet ever
// takes the pod.
const kubeletSlack = time.Minute

// watch looks at an execution that has not ended: trouble that outlasts its tolerance, and deadlines, make the node fail
// while the execution may still come good.
func (t *turn) watch(name string, e Execution) {
	t.running = append(slices.Grow(t.running, len(t.m.node.Executions)-len(t.running)), e)
	t.watchTrouble(name, e)
	limit := t.timeoutOf(name, Phase(t.rec.Packages[name].Running))
	if limit == 0 {
		return
	}
	at := e.Created.Add(limit + kubeletSlack)
	if !t.p.in.Now.Before(at) && !e.Suspended {
		t.stuck = overdueFailure(name, e, limit)
		t.overdue = append(t.overdue, e.Name)
		t.keepStages(e)
	}
	t.p.wakeAt(at)
}

// keepStages records what succeeded in an execution that is about to be deleted.
func (t *turn) keepStages(e Execution) {
	if installed(e) {
		t.put(e.Package, applied(t.rec.Packages[e.Package]))
	}
}

// overdueFailure names the trouble in which the deadline found the execution.
func overdueFailure(name string, e Execution, limit time.Duration) *noderecord.Failure {
	f := &noderecord.Failure{
		Package: name, Stage: e.Stage, Reason: string(StageTimeout), Message: fmt.Sprintf("the execution did not end within %s", limit),
	}
	if e.Trouble.isTrouble() {
		f.Reason, f.Message = string(e.Trouble), tail(fmt.Sprintf("the execution did not end within %s: %s", limit, e.TroubleMessage))
	}
	return f
}

// watchTrouble ends the turn when an image cannot be pulled, or a container not be started, for longer than is
// tolerated. The execution stays and may still come good.
func (t *turn) watchTrouble(name string, e Execution) {
	if !e.Trouble.tolerated() {
		return
	}
	at := e.TroubleSince.Add(t.p.in.Settings.PullTolerance)
	if !t.p.in.Now.Before(at) {
		t.stuck = &noderecord.Failure{
			Package: name, Stage: e.Stage, Reason: string(e.Trouble), Message: tail(e.TroubleMessage),
		}
	}
	t.p.wakeAt(at)
}

// longestTimeout bounds what a package may ask for: a pod's deadline has no more than 31 bits of seconds.
const longestTimeout = 10 * 365 * 24 * time.Hour

// timeoutOf is the bound of a phase: that of its package for each of its stages.
func (t *turn) timeoutOf(name string, phase Phase) time.Duration {
	limit := t.p.in.Settings.StageTimeout
	def, known := t.v.nw.Desired.ByName(name)
	if !known {
		def = t.p.snapshot(t.rec.Packages[name].Snapshot)
	}
	if def.StageTimeout != nil {
		limit = *def.StageTimeout
	}
	limit = min(limit, longestTimeout)
	if phase == PhaseInstall {
		limit *= 2
	}
	return limit
}
