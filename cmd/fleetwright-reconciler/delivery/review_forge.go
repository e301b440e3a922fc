package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/internal/forges"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
	"github.com/fleetwright/fleetwright/reconciler"
)

// pullForges opens forges with what commit statuses are written with.
type pullForges struct{ statuses *statuses }

// Forge of a Fleet.
func (f pullForges) Forge(ctx context.Context, fleet *fleetv1.Fleet) (reconciler.PullForge, error) {
	provider, err := f.statuses.forges.OpenTarget(ctx, forges.TargetOf(fleet))
	if err != nil {
		return nil, fmt.Errorf("pull requests cannot be reviewed: %w", err)
	}
	pulls, has := provider.(forge.PullRequests)
	comments, writes := provider.(forge.Comments)
	if !has || !writes {
		return nil, fmt.Errorf("pull requests cannot be reviewed: not yet with provider %s", fleet.Spec.Checks.Provider)
	}
	return &pullForge{statuses: f.statuses, fleet: fleet, provider: provider, pulls: pulls, comments: comments, listed: map[int64]forge.PullRequest{}}, nil
}

// Forget ends what a Fleet left open.
func (f pullForges) Forget(fleet types.NamespacedName, why string) { f.statuses.Forget(fleet, why) }

// pullForge is the forge of one Fleet, for one pass.
type pullForge struct {
	statuses *statuses
	fleet    *fleetv1.Fleet
	provider forge.Provider
	pulls    forge.PullRequests
	comments forge.Comments
	listed   map[int64]forge.PullRequest
}

func (f *pullForge) context() string { return report.ContextOf(f.fleet) + report.PlanSuffix }

// OpenPulls lists the open pull requests to a branch.
func (f *pullForge) OpenPulls(ctx context.Context, branch string) ([]review.Pull, error) {
	all, err := f.pulls.OpenPullRequests(ctx, branch)
	if err != nil {
		return nil, worded(err)
	}
	var out []review.Pull
	for _, p := range all {
		f.listed[p.Number] = p
		out = append(out, review.Pull{Number: p.Number, Head: p.Head, HeadRef: p.HeadRef, Fork: p.Fork, Labels: p.Labels})
	}
	return out, nil
}

// MergeBase asks where a pull request began.
func (f *pullForge) MergeBase(ctx context.Context, pull review.Pull) (string, error) {
	commit, err := f.pulls.MergeBase(ctx, f.listed[pull.Number])
	return commit, worded(err)
}

// Shown reads the commit's statuses.
func (f *pullForge) Shown(ctx context.Context, commit string) (report.CommitStatus, error) {
	all, err := f.provider.Statuses(ctx, commit)
	if err != nil && forge.ClassOf(err) != forge.UnknownCommit { // of a fork, at a forge that keeps those elsewhere
		return report.CommitStatus{}, worded(err)
	}
	i := slices.IndexFunc(all, func(s forge.Status) bool { return s.Context == f.context() })
	if i < 0 {
		return report.CommitStatus{Commit: commit}, nil
	}
	return report.CommitStatus{Commit: commit, State: report.CommitState(all[i].State), Description: all[i].Description}, nil
}

// Want hands the statuses to the writer of the repository.
func (f *pullForge) Want(ctx context.Context, wanted []report.CommitStatus) error {
	me := speakerOf(f.fleet, wanted)
	me.context, me.ref, me.pulls = f.context(), "", map[string]forge.PullRequest{}
	for _, pull := range f.listed {
		me.pulls[pull.Head] = pull
	}
	_, err := f.statuses.wantAs(ctx, f.fleet, me)
	return err
}

// Comments are our own.
func (f *pullForge) Comments(ctx context.Context, number int64) ([]review.Comment, error) {
	all, err := f.comments.OwnComments(ctx, number)
	if err != nil {
		return nil, worded(err)
	}
	var out []review.Comment
	for _, c := range all {
		out = append(out, review.Comment{ID: c.ID, Body: c.Body})
	}
	return out, nil
}

// Edit writes first and removes then, so that there is always something to read.
func (f *pullForge) Edit(ctx context.Context, number int64, edits review.Edits) error {
	for _, c := range edits.Edit {
		if err := f.comments.EditComment(ctx, number, c.ID, c.Body); err != nil {
			return worded(err)
		}
	}
	for _, body := range edits.Add {
		if err := f.comments.AddComment(ctx, number, body); err != nil {
			return worded(err)
		}
	}
	for _, c := range edits.Delete {
		if err := f.comments.DeleteComment(ctx, number, c.ID); err != nil {
			return worded(err)
		}
	}
	return nil
}

// CommentLimit is the forge's, up to what people read.
func (f *pullForge) CommentLimit() int { return min(f.comments.CommentLimit(), report.MaxComment) }

// Annotate shows findings where the forge can.
func (f *pullForge) Annotate(ctx context.Context, pull review.Pull, findings []finding.Finding) error {
	annotator, can := f.provider.(forge.Annotator)
	if !can {
		return nil
	}
	var all []forge.Annotation
	for _, one := range findings {
		if one.File == "" {
			continue
		}
		place := one
		place.File = "" // it is shown there
		all = append(all, forge.Annotation{File: one.File, Line: one.Line, Error: one.Severity == finding.Error, Text: place.String()})
	}
	return worded(annotator.Annotate(ctx, f.listed[pull.Number], f.context(), all))
}

// wordedError is a forge's error without anything that must not be shown, which knows when to try again.
type wordedError struct {
	text  string
	after time.Duration
}

// Error is the text.
func (e *wordedError) Error() string { return e.text }

// RetryAfter is how long the forge wants to be left alone.
func (e *wordedError) RetryAfter() time.Duration { return e.after }

func worded(err error) error {
	if err == nil {
		return nil
	}
	out := &wordedError{text: report.Redact(err.Error())}
	var failed *forge.ProviderError
	if errors.As(err, &failed) {
		out.after = failed.RetryAfter
	}
	return out
}
