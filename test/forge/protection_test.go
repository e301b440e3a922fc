package forge

import (
	"net/http"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/forge"
)

const required = "fleetwright/us-east-1/plan"

// merge tries to merge and returns the code of the answer. The server says 405 while it still looks for conflicts, too.
func merge(a *Account, owner string, number int64) int {
	_, res, _ := a.API.MergePullRequest(owner, "fleet", number, gitea.MergePullRequestOption{Style: gitea.MergeStyleMerge})
	if res == nil {
		return 0
	}
	return res.StatusCode
}

// TestAProtectedBranchTakesOnlyWhatOurStatusLets merges a pull request once our status is success, and not before: not without one,
// and not while it is anything else.
func TestAProtectedBranchTakesOnlyWhatOurStatusLets(t *testing.T) {
	a, w := owner(t, "protected", map[string]string{"a.txt": "one"})
	_, _, err := a.API.CreateBranchProtection(a.Name, "fleet", gitea.CreateBranchProtectionOption{
		RuleName: "main", EnableStatusCheck: true, StatusCheckContexts: []string{required},
	})
	require.NoError(t, err)
	head := w.push("topic", map[string]string{"a.txt": "two"})
	opened := pull(t, a, a.Name, gitea.CreatePullRequestOption{Head: "topic", Base: "main", Title: "Two"})
	out, err := w.try("push", "origin", "HEAD:main")
	require.Error(t, err, "nobody pushes past it: %s", out)

	writer, err := shared.WithToken(t.Context(), a.Name, "write:repository", "write:issue", "read:user")
	require.NoError(t, err)
	provider, err := adapter.NewGitea(adapter.Config{URL: shared.URL, Owner: a.Name, Repository: "fleet", Credential: adapter.Credential{Token: writer.Token}})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the look for conflicts has ended
		now, _, err := a.API.GetPullRequest(a.Name, "fleet", opened.Index)
		require.NoError(c, err)
		require.True(c, now.Mergeable)
	}, patience, poll)
	require.Equal(t, http.StatusMethodNotAllowed, merge(a, a.Name, opened.Index), "no status yet")
	for _, state := range []adapter.State{adapter.Pending, adapter.Failure, adapter.Error} {
		require.NoError(t, provider.SetStatus(t.Context(), adapter.Status{Commit: head, Context: required, State: state, Description: "no"}))
		require.Equal(t, http.StatusMethodNotAllowed, merge(a, a.Name, opened.Index), state)
	}
	require.NoError(t, provider.SetStatus(t.Context(), adapter.Status{Commit: head, Context: required, State: adapter.Success, Description: "yes"}))
	require.Eventually(t, func() bool { return merge(a, a.Name, opened.Index) == http.StatusOK }, patience, poll)
}
