package git_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

const password = "correct-horse"

func TestHTTPCredentials(t *testing.T) {
	server, _ := repository(t, gitserver.Options{Username: "robot", Password: password, TLS: true})
	url := server.URL("fleet")
	ca := string(server.CA())
	source := git.Source{URL: url, Ref: git.Ref{Branch: "main"}}

	source.Auth = secret(t, url, map[string]string{"username": "robot\n", "password": password + "\n", "ca.crt": ca})
	_, tree := read(t, source)
	require.NotEmpty(t, tree.Paths())

	source.Auth = secret(t, url, map[string]string{"username": "robot", "password": password, "caFile": ca})
	read(t, source)

	source.Auth = secret(t, url, map[string]string{"username": "robot", "password": "wrong-" + password, "ca.crt": ca})
	_, err := git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonAuthenticationFailed, url+" refused the credentials (username and password)")
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", err, err, source.Auth, source.Auth), password)

	source.Auth = secret(t, url, map[string]string{"ca.crt": ca})
	_, err = git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonAuthenticationFailed, url+" asks for credentials and none are given; name a Secret in secretRef")

	source.Auth = secret(t, url, map[string]string{"username": "robot", "password": password})
	_, err = git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonCertificateUnknown,
		"the certificate of "+url+" is not trusted; put the CA that signed it into ca.crt of the Secret")
}

func TestBearerToken(t *testing.T) {
	server, _ := repository(t, gitserver.Options{BearerToken: password})
	url := server.URL("fleet")
	source := git.Source{URL: url, Auth: secret(t, url, map[string]string{"bearerToken": password})}
	_, err := git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonInsecureURL, "credentials for 127.0.0.1 would go over http without TLS; use https")
	require.Empty(t, server.Requests())
	source.AllowInsecureHTTP = true
	read(t, source)
	source.Auth = secret(t, url, map[string]string{"bearerToken": "wrong"})
	_, err = git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonAuthenticationFailed, url+" refused the credentials (bearerToken)")
}

func TestDeliveryReport_GF15_RedirectLeavesCredentialsBehind(t *testing.T) {
	target, _ := repository(t, gitserver.Options{})
	redirect := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+strings.TrimPrefix(target.URL("fleet"), "http://")+"/info/refs?service=git-upload-pack", http.StatusFound)
		})
	}
	origin := start(t, gitserver.Options{Wrap: redirect})
	url := origin.URL("fleet")
	source := git.Source{URL: url, AllowInsecureHTTP: true,
		Auth: secret(t, url, map[string]string{"username": "robot", "password": password})}
	read(t, source)
	require.True(t, origin.Requests()[0].Authorization)
	require.NotEmpty(t, target.Requests())
	for _, request := range target.Requests() {
		require.False(t, request.Authorization, request)
	}
}

func TestRedirectFromTLSToPlainIsRefused(t *testing.T) {
	target, _ := repository(t, gitserver.Options{})
	redirect := func(http.Handler) http.Handler {
		return http.RedirectHandler(target.URL("fleet")+"/info/refs?service=git-upload-pack", http.StatusFound)
	}
	origin := start(t, gitserver.Options{Wrap: redirect, TLS: true})
	url := origin.URL("fleet")
	_, err := git.Resolve(t.Context(), git.Source{URL: url, Auth: secret(t, url, map[string]string{"ca.crt": string(origin.CA())})})
	requireFailure(t, err, git.ReasonUnexpectedAnswer, url+" redirects in a way that is not followed; use the final URL")
	require.Empty(t, target.Requests())
}

// sshFixture is a server with one commit, and the identity that may read it.
func sshFixture(t *testing.T, hostKeys ...ssh.Signer) (*gitserver.Server, string) {
	signer, identity, err := gitserver.NewKey("")
	require.NoError(t, err)
	server, _ := repository(t, gitserver.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}, HostKeys: hostKeys})
	return server, string(identity)
}

func knownHost(address string, key ssh.PublicKey) string {
	return knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n"
}

