package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// A rollout that does not fit into its window goes on in the next one.
func TestWindowsAreWaitedFor(t *testing.T) {
	f := (&fleet{t: t}).nodeWright("tune").policy(count(1), fixed(1))
	f.objects.Policies[0].Spec.Windows = []nwv1.Window{{Cron: "0 10 * * *", Duration: metav1.Duration{Duration: 3 * time.Minute}}}
	result := simulate.Run(f.scenario(5))
	require.Empty(t, result.Problem)
	batches := only(t, result).Compartments[0].Batches
	require.Len(t, batches, 5)
	first := time.Duration(batches[0].Begin)
	require.Equal(t, time.Hour, first, "the clock starts at nine, the window opens at ten")
	for i, b := range batches {
		open := time.Duration(b.Begin) - first
		require.Less(t, open%(24*time.Hour), 3*time.Minute, "batch %d begins while the window is open", i+1)
	}
	require.Greater(t, time.Duration(batches[4].Begin), 25*time.Hour, "and the last ones a day later")
}

// Whole racks, as the planner takes them.
func TestGroupsAreTakenWhole(t *testing.T) {
	f := (&fleet{t: t}).nodeWright("tune").policy(count(1), nil, nwv1.Compartment{
		Name: "racks", Budget: count(4), Strategy: fixed(1), GroupBy: "rack",
	})
	s := f.scenario(6)
	for i := range s.Nodes {
		s.Nodes[i].Labels["rack"] = []string{"a", "b"}[i%2]
	}
	require.Equal(t, []int{3, 3}, sizes(only(t, simulate.Run(s)).Compartments[1]))
}
