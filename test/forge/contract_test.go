package forge

import (
	"fmt"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/stretchr/testify/require"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
)

// giteaSubject is a repository of the real server, seen through the adapter.
type giteaSubject struct {
	owner, stranger *Account
	work            *work
	count           int
}

// TestContractOfARealGitea holds the adapter to what every provider promises, on the server that the others are imitations of.
func TestContractOfARealGitea(t *testing.T) {
	a, w := owner(t, "contract", map[string]string{"a.txt": "one"})
	w.git("push", "--quiet", "origin", "HEAD:refs/heads/release")
	g := &giteaSubject{owner: a, stranger: account(t, "reader"), work: w}
	_, _, err := g.stranger.API.CreateFork(a.Name, "fleet", gitea.CreateForkOption{})
	require.NoError(t, err)
	write := gitea.AccessModeWrite
	_, err = a.API.AddCollaborator(a.Name, "fleet", g.stranger.Name, gitea.AddCollaboratorOption{Permission: &write})
	require.NoError(t, err)
	token, err := shared.WithToken(t.Context(), a.Name, "write:repository", "write:issue", "read:user")
	require.NoError(t, err)
	provider, err := adapter.NewGitea(adapter.Config{
		URL: shared.URL, Owner: a.Name, Repository: "fleet", Credential: adapter.Credential{Token: token.Token},
	})
	require.NoError(t, err)
	forgetest.Contract(t, forgetest.Subject{
		Provider: provider, Commit: g.commit, Pull: g.pull,
		Foreign: func(t *testing.T, commit, context string) {
			_, _, err := g.stranger.API.CreateStatus(a.Name, "fleet", commit, gitea.CreateStatusOption{
				State: gitea.StatusSuccess, Context: context, Description: "by somebody else",
			})
			require.NoError(t, err)
		},
		Remark: func(t *testing.T, number int64, body string) {
			_, _, err := g.stranger.API.CreateIssueComment(a.Name, "fleet", number, gitea.CreateIssueCommentOption{Body: body})
			require.NoError(t, err)
		},
	})
}

// commit makes one on a branch of its own.
func (g *giteaSubject) commit(t *testing.T) string {
	g.count++
	g.work.t = t
	branch := fmt.Sprintf("commit-%d", g.count)
	return g.work.push(branch, map[string]string{branch: branch})
}

func (g *giteaSubject) pull(t *testing.T, base string, fork bool) adapter.PullRequest {
	g.count++
	g.work.t = t
	branch, title := fmt.Sprintf("topic-%d", g.count), fmt.Sprintf("Change %d", g.count)
	author, head := g.owner, branch
	if fork {
		author, head = g.stranger, g.stranger.Name+":"+branch
	}
	g.work.git("remote", "set-url", "origin", author.URL+"/"+author.Name+"/fleet.git")
	defer g.work.git("remote", "set-url", "origin", g.owner.URL+"/"+g.owner.Name+"/fleet.git")
	commit := g.work.push(branch, map[string]string{"overlays/us-east-1/gpu.yaml": branch})
	opened := pull(t, author, g.owner.Name, gitea.CreatePullRequestOption{Head: head, Base: base, Title: title})
	return adapter.PullRequest{
		Number: opened.Index, Title: title, Head: commit, HeadRef: fmt.Sprintf("refs/pull/%d/head", opened.Index), HeadBranch: branch, Base: base, Fork: fork,
	}
}
