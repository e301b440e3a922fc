package plan

import (
	"slices"

	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// tidy keeps the records of nodes at rest true where no turn is needed for it.
func (p *pass) tidy() {
	for _, v := range p.views {
		if v.held != nil {
			continue
		}
		for _, m := range v.busy {
			if m.mayTidy() {
				p.tidyRecord(v, m)
			}
		}
	}
}

// mayTidy: a complete node with something to tidy, and nothing else is written for it in this pass.
func (m *member) mayTidy() bool {
	return (m.standing.untidy || m.boot == bootUnnoted) && m.had && m.targeted && m.complete() && m.decision == nil && !m.open && m.malformed() == "" &&
		m.rec.Interrupt == nil && !m.anyExecution(notEnded)
}

// tidyRecord drops packages that are not wanted and need no uninstall (their files stay), and names the newest definition
// of those whose `uninstall.enabled` was changed: it decides when the package is removed, and starts nothing before. What checks
// found of which no other is to come is dropped, too: nothing would ever end it.
func (p *pass) tidyRecord(v *view, m *member) {
	unwanted, outdated, found := v.toForget(m.rec), p.outdatedSnapshots(v, m), v.outdatedFindings(m.rec)
	if len(unwanted)+len(outdated)+len(found) == 0 && m.boot != bootUnnoted {
		return
	}
	t := p.newTurn(v, m)
	t.noteBoot()
	for _, name := range found {
		have := t.rec.Packages[name]
		have.Drift = nil
		t.put(name, have)
	}
	for _, name := range unwanted {
		t.forget(name)
	}
	for _, def := range outdated {
		have := t.rec.Packages[def.Name]
		have.Snapshot = def.SnapshotHash
		t.put(def.Name, have)
		t.d.Snapshots = append(t.d.Snapshots, def)
	}
	t.flush()
}

// toForget are the packages on record that are not in the set, and those whose uninstall was abandoned.
func (v *view) toForget(rec noderecord.Record) []string {
	out := unwantedIn(&v.nw.Desired, rec)
	for _, def := range v.nw.Desired.Packages {
		if _, recorded := rec.Packages[def.Name]; recorded && def.Absent && v.stored.abandoned {
			out = append(out, def.Name)
		}
	}
	return out
}

// unwantedIn are the packages on record that are not in the set, sorted.
func unwantedIn(set *desired.Set, rec noderecord.Record) []string {
	var out []string
	for name := range rec.Packages {
		if _, wanted := set.ByName(name); !wanted {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// outdatedSnapshots are the packages whose recorded definition says something else about the uninstall than the wanted one.
func (p *pass) outdatedSnapshots(v *view, m *member) []desired.Package {
	var out []desired.Package
	for i := range v.nw.Desired.Packages {
		def := &v.nw.Desired.Packages[i]
		have, installed := m.rec.Packages[def.Name]
		if !installed || have.Snapshot == def.SnapshotHash || def.Absent {
			continue
		}
		if old := p.snapshots[have.Snapshot]; old != nil && old.UninstallOnRemoval != def.UninstallOnRemoval {
			out = append(out, *def)
		}
	}
	return out
}
