package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// The longest names that the schema accepts must give keys and label values that Kubernetes accepts.
func TestKeysOfTheLongestNamesAreValid(t *testing.T) {
	longest := strings.Repeat("a", nwv1.MaxNameLength)
	for _, key := range []string{
		nwv1.NodeStateKey(longest), nwv1.StatusKey(longest), nwv1.VersionKey(longest), nwv1.CordonKey(longest),
		nwv1.DrainStartKey(longest)[:len(nwv1.DrainStartPrefix)+52], fleetv1.RecordKey(longest), fleetv1.VerbKey(fleetv1.VerbAbandonUninstall),
	} {
		require.Empty(t, validation.IsQualifiedName(key), key)
	}
	value := nwv1.PackageLabelValue(strings.Repeat("a", nwv1.MaxPackageNameLength), strings.Repeat("1", 19))
	require.Len(t, value, nwv1.MaxPackageVersionLength)
	require.Empty(t, validation.IsValidLabelValue(value))
}

// These spellings are a contract with NVIDIA's tools and with records that are already on nodes.
func TestKeysAreSpelledAsTheContractSays(t *testing.T) {
	require.Equal(t, "nodewright.nvidia.com/nodeState_gpu", nwv1.NodeStateKey("gpu"))
	require.Equal(t, "nodewright.nvidia.com/status_gpu", nwv1.StatusKey("gpu"))
	require.Equal(t, "nodewright.nvidia.com/version_gpu", nwv1.VersionKey("gpu"))
	require.Equal(t, "nodewright.nvidia.com/cordon_gpu", nwv1.CordonKey("gpu"))
	require.Equal(t, "nodewright.nvidia.com/autoTaint_nodewright.nvidia.com", nwv1.AutoTaintKey(nwv1.RuntimeRequiredTaintKey))
	require.Equal(t, "nodewright.nvidia.com/gpu/NotReady", nwv1.NotReadyCondition("gpu"))
	require.Equal(t, "tuning|1.2.3", nwv1.NodeStateEntry("tuning", "1.2.3"))
	require.Equal(t, "fleetwright.dev/record_gpu", fleetv1.RecordKey("gpu"))
	require.Equal(t, "fleetwright.dev/retry", fleetv1.VerbKey(fleetv1.VerbRetry))
}

func TestPauseAndDisableNeedTheExactValue(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "True": false, "1": false, "": false} {
		nw := &nwv1.NodeWright{}
		nw.Annotations = map[string]string{nwv1.PauseAnnotation: value, nwv1.DisableAnnotation: value}
		require.Equal(t, want, nw.Paused(), value)
		require.Equal(t, want, nw.Disabled(), value)
	}
	require.False(t, (&nwv1.NodeWright{}).Paused())
}

func TestDrainSettingsFillInDefaults(t *testing.T) {
	var none *nwv1.DrainConfig
	defaults := nwv1.DrainSettings{DeleteEmptyDirData: true, Force: true, IgnoreDaemonSets: true, OnTimeout: nwv1.DrainReport}
	require.Equal(t, defaults, none.Settings())
	require.Equal(t, defaults, (&nwv1.DrainConfig{}).Settings())

	no, yes, grace := false, true, 5*time.Second
	got := (&nwv1.DrainConfig{
		DisableEviction: &yes, DeleteEmptyDirData: &no, Force: &no, IgnoreDaemonSets: &no,
		Timeout: &metav1.Duration{Duration: time.Minute}, GracePeriod: &metav1.Duration{Duration: grace}, OnTimeout: nwv1.DrainForce,
	}).Settings()
	require.Equal(t, nwv1.DrainSettings{DisableEviction: true, Timeout: time.Minute, GracePeriod: &grace, OnTimeout: nwv1.DrainForce}, got)
}
