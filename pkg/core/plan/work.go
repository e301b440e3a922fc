package plan

import (
	"maps"
	"path"
	"slices"

	"github.com/Masterminds/semver/v3"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// item is one package on one node with the next thing that has to happen to it.
type item struct {
	name string
	// def is the definition to work with: the desired one, or the snapshot of what has to go.
	def *desired.Package
	rec noderecord.Package
	// removal says that def is being taken off the host.
	removal bool
	// next phase; empty when the package waits for an interrupt or is done.
	next Phase
	// later is the interrupt that would be due if a check that is next does not find the wanted state.
	later *nwv1.Interrupt
	// due is the interrupt that has to run before the package is done, now or after the next phase.
	due *nwv1.Interrupt
}

// done reports whether nothing is left to do for the package.
func (i item) done() bool { return i.next == "" && i.due == nil }

// awaitsInterrupt reports whether only the interrupt is left before the post-interrupt stage.
func (i item) awaitsInterrupt() bool { return i.next == "" && i.due != nil }

// disruptive reports whether the pending work of the package contains an interrupt.
func (i item) disruptive() bool { return i.due != nil }

// work is everything that is left to do on one node for one NodeWright, sorted by package name.
type work []item

// disruptive reports whether an interrupt is to come, in flight, or due.
func (w work) disruptive() bool { return slices.ContainsFunc(w, item.disruptive) }

// standing is what the recorded packages of a node say at a glance, before anybody asks what exactly has to be done.
type standing struct {
	// done: nothing is left to do.
	done bool
	// running: an execution was started and its end is not recorded yet.
	running bool
	// satisfied: the wanted state of a package was there before it was installed.
	satisfied bool
	// drifted: the newest check found that the host does not match a package any more.
	drifted bool
	// untidy: the record says more, or something else, than is wanted; see tidy.go.
	untidy bool
}

// standingOf is the standing of a node. Nodes that share their packages share it.
func (v *view) standingOf(m *member) standing {
	if m.again != nil {
		s := v.lookAt(m, *m.again)
		s.running = anyRunning(m.rec)
		return s
	}
	if m.rec.Shared == 0 || !m.selected {
		return v.lookAt(m, m.rec)
	}
	s, known := v.standings[m.rec.Shared]
	if !known {
		s = v.lookAt(m, m.rec)
		v.standings[m.rec.Shared] = s
	}
	return s
}

// lookAt looks once at each package of a node. On a node that is not selected nothing is wanted.
func (v *view) lookAt(m *member, rec noderecord.Record) standing {
	s := standing{done: m.had || m.nw.Problem == "" || !m.selected} // on a node that is new nobody knows what is wanted
	if !m.selected {
		s.running = anyRunning(rec)
		return s
	}
	known, verified := 0, v.verifyInterval() != 0
	for i := range m.nw.Desired.Packages {
		def := &m.nw.Desired.Packages[i]
		have, recorded := rec.Packages[def.Name]
		if recorded {
			known++
			s.running = s.running || have.Running != ""
			s.satisfied = s.satisfied || have.Satisfied
			s.drifted = s.drifted || have.Drift != nil && verified
			s.untidy = s.untidy || have.Snapshot != def.SnapshotHash || have.Drift != nil && !verified
		}
		s.untidy = s.untidy || recorded && def.Absent && v.stored.abandoned
		s.done = s.done && (settled(def, &have) || wantedItem(def, have, v.stored).done())
	}
	if known < len(rec.Packages) { // some are not wanted any more
		s.untidy = true
		s.running = s.running || anyRunning(rec)
		s.done = s.done && len(removals(&m.nw.Desired, rec, v.stored)) == 0
	}
	return s
}

// settled tells the most frequent case apart without building an item: the package is as wanted, and nothing is due.
func settled(def *desired.Package, have *noderecord.Package) bool {
	return have.Applied == def.InstallHash && have.Configured == def.ConfigHash && have.Version == def.Version && !def.Absent &&
		!have.DueInstall && len(have.DueKeys) == 0 && !have.Post && !have.Removing && !have.DueUninstall
}

// workOf is what is left to do on a node, by the record that was seen.
func (v *view) workOf(m *member) work {
	if !m.selected || m.standing.done {
		return nil
	}
	rec := m.rec
	if m.again != nil {
		rec = *m.again
	}
	return workOf(&m.nw.Desired, rec, v.stored)
}

// workOf derives what is left to do from what is wanted and what was recorded.
func workOf(set *desired.Set, rec noderecord.Record, has stored) work {
	var w work
	for i := range set.Packages {
		def := &set.Packages[i]
		have := rec.Packages[def.Name]
		if settled(def, &have) {
			continue
		}
		if it := wantedItem(def, have, has); !it.done() {
			w = append(slices.Grow(w, len(set.Packages)-len(w)), it)
		}
	}
	leaving := removals(set, rec, has)
	if len(leaving) == 0 {
		return w // in the order of the set, which is by name
	}
	w = append(w, leaving...)
	slices.SortFunc(w, func(a, b item) int { return compareStrings(a.name, b.name) })
	return w
}

// removals are the packages on the host that are no longer wanted and ask for an uninstall.
func removals(set *desired.Set, rec noderecord.Record, has stored) work {
	var w work
	for _, name := range unwantedIn(set, rec) {
		old := has.definitions[rec.Packages[name].Snapshot]
		if old == nil || !old.UninstallOnRemoval || has.abandoned {
			continue // the record is dropped, the files stay
		}
		if it := removalItem(old, rec.Packages[name]); !it.done() {
			w = append(w, it)
		}
	}
	return w
}

// wantedItem is the next thing for a package that is in the desired set.
func wantedItem(def *desired.Package, have noderecord.Package, has stored) item {
	old := has.definitions[have.Snapshot]
	switch {
	case def.Absent && has.abandoned:
		return item{name: def.Name, def: def, rec: have, removal: true}
	case def.Absent:
		if old != nil {
			return removalItem(old, have)
		}
		return removalItem(def, have)
	}
	if old != nil && mustUninstallFirst(def, old, have) && !has.abandoned {
		return removalItem(old, have)
	}
	it := item{name: def.Name, def: def, rec: have}
	switch {
	case have.Applied != def.InstallHash:
		it.next = PhaseInstall
		it.due = union(def.Interrupt, keyInterrupt(def, dueKeysAfter(def, have)))
	case have.Configured != def.ConfigHash:
		it.next = PhaseConfig
		it.due = union(installInterrupt(def, have), keyInterrupt(def, dueKeysAfter(def, have)))
	default:
		it.due = union(installInterrupt(def, have), keyInterrupt(def, have.DueKeys))
		if it.due == nil && have.Post {
			it.next = PhasePost
		}
	}
	return it.checkedFirst()
}

// mustUninstallFirst reports whether a downgrade has to take the old version off first.
func mustUninstallFirst(def, old *desired.Package, have noderecord.Package) bool {
	return have.Version != "" && old.UninstallOnRemoval &&
		(have.Removing || have.DueUninstall || Newer(have.Version, def.Version))
}

// removalItem is the next thing for a package that has to leave the host.
func removalItem(old *desired.Package, have noderecord.Package) item {
	it := item{name: old.Name, def: old, rec: have, removal: true}
	switch {
	case have.Version == "":
	case have.DueUninstall:
		it.due = old.Interrupt
	default:
		it.next, it.due = PhaseUninstall, old.Interrupt
	}
	return it
}

// installInterrupt is the package's own interrupt if an install made it due.
func installInterrupt(def *desired.Package, have noderecord.Package) *nwv1.Interrupt {
	if !have.DueInstall {
		return nil
	}
	return def.Interrupt
}

// dueKeysAfter are the keys that are due once the next config stage has begun: those that are due already and those
// that it changes. A first install changes none: its own interrupt covers it.
func dueKeysAfter(def *desired.Package, have noderecord.Package) []string {
	if have.Version == "" {
		return nil
	}
	keys := slices.Clone(have.DueKeys)
	for k, h := range def.KeyHashes {
		if have.Keys[k] != h {
			keys = append(keys, k)
		}
	}
	for k := range have.Keys {
		if _, ok := def.KeyHashes[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// keyInterrupt is the union of the configInterrupts that the keys ask for. A pattern may be a glob.
func keyInterrupt(def *desired.Package, keys []string) *nwv1.Interrupt {
	var out *nwv1.Interrupt
	if len(keys) == 0 {
		return nil
	}
	for _, pattern := range slices.Sorted(maps.Keys(def.ConfigInterrupts)) {
		for _, key := range keys {
			if matched, err := path.Match(pattern, key); pattern == key || err == nil && matched {
				i := def.ConfigInterrupts[pattern]
				out = union(out, &i)
				break
			}
		}
	}
	return out
}

// stagesOf are the stages of a phase of a package.
func stagesOf(it item) []nwv1.Stage {
	switch it.next {
	case PhaseCheck:
		return checkStages(it)
	case PhaseInstall:
		return []nwv1.Stage{installStage(it.def, it.rec), nwv1.StageConfig}
	case PhaseConfig:
		return []nwv1.Stage{nwv1.StageConfig}
	case PhasePost:
		return []nwv1.Stage{nwv1.StagePostInterrupt}
	case PhaseUninstall:
		return []nwv1.Stage{nwv1.StageUninstall}
	}
	return nil
}

// installStage is upgrade where an older version was attempted or applied before, else apply.
func installStage(def *desired.Package, have noderecord.Package) nwv1.Stage {
	from := have.Version
	if have.Version == def.Version {
		from = have.From
	}
	if from != "" && Newer(def.Version, from) {
		return nwv1.StageUpgrade
	}
	return nwv1.StageApply
}

// Newer reports whether version a is higher than b. Versions that are not semantic never are.
func Newer(a, b string) bool {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	return errA == nil && errB == nil && va.GreaterThan(vb)
}
