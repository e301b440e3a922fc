package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Under `advance: Rolling` a halt may come while the admission of a node is on its way. Where that node is half-way, because it
// failed in this round or was under way in the one before, it goes on with nothing until the halt ends.
func TestAHaltHoldsNodesThatAreHalfWay(t *testing.T) {
	for name, half := range map[string]func(w *world){
		"failed in this round": func(w *world) {
			w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
			w.fails = failing("n01", "n02", "n03")
			w.frozen = func(e plan.Execution) bool { return e.Node != "n01" }
			w.settleUntil(func() bool { return w.nodes["n01"].Records["tune"].Outcome == noderecord.Failed })
			w.lost = func(d plan.Decision) bool { return d.Action == plan.ActionAdmit && d.Node == "n01" }
			w.ask("n01", "retry", "1")
		},
		"under way in the one before": func(w *world) {
			w.nodeWright("tune", nil, reboot(pkg("tuning", "1.5.0")))
			w.settleUntil(func() bool { return w.nodes["n01"].Records["tune"].Started })
			w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
			w.lost = func(d plan.Decision) bool { return d.Action == plan.ActionAdmit && d.Node == "n01" }
			w.fails = failing("n02", "n03")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 6)
			s := fixed(1, failureThreshold(2), safetyLimit(100))
			s.Fixed.Advance = nwv1.AdvanceRolling
			w.nodeWright("tune", policy(count(3), s), reboot(pkg("tuning", "1.0.0")))
			w.settle()
			half(w)
			w.settleUntil(func() bool { return len(w.in.Ledger.Rollouts["tune"].Intents) > 0 && w.nodes["n01"].Unschedulable })
			w.frozen = nil
			w.settleUntil(func() bool { return w.in.Ledger.Rollouts["tune"].Compartments["default"].Halt != nil })
			halted := w.in.Ledger.Rollouts["tune"]
			require.True(t, slices.ContainsFunc(halted.Intents, func(i fleetv1.LedgerIntent) bool { return i.Node == "n01" && i.Withdrawn }), "%v", halted)
			w.lost, w.fails = nil, nil
			w.ranSince()
			w.settle()
			require.Empty(t, w.ran["n01"], "a halt is a halt: %v", w.log[max(0, len(w.log)-20):])
			require.True(t, w.nodes["n01"].Unschedulable, "it is half-way")
			require.Equal(t, plan.Halted, w.reason("tune", "n01").Code)
			led := w.in.Ledger.Rollouts["tune"]
			require.Equal(t, noderecord.Failed, w.nodes["n01"].Records["tune"].Outcome)
			require.Equal(t, halted.Compartments["default"].ConsecutiveBad, led.Compartments["default"].ConsecutiveBad, "counted once")
			require.Zero(t, led.Compartments["default"].WindowFailed)
			w.edit("tune", func(nw *plan.NodeWright) { nw.Resume = "1" })
			w.settle()
			w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "again" })
			w.settle()
			require.EqualValues(t, 6, w.status("tune").Complete, "%v", w.last.Reasons)
		})
	}
}
