package report_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// A commit is not a success before what it removed is uninstalled, whatever the status of the object said before.
func TestACommitWaitsForWhatItRemoved(t *testing.T) {
	deleted := metav1.Now()
	nw := &nwv1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Generation: 2, DeletionTimestamp: &deleted},
		Status:     nwv1.NodeWrightStatus{Status: nwv1.StatusComplete, ObservedGeneration: 1, CompleteNodes: "2/2"},
	}
	d := report.Delivery{Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4"), report.LeavingView(nw)}}
	require.False(t, d.RolledOut())
	require.Contains(t, d.CommitStatuses()[0].Description, "NodeWright/old: is being removed")

	status := plan.Status{Generation: 2, Status: nwv1.StatusErroring, Failed: 2, Total: 2, Uninstall: &plan.UninstallStatus{
		Deleting: true, Count: 2, Nodes: []string{"n1", "n2"}, Failures: []plan.NodeFailure{{Node: "n1"}},
	}}
	nw.Status = report.NodeWrightStatus(status, nw.Status, nil, deleted.Time)
	d.NodeWrights[1] = report.LeavingView(nw)
	require.Equal(t, "failure", string(d.CommitStatuses()[0].State))

	status.Status, status.Complete, status.Failed, status.Uninstall.Failures = nwv1.StatusComplete, 2, 0, nil
	nw.Status = report.NodeWrightStatus(status, nw.Status, nil, deleted.Time)
	d.NodeWrights[1] = report.LeavingView(nw)
	require.False(t, d.RolledOut(), "it is not complete before it is gone")
	d.NodeWrights = d.NodeWrights[:1]
	require.True(t, d.RolledOut())
}

// What keeps a deletion is a condition, with the way out.
func TestConditionsOfUninstalls(t *testing.T) {
	for _, c := range []struct {
		name, kind, reason, message string
		status                      plan.UninstallStatus
	}{
		{"in progress", report.ConditionUninstallProgress, "UninstallInProgress", "to be uninstalled on 2 nodes: a, b", plan.UninstallStatus{Count: 2, Nodes: []string{"a", "b"}}},
		{"paused", report.ConditionDeletionBlocked, "PausedWithPendingUninstall", "what has to be uninstalled waits: it is paused", plan.UninstallStatus{Deleting: true, Held: plan.Paused}},
		{"disabled", report.ConditionDeletionBlocked, "DisabledWithPendingUninstall", "what has to be uninstalled waits: it is disabled", plan.UninstallStatus{Deleting: true, Held: plan.Disabled}},
		{"unreadable", report.ConditionDeletionBlocked, "MalformedNodeState", "the record cannot be read on 1 nodes: a",
			plan.UninstallStatus{Deleting: true, Held: plan.RecordUnreadable, HeldNodes: []string{"a"}}},
		{"ignored", report.ConditionDeletionBlocked, "NodesExcluded", "Ignored: 1 nodes: a",
			plan.UninstallStatus{Deleting: true, Held: plan.Ignored, HeldNodes: []string{"a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := report.NodeWrightStatus(plan.Status{Uninstall: &c.status}, nwv1.NodeWrightStatus{}, nil, metav1.Now().Time)
			for _, have := range out.Conditions {
				if have.Type == c.kind {
					require.Equal(t, c.reason, have.Reason)
					require.Contains(t, have.Message, c.message)
					return
				}
			}
			t.Fatalf("no condition %s in %v", c.kind, out.Conditions)
		})
	}
}
