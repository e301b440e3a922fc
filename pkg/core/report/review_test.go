package report_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
)

func reviewOf(p *preview.Plan) report.Review {
	return report.Review{Context: "fleetwright/us", Path: "overlays/us", Number: 7, Commit: "abc", Admission: review.Planned, Plan: p}
}

func planWith(result preview.Result, affected preview.Tally, findings ...finding.Finding) *preview.Plan {
	return &preview.Plan{Path: "overlays/us", Result: result, Affected: affected, Findings: findings,
		Nodes: preview.Nodes{Source: preview.Cluster, Count: 40}, NodeWrights: make([]preview.NodeWright, 1)}
}

// TestDeliveryReport_CS16_EveryPlanEnds: whatever comes of a pull request, its status has an end, and a change without effect is a success.
func TestDeliveryReport_CS16_EveryPlanEnds(t *testing.T) {
	bad := finding.Finding{Severity: finding.Error, File: "a/x.yaml", Line: 7, Message: "unknown field"}
	with := func(edit func(*report.Review)) report.Review {
		r := reviewOf(nil)
		edit(&r)
		return r
	}
	for name, c := range map[string]struct {
		review report.Review
		state  report.CommitState
		text   string
	}{
		"nothing yet":     {reviewOf(nil), report.CommitPending, "planning"},
		"no changes":      {reviewOf(planWith(preview.None, preview.Tally{})), report.CommitSuccess, "no changes"},
		"nodes":           {reviewOf(planWith(preview.Changes, preview.Tally{Nodes: 15, Reboot: 12, ServiceRestart: 3})), report.CommitSuccess, "12 nodes reboot, 3 restart services"},
		"one node":        {reviewOf(planWith(preview.Changes, preview.Tally{Nodes: 1, NoInterrupt: 1})), report.CommitSuccess, "1 node: go on without an interrupt"},
		"objects alone":   {reviewOf(planWith(preview.Changes, preview.Tally{})), report.CommitSuccess, "no node has anything to do; changes 1 NodeWright and no package"},
		"findings":        {reviewOf(planWith(preview.Errors, preview.Tally{}, bad, bad)), report.CommitFailure, "a/x.yaml:7: unknown field (and 1 more)"},
		"trouble":         {with(func(r *report.Review) { r.Trouble = "git is away" }), report.CommitError, "could not be planned, and is tried again: git is away"},
		"cannot be built": {with(func(r *report.Review) { r.Refused = "it needs more memory" }), report.CommitFailure, "it needs more memory"},
		"label needed":    {with(func(r *report.Review) { r.Admission = review.NeedsLabel }), report.CommitFailure, "not planned, as it is from a fork: somebody who may label it can add fleetwright/plan for this commit (pull request 7)"},
		"label is old":    {with(func(r *report.Review) { r.Admission = review.LabelIsOld }), report.CommitFailure, "not planned: label fleetwright/plan may be for an earlier commit; remove it, wait until this asks for it, add it again"},
		"forks never":     {with(func(r *report.Review) { r.Admission = review.ForksRefused }), report.CommitFailure, "not planned, as it is from a fork, and this Fleet plans none; push it to a branch of this repository"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.review.Status()
			require.Equal(t, report.CommitStatus{Commit: "abc", State: c.state, Description: c.text}, got)
			require.Equal(t, c.review.Admission, report.AdmissionShown(got, 7), "it is read back from the forge")
			if c.review.Admission != review.Planned {
				require.LessOrEqual(t, len(c.text), 140, "no forge cuts it")
			}
			require.Equal(t, c.state == report.CommitSuccess || c.state == report.CommitFailure, c.review.Comment(60_000) != "")
		})
	}
}

// TestDeliveryReport_PP10_WhatOnePullRequestNeedsSaysNothingAboutAnother: a commit that is the head of two pull requests has one status, and what it says about
// one of them does not make the label of the other good for it.
func TestDeliveryReport_PP10_WhatOnePullRequestNeedsSaysNothingAboutAnother(t *testing.T) {
	shown := report.Review{Number: 12, Commit: "abc", Admission: review.NeedsLabel}.Status()
	require.Equal(t, review.NeedsLabel, report.AdmissionShown(shown, 12))
	require.Empty(t, report.AdmissionShown(shown, 1))
	require.Empty(t, report.AdmissionShown(shown, 2))
	shown.Description = shown.Description[:100] + "…"
	require.Empty(t, report.AdmissionShown(shown, 12), "a forge that cuts it lets nobody in")
	require.LessOrEqual(t, len(report.Review{Number: 1 << 40, Admission: review.NeedsLabel}.Status().Description), 140)
}

