package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// alone is two nodes with one slot and one leader; a cache is up to two versions of a kind behind.
func alone(b budget) world {
	return world{nodes: 2, leaders: 1, ceiling: 1, policy: fixed(1, 1, false), attempts: 1, lag: 2, budget: b}
}

// rivals is the same with two processes that both believe that they lead; a cache is one version behind.
func rivals(b budget) world {
	w := alone(b)
	w.leaders, w.lag = 2, 1
	return w
}

func with(w world, changes ...func(*world)) world {
	for _, change := range changes {
		change(&w)
	}
	return w
}

func deep(w *world)        { w.depth = 55 }
func lagOne(w *world)      { w.lag = 1 }
func interrupts(w *world)  { w.interrupt = true }
func twoAttempts(w *world) { w.attempts = 2 }
func halting(w *world)     { w.policy = fixed(int32(w.ceiling), int32(w.ceiling), true) }
func threeNodes(w *world)  { w.nodes, w.ceiling, w.policy = 3, 2, fixed(2, 2, false) }

// TestProtocolHolds visits every state of each world.
func TestProtocolHolds(t *testing.T) {
	for _, c := range []struct {
		name  string
		world world
		// meets is what must have happened somewhere in the world, lest it prove nothing.
		meets []string
	}{
		{"one leader, new content, two lost answers", alone(budget{changes: 1, late: 2}), []string{"complete", "withdrawn"}},
		{"one leader, content A to B to A, a lost answer", with(alone(budget{changes: 2, late: 1}), lagOne), []string{"complete"}},
		{"one leader, a failure, a second attempt, a retry, a lost answer",
			with(alone(budget{failures: 2, late: 1, retries: 1}), twoAttempts), []string{"complete", "failed"}},
		{"one leader, a halt, a resume, a retry, a lost answer",
			with(alone(budget{failures: 2, late: 1, resumes: 1, retries: 1}), halting), []string{"halted", "complete"}},
		{"one leader, a halt, new content, a resume, a lost answer",
			with(alone(budget{failures: 1, changes: 1, late: 1, resumes: 1}), halting), []string{"halted", "complete", "withdrawn"}},
		{"one leader, a node re-created, a lost answer", with(alone(budget{deletions: 1, late: 1}), lagOne), []string{"lost"}},
		{"one leader, a node re-created, new content", with(alone(budget{deletions: 1, changes: 1}), lagOne), []string{"lost"}},
		{"one leader, cordons, new content, a lost answer",
			with(alone(budget{changes: 1, late: 1}), interrupts), []string{"complete", "withdrawn"}},
		{"one leader, cordons, a failure, a retry, a lost answer",
			with(alone(budget{failures: 1, late: 1, retries: 1}), interrupts), []string{"complete", "failed"}},
		{"one leader, cordons, a node re-created",
			with(alone(budget{deletions: 1}), interrupts, lagOne), []string{"lost"}},
		{"one leader, three nodes, new content", with(alone(budget{changes: 1}), threeNodes), []string{"complete"}},
		{"one leader, three nodes, a halt, a resume, a lost answer",
			with(alone(budget{failures: 1, resumes: 1, late: 1}), threeNodes, halting), []string{"halted", "complete"}},
		{"two leaders, three lives", rivals(budget{leads: 3}), []string{"complete", "both act"}},
		{"two leaders, a lost answer", rivals(budget{leads: 2, late: 1}), []string{"complete", "both act"}},
		{"two leaders, new content", with(rivals(budget{leads: 2, changes: 1}), deep), []string{"complete", "both act", "withdrawn"}},
		{"two leaders, a halt, a resume", with(rivals(budget{leads: 2, failures: 1, resumes: 1}), halting), []string{"halted", "both act"}},
		{"two leaders, cordons, a failure", with(rivals(budget{leads: 2, failures: 1}), interrupts), []string{"failed", "both act"}},
		{"two leaders, a node re-created", rivals(budget{leads: 2, deletions: 1}), []string{"lost", "both act"}},
		{"two leaders, three nodes", with(rivals(budget{leads: 2}), threeNodes), []string{"complete", "both act"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := explore(c.world)
			require.Empty(t, r.breach, "%s", r)
			t.Log(r)
			for _, met := range c.meets {
				require.True(t, r.met[met], "nothing in this world is ever %q: it proves little", met)
			}
		})
	}
}
