package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// foreigner edits a node as autoscalers, GPU stacks, people and another NodeWright do, and remembers what has to be on
// the node because of that. The edits come from a seed.
type foreigner struct {
	kube        kubernetes.Interface
	rng         *rand.Rand
	node        string
	edits       int
	taints      []corev1.Taint // in their order
	labels      map[string]string
	annotations map[string]string
	cordon      bool // another NodeWright owns a cordon
}

// autoscalerTaint is what the cluster autoscaler puts on a node that it is about to remove.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// otherNodeWright has keys with the same prefixes as ours; to our NodeWright they are as foreign as any.
const otherNodeWright = "someone-else"

func newForeigner(kube kubernetes.Interface, node *corev1.Node, seed uint64) *foreigner {
	return &foreigner{
		kube: kube, rng: rand.New(rand.NewPCG(seed, 0)), node: node.Name, taints: slices.Clone(node.Spec.Taints),
		labels: map[string]string{}, annotations: map[string]string{},
	}
}

// edit makes one edit, accepted by the API server.
func (f *foreigner) edit(ctx context.Context) error {
	f.edits++
	switch f.rng.IntN(6) {
	case 0, 1:
		return f.editTaints(ctx)
	case 2:
		return f.editMap(ctx, "labels", f.labels, []string{"foreign.example.com/pool", "team"})
	case 3, 4:
		return f.editMap(ctx, "annotations", f.annotations, []string{
			"cluster-autoscaler.kubernetes.io/scale-down-disabled", "foreign.example.com/note",
			nwv1.StatusKey(otherNodeWright), fleetv1.RecordKey(otherNodeWright),
		})
	default:
		return f.takeCordon(ctx)
	}
}

// editTaints writes the whole list, as its owners do: read, change, update. A taint that is there is taken off.
func (f *foreigner) editTaints(ctx context.Context) error {
	node, err := f.kube.CoreV1().Nodes().Get(ctx, f.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	key := []string{autoscalerTaint, "nvidia.com/gpu-stack", "example.com/reserved"}[f.rng.IntN(3)]
	same := func(t corev1.Taint) bool { return t.Key == key }
	if slices.ContainsFunc(f.taints, same) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, same)
		f.taints = slices.DeleteFunc(f.taints, same)
	} else {
		added := metav1.NewTime(time.Unix(1_700_000_000+int64(f.edits), 0).UTC())
		taint := corev1.Taint{Key: key, Value: fmt.Sprint(f.edits), Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added}
		node.Spec.Taints = append(node.Spec.Taints, taint)
		f.taints = append(f.taints, taint)
	}
	_, err = f.kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{FieldManager: "foreign"})
	return err
}

// editMap sets one of the keys, or removes it.
func (f *foreigner) editMap(ctx context.Context, field string, have map[string]string, keys []string) error {
	key := keys[f.rng.IntN(len(keys))]
	var value any // null removes
	if _, ok := have[key]; ok && f.rng.IntN(3) == 0 {
		delete(have, key)
	} else {
		have[key] = fmt.Sprint(f.edits)
		value = have[key]
	}
	return f.patch(ctx, map[string]any{"metadata": map[string]any{field: map[string]any{key: value}}})
}

// takeCordon makes the other NodeWright an owner of the cordon.
func (f *foreigner) takeCordon(ctx context.Context) error {
	f.cordon = true
	return f.patch(ctx, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{nwv1.CordonKey(otherNodeWright): nwv1.TrueValue}},
		"spec":     map[string]any{"unschedulable": true},
	})
}

// dropCordon gives the other NodeWright's cordon back; the node stays cordoned while ours owns one.
func (f *foreigner) dropCordon(ctx context.Context, ours bool) error {
	if !f.cordon {
		return nil
	}
	f.cordon = false
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{nwv1.CordonKey(otherNodeWright): nil}}}
	if !ours {
		patch["spec"] = map[string]any{"unschedulable": nil}
	}
	return f.patch(ctx, patch)
}

func (f *foreigner) patch(ctx context.Context, patch any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = f.kube.CoreV1().Nodes().Patch(ctx, f.node, "application/merge-patch+json", data, metav1.PatchOptions{FieldManager: "foreign"})
	return err
}

// taintsJSON is how taints read on the wire: equal times in different zones are equal, and so are no list and an empty one.
func taintsJSON(taints []corev1.Taint) string {
	data, err := json.Marshal(append([]corev1.Taint{}, taints...))
	if err != nil { // plain data always marshals
		panic(err)
	}
	return string(data)
}
