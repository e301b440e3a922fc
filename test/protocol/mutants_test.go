package protocol

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func prompt(w *world) { w.prompt = true }
func noFence(w *world) {
	w.broken.noLock, w.broken.noRoundCheck, w.broken.noStoredResult = true, true, true
}

func without(rule func(*broken)) func(*world) { return func(w *world) { rule(&w.broken) } }

// TestEveryRuleIsNeeded leaves out one rule at a time: a breach is found. The shortest way to it is printed.
func TestEveryRuleIsNeeded(t *testing.T) {
	tooMany := "hold a slot each; the ceiling is 1"
	for _, c := range []struct {
		rule   string
		world  world
		remove func(*broken)
		breach string
	}{
		{"1: the ledger is written before the nodes", alone(budget{}),
			func(b *broken) { b.ledgerLast = true }, "both have order 0 in round"},
		{"1: the ledger is compared before it is written", rivals(budget{leads: 2}),
			func(b *broken) { b.noVersion = true }, "the rollout goes back"},
		{"2: a new leader raises the epoch", rivals(budget{leads: 2, deletions: 1}),
			func(b *broken) { b.noEpoch = true }, tooMany},
		{"2: a new leader lists from the quorum", rivals(budget{leads: 2, changes: 1}),
			func(b *broken) { b.noList = true }, tooMany},
		{"2: nor begins it a round for an older NodeWright", with(rivals(budget{leads: 2, changes: 1}), without(func(b *broken) { b.noList = true })),
			func(b *broken) { b.noGeneration = true }, "goes back to content A"},
		{"3: a patch tests the UID", with(alone(budget{deletions: 1, late: 1}), interrupts),
			func(b *broken) { b.noUIDTest = true }, tooMany},
		{"3: a patch tests the whole old record", alone(budget{changes: 1, late: 1}),
			func(b *broken) { b.noRecordTest = true }, "goes back: round 1 batch 1 order 0 released, then"},
		{"3: a release leaves a tombstone", alone(budget{changes: 1, late: 1}),
			func(b *broken) { b.noTombstone = true }, tooMany},
		{"4: an admission is not dropped for want of an answer", alone(budget{changes: 1, late: 1}),
			func(b *broken) { b.dropOnError = true }, tooMany},
		{"4: an admission is not dropped for a failed test", rivals(budget{leads: 2, changes: 1}),
			func(b *broken) { b.dropOnConflict = true }, tooMany},
		{"4: a withdrawal is first written to the node", alone(budget{changes: 1, late: 1}),
			func(b *broken) { b.dropWithdrawn = true }, tooMany},
		{"5: started is recorded before the first job", alone(budget{changes: 1}),
			func(b *broken) { b.startFirst = true }, tooMany},
		{"5: a live list before the first job of a round", with(alone(budget{changes: 1, late: 1}), prompt, noFence),
			func(b *broken) { b.noEarlierList = true }, "two executions at once"},
		{"6: the agent refuses another machine", alone(budget{deletions: 1}),
			func(b *broken) { b.noMachineCheck = true }, "runs on another machine than its own"},
		{"6: the agent refuses a lower round", rivals(budget{leads: 2, changes: 1}),
			func(b *broken) { b.noRoundCheck = true }, "runs on a host that has seen round 2"},
		{"6: the agent takes the host's lock", alone(budget{deletions: 1}),
			func(b *broken) { b.noLock = true }, "two executions at once"},
		{"6: the agent answers with the stored result", rivals(budget{leads: 2}),
			func(b *broken) { b.noStoredResult = true }, "succeeds a second time in round 1"},
		{"7: jobs outlive their nodes and count", alone(budget{deletions: 1}),
			func(b *broken) { b.noOrphans = true }, "but 1 of its nodes vanished at work"},
		{"7: the jobs of a node that vanished are listed", alone(budget{deletions: 1, late: 1}),
			func(b *broken) { b.noVanishedList = true }, "but 1 of its nodes vanished at work"},
		{"beside the seven: a job that has ended is not deleted to stop it", rivals(budget{leads: 2, failures: 1}),
			func(b *broken) { b.noEndTest = true }, tooMany},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			r := explore(with(c.world, without(c.remove)))
			require.Contains(t, r.breach, c.breach)
			t.Logf("%d moves lead to a breach: %s\n%s", r.depth, r.breach, strings.Join(r.trace, "\n"))
		})
	}
}

// TestTheListGuardsWhereTheFenceIsMissing: with the fence, the live list of rule 5 keeps no invariant of its own; it keeps
// executions from waiting for each other. Without the fence it is what stands between two rounds, as long as no request
// outlives it.
func TestTheListGuardsWhereTheFenceIsMissing(t *testing.T) {
	r := explore(with(alone(budget{changes: 1, late: 1}), prompt, noFence))
	require.Empty(t, r.breach, "%s", r)
	r = explore(with(alone(budget{changes: 1, late: 1}), without(func(b *broken) { b.noEarlierList = true })))
	require.Empty(t, r.breach, "%s", r)
}
