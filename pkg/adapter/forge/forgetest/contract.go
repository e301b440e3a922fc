package forgetest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
)

// Subject is a provider and what the contract needs of the forge behind it.
type Subject struct {
	// Provider under test.
	Provider forge.Provider
	// Commit makes a commit that nobody has written a status to. Required.
	Commit func(t *testing.T) string
	// Unknown is a hash of no commit. Default: a hash of 40 times f.
	Unknown string
	// AnyCommit says that there is no unknown commit: statuses may be kept for any hash.
	AnyCommit bool
	// Foreign writes a status to a commit as another user, with a context of its own. Optional.
	Foreign func(t *testing.T, commit, context string)
	// Pull opens a pull request, if the provider has them: on a branch, from a fork or not. It returns what the list must show;
	// empty fields are not compared. Nil leaves pull requests out.
	Pull func(t *testing.T, base string, fork bool) forge.PullRequest
	// Remark writes a comment to a pull request as another user. Required with Pull.
	Remark func(t *testing.T, number int64, body string)
	// Bases are the names of two branches for pull requests. Default main and release.
	Bases [2]string
}

// Contract puts a provider through what all of them promise.
func Contract(t *testing.T, s Subject) {
	if s.Unknown == "" {
		s.Unknown = strings.Repeat("f", 40)
	}
	if s.Bases == [2]string{} {
		s.Bases = [2]string{Base, "release"}
	}
	for name, part := range map[string]func(*testing.T, Subject){
		"nothing yet": nothingYet, "every state": everyState, "again": again, "texts": texts, "contexts": contexts, "retry": retry,
		"unknown commit": unknownCommit, "invalid": invalid, "end of the context": endOfContext, "others": others,
		"pull requests": pullRequests, "comments": comments, "status of a pull request": pullStatus, "annotations": annotations,
	} {
		t.Run(name, func(t *testing.T) { part(t, s) })
	}
}

// set posts a status; that it is there already is as good.
func set(t *testing.T, p forge.Provider, s forge.Status) {
	t.Helper()
	if err := p.SetStatus(t.Context(), s); err != nil && forge.ClassOf(err) != forge.AlreadyThere {
		require.NoError(t, err)
	}
}

// shown is what a commit shows under a context.
func statusOf(t *testing.T, p forge.Provider, commit, context string) forge.Status {
	t.Helper()
	all, err := p.Statuses(t.Context(), commit)
	require.NoError(t, err)
	for _, s := range all {
		if s.Context == context {
			require.Equal(t, commit, s.Commit)
			return s
		}
	}
	return forge.Status{}
}

func nothingYet(t *testing.T, s Subject) {
	all, err := s.Provider.Statuses(t.Context(), s.Commit(t))
	require.NoError(t, err)
	require.Empty(t, all)
}

func everyState(t *testing.T, s Subject) {
	for _, end := range []forge.State{forge.Success, forge.Failure, forge.Error} {
		st := forge.Status{Commit: s.Commit(t), Context: "fleetwright/us-east-1", State: forge.Pending, Description: "1/4 nodes", Ref: Base}
		set(t, s.Provider, st)
		require.True(t, statusOf(t, s.Provider, st.Commit, st.Context).Same(st))
		st.State, st.Description, st.TargetURL = end, "the end", "https://fleet.example.com/x?a=b&c=d"
		set(t, s.Provider, st)
		got := statusOf(t, s.Provider, st.Commit, st.Context)
		require.True(t, got.Same(st), "%s: the forge shows %+v", end, got)
	}
}

// again: repeating a status changes nothing that readers see.
func again(t *testing.T, s Subject) {
	st := forge.Status{Commit: s.Commit(t), Context: "fleetwright/again", State: forge.Pending, Description: "validating", Ref: Base}
	for range 3 {
		set(t, s.Provider, st)
	}
	require.True(t, statusOf(t, s.Provider, st.Commit, st.Context).Same(st))
}

