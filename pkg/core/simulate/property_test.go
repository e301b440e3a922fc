package simulate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// TestProperties: over random fleets, policies, durations and failures, a simulation comes to rest, is the same twice,
// loses no node, and admits nobody above the ceiling.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := drawScenario(t)
		r := simulate.Run(sc)
		require.Empty(t, r.Problem)
		require.Equal(t, r, simulate.Run(shuffled(t, sc)), "the order of nodes and NodeWrights means nothing")
		for _, o := range r.Rollouts {
			checkConserved(t, o)
			checkBatches(t, o)
			if o.Outcome != simulate.Complete && o.Outcome != simulate.NoNodes {
				require.NotEmpty(t, o.Reasons)
			}
		}
		require.LessOrEqual(t, r.OutOfService.AtEnd, r.OutOfService.Peak)
		if len(sc.Budgets) > 0 {
			require.LessOrEqual(t, r.OutOfService.Peak, int(*sc.Budgets[0].Count))
		}
	})
}

func drawScenario(t *rapid.T) simulate.Scenario {
	f := &fleet{t: t}
	for i := range rapid.IntRange(1, 2).Draw(t, "nodewrights") {
		f.nodeWright(fmt.Sprintf("nw%d", i), interruptOf(t), priority(int32(rapid.IntRange(1, 3).Draw(t, "priority"))))
		if rapid.Bool().Draw(t, "policy") {
			f.policy(drawBudget(t), drawStrategy(t), compartment("half", "half", "1",
				func(c *nwv1.Compartment) { c.Budget, c.Strategy = drawBudget(t), drawStrategy(t) }))
		} else {
			budgetOnly(int32(rapid.IntRange(0, 4).Draw(t, "budget")))(f.objects.NodeWrights[i])
		}
	}
	sc := f.scenario(rapid.IntRange(0, 14).Draw(t, "nodes"))
	for i := range sc.Nodes {
		sc.Nodes[i].Labels["half"] = fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "half"))
	}
	sc.Seed = rapid.Uint64().Draw(t, "seed")
	sc.Failures = simulate.Failures{
		Percent: float64(rapid.SampledFrom([]int{0, 0, 10, 50, 100}).Draw(t, "fail")), FlakyPercent: float64(rapid.IntRange(0, 30).Draw(t, "flaky")),
		Stage: rapid.SampledFrom(append(simulate.FailureStages(), "")).Draw(t, "stage"),
	}
	sc.Durations = simulate.Durations{}
	for _, step := range simulate.Steps() {
		sc.Durations[step] = time.Duration(rapid.IntRange(0, 100).Draw(t, string(step))) * time.Second
	}
	if rapid.Bool().Draw(t, "capped") {
		limit := int32(rapid.IntRange(0, 4).Draw(t, "cap"))
		sc.Budgets = []plan.Budget{{Name: "fleetwright/x", Count: &limit}}
	}
	return sc
}

func interruptOf(t *rapid.T) func(*nwv1.NodeWright) {
	kind := rapid.SampledFrom([]nwv1.InterruptType{"", nwv1.InterruptReboot, nwv1.InterruptService}).Draw(t, "interrupt")
	if kind == "" {
		return func(*nwv1.NodeWright) {}
	}
	return interrupt(kind)
}

func drawBudget(t *rapid.T) nwv1.DeploymentBudget {
	if rapid.Bool().Draw(t, "percentage") {
		return percent(int32(rapid.IntRange(0, 100).Draw(t, "percent")))
	}
	return count(int32(rapid.IntRange(0, 5).Draw(t, "count")))
}

func drawStrategy(t *rapid.T) *nwv1.DeploymentStrategy {
	var more []func(*nwv1.BatchRules)
	if rapid.Bool().Draw(t, "halts") {
		more = append(more, failureThreshold(int32(rapid.IntRange(1, 2).Draw(t, "threshold"))))
	}
	initial := int32(rapid.IntRange(1, 4).Draw(t, "initial"))
	switch rapid.IntRange(0, 4).Draw(t, "strategy") {
	case 0:
		return nil
	case 1:
		return linear(initial, 2, more...)
	case 2:
		return exponential(initial, 2, more...)
	case 3:
		s := fixed(initial, more...)
		s.Fixed.Advance = nwv1.AdvanceRolling
		return s
	}
	return fixed(initial, more...)
}

func shuffled(t *rapid.T, sc simulate.Scenario) simulate.Scenario {
	sc.Nodes = rapid.Permutation(sc.Nodes).Draw(t, "order of nodes")
	sc.NodeWrights = rapid.Permutation(sc.NodeWrights).Draw(t, "order of NodeWrights")
	return sc
}

// checkConserved: at every instant each node is in one state.
func checkConserved(t *rapid.T, o simulate.Rollout) {
	require.Equal(t, o.Total, o.Complete+o.Failed+o.Waiting)
	before := simulate.Offset(-1)
	for _, p := range o.Timeline {
		require.Equal(t, o.Total, p.Complete+p.InProgress+p.Failed+p.Waiting, "%+v", p)
		require.LessOrEqual(t, p.InProgress, o.Ceiling())
		require.LessOrEqual(t, p.OutOfService, o.Ceiling())
		require.Greater(t, p.At, before)
		before = p.At
	}
}

// checkBatches counts for itself: the nodes that are in open batches at once are never more than the ceiling; batches of
// strategies do not overlap; no node is in two batches of a round.
func checkBatches(t *rapid.T, o simulate.Rollout) {
	for _, c := range o.Compartments {
		seen := map[string]bool{}
		for i, b := range c.Batches {
			require.NotEmpty(t, b.Nodes)
			require.LessOrEqual(t, len(b.Nodes), c.Ceiling)
			require.LessOrEqual(t, b.Begin, b.End)
			for _, n := range b.Nodes {
				require.False(t, seen[n], "node %s was admitted twice", n)
				seen[n] = true
			}
			if c.Strategy != "fixed" && c.Strategy != "none" && i > 0 { // fixed may be rolling; none is without a policy
				require.LessOrEqual(t, c.Batches[i-1].End, b.Begin)
			}
			require.LessOrEqual(t, b.Failed, len(b.Nodes))
		}
		require.LessOrEqual(t, atOnce(c.Batches), max(c.Ceiling, 0))
	}
}

// atOnce is a lower bound of the nodes at work: all nodes of open batches that began before, of which at most those of
// batches with one node are known to be at work until the batch ends.
func atOnce(batches []simulate.Batch) int {
	most := 0
	for _, b := range batches {
		n := 0
		for _, other := range batches {
			if len(other.Nodes) == 1 && other.Begin <= b.Begin && b.Begin < other.End {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestRunChangesNoScenario: what a caller passes in stays as it was.
func TestRunChangesNoScenario(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("kernel", interrupt(nwv1.InterruptReboot)).policy(count(2), fixed(2)).scenario(4)
	before := slices.Clone(sc.Nodes)
	simulate.Run(sc)
	require.Equal(t, before, sc.Nodes)
	require.Empty(t, sc.Ledger.Rollouts)
}
