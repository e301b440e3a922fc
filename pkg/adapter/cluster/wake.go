package cluster

import (
	"context"
	"fmt"
	"reflect"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Wake calls wake whenever something that a plan depends on changes in the caches. wake must not block. Heartbeats of
// nodes and our own writes of statuses wake nobody.
func Wake(ctx context.Context, caches cache.Informers, wake func()) error {
	for _, object := range []client.Object{
		&corev1.Node{}, &batchv1.Job{}, &corev1.Pod{}, &corev1.ConfigMap{}, &nwv1.NodeWright{}, &nwv1.DeploymentPolicy{},
		&fleetv1.Package{}, &fleetv1.Fleet{},
	} {
		informer, err := caches.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(waker(wake)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	return nil
}

func waker(wake func()) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		DeleteFunc: func(any) { wake() },
		UpdateFunc: func(old, new any) {
			if matters(old, new) {
				wake()
			}
		},
	}
}

func matters(old, new any) bool {
	switch after := new.(type) {
	case *corev1.Node:
		before, ok := old.(*corev1.Node)
		return !ok || nodeMatters(before, after)
	case *nwv1.NodeWright:
		return metaMatters(old, after)
	case *fleetv1.Fleet:
		return metaMatters(old, after)
	}
	return true
}

func nodeMatters(before, after *corev1.Node) bool {
	return before.UID != after.UID || !reflect.DeepEqual(NodeView(before), NodeView(after))
}

func metaMatters(old any, after client.Object) bool {
	before, ok := old.(client.Object)
	return !ok || before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() ||
		!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}
