package cluster

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Prune deletes the objects of the entries, NodeWrights first, if they still carry the Fleet's labels. The very object that
// was looked at is deleted (its UID is a precondition), never one that took its name since. What is gone already, or not
// ours any more, is left alone. The error is a *report.Failure; what was done before it is in the result.
func (a *Applier) Prune(ctx context.Context, fleet *fleetv1.Fleet, entries []fleetv1.InventoryEntry) ([]report.Change, error) {
	leave, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var changes []report.Change
	var objects []*unstructured.Unstructured
	for _, e := range entries {
		if object, ok := objectOf(e); ok {
			objects = append(objects, object)
		}
	}
	objects = inOrder(objects)
	slices.Reverse(objects)
	for _, object := range objects {
		change, err := a.pruneOne(ctx, fleet, object)
		if err != nil {
			failure := a.failed("delete", object.GetKind()+"/"+object.GetName(), err)
			if failure.Reason == report.ReasonApplyFailed {
				failure.Reason = report.ReasonPruneFailed
			}
			return changes, failure
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	return changes, nil
}

func (a *Applier) pruneOne(ctx context.Context, fleet *fleetv1.Fleet, object *unstructured.Unstructured) (*report.Change, error) {
	live, err := a.get(ctx, object)
	if err != nil || live == nil || live.GetDeletionTimestamp() != nil {
		return nil, err
	}
	gvk := live.GroupVersionKind()
	change := &report.Change{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Name: live.GetName(), Action: report.ObjectKept}
	switch {
	case ownerOf(live) != client.ObjectKeyFromObject(fleet):
		change.Note = "it no longer carries the labels of this Fleet"
		return change, nil
	case live.GetAnnotations()[fleetv1.PruneAnnotation] == fleetv1.PruneDisabled:
		change.Note = "its annotation " + fleetv1.PruneAnnotation + " says so"
		return change, nil
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	err = a.writer.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	change.Action = report.ObjectPruned
	return change, err
}

func objectOf(e fleetv1.InventoryEntry) (*unstructured.Unstructured, bool) {
	namespace, name, group, kind, ok := report.ParseEntryID(e.ID)
	if !ok || kindRank(kind) < 0 {
		return nil, false // not of a kind that we ever apply
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: e.Version, Kind: kind})
	object.SetNamespace(namespace)
	object.SetName(name)
	return object, true
}
