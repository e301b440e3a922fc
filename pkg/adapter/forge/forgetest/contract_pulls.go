package forgetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
)

// has is the provider as T, or the test is skipped.
func has[T any](t *testing.T, s Subject) T {
	t.Helper()
	p, ok := s.Provider.(T)
	if !ok || s.Pull == nil {
		t.Skip("the forge has none")
	}
	return p
}

func pullRequests(t *testing.T, s Subject) {
	p := has[forge.PullRequests](t, s)
	own, fork, elsewhere := s.Pull(t, s.Bases[0], false), s.Pull(t, s.Bases[0], true), s.Pull(t, s.Bases[1], false)
	all, err := p.OpenPullRequests(t.Context(), s.Bases[0])
	require.NoError(t, err)
	found := map[int64]forge.PullRequest{}
	last := int64(0)
	for _, pull := range all {
		require.Less(t, last, pull.Number, "ordered by number")
		require.Equal(t, s.Bases[0], pull.Base)
		last, found[pull.Number] = pull.Number, pull
	}
	require.NotContains(t, found, elsewhere.Number)
	for _, want := range []forge.PullRequest{own, fork} {
		got := found[want.Number]
		require.Equal(t, want.Title, got.Title)
		require.Equal(t, want.Head, got.Head)
		require.Equal(t, want.HeadBranch, got.HeadBranch)
		require.Equal(t, want.Fork, got.Fork)
		require.Equal(t, want.HeadRef, got.HeadRef)
		require.Equal(t, want.Labels, got.Labels)
		require.NotEmpty(t, got.URL)
		base, err := p.MergeBase(t.Context(), got)
		require.NoError(t, err)
		require.Len(t, base, 40)
	}
}

func comments(t *testing.T, s Subject) {
	p := has[forge.Comments](t, s)
	pull := s.Pull(t, s.Bases[0], false)
	got, err := p.OwnComments(t.Context(), pull.Number)
	require.NoError(t, err)
	require.Empty(t, got)
	s.Remark(t, pull.Number, "I am the plan, too")
	for i := range 3 {
		require.NoError(t, p.AddComment(t.Context(), pull.Number, fmt.Sprintf("plan %d: ü€😀", i)))
	}
	got, err = p.OwnComments(t.Context(), pull.Number)
	require.NoError(t, err)
	require.Equal(t, []string{"plan 0: ü€😀", "plan 1: ü€😀", "plan 2: ü€😀"}, bodies(got), "own ones only, oldest first")
	long := strings.Repeat("a line\n", (p.CommentLimit()-10)/7)
	require.NoError(t, p.EditComment(t.Context(), pull.Number, got[1].ID, long))
	require.NoError(t, p.EditComment(t.Context(), pull.Number, got[1].ID, long+"b"), "again")
	require.NoError(t, p.DeleteComment(t.Context(), pull.Number, got[0].ID))
	require.NoError(t, p.DeleteComment(t.Context(), pull.Number, got[0].ID), "gone already")
	got, err = p.OwnComments(t.Context(), pull.Number)
	require.NoError(t, err)
	require.Equal(t, []string{long + "b", "plan 2: ü€😀"}, bodies(got))
}

func bodies(all []forge.Comment) []string {
	var out []string
	for _, c := range all {
		out = append(out, c.Body)
	}
	return out
}

// pullStatus: a status that is about a pull request is read back from its head.
func pullStatus(t *testing.T, s Subject) {
	has[forge.PullRequests](t, s)
	pull := s.Pull(t, s.Bases[0], false)
	st := forge.Status{Commit: pull.Head, Context: "fleetwright/a/plan", State: forge.Success, Description: "no changes", Ref: pull.HeadBranch, Pull: pull.Number}
	set(t, s.Provider, st)
	require.True(t, statusOf(t, s.Provider, st.Commit, st.Context).Same(st))
}

// annotations are replaced and cleared; more than one request takes are shown as well.
func annotations(t *testing.T, s Subject) {
	p := has[forge.Annotator](t, s)
	pull := s.Pull(t, s.Bases[0], false)
	var all []forge.Annotation
	for i := range 120 {
		all = append(all, forge.Annotation{File: "overlays/us-east-1/gpu.yaml", Line: i + 1, Error: i%2 == 0, Text: strings.Repeat("ü wrong ", 100)})
	}
	all = append(all, forge.Annotation{Text: "at no place"})
	for _, part := range [][]forge.Annotation{all, all, all[:1], nil, nil} {
		require.NoError(t, p.Annotate(t.Context(), pull, "fleetwright/a/plan", part))
	}
}
