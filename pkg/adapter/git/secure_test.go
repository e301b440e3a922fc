package git_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

func TestClientCertificate(t *testing.T) {
	server, _ := repository(t, gitserver.Options{TLS: true, ClientCertificate: true})
	url, ca := server.URL("fleet"), string(server.CA())
	cert, key := server.ClientCertificate()
	source := git.Source{URL: url, Auth: secret(t, url, map[string]string{"tls.crt": string(cert), "tls.key": string(key), "ca.crt": ca})}
	require.Equal(t, "Auth(client certificate)", source.Auth.String())
	read(t, source)
	source.Auth = secret(t, url, map[string]string{"certFile": string(cert), "keyFile": string(key), "caFile": ca})
	read(t, source)

	source.Auth = secret(t, url, map[string]string{"ca.crt": ca})
	_, err := git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonAuthenticationFailed, url+" wants a client certificate; put tls.crt and tls.key into the Secret")

	other := start(t, gitserver.Options{TLS: true})
	cert, key = other.ClientCertificate() // of another authority
	source.Auth = secret(t, url, map[string]string{"tls.crt": string(cert), "tls.key": string(key), "ca.crt": ca})
	_, err = git.Resolve(t.Context(), source)
	var failure *git.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, git.ReasonAuthenticationFailed, failure.Reason, failure.Message)
}

func TestProxy(t *testing.T) {
	server, _ := repository(t, gitserver.Options{TLS: true, Username: "robot", Password: password})
	plain, _ := repository(t, gitserver.Options{})
	proxy, err := gitserver.NewProxy("worker", "s3cret")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	through := func(data map[string]string) git.Proxy {
		raw := map[string][]byte{}
		for k, v := range data {
			raw[k] = []byte(v)
		}
		p, err := git.ProxyFromSecret(raw)
		require.NoError(t, err)
		return p
	}
	url := server.URL("fleet")
	source := git.Source{URL: url, Auth: secret(t, url, map[string]string{"username": "robot", "password": password, "ca.crt": string(server.CA())})}
	source.Proxy = through(map[string]string{"address": proxy.URL() + "\n", "username": "worker", "password": "s3cret"})
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", source.Proxy, source.Proxy, source.Proxy), "s3cret")
	read(t, source)
	require.Contains(t, proxy.Targets(), strings.TrimPrefix(strings.Split(url, "/fleet")[0], "https://"))
	before := len(proxy.Targets())
	read(t, git.Source{URL: plain.URL("fleet"), Proxy: source.Proxy})
	require.Greater(t, len(proxy.Targets()), before, "http goes through it, too")

	for _, source := range []git.Source{source, {URL: plain.URL("fleet")}} {
		source.Proxy = through(map[string]string{"address": proxy.URL(), "username": "worker", "password": "wrong"})
		_, err = git.Resolve(t.Context(), source)
		requireFailure(t, err, git.ReasonAuthenticationFailed,
			"the proxy "+proxy.URL()+" refused its credentials (username and password of the Secret of proxySecretRef)")
	}
	nowhere := start(t, gitserver.Options{})
	require.NoError(t, nowhere.Close())
	gone := strings.Replace(nowhere.URL("fleet"), "http://", "https://", 1)
	_, err = git.Resolve(t.Context(), git.Source{URL: gone, Proxy: source.Proxy})
	requireFailure(t, err, git.ReasonUnreachable, "the proxy "+proxy.URL()+" does not connect to "+gone+" (HTTP status 502)")
	source.Proxy = through(map[string]string{"address": strings.Split(nowhere.URL(""), "/.git")[0]})
	_, err = git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonUnreachable, "cannot reach "+source.Proxy.String()+" on the way to "+url+": connect: connection refused")

	_, err = git.Resolve(t.Context(), git.Source{URL: "git@git.example.com:acme/fleet.git", Proxy: source.Proxy})
	requireFailure(t, err, git.ReasonUnsupportedURL,
		"the proxy of proxySecretRef carries https, not ssh; use the https url of the repository, or no proxy")
}

func TestProxyFromSecretRefuses(t *testing.T) {
	cases := map[string]map[string]string{
		"has no key address": nil,
		"has an address that is not a URL (allowed: http://host:port, https://host:port)": {"address": "s3cret:3128"},
		"has an address with a user; put username and password into keys of their own":    {"address": "http://u:s3cret@proxy:3128"},
		"has password without username": {"address": "http://proxy:3128", "password": "s3cret"},
	}
	for problem, data := range cases {
		raw := map[string][]byte{}
		for k, v := range data {
			raw[k] = []byte(v)
		}
		_, err := git.ProxyFromSecret(raw)
		requireFailure(t, err, git.ReasonInvalidSecret, "the Secret of proxySecretRef "+problem)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

// identities of every kind, in the forms that ssh-keygen and openssl write them.
func identities(t *testing.T) map[string][]byte {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	out := map[string][]byte{}
	for name, key := range map[string]crypto.PrivateKey{"ed25519": edKey, "ecdsa": ecKey, "rsa": rsaKey} {
		block, err := ssh.MarshalPrivateKey(key, "")
		require.NoError(t, err)
		out[name] = pem.EncodeToMemory(block)
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(password))
		require.NoError(t, err)
		out[name+" with passphrase"] = pem.EncodeToMemory(block)
		der, err := x509.MarshalPKCS8PrivateKey(key)
		require.NoError(t, err)
		out[name+" as PKCS 8"] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	out["rsa as PKCS 1"] = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})
	return out
}

func TestIdentitiesOfEveryKind(t *testing.T) {
	keys := identities(t)
	var authorized []ssh.PublicKey
	for name, key := range keys {
		signer, err := ssh.ParsePrivateKey(key)
		if strings.HasSuffix(name, "passphrase") {
			signer, err = ssh.ParsePrivateKeyWithPassphrase(key, []byte(password))
		}
		require.NoError(t, err, name)
		authorized = append(authorized, signer.PublicKey())
	}
	server, _ := repository(t, gitserver.Options{AuthorizedKeys: authorized})
	url := server.SSHURL("fleet")
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			data := map[string]string{"identity": string(key), "known_hosts": knownHost(server.SSHAddress(), server.HostKeys()[0])}
			if strings.HasSuffix(name, "passphrase") {
				data["password"] = password
			}
			_, err := git.Resolve(t.Context(), git.Source{URL: url, Auth: secret(t, url, data)})
			require.NoError(t, err)
		})
	}
}

// TestDeliveryReport_GF07_PinnedKeyIsTheOneThatIsAskedFor: the server would rather show another.
func TestDeliveryReport_GF07_PinnedKeyIsTheOneThatIsAskedFor(t *testing.T) {
	pinned := newEd25519(t)
	server, identity := sshFixture(t, newRSA(t), newECDSA(t), pinned)
	url := server.SSHURL("fleet")
	for range 5 {
		auth := secret(t, url, map[string]string{"identity": identity, "known_hosts": knownHost(server.SSHAddress(), pinned.PublicKey())})
		_, err := git.Resolve(t.Context(), git.Source{URL: url, Auth: auth})
		require.NoError(t, err)
	}
}
