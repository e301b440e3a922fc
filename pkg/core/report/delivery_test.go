package report_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

var (
	commitA = strings.Repeat("a", 40)
	commitB = strings.Repeat("b", 40)
	commitC = strings.Repeat("c", 40)
	revA    = "main@sha1:" + commitA
	revB    = "main@sha1:" + commitB
)

func view(name string, complete bool, counts string) report.NodeWrightView {
	v := report.NodeWrightView{Name: name, Priority: 200, Current: true}
	v.Status.CompleteNodes, v.Status.Status = counts, nwv1.StatusInProgress
	if complete {
		v.Status.Status = nwv1.StatusComplete
	}
	return v
}

func haltedView() report.NodeWrightView {
	v := view("gpu", false, "3/24")
	v.Status.NodesFailed = 1
	v.Status.CompartmentStatuses = map[string]nwv1.CompartmentStatus{"default": {Matched: 24, BatchState: &nwv1.BatchState{CurrentBatch: 2, ShouldStop: true}}}
	v.Status.Reasons = []nwv1.ReasonCount{{Reason: "PackageFailed", Nodes: []string{"n7"}, Message: "package p 1.0.0, stage apply: exit code 3"}}
	return v
}

// stale is a status that speaks about earlier content.
func stale() report.NodeWrightView {
	v := view("gpu", true, "24/24")
	v.Current = false
	return v
}

func failed(stalled bool, revision string) *report.Failure {
	return &report.Failure{Reason: "SomeReason", Message: "some sentence", Stalled: stalled, Revision: revision}
}