func TestSSH(t *testing.T) {
	server, identity := sshFixture(t)
	url, address := server.SSHURL("fleet"), server.SSHAddress()
	good := knownHost(address, server.HostKeys()[0])
	other, _, err := gitserver.NewKey("")
	require.NoError(t, err)
	source := func(identity, known string) git.Source {
		return git.Source{URL: url, Ref: git.Ref{Branch: "main"},
			Auth: secret(t, url, map[string]string{"identity": identity, "known_hosts": known})}
	}
	shown := strings.Replace(url, "git@", "", 1)

	t.Run("known host", func(t *testing.T) {
		_, tree := read(t, source(identity, good))
		require.Contains(t, tree.Paths(), "base/a.yaml")
	})
	t.Run("hashed host", func(t *testing.T) {
		hashed := knownhosts.HashHostname(knownhosts.Normalize(address)) + strings.TrimPrefix(good, knownhosts.Normalize(address))
		read(t, source(identity, hashed))
	})
	t.Run("unknown host", func(t *testing.T) {
		_, err := git.Resolve(t.Context(), source(identity, knownHost("git.example.com:22", server.HostKeys()[0])))
		requireFailure(t, err, git.ReasonHostKeyUnknown,
			"known_hosts of the Secret has no key for "+address+"; add the server's line, verified out of band")
	})
	t.Run("another key", func(t *testing.T) {
		_, err := git.Resolve(t.Context(), source(identity, knownHost(address, other.PublicKey())))
		requireFailure(t, err, git.ReasonHostKeyMismatch, address+" shows none of the host keys that known_hosts of the Secret has "+
			"for it (ssh-ed25519); the server's key was changed, or this is another server")
	})
	t.Run("another identity", func(t *testing.T) {
		_, stranger, err := gitserver.NewKey("")
		require.NoError(t, err)
		_, err = git.Resolve(t.Context(), source(string(stranger), good))
		requireFailure(t, err, git.ReasonAuthenticationFailed, shown+" refused the credentials (identity)")
	})
	t.Run("no Secret", func(t *testing.T) {
		_, err := git.Resolve(t.Context(), git.Source{URL: url})
		requireFailure(t, err, git.ReasonAuthenticationFailed, shown+" needs a Secret with identity and known_hosts; name it in secretRef")
	})
	t.Run("no such repository", func(t *testing.T) {
		s := source(identity, good)
		s.URL = server.SSHURL("nope")
		_, err := git.Resolve(t.Context(), s)
		requireFailure(t, err, git.ReasonRepositoryNotFound, strings.Replace(s.URL, "git@", "", 1)+
			" does not know this repository, or the credentials may not read it")
	})
	t.Run("empty repository", func(t *testing.T) {
		require.NoError(t, server.CreateRepo("empty"))
		s := source(identity, good)
		s.URL = server.SSHURL("empty")
		_, err := git.Resolve(t.Context(), s)
		requireFailure(t, err, git.ReasonEmptyRepository, "repository "+strings.Replace(s.URL, "git@", "", 1)+" has no commit yet")
	})
	t.Run("too large", func(t *testing.T) {
		s := source(identity, good)
		s.Limits.Transfer = 100
		_, err := git.Resolve(t.Context(), s)
		requireFailure(t, err, git.ReasonTooLarge, shown+" sent more than 100 bytes for one commit; split the repository or raise the limit")
	})
}

func TestDeliveryReport_GF32_KnownHostsArePerHost(t *testing.T) {
	first, second := newECDSA(t), newEd25519(t)
	server, identity := sshFixture(t, first, second)
	other, _, err := gitserver.NewKey("")
	require.NoError(t, err)
	url := server.SSHURL("fleet")
	known := knownHost("other.example.com:22", other.PublicKey()) + knownHost(server.SSHAddress(), first.PublicKey())
	source := git.Source{URL: url, Auth: secret(t, url, map[string]string{"identity": identity, "known_hosts": known})}
	for range 20 {
		_, err := git.Resolve(t.Context(), source)
		require.NoError(t, err)
	}
	t.Run("rsa beside a line for another host", func(t *testing.T) {
		rsaKey, err := ssh.NewSignerWithAlgorithms(newRSA(t).(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512})
		require.NoError(t, err)
		modern, identity := sshFixture(t, rsaKey) // no SHA-1
		url := modern.SSHURL("fleet")
		known := knownHost("other.example.com:22", other.PublicKey()) + knownHost(modern.SSHAddress(), rsaKey.PublicKey())
		read(t, git.Source{URL: url, Auth: secret(t, url, map[string]string{"identity": identity, "known_hosts": known})})
	})
}

