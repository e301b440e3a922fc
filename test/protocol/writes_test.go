package protocol

import (
	"fmt"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// perform makes one request of a duty. done is false if it was refused, or if what it read forbids to go on. changed
// tells whether anything in the API server changed.
func (m *model) perform(s *state, d *duty, st step) (done, changed bool, what string) {
	switch st.kind {
	case patchNode:
		return m.patch(s, d)
	case deleteJob:
		return m.deleteJob(s, st.job)
	case confirmNode:
		return m.confirm(s, d), false, m.say("reads node %s", d.uid)
	case listEarlier:
		m.settleLate(s, d)
		return !m.earlierUnfinished(s, d), false, m.say("lists the jobs of node %s", d.uid)
	}
	return m.createJob(s, st.job)
}

// patch is the one JSON patch of a node: it tests the UID and the whole old record (Actor.patchNode, buildPatch).
func (m *model) patch(s *state, d *duty) (done, changed bool, what string) {
	list := m.nodesOf(s)
	n := list[d.uid.name()]
	seen := uint16(0)
	if _, ok := m.visible(n); ok {
		seen = n.record
	}
	off := m.world.broken
	if n.uid == 0 || n.uid != d.uid && !off.noUIDTest || seen != d.before && !off.noRecordTest {
		return false, false, m.say("patches node %s: refused, it changed", d.uid)
	}
	if d.after != 0 {
		n.record = d.after
		if off.noTombstone && m.records.at(d.after).Outcome == noderecord.Released {
			n.record = 0
		}
	}
	switch d.decision.Cordon {
	case plan.CordonTake:
		n.cordoned = true
	case plan.CordonDrop:
		n.cordoned = false
	case plan.CordonKeep:
	}
	changed = n != list[d.uid.name()]
	list[d.uid.name()] = n
	m.putNodes(s, list)
	return true, changed, m.say("patches node %s: %s%s", d.uid, m.describe(d), cordonWords[d.decision.Cordon])
}

var cordonWords = map[plan.CordonChange]string{plan.CordonTake: ", cordons it", plan.CordonDrop: ", gives its cordon back"}

// confirm is the look at the live node before anything is started that the decision's own patch did not write.
func (m *model) confirm(s *state, d *duty) bool {
	n := m.nodesOf(s)[d.uid.name()]
	if n.uid != d.uid {
		return false
	}
	if _, ok := m.visible(n); !ok || n.record != d.before {
		return false
	}
	for _, start := range d.decision.Start {
		if start.Phase == plan.PhaseInterrupt && !n.cordoned {
			return false
		}
	}
	return true
}

// earlierUnfinished is the live list that has to show no unfinished Job of an earlier round.
func (m *model) earlierUnfinished(s *state, d *duty) bool {
	for _, j := range m.jobsOf(s) {
		if j.name == 0 || j.state.ended() {
			continue
		}
		spec := m.specs.at(j.spec)
		if spec.uid == d.uid && spec.Round < d.decision.Start[0].Round {
			return true
		}
	}
	return false
}

// settleLate: in a prompt world, a request for a node's Jobs that is still under way when they are listed is lost.
func (m *model) settleLate(s *state, d *duty) {
	for i, r := range s.late {
		if m.world.prompt && r.kind == lateStep && m.plans.at(r.plan).duties[r.node].uid == d.uid {
			s.late[i] = request{}
		}
	}
}

func (m *model) createJob(s *state, spec uint16) (done, changed bool, what string) {
	list := m.jobsOf(s)
	name := m.nameID(m.specs.at(spec).name)
	if _, exists := list.find(name); exists {
		return true, false, m.say("creates %s: it exists", m.specs.at(spec))
	}
	m.putJobs(s, list.with(jobObject{name: name, spec: spec}))
	return true, true, m.say("creates %s", m.specs.at(spec))
}

// deleteJob deletes in the foreground, so that the Job is seen until its pod has ended, and only what has not ended: the
// result is not lost, and the name is not free for a process with an old view (Actor.stop).
func (m *model) deleteJob(s *state, name uint16) (done, changed bool, what string) {
	list := m.jobsOf(s)
	i, exists := list.find(name)
	what = m.say("deletes job %s", m.names.at(name))
	switch {
	case !exists || list[i].deleting:
		return true, false, what
	case list[i].state.ended() && !m.world.broken.noEndTest:
		return false, false, what + m.say(": refused, it has ended")
	case list[i].state.ended():
		list = list.without(name)
	default:
		list[i].deleting = true
	}
	m.putJobs(s, list)
	return true, true, what
}

// say words a move, if anybody listens.
func (m *model) say(format string, args ...any) string {
	if !m.telling {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// describe tells what a decision makes of a node's record.
func (m *model) describe(d *duty) string {
	if d.after == 0 {
		return "record unchanged"
	}
	return string(d.decision.Action) + ", record " + recordWords(m.records.at(d.after).Record)
}

func recordWords(r noderecord.Record) string {
	outcome := string(r.Outcome)
	if r.Outcome == noderecord.Open {
		outcome = "open"
	}
	if r.Started && r.Outcome == noderecord.Open {
		outcome = "started"
	}
	return fmt.Sprintf("round %d batch %d order %d %s", r.Round, r.Batch, r.Order, outcome)
}
