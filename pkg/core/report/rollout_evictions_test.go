package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Each answer of the API server has its own words, and is a refusal of its own kind, or none.
func TestEvictionOutcomes(t *testing.T) {
	for want, c := range map[string]struct {
		o    EvictionOutcome
		kind plan.RefusalKind
	}{
		"eviction of pod ns/p refused by PodDisruptionBudget web: it needs 1 healthy pods and has 1 currently": {
			EvictionOutcome{Result: EvictionRefused, Budget: "web", Message: "it needs 1 healthy pods and has 1 currently"}, plan.RefusedByBudget},
		"eviction of pod ns/p refused by PodDisruptionBudget (unnamed)": {EvictionOutcome{Result: EvictionRefused}, plan.RefusedByBudget},
		"eviction of pod ns/p is not possible: several PodDisruptionBudgets select it; leave it to one of them": {
			EvictionOutcome{Result: EvictionSeveralBudgets, Message: "This pod has more than one PodDisruptionBudget"}, plan.RefusedByError},
		"the API server asks to wait before pod ns/p is asked to leave": {
			EvictionOutcome{Result: EvictionThrottled, Message: "too many requests"}, plan.RefusedByThrottling},
		"pod ns/p goes with its namespace, which is being deleted": {EvictionOutcome{Result: EvictionNamespaceTerminating}, plan.RefusedByNamespace},
		"eviction of pod ns/p failed: boom":                        {EvictionOutcome{Result: EvictionError, Message: "boom"}, plan.RefusedByError},
		"deletion of pod ns/p was denied: no right":                {EvictionOutcome{Result: EvictionForbidden, Deletion: true, Message: "no right"}, plan.RefusedByError},
		"pod ns/p is asked to leave":                               {EvictionOutcome{Result: EvictionAccepted}, ""},
		"pod ns/p has left":                                        {EvictionOutcome{Result: EvictionGone}, ""},
		"pod ns/p was replaced by another of the same name":        {EvictionOutcome{Result: EvictionReplaced}, ""},
	} {
		c.o.Namespace, c.o.Name = "ns", "p"
		require.Equal(t, want, c.o.String())
		refusal, refused := c.o.Refusal()
		require.Equal(t, c.kind != "", refused)
		require.Equal(t, c.kind, refusal.Kind)
		if refused {
			require.Equal(t, plan.Refusal{Kind: c.kind, Message: want, Deletion: c.o.Deletion}, refusal)
		}
	}
	long := EvictionOutcome{Result: EvictionError, Message: strings.Repeat("x", 5000)}
	require.Less(t, len(long.String()), 400, "an answer is quoted, not repeated")
}
