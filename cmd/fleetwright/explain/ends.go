package explain

import "github.com/fleetwright/fleetwright/pkg/core/plan"

// ends is what would end a reason.
func ends(plan.Reason) string { return "" }
