package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// TestFieldReport_NN04_WhenTheTaintComes is the matrix of docs/operations.md: x gates new nodes and is older than y, which does
// too. What is asked of a node that x is done with decides if the taint comes; it goes when everything is done.
func TestFieldReport_NN04_WhenTheTaintComes(t *testing.T) {
	xAgain, yAgain := []string{"x-files apply (fresh)", "x-files config"}, []string{"y-files apply (fresh)", "y-files config"}
	yFirst := []string{"y-files apply", "y-files config"}
	for _, c := range []struct {
		name string
		// withY: y was there from the beginning, and is done, too.
		withY bool
		event func(w *world)
		taint bool
		want  []string
	}{
		{"nothing", false, func(*world) {}, false, nil},
		{"first seen by y", false, addY, false, yFirst},
		{"reset", true, func(w *world) { w.ask("n01", "reset", "1") }, false, slices.Concat(xAgain, yAgain)},
		{"regate", true, func(w *world) { w.ask("n01", "regate", "1") }, true, slices.Concat(xAgain, yAgain)},
		{"regate for y", true, func(w *world) { w.ask("n01", "regate", "1 nodewright=yy") }, true, yAgain},
		{"regate for y, which sees it for the first time", false, func(w *world) {
			addY(w)
			w.ask("n01", "regate", "1 nodewright=yy")
		}, true, yFirst},
		{"regate with another version: what is recorded is forgotten", true, func(w *world) {
			w.ask("n01", "regate", "1 nodewright=xx")
			w.pass()
			w.nodeWright("xx", nil, pkg("x-files", "2.0.0"))
		}, true, xAgain},
		{"regate while it runs workloads", true, func(w *world) {
			w.addPod("n01", "web", "front", nil)
			w.ask("n01", "regate", "1")
		}, true, slices.Concat(xAgain, yAgain)},
		{"regate while a pause holds the work", true, func(w *world) {
			w.edit("xx", func(nw *plan.NodeWright) { nw.Paused = true })
			w.ask("n01", "regate", "1")
			w.pass()
			w.pass()
			require.Contains(w.t, w.nodes["n01"].Taints, gate)
			w.edit("xx", func(nw *plan.NodeWright) { nw.Paused = false })
		}, true, slices.Concat(xAgain, yAgain)},
		{"regate of an ignored node", true, func(w *world) {
			w.nodes["n01"].Labels["nodewright.nvidia.com/ignore"] = "true"
			w.ask("n01", "regate", "1")
		}, false, nil},
		{"regate under a NodeWright that is disabled", true, func(w *world) {
			w.edit("xx", func(nw *plan.NodeWright) { nw.Disabled = true })
			w.ask("n01", "regate", "1 nodewright=xx")
		}, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 0)
			w.nodeWright("xx", autoTaints(w), pkg("x-files", "1.0.0"))
			if c.withY {
				addY(w)
			}
			w.addNode("n01", nil).Created = w.in.Now
			w.settle()
			w.ranSince()
			w.log = nil
			c.event(w)
			w.settle()
			gated := slices.ContainsFunc(w.log, func(l string) bool { return l == "Gate xx/n01" || l == "Gate yy/n01" })
			require.Equal(t, c.taint, gated, "%v", w.log)
			if gated {
				require.Contains(t, w.log[0], "Gate ", "the taint is first")
			}
			require.ElementsMatch(t, c.want, w.ran["n01"])
			require.Empty(t, w.nodes["n01"].Taints)
			w.log = nil
			w.settle()
			require.Empty(t, w.log, "once for each token")
		})
	}
}

// addY adds the second NodeWright that gates.
func addY(w *world) { w.nodeWright("yy", autoTaints(w), pkg("y-files", "1.0.0")) }

// The taint does not go in the middle, whoever takes it off: before anything was begun it comes back.
func TestFieldReport_NN04_TheTaintThatWasAskedForStays(t *testing.T) {
	w := newWorld(t, 0)
	w.nodeWright("xx", autoTaints(w), pkg("x-files", "1.0.0"))
	addY(w)
	n := w.addNode("n01", nil)
	n.Created = w.in.Now
	w.settle()
	w.ranSince()
	w.ask("n01", "regate", "1")
	w.pass()
	require.Contains(t, n.Taints, gate)
	require.Equal(t, "the node gets the runtime-required taint back before its packages run again", w.reason("yy", "n01").Message)
	n.Taints = nil
	w.pass()
	require.Contains(t, n.Taints, gate, "nothing had begun")
	for range 100 {
		require.True(t, len(n.Taints) > 0 || len(w.ran["n01"]) == 4, "the taint went before all was done: %v", w.ran)
		w.pass()
		w.work()
	}
	w.settle()
	require.Empty(t, n.Taints)
	require.Equal(t, "1", n.Records["yy"].Asked["node/regate"])
}

// A record that cannot be read is replaced, behind the taint; a NodeWright without a gate refuses.
func TestRegateOfWhatCannotBeReadOrGated(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("xx", autoTaints(w), pkg("x-files", "1.0.0"))
	w.settle()
	w.ranSince()
	n := w.nodes["n01"]
	n.Records, n.Malformed = map[string]noderecord.Record{}, map[string]string{"xx": "not JSON"}
	w.ask("n01", "regate", "1")
	require.Equal(t, plan.ActionReset, w.pass().Decisions[0].Action)
	require.Contains(t, n.Taints, gate, "in the same write: without the record nothing else can be written")
	w.settle()
	require.Equal(t, []string{"x-files apply (fresh)", "x-files config"}, w.ran["n01"])
	require.Empty(t, n.Taints)

	w.edit("xx", func(nw *plan.NodeWright) { nw.Spec.RuntimeRequired, nw.Spec.AutoTaintNewNodes = false, false })
	w.ask("n01", "regate", "2")
	w.settle()
	require.Equal(t, "fleetwright.dev/regate: NodeWright xx is not runtimeRequired: it waits behind no taint", w.last.RefusedRequests[0].Message)
	require.Empty(t, n.Taints)
}