func TestDeliveryReport_GF06_OnlyKnownKeyTypesAreNegotiated(t *testing.T) {
	rsaKey := newRSA(t)
	server, identity := sshFixture(t, newECDSA(t), newEd25519(t), rsaKey)
	url := server.SSHURL("fleet")
	known := knownHost(server.SSHAddress(), rsaKey.PublicKey())
	read(t, git.Source{URL: url, Auth: secret(t, url, map[string]string{"identity": identity, "known_hosts": known})})
}

func TestDeliveryReport_GF28_ServerWithoutBareCommits(t *testing.T) {
	server, identity := sshFixture(t)
	first, err := server.Git("fleet", "rev-parse", "main")
	require.NoError(t, err)
	_, err = server.Commit("fleet", map[string]string{"base/a.yaml": "a: 2\n"}, "second")
	require.NoError(t, err)
	url := server.SSHURL("fleet")
	auth := secret(t, url, map[string]string{"identity": identity, "known_hosts": knownHost(server.SSHAddress(), server.HostKeys()[0])})
	_, tree := read(t, git.Source{URL: url, Auth: auth, Ref: git.Ref{Branch: "main", Commit: first}})
	content, err := tree.ReadFile("base/a.yaml")
	require.NoError(t, err)
	require.Equal(t, "a: 1\n", string(content))

	source := git.Source{URL: url, Auth: auth, Ref: git.Ref{Commit: first}}
	_, err = git.Fetch(t.Context(), source, git.Revision{Commit: first})
	requireFailure(t, err, git.ReasonCommitNotFound, strings.Replace(url, "git@", "", 1)+" has no commit "+first+
		", or does not hand it out; set a branch that contains it")
	_, err = server.Git("fleet", "config", "uploadpack.allowReachableSHA1InWant", "true")
	require.NoError(t, err)
	read(t, source)
}

func TestDeliveryReport_GF13_NothingOfTheMachineIsConsulted(t *testing.T) {
	socket, err := net.Listen("unix", t.TempDir()+"/agent")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, socket.Close()) })
	t.Setenv("SSH_AUTH_SOCK", socket.Addr().String())
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("SSH_KNOWN_HOSTS", "/nowhere")
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://\n\tinsteadOf = ssh://\n[http]\n\tproxy = http://127.0.0.1:1\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".netrc"), []byte("machine 127.0.0.1 login robot password s3cret\n"), 0o600))
	server, identity := sshFixture(t)
	url := server.SSHURL("fleet")
	known := knownHost(server.SSHAddress(), server.HostKeys()[0])
	read(t, git.Source{URL: url, Auth: secret(t, url, map[string]string{"identity": identity, "known_hosts": known})})
	server.ResetRequests()
	read(t, git.Source{URL: server.URL("fleet")})
	for _, request := range server.Requests() {
		require.False(t, request.Authorization, request)
	}
}