// texts are cut between characters, are one line, and change below a state where the forge can.
func texts(t *testing.T, s Subject) {
	st := forge.Status{Commit: s.Commit(t), Context: "fleetwright/texts", State: forge.Pending, Description: strings.Repeat("ü€😀 ", 200), Ref: Base}
	set(t, s.Provider, st)
	got := statusOf(t, s.Provider, st.Commit, st.Context)
	require.Equal(t, s.Provider.Capabilities().Fit(st).Description, got.Description)
	st.Description = "line one\nline two <b>&amp; \"quotes\""
	set(t, s.Provider, st)
	got = statusOf(t, s.Provider, st.Commit, st.Context)
	require.Equal(t, forge.Pending, got.State)
	if s.Provider.Capabilities().LiveText {
		require.Equal(t, `line one line two <b>&amp; "quotes"`, got.Description)
	}
	st.State, st.TargetURL = forge.Success, "https://fleet.example.com/"+strings.Repeat("x", 600)
	set(t, s.Provider, st)
	got = statusOf(t, s.Provider, st.Commit, st.Context)
	require.Equal(t, s.Provider.Capabilities().Fit(st).TargetURL, got.TargetURL)
}

// contexts that begin alike, or differ in a few characters, stay apart; each keeps its state.
func contexts(t *testing.T, s Subject) {
	commit, long := s.Commit(t), "fleetwright/"+strings.Repeat("namespace-", 8)
	want := map[string]forge.State{
		"fleetwright/a": forge.Success, "fleetwright/a/plan": forge.Failure, "plain": forge.Pending, long + "one": forge.Error, long + "two": forge.Success,
	}
	for name, state := range want {
		set(t, s.Provider, forge.Status{Commit: commit, Context: name, State: state, Ref: Base})
	}
	all, err := s.Provider.Statuses(t.Context(), commit)
	require.NoError(t, err)
	got := map[string]forge.State{}
	last := ""
	for _, st := range all {
		require.Less(t, last, st.Context, "ordered by context")
		last, got[st.Context] = st.Context, st.State
	}
	require.Equal(t, want, got)
}

// retry: what failed begins anew and can succeed.
func retry(t *testing.T, s Subject) {
	st := forge.Status{Commit: s.Commit(t), Context: "fleetwright/retry", Ref: Base}
	for _, state := range []forge.State{forge.Pending, forge.Failure, forge.Pending, forge.Success} {
		st.State = state
		set(t, s.Provider, st)
		require.Equal(t, state, statusOf(t, s.Provider, st.Commit, st.Context).State)
	}
}

func unknownCommit(t *testing.T, s Subject) {
	if s.AnyCommit {
		t.Skip("there is no unknown commit")
	}
	err := s.Provider.SetStatus(t.Context(), forge.Status{Commit: s.Unknown, Context: "fleetwright/a", State: forge.Pending})
	require.Error(t, err)
	require.Equal(t, forge.UnknownCommit, forge.ClassOf(err), err.Error())
}

func invalid(t *testing.T, s Subject) {
	for _, st := range []forge.Status{
		{Context: "fleetwright/a", State: forge.Success}, {Commit: "abc", Context: "fleetwright/a", State: forge.Success},
		{Commit: s.Unknown, State: forge.Success}, {Commit: s.Unknown, Context: "fleetwright/a", State: "done"},
	} {
		require.Equal(t, forge.Permanent, forge.ClassOf(s.Provider.SetStatus(t.Context(), st)))
	}
}

func endOfContext(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Provider.Statuses(ctx, s.Unknown)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, forge.Retry, forge.ClassOf(err))
}

// others: what other people wrote is read too, with its time where the forge says.
func others(t *testing.T, s Subject) {
	if s.Foreign == nil {
		t.Skip("no other user")
	}
	commit := s.Commit(t)
	s.Foreign(t, commit, "ci/build")
	set(t, s.Provider, forge.Status{Commit: commit, Context: "fleetwright/a", State: forge.Pending, Ref: Base})
	got := statusOf(t, s.Provider, commit, "ci/build")
	require.Equal(t, forge.Success, got.State)
	require.False(t, got.At.IsZero(), "the forge says when")
}
