package protocol

import (
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// world is the size of an exploration.
type world struct {
	nodes, leaders int
	ceiling        int
	policy         nwv1.DeploymentPolicySpec
	// interrupt: the package restarts a service, so that nodes are cordoned, drained and given back.
	interrupt bool
	// attempts of a phase in one turn.
	attempts int32
	// lag is how many versions of one kind a cache may be behind.
	lag    int
	budget budget
	// depth bounds the number of moves; 0: none.
	depth int
	// prompt: no request takes effect after a later live list of the same node's Jobs.
	prompt bool
	broken broken
}

// broken are rules that are left out, each with the place of the real code that keeps it.
type broken struct {
	// Rule 1: the ledger is written before everything else (Rollout.Pass), by compare-and-swap (Ledger.Put).
	ledgerLast, noVersion bool
	// Rule 2: a new leader raises the epoch (Rollout.lead), then lists (Observer.Fresh).
	noEpoch, noList bool
	// Rule 3: each patch of a node tests UID and record (buildPatch); a release leaves a tombstone.
	noUIDTest, noRecordTest, noTombstone bool
	// Rule 4: an admission is not given up for an error, for a refusal, or before its withdrawal is on the node.
	dropOnError, dropOnConflict, dropWithdrawn bool
	// Rule 5: the record says started before the first Job exists; a live list before the first Job of a round.
	startFirst, noEarlierList bool
	// Rule 6: the agent looks at the machine, at the round, at the host's lock, and at what is done.
	noMachineCheck, noRoundCheck, noLock, noStoredResult bool
	// Rule 7: Jobs outlive their nodes and count; those of a node that vanished are listed live.
	noOrphans, noVanishedList bool
	// Beside the seven: a NodeWright older than the round begins no other; a Job that has ended is not deleted to stop it;
	// what a decision without a patch starts is confirmed by a look at the live node.
	noGeneration, noEndTest, noConfirm bool
}

func fixed(ceiling, batch int32, halts bool) nwv1.DeploymentPolicySpec {
	rules := nwv1.BatchRules{InitialBatch: batch}
	if halts {
		rules.FailureThreshold, rules.SafetyLimit = new(int32(1)), 100
	}
	return nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{
		Budget: nwv1.DeploymentBudget{Count: &ceiling}, Strategy: &nwv1.DeploymentStrategy{Fixed: &nwv1.FixedStrategy{BatchRules: rules}},
	}}
}

func (m *model) initial() state {
	var s state
	var nodes nodeList
	for i := range m.world.nodes {
		nodes[i].uid = newUID(i, 0, 0)
	}
	s.nodes.n, s.jobs.n, s.wishes.n = 1, 1, 1
	s.nodes.versions[0] = m.nodeLists.id(nodes)
	s.jobs.versions[0] = m.jobLists.id(jobList{})
	s.wishes.versions[0] = m.wishList.id(objectives{generation: 1})
	s.ledger = m.ledgerID(fleetv1.LedgerSpec{})
	s.left = m.world.budget
	return s
}

// written is the ledger as it is written: without withdrawn admissions if that rule is removed.
func (m *model) written(id uint16) uint16 {
	if !m.world.broken.dropWithdrawn {
		return id
	}
	return m.withoutIntents(id, func(i fleetv1.LedgerIntent) bool { return i.Withdrawn })
}

func (m *model) withoutIntents(id uint16, which func(fleetv1.LedgerIntent) bool) uint16 {
	l := m.ledgerCopy(id)
	r := l.Rollouts[nodeWright]
	var kept []fleetv1.LedgerIntent
	for _, i := range r.Intents {
		if !which(i) {
			kept = append(kept, i)
		}
	}
	if len(kept) == len(r.Intents) {
		return id
	}
	r.Intents = kept
	l.Rollouts[nodeWright] = r
	return m.ledgerID(l)
}

func (m *model) droppedOnError(s *state, i int, d *duty) {
	if m.world.broken.dropOnError {
		m.dropIntent(s, i, d)
	}
}

func (m *model) droppedOnConflict(s *state, i int, d *duty) {
	if m.world.broken.dropOnConflict {
		m.dropIntent(s, i, d)
	}
}

func (m *model) dropIntent(s *state, i int, d *duty) {
	id := m.withoutIntents(s.ledger, func(in fleetv1.LedgerIntent) bool { return in.NodeUID == d.decision.NodeUID })
	if s.leaders[i].current && id != s.ledger {
		s.swap(i, id)
	}
}
