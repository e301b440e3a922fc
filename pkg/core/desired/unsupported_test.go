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
	require.Empty(t, desired.GapsOfNodeWright(nwv1.NodeWrightSpec{
		ProtectedPods: nwv1.ProtectedPodsYield, OnDrift: nwv1.DriftReport, RuntimeRequired: true,
	}))
	gaps := desired.GapsOfNodeWright(nwv1.NodeWrightSpec{
		RuntimeRequired: true, AutoTaintNewNodes: true, VerifyInterval: &metav1.Duration{Duration: time.Hour},
	})
	require.Len(t, gaps, 1)
	require.Equal(t, "spec.verifyInterval", gaps[0].Field())
	require.Equal(t, "periodic checks of hosts are not supported by this version; leave the field out", gaps[0].Message)
}
