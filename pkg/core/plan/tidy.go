package plan

// tidy keeps the records of nodes at rest true where no turn is needed for it.
func (p *pass) tidy() {
	for _, v := range p.views {
		if code, _, _ := p.heldBack(v); code != "" {
			continue
		}
		for _, m := range v.members {
			if v.mayTidy(m) {
				p.tidyRecord(v, m)
			}
		}
	}
}

// mayTidy: a complete node that nothing else is written for in this pass.
func (v *view) mayTidy(m *member) bool {
	_, decided := v.decisions[m.node.Name]
	return m.had && m.targeted && m.complete() && !decided && !v.open[m.node.UID] && m.node.Malformed[v.nw.Name] == "" &&
		m.rec.Interrupt == nil && !v.anyExecution(m.node, notEnded)
}

// tidyRecord drops packages that are not wanted and need no uninstall (their files stay), and names the newest definition
// of those whose `uninstall.enabled` was changed: it decides when the package is removed, and starts nothing before.
func (p *pass) tidyRecord(v *view, m *member) {
	t := p.newTurn(v, m)
	for name := range m.rec.Packages {
		if _, wanted := v.nw.Desired.ByName(name); !wanted {
			t.forget(name)
		}
	}
	for _, def := range v.nw.Desired.Packages {
		have, installed := t.rec.Packages[def.Name]
		old, known := p.in.Snapshots[have.Snapshot]
		if installed && known && !def.Absent && old.UninstallOnRemoval != def.UninstallOnRemoval {
			have.Snapshot = def.SnapshotHash
			t.put(def.Name, have)
			t.d.Snapshots = append(t.d.Snapshots, def)
		}
	}
	if len(t.d.Snapshots) > 0 || len(t.rec.Packages) != len(m.rec.Packages) {
		t.flush()
	}
}
