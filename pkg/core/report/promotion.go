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

// ByHand says that a person let the commit through: the annotation fleetwright.dev/promote holds its hash. All of it, because the annotation may stay for
// ever, and a later commit that begins with the same few digits is quickly made.
func ByHand(fleet *fleetv1.Fleet, commit string) bool {
	return commit != "" && asked(fleet) == commit
}

// ByHandInPart says that the annotation names the commit by its first digits, which lets nothing through.
func ByHandInPart(fleet *fleetv1.Fleet, commit string) bool {
	part := asked(fleet)
	return part != "" && part != commit && strings.HasPrefix(commit, part)
}

func asked(fleet *fleetv1.Fleet) string {
	return strings.ToLower(strings.TrimSpace(fleet.Annotations[fleetv1.PromoteAnnotation]))
}
