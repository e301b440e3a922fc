package git_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
)

// history is a repository of which each commit changes one file.
type history struct {
	t    *testing.T
	dir  string
	repo *gogit.Repository
	n    int
}

func newHistory(t *testing.T) *history {
	dir := t.TempDir()
	repo, err := gogit.PlainInitWithOptions(dir, &gogit.PlainInitOptions{InitOptions: gogit.InitOptions{DefaultBranch: "refs/heads/main"}})
	require.NoError(t, err)
	return &history{t: t, dir: dir, repo: repo}
}

func (h *history) commit(file string) string {
	h.n++
	tree, err := h.repo.Worktree()
	require.NoError(h.t, err)
	require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, file), []byte{byte('0' + h.n)}, 0o600))
	_, err = tree.Add(file)
	require.NoError(h.t, err)
	hash, err := tree.Commit("c", &gogit.CommitOptions{Author: &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(int64(h.n), 0)}})
	require.NoError(h.t, err)
	return hash.String()
}

func (h *history) branch(name string) {
	tree, err := h.repo.Worktree()
	require.NoError(h.t, err)
	require.NoError(h.t, tree.Checkout(&gogit.CheckoutOptions{Branch: plumbing.NewBranchReferenceName(name), Create: name != "main"}))
}

// TestFieldReport_PP09_ABranchIsComparedFromWhereItBegan: what others have merged since is not shown as taken back.
func TestFieldReport_PP09_ABranchIsComparedFromWhereItBegan(t *testing.T) {
	h := newHistory(t)
	first := h.commit("a")
	fork := h.commit("a")
	h.branch("topic")
	head := h.commit("b")
	h.branch("main")
	tip := h.commit("c")
	tree, err := h.repo.Worktree()
	require.NoError(t, err)
	require.NoError(t, tree.Checkout(&gogit.CheckoutOptions{Branch: "refs/heads/topic"}))
	_, err = h.repo.CreateTag("v1", plumbing.NewHash(first), nil)
	require.NoError(t, err)

	for against, want := range map[string]git.Base{
		"":       {Head: head, Commit: fork, Name: "main", Tip: tip},
		"main":   {Head: head, Commit: fork, Name: "main", Tip: tip},
		"v1":     {Head: head, Commit: first, Name: "v1"},
		tip:      {Head: head, Commit: tip, Name: tip},
		"HEAD~2": {Head: head, Commit: first, Name: "HEAD~2"},
	} {
		got, err := git.FindBase(h.dir, against)
		require.NoError(t, err)
		require.Equal(t, want, got, against)
	}
	_, err = git.FindBase(h.dir, "nothing")
	require.EqualError(t, err, `"nothing" is not a branch, tag or commit of this repository (in a clone of CI, fetch it first)`)

	old, err := git.CommitTree(h.dir, fork)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, old.Paths())
}

// TestBaseOnTheDefaultBranch: HEAD itself, with what was before it at hand.
func TestBaseOnTheDefaultBranch(t *testing.T) {
	h := newHistory(t)
	got, err := git.FindBase(h.dir, "")
	require.NoError(t, err)
	require.Zero(t, got, "no commit yet")

	first := h.commit("a")
	got, err = git.FindBase(h.dir, "")
	require.NoError(t, err)
	require.Equal(t, git.Base{Head: first, Commit: first, Name: "HEAD"}, got)

	second := h.commit("a")
	got, err = git.FindBase(h.dir, "")
	require.NoError(t, err)
	require.Equal(t, git.Base{Head: second, Commit: second, Name: "HEAD", Parent: first}, got)
}

// TestBaseInAShallowClone: CI checks out one commit; the message says what to do.
func TestBaseInAShallowClone(t *testing.T) {
	h := newHistory(t)
	h.commit("a")
	h.commit("a")
	clone := t.TempDir()
	repo, err := gogit.PlainClone(clone, false, &gogit.CloneOptions{URL: h.dir, Depth: 1})
	require.NoError(t, err)
	got, err := git.FindBase(clone, "")
	require.NoError(t, err)
	require.NotEmpty(t, got.Parent)
	_, err = git.CommitTree(clone, got.Parent)
	require.EqualError(t, err, "the history of this clone is cut off before the commit to compare with; fetch more of it (git fetch --unshallow), or name a commit that is there")

	h.branch("topic")
	h.commit("b")
	require.NoError(t, repo.Fetch(&gogit.FetchOptions{RefSpecs: []config.RefSpec{"+refs/heads/topic:refs/heads/topic"}, Depth: 1}))
	tree, err := repo.Worktree()
	require.NoError(t, err)
	require.NoError(t, tree.Checkout(&gogit.CheckoutOptions{Branch: "refs/heads/topic"}))
	_, err = git.FindBase(clone, "")
	require.ErrorContains(t, err, "the history of this clone is cut off")
}

func TestBaseOutsideOfARepository(t *testing.T) {
	_, err := git.FindBase(t.TempDir(), "")
	var problem *git.Error
	require.ErrorAs(t, err, &problem)
	require.Equal(t, git.ReasonRepositoryNotFound, problem.Reason)
}
