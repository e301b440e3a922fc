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

// messageLimit bounds what a record keeps of a failed execution's last lines.
const messageLimit = 256

// collect records the results of executions that ended.
func (t *turn) collect() {
	for _, name := range slices.Sorted(maps.Keys(t.rec.Packages)) {
		pkg := t.rec.Packages[name]
		if pkg.Running == "" {
			continue
		}
		e, seen := t.execution(t.keyOf(name, pkg))
		switch {
		case !seen:
			t.missing = append(t.missing, name)
		case e.State == ExecutionSucceeded:
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
	pkg.Running, pkg.Failures, pkg.NotBefore, pkg.State = "", 0, nil, nwv1.StateComplete
	switch phase {
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
			return
		}
		pkg.DueUninstall, pkg.Stage, pkg.State = true, nwv1.StageUninstallInterrupt, nwv1.StateInProgress
	}
	t.put(name, pkg)
	if t.rec.Failure != nil && t.rec.Failure.Package == name {
		t.rec.Failure = nil
	}
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

// recordFailure records an attempt that failed. Stages that succeeded in it are not run again. A disruption of the
// pod is no failure of the package.
func (t *turn) recordFailure(name string, pkg noderecord.Package, e Execution) {
	if installed(e) {
		pkg = applied(pkg)
	}
	pkg.Running = ""
	wait := t.p.in.Settings.RetryBackoff
	if !e.Disrupted {
		pkg.Failures++
		wait <<= min(pkg.Failures-1, 10)
		pkg.State = nwv1.StateErroring
		if e.Stage != "" {
			pkg.Stage = e.Stage
		}
		t.rec.Failure = failureOf(name, e)
		t.rec.Retried = t.v.nw.Retry // see fail
	}
	notBefore := t.p.in.Now.Add(wait)
	pkg.NotBefore = &notBefore
	t.put(name, pkg)
}

// installed reports whether the apply or upgrade stage of the execution succeeded.
func installed(e Execution) bool {
	return slices.Contains(e.Done, nwv1.StageApply) || slices.Contains(e.Done, nwv1.StageUpgrade)
}

// stuck reports whether the execution has not begun a stage or cannot go on: deleting it loses nothing.
func (e Execution) stuck() bool {
	return !e.Ended() && (e.State == ExecutionPending || e.Trouble != "")
}

// running reports whether a stage of the execution is running.
func (e Execution) running() bool { return e.State == ExecutionRunning && e.Trouble == "" }

// atWork reports whether a stage of the execution is running, or may begin at any moment: a pod that does not fit runs as
// soon as another one leaves.
func (e Execution) atWork() bool {
	return !e.Ended() && (e.Trouble == "" || e.Trouble == InsufficientResources)
}

func failureOf(name string, e Execution) *noderecord.Failure {
	f := &noderecord.Failure{
		Package: name, Stage: e.Stage, ExitCode: e.ExitCode, Reason: string(PackageFailed), Message: tail(e.Message),
	}
	if e.TimedOut {
		f.Reason = string(StageTimeout)
	}
	return f
}

// watch looks at an execution that has not ended: trouble that outlasts its tolerance, and deadlines, make the node fail
// while the execution may still come good.
func (t *turn) watch(name string, e Execution) {
	t.running = append(slices.Grow(t.running, len(t.m.node.Executions)-len(t.running)), e)
	t.watchTrouble(name, e)
	limit := t.timeoutOf(name, Phase(t.rec.Packages[name].Running))
	if limit == 0 {
		return
	}
	const kubeletSlack = time.Minute // the pod's own deadline ends it first, unless no kubelet ever takes the pod
	at := e.Created.Add(limit + kubeletSlack)
	if !t.p.in.Now.Before(at) && !e.Suspended {
		t.stuck = &noderecord.Failure{
			Package: name, Stage: e.Stage, Reason: string(StageTimeout),
			Message: fmt.Sprintf("the execution did not end within %s", limit),
		}
		t.overdue = append(t.overdue, e.Name)
	}
	t.p.wakeAt(at)
}

// watchTrouble ends the turn when an image cannot be pulled, or a container not be started, for longer than is
// tolerated. The execution stays and may still come good.
func (t *turn) watchTrouble(name string, e Execution) {
	if e.Trouble != ImagePull && e.Trouble != ContainerCannotRun {
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
	if phase == PhaseInstall {
		limit *= 2
	}
	return limit
}

// exhausted is the first package that failed in every attempt.
func (t *turn) exhausted() bool {
	for _, pkg := range t.rec.Packages {
		if pkg.Failures >= t.p.in.Settings.Attempts {
			return true
		}
	}
	return false
}

// tail keeps the end of a message, which says most, cut at a character.
func tail(s string) string {
	r := []rune(s)
	if len(r) <= messageLimit {
		return s
	}
	return "…" + string(r[len(r)-messageLimit+1:])
}
