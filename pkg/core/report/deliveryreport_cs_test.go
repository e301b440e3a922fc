package report_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// TestDeliveryReport_CS16_EveryCommitThatWasBegunHasAnEnd: superseded ones, ones that change nothing, ones without a node.
func TestDeliveryReport_CS16_EveryCommitThatWasBegunHasAnEnd(t *testing.T) {
	for name, d := range map[string]report.Delivery{
		"changes nothing": {Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{view("gpu", true, "24/24")}},
		"has no node":     {Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{view("gpu", true, "0/0")}},
		"has no object":   {Attempted: revA, Applied: revA},
	} {
		all := d.CommitStatuses()
		require.Len(t, all, 1, name)
		require.Equal(t, report.CommitSuccess, all[0].State, name)
	}
	d := report.Delivery{Attempted: revB, Applied: revB, Open: []string{commitA, commitC, commitB}}
	ends := map[string]report.CommitState{}
	for _, s := range d.CommitStatuses() {
		ends[s.Commit] = s.State
	}
	require.Equal(t, map[string]report.CommitState{commitA: report.CommitError, commitC: report.CommitError, commitB: report.CommitSuccess}, ends)
}

// TestDeliveryReport_CS24_AStatusFollowsItsParts: one of two NodeWrights fails, and a retry of that one alone makes the commit good.
func TestDeliveryReport_CS24_AStatusFollowsItsParts(t *testing.T) {
	states := func(parts ...report.NodeWrightView) report.CommitState {
		return report.Delivery{Attempted: revA, Applied: revA, NodeWrights: parts}.CommitStatuses()[0].State
	}
	good := view("cpu", true, "8/8")
	require.Equal(t, report.CommitFailure, states(good, haltedView()))
	require.Equal(t, report.CommitPending, states(good, view("gpu", false, "20/24")), "the retry is under way")
	require.Equal(t, report.CommitSuccess, states(good, view("gpu", true, "24/24")))
}
