package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/adopt"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// ErrChanged says that a node is not any more what an adoption was decided from.
var ErrChanged = errors.New("the node changed since it was read: run it again")

// Adopter writes adoptions.
type Adopter struct {
	Client kubernetes.Interface
	// Namespace of the reconciler.
	Namespace string
}

// Write writes what adoption does on one node: first the definitions that the record names, into the reconciler's
// namespace, then one patch that tests the node's UID, that there is no record, and every annotation it was decided from. It
// can be repeated.
func (a Adopter) Write(ctx context.Context, node *corev1.Node, e adopt.Entry) error {
	kube, namespace := a.Client, a.Namespace
	for _, def := range e.Snapshots {
		cm := buildSnapshot(def, namespace)
		_, err := kube.CoreV1().ConfigMaps(namespace).Create(ctx, cm, metav1.CreateOptions{FieldManager: fleetv1.FieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create configmap %s: %w", cm.Name, err)
		}
	}
	data, err := json.Marshal(adoptionPatch(node, e))
	if err != nil {
		return fmt.Errorf("write patch of node %s: %w", node.Name, err)
	}
	_, err = kube.CoreV1().Nodes().Patch(ctx, node.Name, types.JSONPatchType, data, metav1.PatchOptions{FieldManager: fleetv1.FieldManager})
	if isConflict(err) {
		return fmt.Errorf("patch node %s: %w", node.Name, ErrChanged)
	}
	if err != nil {
		return fmt.Errorf("patch node %s: %w", node.Name, err)
	}
	return nil
}

// adoptionPatch adds our record, and under their new names what the old group's operator wrote. Nothing is removed.
func adoptionPatch(node *corev1.Node, e adopt.Entry) []patchOp {
	p := &nodePatch{node: node, annotations: maps.Clone(node.Annotations), labels: maps.Clone(node.Labels)}
	p.test("/metadata/uid", string(e.NodeUID))
	p.test(annotationPath(fleetv1.RecordKey(e.NodeWright)), nil)
	for _, key := range slices.Sorted(maps.Keys(e.Seen)) {
		p.test(annotationPath(key), e.Seen[key])
	}
	if e.Cordon {
		p.testUnschedulable()
		p.annotate(nwv1.CordonKey(e.NodeWright), nwv1.TrueValue)
	}
	written := noderecord.Annotations(e.NodeWright, *e.Record, e.Status, "adopted")
	for _, key := range slices.Sorted(maps.Keys(written)) {
		if !p.has(key) { // what NVIDIA's operator wrote stays as it is until the first turn
			p.annotate(key, written[key])
		}
	}
	if e.Ignore {
		p.label(nwv1.IgnoreLabel, nwv1.TrueValue)
	}
	return p.ops
}