func TestReports(t *testing.T) {
	two := []report.NodeWrightView{view("a", true, "24/24"), view("b", false, "12/24")}
	ended := view("gpu", false, "23/24")
	ended.Status.NodesFailed = 1
	cases := map[string]struct {
		d          report.Delivery
		conditions []string
		statuses   []report.CommitStatus
	}{
		"suspended from the start": {report.Delivery{Suspended: true},
			[]string{"Ready=Unknown Suspended: the Fleet is suspended; nothing was applied yet"}, nil},
		"unreachable before the first commit": {report.Delivery{Failure: failed(false, "")},
			[]string{"Ready=False SomeReason: some sentence", "Reconciling=True ProgressingWithRetry: some sentence"}, nil},
		"a new commit": {report.Delivery{Attempted: revB, Applied: revA, LastRolledOut: revA, Working: "delivering B", NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}},
			[]string{"Ready=Unknown Progressing: delivering B", "Reconciling=True Progressing: delivering B"},
			[]report.CommitStatus{{commitA, "success", "4/4 nodes complete"}, {commitB, "pending", "validating"}}},
		"a refused commit while the last one rolls": {report.Delivery{Attempted: revB, Applied: revA, Failure: failed(true, revB), NodeWrights: []report.NodeWrightView{view("gpu", false, "1/4")}},
			[]string{"Ready=False SomeReason: some sentence", "Stalled=True SomeReason: some sentence"},
			[]report.CommitStatus{{commitA, "pending", "1/4 nodes"}, {commitB, "failure", "some sentence"}}},
		"an outage says nothing about a commit": {report.Delivery{Attempted: revA, Applied: revA, Failure: failed(false, ""), NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}},
			[]string{"Ready=False SomeReason: some sentence", "Reconciling=True ProgressingWithRetry: some sentence"},
			[]report.CommitStatus{{commitA, "success", "4/4 nodes complete"}}},
		"an outage leaves a commit's failure as it is": {report.Delivery{Attempted: revB, Applied: revA, Failure: failed(false, ""), NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}},
			[]string{"Ready=False SomeReason: some sentence", "Reconciling=True ProgressingWithRetry: some sentence"},
			[]report.CommitStatus{{commitA, "success", "4/4 nodes complete"}}},
		"a fetch that fails": {report.Delivery{Attempted: revB, Applied: revA, Failure: failed(false, revB), NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}},
			[]string{"Ready=False SomeReason: some sentence", "Reconciling=True ProgressingWithRetry: some sentence"},
			[]report.CommitStatus{{commitA, "success", "4/4 nodes complete"}, {commitB, "error", "some sentence"}}},
		"two NodeWrights": {report.Delivery{Attempted: revA, Applied: revA, NodeWrights: two},
			[]string{"Ready=Unknown Progressing: main@sha1:aaaaaaaaaaaa: NodeWright/b: 12/24 nodes", "Reconciling=True Progressing: main@sha1:aaaaaaaaaaaa: NodeWright/b: 12/24 nodes"},
			[]report.CommitStatus{{commitA, "pending", "NodeWright/b: 12/24 nodes"}}},
		"halted": {report.Delivery{Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{haltedView()}},
			[]string{"Ready=False RolloutHalted: main@sha1:aaaaaaaaaaaa: halted: node n7: package p 1.0.0, stage apply: exit code 3",
				"Stalled=True RolloutHalted: main@sha1:aaaaaaaaaaaa: halted: node n7: package p 1.0.0, stage apply: exit code 3"},
			[]report.CommitStatus{{commitA, "failure", "halted: node n7: package p 1.0.0, stage apply: exit code 3"}}},
		"ended with a failed node": {report.Delivery{Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{ended}},
			[]string{"Ready=False RolloutFailed: main@sha1:aaaaaaaaaaaa: 23/24 nodes, 1 failed: 1 nodes failed", "Stalled=True RolloutFailed: main@sha1:aaaaaaaaaaaa: 23/24 nodes, 1 failed: 1 nodes failed"},
			[]report.CommitStatus{{commitA, "failure", "23/24 nodes, 1 failed: 1 nodes failed"}}},
		"a status about earlier content is no success": {report.Delivery{Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{stale()}},
			[]string{"Ready=Unknown Progressing: main@sha1:aaaaaaaaaaaa: 0/24 nodes", "Reconciling=True Progressing: main@sha1:aaaaaaaaaaaa: 0/24 nodes"},
			[]report.CommitStatus{{commitA, "pending", "0/24 nodes"}}},
		"late joiners leave the commit's success": {report.Delivery{Attempted: revA, Applied: revA, LastRolledOut: revA, NodeWrights: []report.NodeWrightView{view("gpu", false, "24/25")}},
			[]string{"Ready=Unknown Progressing: main@sha1:aaaaaaaaaaaa: 24/25 nodes", "Reconciling=True Progressing: main@sha1:aaaaaaaaaaaa: 24/25 nodes"},
			[]report.CommitStatus{{commitA, "success", "all nodes were complete"}}},
		"waiting for promotion": {report.Delivery{Attempted: revB, Waiting: "waits for canary: pending"},
			[]string{"Ready=Unknown WaitingForPromotion: main@sha1:bbbbbbbbbbbb waits for canary: pending", "Reconciling=True WaitingForPromotion: main@sha1:bbbbbbbbbbbb waits for canary: pending"},
			[]report.CommitStatus{{commitB, "pending", "waits for canary: pending"}}},
		"held back while the applied one is complete": {report.Delivery{Attempted: revB, Applied: revA, LastRolledOut: revA, Waiting: "held back: canary is failure", NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}},
			[]string{"Ready=Unknown WaitingForPromotion: main@sha1:bbbbbbbbbbbb held back: canary is failure; main@sha1:aaaaaaaaaaaa: 4/4 nodes complete",
				"Reconciling=True WaitingForPromotion: main@sha1:bbbbbbbbbbbb held back: canary is failure; main@sha1:aaaaaaaaaaaa: 4/4 nodes complete"},
			[]report.CommitStatus{{commitA, "success", "4/4 nodes complete"}, {commitB, "pending", "held back: canary is failure"}}},
		"a halt speaks before what waits": {report.Delivery{Attempted: revB, Applied: revA, Waiting: "waits for canary: pending", NodeWrights: []report.NodeWrightView{haltedView()}},
			[]string{"Ready=False RolloutHalted: main@sha1:aaaaaaaaaaaa: halted: node n7: package p 1.0.0, stage apply: exit code 3",
				"Stalled=True RolloutHalted: main@sha1:aaaaaaaaaaaa: halted: node n7: package p 1.0.0, stage apply: exit code 3"},
			[]report.CommitStatus{{commitA, "failure", "halted: node n7: package p 1.0.0, stage apply: exit code 3"}, {commitB, "pending", "waits for canary: pending"}}},
		"statuses that cannot be read": {report.Delivery{Attempted: revB, Applied: revA, Waiting: "waits for canary: pending", Failure: failed(false, ""), NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}},
			[]string{"Ready=False SomeReason: some sentence", "Reconciling=True ProgressingWithRetry: some sentence"},
			[]report.CommitStatus{{commitA, "success", "4/4 nodes complete"}, {commitB, "pending", "waits for canary: pending"}}},
		"suspended while it waits": {report.Delivery{Attempted: revB, Applied: revA, Waiting: "waits for canary: pending", Suspended: true, NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}},
			[]string{"Ready=True ReconciliationSucceeded: main@sha1:aaaaaaaaaaaa: 4/4 nodes complete"},
			[]report.CommitStatus{{commitA, "success", "4/4 nodes complete"}, {commitB, "pending", "suspended before it was applied"}}},
		"promoted by hand": {report.Delivery{Attempted: revA, Applied: revA, ByHand: true, NodeWrights: []report.NodeWrightView{view("gpu", false, "1/4")}},
			[]string{"Ready=Unknown Progressing: main@sha1:aaaaaaaaaaaa: 1/4 nodes, promoted by hand", "Reconciling=True Progressing: main@sha1:aaaaaaaaaaaa: 1/4 nodes, promoted by hand"},
			[]report.CommitStatus{{commitA, "pending", "1/4 nodes"}}},
		"superseded": {report.Delivery{Attempted: revB, Applied: revB, Open: []string{commitC, commitA, commitB}},
			[]string{"Ready=True ReconciliationSucceeded: main@sha1:bbbbbbbbbbbb: no NodeWrights, nothing to roll out"},
			[]report.CommitStatus{{commitC, "error", "superseded by bbbbbbbbbbbb"}, {commitA, "error", "superseded by bbbbbbbbbbbb"}, {commitB, "success", "no NodeWrights, nothing to roll out"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			ready := false
			for _, c := range tc.d.Conditions() {
				got = append(got, c.Type+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
				ready = ready || c.Type == "Ready" && c.Status == metav1.ConditionTrue
			}
			require.Equal(t, tc.conditions, got)
			require.False(t, ready && len(got) > 1, "Ready is never True beside Reconciling or Stalled")
			require.Equal(t, tc.statuses, tc.d.CommitStatuses())
		})
	}
}

