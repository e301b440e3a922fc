package preview_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// TestALargeFleet: two thousand nodes and ten NodeWrights, all of them changed. The prediction is bounded by what it looks at, not by a
// clock, and the comment by what forges take.
func TestALargeFleet(t *testing.T) {
	var base, head simulate.Objects
	for i := range 10 {
		for objects, v := range map[*simulate.Objects]string{&base: "1.0.0", &head: "1.1.0"} {
			one := kernel(version(v))
			one.NodeWrights[0].Name = fmt.Sprintf("nodewright-%02d", i)
			objects.NodeWrights = append(objects.NodeWrights, one.NodeWrights...)
			objects.Policies = one.Policies
		}
	}
	in := preview.Input{Base: base, Head: head, Source: preview.Saved, Start: start, Visits: 400_000, Settings: plan.Settings{StageTimeout: time.Hour}}
	for i := range 2_000 {
		n := nodes(1)[0]
		n.Name = fmt.Sprintf("node-%05d", i)
		n.UID = types.UID(n.Name)
		in.Nodes = append(in.Nodes, n)
	}

	p := preview.Make(in)

	require.Equal(t, preview.Tally{Nodes: 2_000, Reboot: 2_000}, p.Affected)
	require.NotEmpty(t, p.Problem, "the prediction ends before the rollout does")
	require.LessOrEqual(t, len(report.PlanComment(p)), 60_000)
}
