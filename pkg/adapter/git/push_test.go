package git_test

import (
	"os"
	"path/filepath"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// TestTransportAuthHoldsToTheRulesOfAFetch: over SSH with the Secret's host keys, whatever ~/.ssh/config says.
func TestTransportAuthHoldsToTheRulesOfAFetch(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".ssh"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".ssh", "config"), []byte("Host *\n  Hostname 192.0.2.1\n  Port 1\n"), 0o600))
	signer, identity, err := gitserver.NewKey("")
	require.NoError(t, err)
	stranger, _, err := gitserver.NewKey("")
	require.NoError(t, err)
	server := start(t, gitserver.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	_, err = server.Commit("fleet", map[string]string{"a": "b"}, "first")
	require.NoError(t, err)
	url := server.SSHURL("fleet")
	list := func(key ssh.PublicKey) error {
		known := knownhosts.Line([]string{knownhosts.Normalize(server.SSHAddress())}, key) + "\n"
		source := git.Source{URL: url, Auth: secret(t, url, map[string]string{"identity": string(identity), "known_hosts": known})}
		auth, err := git.TransportAuth(source)
		require.NoError(t, err)
		remote := gogit.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{url}})
		_, err = remote.ListContext(t.Context(), &gogit.ListOptions{Auth: auth})
		return err
	}
	require.NoError(t, list(server.HostKeys()[0]))
	require.ErrorContains(t, list(stranger.PublicKey()), "knownhosts: key mismatch")
}

func TestTransportAuthRefuses(t *testing.T) {
	basic := secret(t, "https://h/x", map[string]string{"username": "u", "password": "s3cret"})
	_, err := git.TransportAuth(git.Source{URL: "http://git.example.com/fleet.git", Auth: basic})
	requireFailure(t, err, git.ReasonInsecureURL, "credentials for git.example.com would go over http without TLS; use https")
	_, err = git.TransportAuth(git.Source{URL: "ssh://git.example.com/fleet.git"})
	requireFailure(t, err, git.ReasonAuthenticationFailed,
		"ssh://git.example.com/fleet.git needs a Secret with identity and known_hosts; name it in secretRef")
	err = git.CheckURL(git.Source{URL: "https://user:s3c/ret@git.example.com/fleet.git"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "s3c")
	auth, err := git.TransportAuth(git.Source{URL: "https://git.example.com/fleet.git"})
	require.NoError(t, err)
	require.Nil(t, auth)
}
