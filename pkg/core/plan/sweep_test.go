package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// A turn was taken back while the node was still selected, with a status word; then the node leaves: the word goes, the record
// stays.
func TestStatusOfAReleasedTurnGoesWhenItsNodeLeaves(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", func(nw *plan.NodeWright) { nw.Paused = true }, pkg("tuning", "1.0.0"))
	n := w.nodes["n01"]
	record := noderecord.Record{NodeWright: w.in.NodeWrights[0].UID, Node: n.UID, Round: 1, Batch: 1, Outcome: noderecord.Released}
	n.Records = map[string]noderecord.Record{"tune": record}
	n.Labels[nwv1.StatusKey("tune")] = string(nwv1.StatusWaiting)
	w.pass()
	require.Contains(t, n.Labels, nwv1.StatusKey("tune"), "it is still selected")
	n.Labels["pool"] = "other"
	w.pass()
	require.NotContains(t, n.Labels, nwv1.StatusKey("tune"))
	require.Equal(t, noderecord.Encode(record), noderecord.Encode(n.Records["tune"]))
	w.pass()
	require.Empty(t, w.last.Decisions, "and then it is at rest")
}

// A status word that is still there when the NodeWright goes, goes with it.
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
