package cluster

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// TestFieldReport_AC06_OnlyOurOwnIsCached: of pods, Jobs and ConfigMaps only ours, in one namespace; managed fields of nothing.
func TestFieldReport_AC06_OnlyOurOwnIsCached(t *testing.T) {
	options := CacheOptions("fleetwright")
	own := labels.Set{fleetv1.ManagedByLabel: fleetv1.FieldManager}
	managed := []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}}
	kinds := map[string]bool{}
	for object, by := range options.ByObject {
		kind := fmt.Sprintf("%T", object)
		kinds[kind] = true
		if _, isNode := object.(*corev1.Node); !isNode {
			require.Len(t, by.Namespaces, 1, kind)
			require.Contains(t, by.Namespaces, "fleetwright", kind)
			require.True(t, by.Label.Matches(own), kind)
			require.False(t, by.Label.Matches(labels.Set{"app": "training"}), kind)
		}
		full := object.DeepCopyObject().(client.Object)
		full.SetName("x")
		full.SetManagedFields(managed)
		kept, err := by.Transform(full)
		require.NoError(t, err)
		require.Empty(t, kept.(client.Object).GetManagedFields(), kind)
		require.Equal(t, "x", kept.(client.Object).GetName(), kind)
	}
	require.Equal(t, map[string]bool{"*v1.Node": true, "*v1.Job": true, "*v1.Pod": true, "*v1.ConfigMap": true}, kinds)
	kept, err := options.DefaultTransform(&nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{ManagedFields: managed}})
	require.NoError(t, err)
	require.Empty(t, kept.(client.Object).GetManagedFields(), "of every other kind")
}

func TestFieldReport_AC06_OfAPodNoSpecIsKept(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"blob": strings.Repeat("x", 1000)}},
		Spec: corev1.PodSpec{
			NodeName: "n", Volumes: []corev1.Volume{{Name: "v"}}, Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	kept, err := trimPod(pod)
	require.NoError(t, err)
	require.Equal(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}, kept)
}

// nodeBudget is what docs/operations.md promises for 1000 nodes.
const nodeBudget = 32 << 20

// TestFieldReport_AC06_MemoryOf1000Nodes: nodes as large as those of a cloud, with the records of five NodeWrights of ten packages.
func TestFieldReport_AC06_MemoryOf1000Nodes(t *testing.T) {
	const nodes, scale = 250, 4
	trimmed := scale * heapOf(nodes, func(in *corev1.Node) any {
		kept, err := trimNode(in)
		require.NoError(t, err)
		return kept
	})
	whole := scale * heapOf(nodes, func(in *corev1.Node) any { return in })
	t.Logf("1000 nodes: %d KiB trimmed, %d KiB whole", trimmed>>10, whole>>10)
	require.Less(t, trimmed, int64(nodeBudget))
	require.Less(t, trimmed, whole*3/4, "what is not needed is not kept")
}

// heapOf is what keep holds on to of n nodes that were decoded, as the client does.
func heapOf(n int, keep func(*corev1.Node) any) int64 {
	kept := make([]any, 0, n)
	before := liveHeap()
	for i := range n {
		raw, _ := json.Marshal(cloudNode(i))
		node := &corev1.Node{}
		_ = json.Unmarshal(raw, node)
		kept = append(kept, keep(node))
	}
	used := liveHeap() - before
	runtime.KeepAlive(kept)
	return used
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// cloudNode is a node with what kubelet, cloud and GPU stack put on it, and our records.
func cloudNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d.region.compute.internal", i)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: "cloud:///" + name},
	}
	for j := range 60 { // GPU feature discovery alone sets about forty
		node.Labels[fmt.Sprintf("feature.example.com/label-%02d", j)] = fmt.Sprintf("value-%02d", j)
	}
	node.Annotations["csi.example.com/nodeid"] = strings.Repeat("x", 500)
	for j := range 50 { // the kubelet reports fifty images
		image := fmt.Sprintf("registry.example.com/team/image-%02d", j)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{image + "@sha256:" + strings.Repeat("a", 64), image + ":1.0.0"}})
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Message: strings.Repeat("m", 80)})
	}
	for _, manager := range []string{"kubelet", "cloud-controller", "gpu-feature-discovery", "fleetwright"} {
		node.ManagedFields = append(node.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:x":"` + strings.Repeat("f", 3000) + `"}`),
		})
	}
	for w := range 5 {
		record := noderecord.Record{Node: node.UID, Round: 3, Batch: 2, Outcome: noderecord.Succeeded, Packages: map[string]noderecord.Package{}}
		for p := range 10 {
			record.Packages[fmt.Sprintf("package-%d", p)] = noderecord.Package{
				Version: "1.2.3", Image: "registry.example.com/packages/p", Applied: strings.Repeat("h", 64), Snapshot: strings.Repeat("s", 64),
			}
		}
		for k, v := range noderecord.Annotations(fmt.Sprintf("nodewright-%d", w), record, nwv1.StatusComplete, "1.0.0") {
			node.Annotations[k] = v
		}
	}
	return node
}