func TestReviewCommentIsThePlanWithAMark(t *testing.T) {
	p := wholePlan()
	text := reviewOf(&p).Comment(60_000)
	require.True(t, strings.HasPrefix(text, "## Plan for `overlays/us-east-1`, `fleetwright/us`\n"), text)
	mark, ok := review.MarkOf(text)
	require.True(t, ok)
	require.Equal(t, review.Mark{Context: "fleetwright/us", Part: 1, Commit: "abc", Admission: review.Planned, Digest: mark.Digest}, mark)
	require.True(t, strings.HasPrefix(text[len("## Plan for `overlays/us-east-1`, `fleetwright/us`"):], report.PlanComment(p)[len("## Plan for `overlays/us-east-1`"):]))

	refused := report.Review{Context: "fleetwright/us", Path: "overlays/us", Number: 7, Commit: "abc", Admission: review.NeedsLabel}.Comment(60_000)
	require.Contains(t, refused, "**not planned, as it is from a fork: somebody who may label it can add fleetwright/plan for this commit (pull request 7)**\n")
}

// TestReviewCommentDoesNotFlap: an hour later the prediction has other times, and nobody is bothered with it.
func TestReviewCommentDoesNotFlap(t *testing.T) {
	p, later := wholePlan(), wholePlan()
	later.Seconds += 3600
	later.Rollouts[0].Lanes[0].Batches[0].End += 3600
	later.Blocks = append(later.Blocks, preview.Block{NodeWright: "kernel", Code: "WaitingForWindow", Count: 3, Message: "closed until then"})
	now, then := reviewOf(&p).Comment(60_000), reviewOf(&later).Comment(60_000)
	require.NotEqual(t, now, then)
	own := []review.Comment{{ID: "1", Body: now}}
	require.True(t, review.Sync(own, "fleetwright/us", []string{then}).None())
	later.Affected.Reboot++
	require.Len(t, review.Sync(own, "fleetwright/us", []string{reviewOf(&later).Comment(60_000)}).Edit, 1)
}

// TestDeliveryReport_PP01_ACommentFitsTheForge: tables and the diagram stay whole at every limit that a forge has.
func TestDeliveryReport_PP01_ACommentFitsTheForge(t *testing.T) {
	p := wholePlan()
	for i := range 500 {
		p.Findings = append(p.Findings, finding.Finding{Severity: finding.Warning, File: fmt.Sprintf("bases/%d.yaml", i), Message: strings.Repeat("é", 100)})
		p.NodeWrights[0].Packages = append(p.NodeWrights[0].Packages, preview.Package{Name: fmt.Sprintf("p%d", i), Change: preview.Added,
			New: &preview.Version{Version: "1.0.0"}, Stages: []string{"apply"}})
	}
	for _, limit := range []int{60_000, 32_768, 4_000, 1_000} {
		text := reviewOf(&p).Comment(limit)
		require.LessOrEqual(t, len(text), limit)
		_, ok := review.MarkOf(text)
		require.True(t, ok)
		require.Zero(t, strings.Count(text, "```")%2)
		columns := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "|") {
				columns = 0
				continue
			}
			if columns == 0 {
				columns = strings.Count(line, "|")
			}
			require.Equal(t, columns, strings.Count(line, "|"), line)
		}
	}
}

func TestInheritedErrorsAreNotTheChanges(t *testing.T) {
	bad := finding.Finding{Severity: finding.Error, File: "a.yaml", Line: 1, Message: "unknown field"}
	other := finding.Finding{Severity: finding.Error, File: "a.yaml", Line: 2, Message: "unknown field"}
	warning := finding.Finding{Severity: finding.Warning, File: "a.yaml", Message: "look"}
	hinted := bad
	hinted.Allowed = "a, b"
	require.True(t, report.Inherited([]finding.Finding{bad}, []finding.Finding{warning, hinted}))
	require.False(t, report.Inherited([]finding.Finding{bad}, []finding.Finding{bad, other}))
	require.False(t, report.Inherited([]finding.Finding{bad}, []finding.Finding{warning}), "it mends them")
	require.Equal(t, "what is built, as the branch main itself has 1 error, with or without this change: a.yaml:1: unknown field",
		report.InheritedNote("main", []finding.Finding{bad, warning}))
}
