package plan

import (
	"maps"
	"slices"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// start begins the next phase of packages: the record says so before their Jobs exist.
func (t *turn) start(items work) {
	t.rec.Started = true
	for _, it := range items {
		stages := t.begin(it)
		t.launch(t.spec(it, stages))
	}
	t.p.markBegun(t.m.node.UID, activity{execution: true})
	t.act(ActionRun)
	t.because(Starting, "", "starting "+namesOf(items))
}

// launch asks for an execution. Until one of this round has been seen on the node, a live list has to show that none of
// an earlier round is left: also when an execution is asked for again.
func (t *turn) launch(spec ExecutionSpec) {
	t.d.CheckEarlier = !t.m.anyExecution(func(e Execution) bool { return e.Round == t.rec.Round })
	t.d.Start = append(t.d.Start, spec)
}

// besideLeftover reports whether an unfinished execution is left that nothing may be done beside, and sees to its end.
func (t *turn) besideLeftover() bool {
	name := t.leftover()
	if name == "" {
		return false
	}
	t.stopStuck()
	t.because(EarlierExecution, "execution "+name, "an execution of an earlier turn, or of an interrupt that has happened, is still running")
	return true
}

// leftover names an unfinished execution of an earlier turn, or of an interrupt that is proven; empty if there is none. The
// record knows nothing of it any more: nothing starts beside it, and the node is not given back under it.
func (t *turn) leftover() string {
	var names []string
	for _, e := range t.m.node.Executions {
		tracked := slices.ContainsFunc(t.running, func(r Execution) bool { return r.ExecutionKey == e.ExecutionKey })
		if e.NodeWright == t.v.nw.Name && !e.Ended() && !tracked {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// spec is the execution of an item whose record says that it has begun.
func (t *turn) spec(it item, stages []nwv1.Stage) ExecutionSpec {
	pkg := t.rec.Packages[it.name]
	return ExecutionSpec{
		ExecutionKey: t.keyOf(it.name, pkg), Node: t.m.node.Name, Compartment: t.rec.Compartment, Batch: t.rec.Batch,
		Order: t.rec.Order, Stages: stages, Definition: *it.def, Fresh: pkg.Fresh,
		Timeout: t.timeoutOf(it.name, Phase(pkg.Running)), Tolerations: t.v.nw.Spec.AdditionalTolerations,
		Unowned: t.v.nw.Deleting,
	}
}

// begin records that the next phase of a package is started, and returns its stages.
func (t *turn) begin(it item) []nwv1.Stage {
	stages := stagesOf(it)
	pkg := it.rec.Clone()
	switch it.next {
	case PhaseCheck:
		t.d.Snapshots = append(t.d.Snapshots, *it.def)
		t.put(it.name, beginCheck(pkg, it))
		return stages
	case PhaseInstall:
		pkg = beginInstall(pkg, it)
		t.d.Snapshots = append(t.d.Snapshots, *it.def)
	case PhaseConfig:
		pkg = beginConfig(pkg, it)
		t.d.Snapshots = append(t.d.Snapshots, *it.def)
	case PhaseUninstall:
		pkg.Removing, pkg.Attempted, pkg.Applied, pkg.Configured = true, "", "", ""
	}
	pkg.Running, pkg.Stage, pkg.State, pkg.NotBefore = string(it.next), stages[0], nwv1.StateInProgress, nil
	pkg.Attempt++
	t.put(it.name, pkg)
	return stages
}

// beginInstall invalidates what was there: from now on an older success proves nothing.
func beginInstall(pkg noderecord.Package, it item) noderecord.Package {
	anew := pkg.Attempted != it.def.InstallHash || pkg.Applied != ""
	upgrade := installStage(it.def, pkg) == nwv1.StageUpgrade
	pkg = beginConfig(pkg, it)
	if !anew {
		return pkg
	}
	switch {
	case pkg.Version == it.def.Version:
		pkg.Fresh = true
	case pkg.Version != "": // what the host remembers of the version ran before the one that is there now
		pkg.From, pkg.Fresh = pkg.Version, !upgrade
	default: // new, or a reset forgot the version
		pkg.From = ""
	}
	pkg.Version, pkg.Image, pkg.Digest = it.def.Version, it.def.Image, it.def.Digest
	pkg.Attempted, pkg.Applied = it.def.InstallHash, ""
	pkg.DueInstall, pkg.Removing, pkg.DueUninstall, pkg.Post = true, false, false, false
	return pkg
}

func beginConfig(pkg noderecord.Package, it item) noderecord.Package {
	pkg.DueKeys = dueKeysAfter(it.def, pkg)
	pkg.Keys = maps.Clone(it.def.KeyHashes)
	pkg.AttemptedConfig, pkg.Configured, pkg.Snapshot, pkg.Satisfied = it.def.ConfigHash, "", it.def.SnapshotHash, false
	pkg.Drift = nil
	return pkg
}

// recreateMissing asks again for executions that the record says were started and that are not seen. Their names are
// fixed, so one that exists already is as good as created. What would not be started any more, as the package is edited since or
// its definition is lost, will not end either.
func (t *turn) recreateMissing(left work) {
	for _, name := range t.missing {
		i := slices.IndexFunc(left, func(it item) bool { return it.name == name && string(it.next) == it.rec.Running })
		if i < 0 {
			t.forgetRunning(name)
			continue
		}
		if !t.m.node.Ready {
			continue
		}
		t.launch(t.spec(left[i], remainingStages(left[i])))
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
