package desired_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
)

func TestGaps(t *testing.T) {
	require.Empty(t, desired.GapsOfNodeWright(nwv1.NodeWrightSpec{ProtectedPods: nwv1.ProtectedPodsHold, OnDrift: nwv1.DriftReport}))
	require.Empty(t, desired.GapsOfPolicy(nwv1.DeploymentPolicySpec{Order: nwv1.OrderLabel, OrderBy: "rack"}))

	gaps := desired.GapsOfNodeWright(nwv1.NodeWrightSpec{
		RuntimeRequired: true, ProtectedPods: nwv1.ProtectedPodsYield, VerifyInterval: &metav1.Duration{Duration: time.Hour},
	})
	require.Len(t, gaps, 3)
	require.Equal(t, "spec.runtimeRequired", gaps[0].Field())
	require.Equal(t, "gates of new nodes are not supported by this version; leave the field out", gaps[0].Message)

	gaps = desired.GapsOfPolicy(nwv1.DeploymentPolicySpec{
		Windows: []nwv1.Window{{}}, Compartments: []nwv1.Compartment{{}, {GroupBy: "rack"}},
	})
	require.Len(t, gaps, 2)
	require.Equal(t, "spec.compartments.1.groupBy", gaps[1].Field())
}
