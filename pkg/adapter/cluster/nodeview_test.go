package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// TestNodeViewsKeepEqualPackagesOnce: ten thousand nodes that completed the same rollout take the memory of one, and a
// record is its own all the same.
func TestNodeViewsKeepEqualPackagesOnce(t *testing.T) {
	var v nodeViews
	var nodes []corev1.Node
	for i, uid := range []types.UID{"a", "b"} {
		record := noderecord.Record{
			NodeWright: "nw", Node: uid, Round: 1, Batch: 1, Order: int32(i), Outcome: noderecord.Succeeded,
			Packages: map[string]noderecord.Package{"tuning": {Version: "1.0.0"}},
		}
		nodes = append(nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: string(uid), UID: uid, Annotations: map[string]string{fleetv1.RecordKey("tune"): noderecord.Encode(record)},
		}})
	}
	got := v.of(nodes)
	a, b := got[0].Records["tune"], got[1].Records["tune"]
	require.EqualValues(t, []any{types.UID("a"), types.UID("b"), int32(1)}, []any{a.Node, b.Node, b.Order})
	a.Packages["proof"] = noderecord.Package{}
	require.Contains(t, b.Packages, "proof", "the packages are the same map")
}
