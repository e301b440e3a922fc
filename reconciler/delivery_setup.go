package reconciler

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// parallelFleets is how many Fleets are worked on at once; one Fleet always has one worker.
const parallelFleets = 8

// SetupWithManager starts a pass of a Fleet when its spec, its request or its promotion annotation changes, when it is deleted, and when
// one of its objects changes.
func (r *Delivery) SetupWithManager(mgr ctrl.Manager) error {
	owner := handler.EnqueueRequestsFromMapFunc(fleetOf)
	return ctrl.NewControllerManagedBy(mgr).
		Named("fleet").
		For(&fleetv1.Fleet{}, builder.WithPredicates(r.fleetChanged())).
		Watches(&nwv1.NodeWright{}, owner, builder.WithPredicates(r.noteDrift(true))).
		Watches(&nwv1.DeploymentPolicy{}, owner, builder.WithPredicates(r.noteDrift(false))).
		Watches(&fleetv1.Package{}, owner, builder.WithPredicates(r.noteDrift(false))).
		WithOptions(controller.Options{MaxConcurrentReconciles: parallelFleets}).
		Complete(quietly{r})
}

// quietly runs again, without an error in the log, a pass that lost a race for its Fleet.
type quietly struct{ reconcile.Reconciler }

func (q quietly) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := q.Reconciler.Reconcile(ctx, request)
	if isLostRace(err) {
		return ctrl.Result{RequeueAfter: raceDelay}, nil
	}
	return result, err
}

// fleetChanged lets through what people do to a Fleet; our own reports raise no generation. What is under way for the Fleet as it
// was ends at once.
func (r *Delivery) fleetChanged() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.memory.interrupt(e.Object, true)
			return true
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			r.memory.interrupt(e.ObjectNew, false)
			before, now := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				before[fleetv1.RequestedAtAnnotation] != now[fleetv1.RequestedAtAnnotation] ||
				before[fleetv1.PromoteAnnotation] != now[fleetv1.PromoteAnnotation] ||
				before[fleetv1.PushedAtAnnotation] != now[fleetv1.PushedAtAnnotation] ||
				e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
	}
}

// noteDrift remembers for the owner that an object was changed in more than its status. Our own writes look the same; the
// comparison that follows finds nothing to do.
func (r *Delivery) noteDrift(statusCounts bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return statusCounts },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if !metadataOrSpecChanged(e.ObjectOld, e.ObjectNew) {
				return statusCounts
			}
			r.markOwners(e.ObjectOld, e.ObjectNew)
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			r.markOwners(e.Object)
			return true
		},
	}
}

func metadataOrSpecChanged(old, now client.Object) bool {
	return old.GetGeneration() != now.GetGeneration() || !maps.Equal(old.GetLabels(), now.GetLabels()) ||
		!maps.Equal(old.GetAnnotations(), now.GetAnnotations())
}

func (r *Delivery) markOwners(objects ...client.Object) {
	for _, o := range objects {
		if owner, ok := ownerOf(o); ok {
			r.memory.markDrift(owner)
		}
	}
}

// fleetOf is the Fleet that an object's labels name.
func fleetOf(_ context.Context, object client.Object) []reconcile.Request {
	if owner, ok := ownerOf(object); ok {
		return []reconcile.Request{{NamespacedName: owner}}
	}
	return nil
}

func ownerOf(object client.Object) (types.NamespacedName, bool) {
	labels := object.GetLabels()
	owner := types.NamespacedName{Namespace: labels[fleetv1.FleetNamespaceLabel], Name: labels[fleetv1.FleetNameLabel]}
	return owner, owner.Name != "" && owner.Namespace != ""
}
