package preview_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// TestTheScopeOfTheFleetHoldsForNewObjects: a NodeWright that the cluster does not know yet touches no node outside of the scope.
func TestTheScopeOfTheFleetHoldsForNewObjects(t *testing.T) {
	scoped := func(in *preview.Input) {
		in.Fleet = "fleetwright/us"
		in.Limits = &fleetv1.Scope{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "7"}}}
		in.Nodes[0].Labels = map[string]string{"pool": "gpu", "rack": "7"}
	}
	require.Equal(t, 5, over(simulate.Objects{}, kernel()).Affected.Nodes)
	require.Equal(t, 1, over(simulate.Objects{}, kernel(), scoped).Affected.Nodes)
}

func TestTimelessDiffersByWhatHappensAlone(t *testing.T) {
	early := over(kernel(), kernel(version("1.1.0")))
	late := over(kernel(), kernel(version("1.1.0")))
	late.Rollouts[0].Lanes[0].Batches[0].End += 60
	late.Rollouts[0].End, late.Seconds = 1, 1
	late.Blocks = append(late.Blocks, preview.Block{Code: string(plan.WaitingForWindow)})
	require.NotEqual(t, early, late)
	require.Equal(t, early.Timeless(), late.Timeless())
	require.NotEqual(t, early.Timeless(), over(kernel(), kernel(version("1.2.0"))).Timeless())
	require.NotZero(t, early.Rollouts[0].Lanes[0].Batches[0].End, "the plan itself is not changed")
}
