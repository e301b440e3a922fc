package reconciler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

const drainRetry = 5 * time.Second

func (m *evictionMemory) of(now time.Time) map[types.UID]plan.Refusal {
	nodes := []plan.Node{{UID: "n"}, {UID: "other"}}
	m.apply(nodes, now, drainRetry)
	return nodes[0].Refusals
}

func answer(uid types.UID, result report.EvictionResult, retryAfter time.Duration) report.EvictionOutcome {
	return report.EvictionOutcome{Namespace: "ns", Name: string(uid), UID: uid, Result: result, RetryAfter: retryAfter}
}

// Every answer has its own pace, for each pod alone.
func TestEvictionMemoryPaces(t *testing.T) {
	for _, c := range []struct {
		result     report.EvictionResult
		retryAfter time.Duration
		waits      []time.Duration // in seconds
	}{
		{report.EvictionRefused, 0, []time.Duration{5, 10, 20, 30, 30}},
		{report.EvictionRefused, 12 * time.Second, []time.Duration{12, 12, 20, 30, 30}},
		{report.EvictionRefused, time.Hour, []time.Duration{60, 60}},
		{report.EvictionError, 0, []time.Duration{5, 10, 20, 30, 30}},
		{report.EvictionSeveralBudgets, 0, []time.Duration{5, 10, 20, 30, 30}},
		{report.EvictionForbidden, 0, []time.Duration{5, 10, 20, 30, 30}},
		{report.EvictionThrottled, 0, []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		{report.EvictionThrottled, 7 * time.Second, []time.Duration{7, 7, 7, 8}},
		{report.EvictionNamespaceTerminating, 0, []time.Duration{10, 10, 10}},
	} {
		var m evictionMemory
		for i, wait := range c.waits {
			m.note(plan.Decision{NodeUID: "n"}, report.Outcome{Evictions: []report.EvictionOutcome{answer("a", c.result, c.retryAfter)}}, noon, drainRetry)
			require.Equal(t, noon.Add(wait*time.Second), m.of(noon)["a"].Again, "%s, time %d", c.result, i+1)
		}
	}
}

func TestEvictionMemoryForgets(t *testing.T) {
	var m evictionMemory
	d := plan.Decision{NodeUID: "n"}
	note := func(outcomes ...report.EvictionOutcome) {
		m.note(d, report.Outcome{Evictions: outcomes}, noon, drainRetry)
	}
	note(answer("a", report.EvictionRefused, 0), answer("b", report.EvictionRefused, 0), answer("c", report.EvictionAccepted, 0))
	require.Equal(t, "eviction of pod ns/b refused by PodDisruptionBudget (unnamed)", m.of(noon)["b"].Message)
	require.Len(t, m.of(noon), 2)
	before := m.of(noon)
	note(answer("a", report.EvictionAccepted, 0))
	require.Len(t, m.of(noon), 1, "what is accepted is forgotten; the other pod of the node keeps its pace")
	require.Len(t, before, 2, "a plan keeps what it was made from")
	note(answer("b", report.EvictionReplaced, 0))
	require.Empty(t, m.of(noon))
	note(answer("a", report.EvictionRefused, 0))
	require.Len(t, m.of(noon.Add(5*time.Minute)), 1)
	require.Empty(t, m.of(noon.Add(6*time.Minute)), "a pod that is not asked any more is forgotten")
	note(answer("a", report.EvictionRefused, 0))
	m.apply(nil, noon, drainRetry)
	require.Empty(t, m.of(noon), "so is a node that is gone")
}

// The event of a drain names the pods that are asked to leave, and comes only if there are any.
func TestOnlyAcceptedEvictionsAreTold(t *testing.T) {
	d := plan.Decision{Action: plan.ActionDrain, Node: "n1", NodeWright: "tune", Evict: []plan.Eviction{
		{Namespace: "ns", Name: "a", UID: "a"}, {Namespace: "ns", Name: "b", UID: "b"},
	}}
	e, found := report.DecisionEvent(accepted(d, report.Outcome{Evictions: []report.EvictionOutcome{
		answer("a", report.EvictionRefused, 0), answer("b", report.EvictionAccepted, 0),
	}}))
	require.True(t, found)
	require.Equal(t, "asking 1 pods to leave for nodewright tune: ns/b", e.Note)
	_, found = report.DecisionEvent(accepted(d, report.Outcome{Evictions: []report.EvictionOutcome{answer("a", report.EvictionRefused, 0)}}))
	require.False(t, found)
	require.Len(t, d.Evict, 2)
}
