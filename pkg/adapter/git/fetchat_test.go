package git_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
)

// TestFetchAt: what a reviewer of pull requests asks for, from a server that hands out no bare commits and from one that does.
func TestFetchAt(t *testing.T) {
	server, identity := sshFixture(t)
	base, err := server.Git("fleet", "rev-parse", "main")
	require.NoError(t, err)
	head, err := server.Commit("fleet", map[string]string{"base/a.yaml": "a: head\n"}, "a change")
	require.NoError(t, err)
	pushed, err := server.Commit("fleet", map[string]string{"base/a.yaml": "a: pushed\n"}, "another change")
	require.NoError(t, err)
	_, err = server.Git("fleet", "update-ref", "refs/pull/7/head", head)
	require.NoError(t, err)
	require.NoError(t, server.ForcePush("fleet", "main", base))
	_, err = server.Commit("fleet", map[string]string{"other.yaml": "b: 1\n"}, "main goes on")
	require.NoError(t, err)

	url := server.SSHURL("fleet")
	shown := strings.Replace(url, "git@", "", 1)
	source := git.Source{URL: url, Ref: git.Ref{Branch: "main"},
		Auth: secret(t, url, map[string]string{"identity": identity, "known_hosts": knownHost(server.SSHAddress(), server.HostKeys()[0])})}
	content := func(ref, commit string) string {
		t.Helper()
		tree, err := git.FetchAt(t.Context(), source, ref, commit)
		require.NoError(t, err)
		require.Equal(t, commit, tree.Commit)
		text, err := tree.ReadFile("base/a.yaml")
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, "a: head\n", content("refs/pull/7/head", head))
	require.Equal(t, "a: 1\n", content("refs/heads/main", base), "the commit at which it left its branch")
	_, err = server.Git("fleet", "update-ref", "refs/pull/7/head", pushed)
	require.NoError(t, err)
	require.Equal(t, "a: head\n", content("refs/pull/7/head", head), "someone pushed meanwhile: still the commit that was asked for")

	_, err = git.FetchAt(t.Context(), source, "refs/heads/main", head)
	requireFailure(t, err, git.ReasonCommitNotFound, shown+" does not hand out commit "+head+", and it is not among the newest 200 of main")
	_, err = git.FetchAt(t.Context(), source, "refs/pull/8/head", head)
	requireFailure(t, err, git.ReasonCommitNotFound, shown+" does not hand out commit "+head+", and it is not among the newest 200 of refs/pull/8/head")
	_, err = server.Git("fleet", "config", "uploadpack.allowReachableSHA1InWant", "true")
	require.NoError(t, err)
	require.Equal(t, "a: head\n", content("refs/heads/main", head), "a server that hands out bare commits needs no ref")
}