func TestStillOpen(t *testing.T) {
	pending := []report.CommitStatus{{Commit: commitB, State: report.CommitPending}}
	require.Equal(t, []string{commitB}, report.StillOpen(nil, pending, nil))
	require.Equal(t, []string{commitA, commitB}, report.StillOpen([]string{commitA}, pending, nil), "its end was handed over, not seen")
	require.Equal(t, []string{commitB}, report.StillOpen([]string{commitA}, pending, map[string]report.CommitState{commitA: "failure"}))
	ended := []report.CommitStatus{{Commit: commitA, State: report.CommitError}}
	require.Equal(t, []string{commitA}, report.StillOpen([]string{commitA}, ended, map[string]report.CommitState{commitA: "success"}))
	require.Empty(t, report.StillOpen([]string{commitA}, ended, map[string]report.CommitState{commitA: "error"}))
	require.Empty(t, report.StillOpen(nil, ended, nil))
	require.Equal(t, []string{commitA}, report.StillOpen(nil, ended, map[string]report.CommitState{}), "it failed, and nobody sees it yet")
	complete := []report.CommitStatus{{Commit: commitA, State: report.CommitSuccess}}
	require.Empty(t, report.StillOpen(nil, complete, map[string]report.CommitState{}))
}

func TestRememberedIsWhatWasReported(t *testing.T) {
	for _, f := range []*report.Failure{nil, {Reason: "Unreachable", Message: "m"}, {Reason: "BuildFailed", Message: "m", Stalled: true, Revision: revB}} {
		d := report.Delivery{Attempted: revB, Applied: revA, Failure: f}
		status := fleetv1.FleetStatus{Conditions: d.Conditions(), LastAttemptedRevision: revB}
		require.Equal(t, f, report.Remembered(status))
	}
	halted := report.Delivery{Applied: revA, NodeWrights: []report.NodeWrightView{haltedView()}}
	require.Nil(t, report.Remembered(fleetv1.FleetStatus{Conditions: halted.Conditions()}), "a halt is read from the NodeWrights")
}

