package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// A node that left the selection under way keeps its status word while the NodeWright is there; when that goes, the word goes.
func TestStatusOfAReleasedTurnIsSweptWithItsNodeWright(t *testing.T) {
	record := noderecord.Record{
		NodeWright: "uid", Node: "n", Round: 1, Batch: 1, Outcome: noderecord.Released,
		Packages: map[string]noderecord.Package{"tuning": {Version: "1.0.0", Applied: "hash"}},
	}
	in := plan.Input{Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Nodes: []plan.Node{{
		Name: "n", UID: "n", Ready: true, Labels: map[string]string{nwv1.StatusKey("gone"): string(nwv1.StatusWaiting)},
		Records: map[string]noderecord.Record{"gone": record},
	}}}
	out := plan.Compute(in)
	require.Len(t, out.Decisions, 1)
	require.True(t, out.Decisions[0].Erase)
	require.Equal(t, record.Packages, out.Decisions[0].Record.Packages, "what is on the host stays on record")
	in.Nodes[0].Labels = nil
	require.Empty(t, plan.Compute(in).Decisions, "and then it is at rest")
}
