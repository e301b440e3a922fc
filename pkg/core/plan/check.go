package plan

import (
	"maps"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// With `skipIfSatisfied` the checks of a package run before anything else: before the cordon, and alone, so that what other
// packages need does not get in their way. Success stands for the whole phase and its interrupt; anything else is no failure,
// and the package goes the ordinary way. An installation that was begun is finished, not checked.

// checkedFirst puts the check before a phase that was not begun.
func (i item) checkedFirst() item {
	begun := i.next == PhaseInstall && i.rec.Applied == "" && i.rec.Attempted == i.def.InstallHash ||
		i.next == PhaseConfig && i.rec.Configured == "" && i.rec.AttemptedConfig == i.def.ConfigHash
	checking := i.rec.Running == string(PhaseCheck)
	if !i.def.SkipIfSatisfied || i.next != PhaseInstall && i.next != PhaseConfig || begun || !checking && i.rec.Checked == i.def.SnapshotHash {
		return i
	}
	i.next, i.due, i.later = PhaseCheck, nil, i.due
	return i
}

// checkStages are the stages whose checks prove the wanted state: with an interrupt to come, also what it is for.
func checkStages(it item) []nwv1.Stage {
	stages := []nwv1.Stage{nwv1.StageConfig}
	if it.rec.Applied != it.def.InstallHash {
		stages = []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig}
	}
	if it.later != nil {
		stages = append(stages, nwv1.StagePostInterrupt)
	}
	return stages
}

// beginCheck notes which definition is being checked. What is on the host is not changed.
func beginCheck(pkg noderecord.Package, it item) noderecord.Package {
	pkg.Running, pkg.Checked, pkg.NotBefore = string(PhaseCheck), it.def.SnapshotHash, nil
	pkg.Attempt++
	return pkg
}

// satisfied is the package whose checks found the definition: it counts as installed, and nothing is due.
func satisfied(pkg noderecord.Package, def desired.Package) noderecord.Package {
	pkg.Version, pkg.Image, pkg.Digest, pkg.Snapshot = def.Version, def.Image, def.Digest, pkg.Checked
	pkg.Attempted, pkg.Applied = def.InstallHash, def.InstallHash
	pkg.AttemptedConfig, pkg.Configured, pkg.Keys = def.ConfigHash, def.ConfigHash, maps.Clone(desired.KeyHashes(def.ConfigMap))
	pkg.From, pkg.Fresh, pkg.DueInstall, pkg.DueKeys = "", false, false, nil
	pkg.Post, pkg.Removing, pkg.DueUninstall, pkg.Satisfied = false, false, false, true
	pkg.Stage, pkg.State, pkg.Drift = nwv1.StageConfig, nwv1.StateComplete, nil
	return pkg
}

// checkFailed records a check that did not find the wanted state. One that was disrupted says nothing, and runs again.
func (t *turn) checkFailed(name string, pkg noderecord.Package, e Execution) {
	pkg.Running = ""
	if e.Disrupted {
		pkg.Checked = ""
		t.recordSetback(name, pkg, e)
		return
	}
	pkg.Setback = nil
	t.put(name, pkg)
}

// checksFirst leaves only the checks while there are any: they come before the cordon that others may need.
func (t *turn) checksFirst(start work) work {
	for _, pkg := range t.rec.Packages {
		if pkg.Running == string(PhaseCheck) {
			return nil
		}
	}
	var checks work
	for _, it := range start {
		if it.next == PhaseCheck {
			checks = append(checks, it)
		}
	}
	if len(checks) > 0 {
		return checks
	}
	return start
}

// onlyChecks reports whether nothing of what is to start touches the host.
func (w work) onlyChecks() bool {
	for _, it := range w {
		if it.next != PhaseCheck {
			return false
		}
	}
	return len(w) > 0
}