func TestRefusal(t *testing.T) {
	one := finding.Finding{Severity: finding.Error, File: "a.yaml", Line: 3, Message: "is wrong"}
	note := finding.Finding{Severity: finding.Warning, File: "a.yaml", Line: 1, Message: "is odd"}
	require.Nil(t, report.Refusal("R", revA, []finding.Finding{note}))
	require.Equal(t, "a.yaml:3: is wrong", report.Refusal("R", revA, []finding.Finding{note, one}).Message)
	require.Equal(t, "a.yaml:3: is wrong (and 2 more)", report.Refusal("R", revA, []finding.Finding{one, one, one}).Message)
	many := make([]finding.Finding, 30)
	for i := range many {
		many[i] = note
	}
	shown := report.StatusFindings(append(many, one))
	require.Len(t, shown, 20)
	require.Equal(t, fleetv1.Finding{File: "a.yaml", Line: 3, Message: "is wrong"}, shown[0], "errors are not cut off by warnings")
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"cannot reach https://user:token@git.example.com/x": "cannot reach https://git.example.com/x",
		"ssh://git@host/x": "ssh://host/x",
		`parse "https://u:pa/ss@host/x": invalid port ":pa"`:     `parse "https://host/x": invalid port ":pa"`,
		"https://u:p@ss/w@rd@host/x, and https://v:w@other/y":    "https://host/x, and https://other/y",
		"Get https://host/x?private_token=abc&a=b: no such host": "Get https://host/x: no such host",
		"(https://host/x?token=abc)":                             "(https://host/x)",
		"https://host:8443/team/x@v1: not found":                 "https://host:8443/team/x@v1: not found",
		"https://host: connection refused":                       "https://host: connection refused",
		"ghcr.io/x@sha256:12 is no URL":                          "ghcr.io/x@sha256:12 is no URL",
	} {
		require.Equal(t, want, report.Redact(text), text)
	}
}

func TestUnsupported(t *testing.T) {
	require.Nil(t, report.Unsupported(fleetv1.FleetSpec{Promotion: &fleetv1.Promotion{}, Checks: &fleetv1.Checks{Provider: "gitea", PullRequests: &fleetv1.PullRequestChecks{}}}))
	spec := fleetv1.FleetSpec{
		Checks: &fleetv1.Checks{Provider: "gogs"},
	}
	require.Equal(t, "this release does not support spec.checks.provider gogs (allowed: "+report.Providers()+"); "+
		"nothing is fetched or applied until it is removed", report.Unsupported(spec).Message)
	named := report.Unsupported(fleetv1.FleetSpec{Checks: &fleetv1.Checks{Provider: "gitea", Context: "fleetwright/a/plan"}})
	require.Contains(t, named.Message, `spec.checks.context "fleetwright/a/plan" (it must not end in /plan, as the contexts of plans do)`)
}

func TestInventory(t *testing.T) {
	a := []fleetv1.InventoryEntry{{ID: "_b_g_K", Version: "v1"}, {ID: "_a_g_K", Version: "v1"}}
	b := []fleetv1.InventoryEntry{{ID: "_b_g_K", Version: "v2"}}
	require.Equal(t, []fleetv1.InventoryEntry{{ID: "_a_g_K", Version: "v1"}, {ID: "_b_g_K", Version: "v2"}}, report.MergeInventory(a, b))
	require.Equal(t, a[1:], report.WithoutEntries(a, b))
	namespace, name, group, kind, ok := report.ParseEntryID(report.EntryID("", "a", "g", "K"))
	require.Equal(t, []any{"", "a", "g", "K", true}, []any{namespace, name, group, kind, ok})
}
