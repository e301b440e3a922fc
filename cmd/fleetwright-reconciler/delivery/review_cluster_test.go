package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
)

func clusterOf(count int, edit func(*plan.Node)) preview.Input {
	in := preview.Input{Live: map[string]plan.NodeWright{"gpu": {Name: "gpu", Generation: 1}}}
	for i := range count {
		n := plan.Node{
			Name: fmt.Sprintf("n%d", i), UID: types.UID(fmt.Sprint(i)), Ready: true, Labels: map[string]string{"pool": "gpu", "rack": "7"},
			Records: map[string]noderecord.Record{"gpu": {Round: 1, Packages: map[string]noderecord.Package{"tuning": {Version: "1.0.0"}}}},
		}
		if i == 0 && edit != nil {
			edit(&n)
		}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

// TestDigestOfTheCluster: what decides about a plan changes it, and what changes all the time does not.
func TestDigestOfTheCluster(t *testing.T) {
	digest := func(edit func(*plan.Node)) string {
		d, err := digestOf(clusterOf(3, edit))
		require.NoError(t, err)
		return d
	}
	before := digest(nil)
	require.Equal(t, before, digest(nil))
	verified := time.Unix(1, 0)
	require.Equal(t, before, digest(func(n *plan.Node) {
		r := n.Records["gpu"]
		r.VerifiedAt = &verified
		n.Records["gpu"] = r
	}), "a periodic check")
	for what, edit := range map[string]func(*plan.Node){
		"label": func(n *plan.Node) { n.Labels["rack"] = "8" }, "taint": func(n *plan.Node) { n.Taints = []corev1.Taint{{Key: "x"}} },
		"cordon": func(n *plan.Node) { n.Unschedulable = true }, "not ready": func(n *plan.Node) { n.Ready = false },
		"progress": func(n *plan.Node) { n.Records["gpu"].Packages["tuning"] = noderecord.Package{Version: "1.1.0"} },
		"reset":    func(n *plan.Node) { n.Records = nil },
	} {
		require.NotEqual(t, before, digest(edit), what)
	}
	in := clusterOf(3, nil)
	in.Live["gpu"] = plan.NodeWright{Name: "gpu", Generation: 2}
	changed, err := digestOf(in)
	require.NoError(t, err)
	require.NotEqual(t, before, changed)
}

// BenchmarkDigestOfTheCluster is part of every look at a Fleet with open pull requests.
func BenchmarkDigestOfTheCluster(b *testing.B) {
	in := clusterOf(10_000, nil)
	for b.Loop() {
		if _, err := digestOf(in); err != nil {
			b.Fatal(err)
		}
	}
}
