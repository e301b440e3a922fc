package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// TestScopeThatIsNarrowedUnderWay: what runs is finished, nothing else starts, and nothing is given back; the scope that is widened
// again lets it go on.
func TestScopeThatIsNarrowedUnderWay(t *testing.T) {
	w := newWorld(t, 3)
	rebooting(w)
	for !hasRunning(w) {
		w.pass()
	}
	w.edit("tune", func(nw *plan.NodeWright) {
		nw.Confine("team-a/fleet", &fleetv1.Scope{Interrupts: []nwv1.InterruptType{nwv1.InterruptService}})
	})
	w.settle()
	require.False(t, hasRunning(w), "what ran is finished")
	s := w.status("tune")
	require.Equal(t, nwv1.StatusBlocked, s.Status)
	require.Zero(t, s.Complete, "no interrupt was started")
	require.Contains(t, s.OutOfScope, `outside of the scope of Fleet team-a/fleet: package "tuning": interrupt "reboot" is not allowed (allowed: service)`)

	w.edit("tune", func(nw *plan.NodeWright) { nw.Confine("team-a/fleet", &fleetv1.Scope{}) })
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

func hasRunning(w *world) bool {
	for _, j := range w.jobs {
		if !j.Ended() {
			return true
		}
	}
	return false
}

// TestTwoTeams: each Fleet's NodeWright selects every node of the cluster; the scopes keep them apart.
func TestTwoTeams(t *testing.T) {
	w := newWorld(t, 4)
	teams := map[string]string{"n01": "a", "n02": "a", "n03": "b"}
	for name, team := range teams {
		w.nodes[name].Labels["team"] = team
	}
	for _, team := range []string{"a", "b"} {
		w.nodeWright("tune-"+team, budgetOnly(4), pkg("tuning", "1.0.0"))
		w.edit("tune-"+team, func(nw *plan.NodeWright) {
			nw.Confine("team-"+team+"/fleet", &fleetv1.Scope{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}})
		})
	}
	w.settle()
	for name, n := range w.nodes {
		for _, team := range []string{"a", "b"} {
			_, touched := n.Records["tune-"+team]
			require.Equal(t, teams[name] == team, touched, "%s of team %q under tune-%s", name, teams[name], team)
		}
	}
	require.EqualValues(t, 2, w.status("tune-a").Complete)
	require.EqualValues(t, 1, w.status("tune-b").Complete)

	w.edit("tune-a", func(nw *plan.NodeWright) {
		nw.Confine("team-a/fleet", &fleetv1.Scope{NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Near"}}}})
	})
	w.pass()
	require.Zero(t, w.status("tune-a").Total, "a selector that cannot be read touches no node")
	require.Equal(t, nwv1.StatusBlocked, w.status("tune-a").Status)
}
