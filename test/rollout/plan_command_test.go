package rollout

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// TestPlanOnALiveCluster: the program plans a change for the nodes of a cluster: from their records, with the pods that would hold it up,
// and without a write.
func TestPlanOnALiveCluster(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.start()
	nw := w.only("kernel", "", func(nw *nwv1.NodeWright) {
		nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"workload": "training"}}
	})
	manifest := nw.DeepCopy()
	w.create(nw)
	w.awaitComplete("kernel")
	w.addPod("run-1", nodes[0], func(p *corev1.Pod) { p.Labels["workload"] = "training" })
	c := w.newCommandLine().as(w, explainer)
	w.grant(explainer)

	same := planOf(t, c, manifest)
	require.Zero(t, same.Affected, "both nodes have it already: %v", same)

	p := manifest.Spec.Packages["kernel"]
	p.Version, p.Interrupt = "1.1.0", &nwv1.Interrupt{Type: nwv1.InterruptReboot}
	manifest.Spec.Packages["kernel"] = p
	next := planOf(t, c, manifest)
	require.Equal(t, preview.Tally{Nodes: 2, Reboot: 2}, next.Affected)
	require.Equal(t, preview.Nodes{Source: preview.Cluster, Count: 2, PodsKnown: true}, next.Nodes)
	require.Len(t, next.Blocks, 1)
	require.Equal(t, "ProtectedPod", next.Blocks[0].Code)
	require.Equal(t, []string{nodes[0]}, next.Blocks[0].First)

	require.NoError(t, w.c.Audit().Sync(w.ctx()))
	events, err := w.c.Audit().Events(cluster.Match{User: explainer})
	require.NoError(t, err)
	require.NotEmpty(t, events)
	for _, e := range events {
		require.Contains(t, []string{"get", "list"}, e.Verb, e.URI)
		require.Contains(t, []int{200, 404}, e.Code, "the rights of who may explain are enough, whether there is a lease or not: %s", e.URI)
	}
}

// planOf writes the NodeWright into a directory of its own and plans it.
func planOf(t *testing.T, c commandLine, nw *nwv1.NodeWright) (p preview.Plan) {
	t.Helper()
	nw.TypeMeta = metav1.TypeMeta{APIVersion: nwv1.GroupVersion.String(), Kind: nwv1.KindNodeWright}
	data, err := yaml.Marshal(map[string]any{"apiVersion": nw.APIVersion, "kind": nw.Kind, "metadata": map[string]any{"name": nw.Name}, "spec": nw.Spec})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kernel.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	out := c.run("plan", file, "--kubeconfig", c.kubeconfig, "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &p), out)
	return p
}
