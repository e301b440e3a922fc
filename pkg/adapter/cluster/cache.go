package cluster

import (
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// CacheOptions keep in memory only what a pass needs: of nodes a few fields, of Jobs, pods and ConfigMaps
// only our own in one namespace. The pods of the cluster are never cached; see Observer.Pods.
func CacheOptions(namespace string) cache.Options {
	own := labels.SelectorFromSet(labels.Set{fleetv1.ManagedByLabel: fleetv1.FieldManager})
	here := map[string]cache.Config{namespace: {}}
	shared := true
	return cache.Options{
		DefaultTransform: dropManagedFields,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:      {Transform: trimNode, UnsafeDisableDeepCopy: &shared},
			&batchv1.Job{}:      {Transform: dropManagedFields, Namespaces: here, Label: own, UnsafeDisableDeepCopy: &shared},
			&corev1.Pod{}:       {Transform: trimPod, Namespaces: here, Label: own, UnsafeDisableDeepCopy: &shared},
			&corev1.ConfigMap{}: {Transform: trimConfigMap, Namespaces: here, Label: own, UnsafeDisableDeepCopy: &shared},
		},
	}
}

// ownKey reports whether a metadata key of a node is ours or NVIDIA's. Of its old group only the state counts: a node that
// has it, and no record, is not adopted yet.
func ownKey(key string) bool {
	return strings.HasPrefix(key, fleetv1.Group+"/") || strings.HasPrefix(key, nwv1.Group+"/") ||
		strings.HasPrefix(key, nwv1.LegacyGroup+"/nodeState_")
}

// trimNode keeps what plan.Node and a patch need. An annotation map that was there stays there, even when nothing of
// it is kept: a patch has to know whether it must create the map.
func trimNode(in any) (any, error) {
	node, ok := in.(*corev1.Node)
	if !ok {
		return in, nil // a tombstone
	}
	annotations := maps.Clone(node.Annotations)
	maps.DeleteFunc(annotations, func(k, _ string) bool { return !ownKey(k) })
	return &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels,
			Annotations: annotations, CreationTimestamp: node.CreationTimestamp,
			DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{
			Conditions: readyOnly(node.Status.Conditions),
			NodeInfo: corev1.NodeSystemInfo{
				BootID: node.Status.NodeInfo.BootID, MachineID: node.Status.NodeInfo.MachineID,
			},
		},
	}, nil
}

func readyOnly(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	for _, c := range conditions {
		if c.Type == corev1.NodeReady {
			return []corev1.NodeCondition{c}
		}
	}
	return nil
}

// trimPod keeps the status and the identity of one of our pods.
func trimPod(in any) (any, error) {
	pod, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	return trimmedPod(pod), nil
}

func trimmedPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta, Status: pod.Status}
	out.ManagedFields, out.Annotations = nil, nil
	out.Spec.NodeName = pod.Spec.NodeName
	return out
}

// trimConfigMap keeps the content of snapshots only; of a package's configuration it is enough to know that it is there.
func trimConfigMap(in any) (any, error) {
	cm, ok := in.(*corev1.ConfigMap)
	if !ok {
		return in, nil
	}
	out := &corev1.ConfigMap{TypeMeta: cm.TypeMeta, ObjectMeta: cm.ObjectMeta}
	out.ManagedFields = nil
	if cm.Labels[fleetv1.SnapshotLabel] != "" {
		out.Data = cm.Data
	}
	return out, nil
}

func dropManagedFields(in any) (any, error) {
	return toolscache.TransformFunc(cache.TransformStripManagedFields())(in)
}
