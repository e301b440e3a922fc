package reconciler

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// parallelReviews is how many Fleets are reviewed at once: one more than may wait for one git host. Their builds run one after the other.
const parallelReviews = fleetsPerHost + 1

// SetupWithManager starts a look at a Fleet's pull requests when its spec changes and when somebody asks for it. Nothing else is
// watched: a cluster in which no Fleet asks for plans costs nothing.
func (r *Review) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("review").
		For(&fleetv1.Fleet{}, builder.WithPredicates(reviewRequested())).
		WithOptions(controller.Options{MaxConcurrentReconciles: parallelReviews}).
		Complete(r)
}

func reviewRequested() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				e.ObjectOld.GetAnnotations()[fleetv1.ReviewRequestedAtAnnotation] != e.ObjectNew.GetAnnotations()[fleetv1.ReviewRequestedAtAnnotation]
		},
	}
}
