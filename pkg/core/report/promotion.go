package report

import (
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/promotion"
)

// ContextOf is the name under which a Fleet writes commit statuses; empty if it writes none.
func ContextOf(fleet *fleetv1.Fleet) string {
	switch checks := fleet.Spec.Checks; {
	case checks == nil:
		return ""
	case checks.Context != "":
		return checks.Context
	}
	return "fleetwright/" + fleet.Namespace + "/" + fleet.Name
}

// WaiterOf is the Fleet as others wait for it.
func WaiterOf(fleet *fleetv1.Fleet) promotion.Waiter {
	return promotion.Waiter{
		Name: fleet.Namespace + "/" + fleet.Name, Repository: fleet.Spec.Source.URL, Context: ContextOf(fleet), After: GatesOf(fleet),
	}
}

// GatesOf are the statuses that the Fleet waits for.
func GatesOf(fleet *fleetv1.Fleet) []fleetv1.PromotionGate {
	if fleet.Spec.Promotion == nil {
		return nil
	}
	return fleet.Spec.Promotion.After
}

// minCommit is the shortest piece of a hash that a person may let through.
const minCommit = 7

// ByHand says that a person let the commit through: the annotation fleetwright.dev/promote holds its hash, or at least the
// first seven digits of it.
func ByHand(fleet *fleetv1.Fleet, commit string) bool {
	asked := strings.ToLower(strings.TrimSpace(fleet.Annotations[fleetv1.PromoteAnnotation]))
	return len(asked) >= minCommit && strings.HasPrefix(commit, asked)
}
