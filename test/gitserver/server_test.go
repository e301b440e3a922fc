package gitserver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/test/gitserver"
)

func start(t *testing.T, options gitserver.Options) *gitserver.Server {
	server, err := gitserver.New(t.TempDir(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.CreateRepo("fleet"))
	return server
}

func git(t *testing.T, dir string, env []string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

func TestGitClonesAndPushesOverHTTP(t *testing.T) {
	server := start(t, gitserver.Options{})
	first, err := server.Commit("fleet", map[string]string{"a.yaml": "a: 1\n"}, "first")
	require.NoError(t, err)
	dir := t.TempDir()
	git(t, dir, nil, "clone", "-q", server.URL("fleet"), "w")
	work := filepath.Join(dir, "w")
	require.FileExists(t, filepath.Join(work, "a.yaml"))
	require.NoError(t, os.WriteFile(filepath.Join(work, "b.yaml"), []byte("b: 1\n"), 0o600))
	git(t, work, nil, "add", "b.yaml")
	git(t, work, nil, "commit", "-q", "-m", "second")
	git(t, work, nil, "push", "-q", "origin", "main")
	parent, err := server.Git("fleet", "rev-parse", "main~1")
	require.NoError(t, err)
	require.Equal(t, first, parent)
	require.Contains(t, server.Requests(), gitserver.Request{Method: "POST", Path: "/fleet.git/git-receive-pack", Service: "git-receive-pack"})
}

func TestGitClonesOverSSH(t *testing.T) {
	signer, key, err := gitserver.NewKey("")
	require.NoError(t, err)
	server := start(t, gitserver.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	_, err = server.Commit("fleet", map[string]string{"a.yaml": "a: 1\n"}, "first")
	require.NoError(t, err)
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("no ssh client on this machine; pkg/adapter/git tests this server with its own client")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), key, 0o600))
	command := "GIT_SSH_COMMAND=ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i " + filepath.Join(dir, "key")
	git(t, dir, []string{command}, "clone", "-q", server.SSHURL("fleet"), "w")
	require.FileExists(t, filepath.Join(dir, "w", "a.yaml"))
}

func TestChangesOfEveryKind(t *testing.T) {
	server := start(t, gitserver.Options{})
	first, err := server.Apply("fleet", gitserver.Change{
		Files: map[string]string{"a.yaml": "a", "dir/b.yaml": "b"}, Links: map[string]string{"link": "a.yaml"}, Message: "first",
	})
	require.NoError(t, err)
	second, err := server.Apply("fleet", gitserver.Change{Delete: []string{"a.yaml"}, Message: "second"})
	require.NoError(t, err)
	files, err := server.Git("fleet", "ls-tree", "-r", "--name-only", second)
	require.NoError(t, err)
	require.Equal(t, "dir/b.yaml\nlink", files)
	require.NoError(t, server.ForcePush("fleet", "main", first))
	orphan, err := server.Apply("fleet", gitserver.Change{Files: map[string]string{"c": "c"}, Message: "other", Orphan: true})
	require.NoError(t, err)
	files, err = server.Git("fleet", "ls-tree", "-r", "--name-only", orphan)
	require.NoError(t, err)
	require.Equal(t, "c", files)
	require.NoError(t, server.Tag("fleet", "v1", first, "annotated"))
	kind, err := server.Git("fleet", "cat-file", "-t", "v1")
	require.NoError(t, err)
	require.Equal(t, "tag", kind)
	require.NoError(t, server.DeleteBranch("fleet", "main"))
	_, err = server.Git("fleet", "rev-parse", "--verify", "refs/heads/main")
	require.ErrorContains(t, err, "git rev-parse")
}
