package protocol

import (
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// clusterMoves are what kubelets, machines and people do. In a calm run only the kubelets move, and all goes well.
func (m *model) clusterMoves(s *state, calm bool) {
	for _, j := range m.jobsOf(s) {
		switch {
		case j.name == 0:
		case j.state == pending && j.deleting:
			m.vanish(s, j, 0)
		case j.state == pending:
			m.begin(s, j)
		case j.state == running:
			m.run(s, j, calm)
		}
	}
	if !calm {
		m.peopleMoves(s)
		m.machineMoves(s)
	}
}

// begin is the start of a Job's pod. It is bound to a node's name, so the machine behind the name may be another one;
// the agent's fence looks at the machine, at the round and at the host's lock before anything runs.
func (m *model) begin(s *state, j jobObject) {
	spec := m.specs.at(j.spec)
	n := m.nodesOf(s)[spec.uid.name()]
	if n.uid == 0 {
		return
	}
	to := *s
	h := &to.hosts[n.uid.machine()]
	round, off := uint8(spec.Round), m.world.broken
	broken := ""
	switch {
	case spec.uid.machine() != n.uid.machine() && !off.noMachineCheck, round < h.round && !off.noRoundCheck:
		j.state = refused
		m.putJobs(&to, m.jobsOf(s).with(j))
		m.add(to, m.say("the agent refuses %s on the machine of %s", spec, n.uid))
		return
	case h.holder != 0 && !off.noLock:
		return
	case h.holder != 0:
		broken = m.say("two executions at once on the machine of %s: %s, and %s", n.uid, m.names.at(h.holder), spec) + mark
	case spec.uid.machine() != n.uid.machine():
		broken = m.say("%s runs on another machine than its own", spec) + mark
	case round < h.round:
		broken = m.say("%s runs on a host that has seen round %d", spec, h.round) + mark
	}
	j.state, j.own, h.holder = running, spec.uid == n.uid, j.name
	if round > h.round {
		h.round, h.done = round, 0
	}
	m.putJobs(&to, m.jobsOf(s).with(j))
	m.addBroken(to, m.say("the pod of %s begins", spec), broken)
}

// mark ends the sentence of a breach, and is all of it when nobody listens.
const mark = "."

// run is what can happen to a Job whose pod is at work.
func (m *model) run(s *state, j jobObject, calm bool) {
	spec := m.specs.at(j.spec)
	machine := m.machineOf(s, j.name)
	alive := false
	for _, n := range m.nodesOf(s) {
		alive = alive || n.uid != 0 && n.uid.machine() == machine
	}
	stages := uint8(len(spec.Stages))
	switch {
	case !alive:
		m.end(s, j, j.reached, "is lost with its machine")
	case j.deleting:
		for reached := j.reached; reached <= stages; reached++ {
			m.vanish(s, j, reached)
		}
	default:
		m.end(s, j, stages, "succeeds")
		for reached := j.reached; reached < stages && s.left.failures > 0 && !calm; reached++ {
			m.end(s, j, reached, "fails")
		}
	}
}

func (m *model) machineOf(s *state, job uint16) int {
	for i, h := range s.hosts {
		if h.holder == job {
			return i
		}
	}
	panic("a running job without a machine")
}

// end ends an execution after so many of its stages succeeded.
func (m *model) end(s *state, j jobObject, reached uint8, how string) {
	to := *s
	broken := m.finishStages(&to, j, reached)
	spec := m.specs.at(j.spec)
	j.reached, j.state = reached, succeeded
	if int(reached) < len(spec.Stages) {
		j.state = failed
		if how == "fails" {
			to.left.failures--
		}
		how = m.say("%s in stage %s", how, spec.Stages[reached])
	}
	m.putJobs(&to, m.jobsOf(s).with(j))
	m.addBroken(to, m.say("%s %s", spec, how), broken)
}

// vanish is the end of a Job that was deleted: its pod ends before or after some of its stages.
func (m *model) vanish(s *state, j jobObject, reached uint8) {
	to := *s
	broken := ""
	if j.state == running {
		broken = m.finishStages(&to, j, reached)
	}
	m.putJobs(&to, m.jobsOf(s).without(j.name))
	m.addBroken(to, m.say("%s, which was deleted, is gone after %d stages", m.specs.at(j.spec), reached), broken)
}

// finishStages notes on the host what succeeded and releases its lock. The agent answers a stage that it completed in
// this round with the stored result.
func (m *model) finishStages(s *state, j jobObject, reached uint8) (broken string) {
	spec := m.specs.at(j.spec)
	h := &s.hosts[m.machineOf(s, j.name)]
	for _, stage := range spec.Stages[j.reached:reached] {
		bit := stageBit[stage]
		if h.done&bit != 0 && m.world.broken.noStoredResult {
			broken = m.say("stage %s succeeds a second time in round %d on %s", stage, spec.Round, spec.uid) + mark
		}
		h.done |= bit
	}
	h.holder = 0
	return broken
}

var stageBit = map[nwv1.Stage]uint8{
	nwv1.StageApply: 1, nwv1.StageUpgrade: 2, nwv1.StageConfig: 4, nwv1.StageInterrupt: 8, nwv1.StagePostInterrupt: 16,
	nwv1.StageUninstall: 32,
}

// peopleMoves are changes of the NodeWright and of its annotations.
func (m *model) peopleMoves(s *state) {
	wish := m.wishOf(s)
	if s.left.changes > 0 {
		to, next := *s, wish
		to.left.changes--
		next.content, next.generation = 1-wish.content, wish.generation+1
		m.putWish(&to, next)
		m.add(to, m.say("the NodeWright changes: content %c, generation %d", 'A'+next.content, next.generation))
	}
	if s.left.resumes > 0 && m.ledgers.at(s.ledger).Rollouts[nodeWright].Compartments[compartment].Halt != nil {
		to, next := *s, wish
		to.left.resumes--
		next.resume++
		m.putWish(&to, next)
		m.add(to, m.say("somebody resumes the halted rollout"))
	}
	if s.left.retries > 0 {
		to, next := *s, wish
		to.left.retries--
		next.retry++
		m.putWish(&to, next)
		m.add(to, m.say("somebody asks to retry failed nodes"))
	}
}

// machineMoves delete nodes and create them anew: on the same machine, or on another one under the same name.
func (m *model) machineMoves(s *state) {
	list := m.nodesOf(s)
	for i := range m.world.nodes {
		switch u := list[i].uid; {
		case u != 0 && u.incarnation() == 0 && s.left.deletions > 0:
			to, next := *s, list
			to.left.deletions--
			next[i] = nodeObject{}
			m.putNodes(&to, next)
			m.add(to, m.say("node %s is deleted", u))
		case u == 0:
			for home := range 2 {
				to, next := *s, list
				next[i] = nodeObject{uid: newUID(i, 1, home)}
				m.putNodes(&to, next)
				m.add(to, m.say("node %s joins", next[i].uid))
			}
		}
	}
}