func TestAuthFromSecretRefuses(t *testing.T) {
	_, identity, err := gitserver.NewKey("")
	require.NoError(t, err)
	_, sealed, err := gitserver.NewKey("opensesame")
	require.NoError(t, err)
	const https, secure = "https://git.example.com/fleet.git", "git@git.example.com:acme/fleet.git"
	cases := map[string]struct {
		url     string
		data    map[string]string
		problem string
	}{
		"nothing":    {https, nil, "has none of the keys username and password, bearerToken, tls.crt and tls.key, ca.crt"},
		"user":       {https, map[string]string{"username": "u"}, "has username without password"},
		"pass":       {https, map[string]string{"password": "s3cret"}, "has password without username"},
		"both":       {https, map[string]string{"username": "u", "password": "s3cret", "bearerToken": "s3cret"}, "has both bearerToken and username; keep one"},
		"bad CA":     {https, map[string]string{"ca.crt": "s3cret"}, "has a ca.crt that holds no PEM certificate"},
		"cert alone": {https, map[string]string{"tls.crt": "s3cret"}, "has tls.crt without tls.key"},
		"key alone":  {https, map[string]string{"tls.key": "s3cret"}, "has tls.key without tls.crt"},
		"bad pair":   {https, map[string]string{"tls.crt": "s3cret", "tls.key": "s3cret"}, "has a tls.crt and a tls.key that are not a certificate in PEM form and its private key"},
		"wrong kind": {https, map[string]string{"identity": string(identity)},
			"has identity, which is for ssh, but the url is not ssh; add username and password, or bearerToken"},
		"no identity": {secure, map[string]string{"known_hosts": "x"}, "has no key identity, which ssh needs: a private key in PEM or OpenSSH form"},
		"no hosts":    {secure, map[string]string{"identity": string(identity)}, "has no key known_hosts, which ssh needs to know the server"},
		"bad identity": {secure, map[string]string{"identity": "s3cret", "known_hosts": "x"},
			"has an identity that is not a private key in PEM or OpenSSH form"},
		"bad hosts":      {secure, map[string]string{"identity": string(identity), "known_hosts": "s3cret"}, "has a known_hosts with a line that is not `host type key`"},
		"blank hosts":    {secure, map[string]string{"identity": string(identity), "known_hosts": "\n"}, "has an empty known_hosts"},
		"no passphrase":  {secure, map[string]string{"identity": string(sealed), "known_hosts": "x"}, "has an encrypted identity and no password to open it"},
		"bad passphrase": {secure, map[string]string{"identity": string(sealed), "password": "s3cret", "known_hosts": "x"}, "has a password that does not open its identity"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range tc.data {
				data[key] = []byte(value)
			}
			_, err := git.AuthFromSecret(data, tc.url)
			requireFailure(t, err, git.ReasonInvalidSecret, "the Secret of secretRef "+tc.problem)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
	t.Run("passphrase", func(t *testing.T) {
		signer, sealed, err := gitserver.NewKey("opensesame")
		require.NoError(t, err)
		auth := secret(t, secure, map[string]string{"identity": string(sealed), "password": "opensesame",
			"known_hosts": knownHost("git.example.com:22", signer.PublicKey())})
		require.Equal(t, "Auth(identity)", auth.String())
	})
}

func TestURLsThatAreRefused(t *testing.T) {
	cases := map[string]struct {
		url     string
		reason  git.Reason
		message string
	}{
		"empty":    {"", git.ReasonUnsupportedURL, "the source's url names no host or no repository"},
		"scheme":   {"git://h/r", git.ReasonUnsupportedURL, `the source's url has scheme "git" (allowed: https, http, ssh)`},
		"password": {"https://u:s3cret@h/r", git.ReasonUnsupportedURL, "the source's url for h holds a password; put it into the Secret of secretRef"},
		"no repo":  {"https://h", git.ReasonUnsupportedURL, "the source's url names no host or no repository (allowed: https://host/path)"},
		"query":    {"https://h/r?token=s3cret", git.ReasonUnsupportedURL, "the source's url for h has a query or a fragment; remove it"},
		"garbage":  {"https://h:s3cret/r", git.ReasonUnsupportedURL, "the source's url is not a URL (allowed: https://…, ssh://…, user@host:path)"},
		"file": {"file:///srv/r", git.ReasonUnsupportedURL,
			"the source's url is a local path, which works only on the command line and in the demo (allowed: https://…, ssh://…)"},
		"path": {"/srv/r", git.ReasonUnsupportedURL,
			"the source's url is a local path, which works only on the command line and in the demo (allowed: https://…, ssh://…)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.url == "" {
				tc.message = `the source's url has scheme "" (allowed: https, http, ssh)`
			}
			_, err := git.Resolve(t.Context(), git.Source{URL: tc.url})
			requireFailure(t, err, tc.reason, tc.message)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}
