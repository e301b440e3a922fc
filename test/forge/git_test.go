package forge

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
)

// fetched reads a file of the newest commit of a branch, as the reconciler does.
func fetched(t *testing.T, source git.Source, file string) (commit, content string) {
	t.Helper()
	revision, err := git.Resolve(t.Context(), source)
	require.NoError(t, err)
	tree, err := git.Fetch(t.Context(), source, revision)
	require.NoError(t, err)
	data, err := tree.ReadFile(file)
	require.NoError(t, err)
	return revision.Commit, string(data)
}

func TestATokenFetchesAPrivateRepository(t *testing.T) {
	a, w := owner(t, "token-owner", map[string]string{"a.txt": "one"})
	private := true
	_, _, err := a.API.EditRepo(a.Name, "fleet", gitea.EditRepoOption{Private: &private})
	require.NoError(t, err)
	reader, err := shared.WithToken(t.Context(), a.Name, "read:repository")
	require.NoError(t, err)
	source := git.Source{URL: shared.URL + "/" + a.Name + "/fleet.git", Ref: git.Ref{Branch: "main"}, AllowInsecureHTTP: true}

	_, err = git.Resolve(t.Context(), source)
	require.ErrorContains(t, err, "asks for credentials and none are given")

	for name, data := range map[string]map[string][]byte{
		"username and password": {"username": []byte(a.Name), "password": []byte(reader.Token)},
		"bearerToken":           {"bearerToken": []byte(reader.Token)},
	} {
		source.Auth, err = git.AuthFromSecret(data, source.URL)
		require.NoError(t, err, name)
		commit, content := fetched(t, source, "a.txt")
		require.Equal(t, w.git("rev-parse", "HEAD"), commit, name)
		require.Equal(t, "one", content, name)
	}
}

func TestADeployKeyFetchesOverSSHAndCannotPush(t *testing.T) {
	a, w := owner(t, "key-owner", map[string]string{"a.txt": "one"})
	open, secret, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	public, err := ssh.NewPublicKey(open)
	require.NoError(t, err)
	_, _, err = a.API.CreateDeployKey(a.Name, "fleet", gitea.CreateKeyOption{
		Title: "fleetwright", Key: string(ssh.MarshalAuthorizedKey(public)), ReadOnly: true,
	})
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(secret, "")
	require.NoError(t, err)
	identity := pem.EncodeToMemory(block)
	host, port, _ := strings.Cut(shared.SSH, ":")
	known := "[" + host + "]:" + port + " " + shared.HostKey + "\n"

	source := git.Source{URL: "ssh://git@" + shared.SSH + "/" + a.Name + "/fleet.git", Ref: git.Ref{Branch: "main"}}
	source.Auth, err = git.AuthFromSecret(map[string][]byte{"identity": identity, "known_hosts": []byte(known)}, source.URL)
	require.NoError(t, err)
	_, content := fetched(t, source, "a.txt")
	require.Equal(t, "one", content)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), identity, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "known"), []byte(known), 0o600))
	w.env = []string{"GIT_SSH_COMMAND=ssh -F none -o IdentitiesOnly=yes -i " + filepath.Join(dir, "key") +
		" -o UserKnownHostsFile=" + filepath.Join(dir, "known")}
	require.Equal(t, w.git("rev-parse", "HEAD"), strings.Fields(w.git("ls-remote", source.URL, "refs/heads/main"))[0])
	out, err := w.try("push", source.URL, "HEAD:refs/heads/other")
	require.Error(t, err, out)
}

func TestAPullRequestFromAForkIsFetchedByItsRef(t *testing.T) {
	a, w := owner(t, "base-owner", map[string]string{"a.txt": "one"})
	stranger := account(t, "stranger")
	_, _, err := stranger.API.CreateFork(a.Name, "fleet", gitea.CreateForkOption{})
	require.NoError(t, err)
	w.git("remote", "set-url", "origin", stranger.URL+"/"+stranger.Name+"/fleet.git")
	head := w.push("topic", map[string]string{"a.txt": "two"})
	opened := pull(t, stranger, a.Name, gitea.CreatePullRequestOption{Head: stranger.Name + ":topic", Base: "main", Title: "Two"})

	source := git.Source{URL: shared.URL + "/" + a.Name + "/fleet.git", Ref: git.Ref{Name: "refs/pull/1/head"}}
	require.EqualValues(t, 1, opened.Index)
	commit, content := fetched(t, source, "a.txt")
	require.Equal(t, head, commit)
	require.Equal(t, "two", content)
}
