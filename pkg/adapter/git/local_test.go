package git_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

func TestLocalRepository(t *testing.T) {
	server, commit := repository(t, gitserver.Options{})
	require.NoError(t, server.Tag("fleet", "v1.0.0", commit, "annotated"))
	t.Setenv("PATH", "") // no git binary is needed
	for _, url := range []string{server.Path("fleet"), "file://" + server.Path("fleet")} {
		source := git.Source{URL: url, AllowLocal: true}
		revision, tree := read(t, source)
		require.Equal(t, "main@sha1:"+commit, revision.String())
		require.Equal(t, []string{"base/a.yaml", "overlays/us/kustomization.yaml"}, tree.Paths())
		source.Ref = git.Ref{SemVer: "1.x"}
		revision, tree = read(t, source)
		require.Equal(t, "v1.0.0@sha1:"+commit, revision.String())
		require.Contains(t, string(tree.RawTag), "tag v1.0.0\n")
	}
	require.Empty(t, server.Requests())
	_, err := git.Resolve(t.Context(), git.Source{URL: "/nowhere", AllowLocal: true})
	requireFailure(t, err, git.ReasonRepositoryNotFound, "/nowhere is not a git repository")
}

func TestTreeIsReadByManyAtOnce(t *testing.T) {
	server, _ := repository(t, gitserver.Options{})
	for _, source := range []git.Source{{URL: server.URL("fleet")}, {URL: server.Path("fleet"), AllowLocal: true}} {
		_, tree := read(t, source)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for _, path := range tree.Paths() {
					if _, err := tree.ReadFile(path); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
	}
}

func TestWorktree(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	for _, d := range []string{".git", "base/.git", "overlays/us"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{".git/config", "base/.git/HEAD", "base/a.yaml", "overlays/us/kustomization.yaml", "overlays/.git"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(f), 0o600))
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink("base/a.yaml", filepath.Join(dir, "in")))
	tree, err := git.Worktree(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"base/a.yaml", "in", "overlays/us/kustomization.yaml"}, tree.Paths())
	content, err := tree.ReadFile("in")
	require.NoError(t, err)
	require.Equal(t, "base/a.yaml", string(content))
	_, err = tree.ReadFile("out")
	requireFailure(t, err, git.ReasonFileIsLink, `out is a symbolic link out of the repository (to "`+outside+`"); replace it by the file`)
	_, err = tree.ReadFile(".git/config")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Empty(t, tree.Commit)
	_, err = git.Worktree(filepath.Join(dir, "nope"))
	requireFailure(t, err, git.ReasonRepositoryNotFound, filepath.Join(dir, "nope")+" is not a directory that can be read")
}
