package plan_test

import (
	"os"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// change is one change of the state of a turn.
type change struct{ from, to string }

var documentedTransitions = sync.OnceValues(func() (map[change]bool, error) {
	text, err := os.ReadFile("../../../docs/concepts.md")
	out := map[change]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| `([a-z]+)` \\| ").FindAllStringSubmatch(string(text), -1) {
		out[change{row[1], row[2]}] = true
	}
	return out, err
})

// stateOf is the documented name of the state that a record stands for.
func stateOf(r noderecord.Record) string {
	switch {
	case r.Batch == 0:
		return "none"
	case r.Outcome == noderecord.Open:
		return "open"
	}
	return string(r.Outcome)
}

// checkTransition holds every write of a record to the documented graph, where a test asks for it.
func (w *world) checkTransition(before, after noderecord.Record) {
	if w.walked == nil {
		return
	}
	graph, err := documentedTransitions()
	require.NoError(w.t, err)
	step := change{stateOf(before), stateOf(after)}
	sameTurn := before.Round == after.Round && before.Order == after.Order && step.from == step.to
	require.True(w.t, sameTurn || graph[step], "from %s to %s is not a documented change: %s → %s",
		step.from, step.to, noderecord.Encode(before), noderecord.Encode(after))
	w.walked[step] = true
}

// TestFieldReport_ST07_EveryChangeOfStateIsDocumented walks random histories: each is a path of the documented graph, and the
// usual changes happen.
func TestFieldReport_ST07_EveryChangeOfStateIsDocumented(t *testing.T) {
	walked := map[change]bool{}
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.walked = walked
		h.run()
	})
	for _, usual := range []change{{"none", "open"}, {"open", "succeeded"}, {"open", "failed"}, {"open", "released"}, {"failed", "open"}, {"succeeded", "open"}} {
		require.Contains(t, walked, usual, "the histories never go from %s to %s", usual.from, usual.to)
	}
}
