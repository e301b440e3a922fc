package reconciler

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// syncFinalizer adds or removes the finalizer as the deletion policy says.
func (r *Delivery) syncFinalizer(ctx context.Context, fleet *fleetv1.Fleet) error {
	wanted := fleet.Spec.DeletionPolicy == fleetv1.DeletionPrune
	if wanted == controllerutil.ContainsFinalizer(fleet, fleetv1.PruneFinalizer) {
		return nil
	}
	return r.setFinalizer(ctx, fleet, wanted)
}

func (r *Delivery) setFinalizer(ctx context.Context, fleet *fleetv1.Fleet, wanted bool) error {
	before := fleet.DeepCopy()
	change := controllerutil.RemoveFinalizer
	if wanted {
		change = controllerutil.AddFinalizer
	}
	change(fleet, fleetv1.PruneFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}) // a list is replaced as a whole
	if err := r.Client.Patch(ctx, fleet, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write finalizer: %w", raced(err))
	}
	return nil
}

// finalize deletes the inventory of a Fleet that goes with its objects. It asks nothing of git, waits for no rollout, and is tried
// again until it is done, or until the policy becomes Orphan.
func (r *Delivery) finalize(ctx context.Context, fleet *fleetv1.Fleet) error {
	if !controllerutil.ContainsFinalizer(fleet, fleetv1.PruneFinalizer) {
		return nil
	}
	p := r.begin(fleet)
	if fleet.Spec.DeletionPolicy == fleetv1.DeletionPrune {
		bounded, cancel := context.WithTimeout(ctx, timeoutOf(fleet))
		defer cancel()
		changes, err := r.Applier.Prune(bounded, fleet, entries(fleet))
		r.reportChanges(p, changes)
		if failure, ok := asFailure(err); ok { // a Fleet that does not go has no other way to say why
			r.event(p, happening{warning, failure.Reason, report.ActionPrune, failure.Message})
		}
		if err != nil {
			return fmt.Errorf("prune deleted fleet: %w", err)
		}
	}
	r.forget(ctrl.Request{NamespacedName: keyOf(fleet)})
	return r.setFinalizer(ctx, fleet, false)
}
