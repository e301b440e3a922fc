package forges

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

var token = map[string][]byte{"token": []byte("t0ken\n")}

func TestProviderOfEachKind(t *testing.T) {
	f := New(Options{})
	for _, c := range []struct {
		to   Target
		want any
	}{
		{Target{Provider: "github", Repository: "https://github.com/acme/fleet"}, &forge.GitHub{}},
		{Target{Provider: "gitlab", Repository: "https://gitlab.com/acme/infra/fleet"}, &forge.GitLab{}},
		{Target{Provider: "gitea", Repository: "git@codeberg.org:acme/fleet.git"}, &forge.Gitea{}},
		{Target{Provider: "bitbucket", Repository: "git@bitbucket.org:acme/fleet.git"}, &forge.BitbucketCloud{}},
		{Target{Provider: "bitbucket", Repository: "https://git.example.com/scm/acme/fleet.git"}, &forge.BitbucketDataCenter{}},
		{Target{Provider: "azuredevops", Repository: "https://dev.azure.com/acme/infra/_git/fleet"}, &forge.AzureDevOps{}},
	} {
		got, err := f.Provider(c.to, token)
		require.NoError(t, err)
		require.IsType(t, c.want, got)
		_, pulls := got.(forge.PullRequests)
		_, comments := got.(forge.Comments)
		require.True(t, pulls && comments)
	}
}

func TestProviderSaysWhatIsWrong(t *testing.T) {
	f := New(Options{})
	gitea := Target{Provider: "gitea", Repository: "https://git.example.com/acme/fleet"}
	for want, c := range map[string]struct {
		to   Target
		data map[string][]byte
	}{
		"provider gogs is not supported (allowed: github, gitlab, gitea, bitbucket, azuredevops, gitnotes)":                           {Target{Provider: "gogs"}, token},
		"the Secret of spec.checks.secretRef holds no credential (allowed keys: token; username and password; those of a GitHub App)": {gitea, nil},
		"the token would go over http without TLS: use https":                                                                         {Target{Provider: "gitea", Repository: "http://git.example.com/acme/fleet"}, token},
		"the Secret of spec.checks.secretRef is that of a GitHub App, and the provider is not github":                                 {gitea, map[string][]byte{"githubAppID": []byte("1")}},
		"read CA bundle: no PEM certificate found in key ca.crt":                                                                      {gitea, map[string][]byte{"token": []byte("x"), "ca.crt": []byte("x")}},
	} {
		_, err := f.Provider(c.to, c.data)
		require.EqualError(t, err, want)
	}
}

func appSecret(t *testing.T, api string) map[string][]byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return map[string][]byte{
		"githubAppID": []byte(forgetest.AppID), "githubAppInstallationID": []byte("12"), "githubAppBaseURL": []byte(api),
		"githubAppPrivateKey": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
}

// TestGitHubAppWritesWithMintedTokens: a token that the forge refuses is replaced by a new one.
func TestGitHubAppWritesWithMintedTokens(t *testing.T) {
	forgeServer, minted := forgetest.NewServer(t, forge.KindGitHub), 0
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/access_tokens") {
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/api/v3")
			forgeServer.Server.Config.Handler.ServeHTTP(w, r)
			return
		}
		minted++
		token := "revoked"
		if minted > 1 {
			token = forgetest.Token
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":%q,"expires_at":%q}`, token, time.Now().Add(time.Hour).Format(time.RFC3339))
	}))
	t.Cleanup(front.Close)
	f := New(Options{AllowInsecureHTTP: true})
	to := Target{Provider: fleetv1.ProviderGitHub, Repository: front.URL + "/acme/fleet"}
	p, err := f.Provider(to, appSecret(t, front.URL+"/api/v3"))
	require.NoError(t, err)
	require.IsType(t, &forge.GitHubApp{}, p)
	s := forge.Status{Commit: forgeServer.AddCommit(), Context: "fleetwright/a", State: forge.Success}
	err = p.SetStatus(t.Context(), s)
	require.EqualError(t, err, "post status (github): the server does not accept the token")
	require.Equal(t, forge.Retry, forge.ClassOf(err))
	require.NoError(t, p.SetStatus(t.Context(), s))
	require.Equal(t, 2, minted)

	_, err = f.Provider(to, appSecret(t, "https://api.github.com"))
	require.EqualError(t, err, "the GitHub App belongs to https://api.github.com, and the repository to "+front.URL+"/api/v3: set githubAppBaseURL")
}

func TestOpenReadsTheSecretOnceAMinute(t *testing.T) {
	reads, now, data := 0, time.Now(), map[string][]byte{"token": []byte("a")}
	f := New(Options{
		Now:     func() time.Time { return now },
		Secrets: func(context.Context, string, string) (map[string][]byte, error) { reads++; return data, nil },
	})
	to := Target{Provider: "gitea", Repository: "https://git.example.com/acme/fleet", SecretNamespace: "x", SecretName: "y"}
	first, err := f.OpenTarget(t.Context(), to)
	require.NoError(t, err)
	for range 3 {
		same, err := f.OpenTarget(t.Context(), to)
		require.NoError(t, err)
		require.Same(t, first, same)
	}
	require.Equal(t, 1, reads)
	now = now.Add(2 * time.Minute)
	same, err := f.OpenTarget(t.Context(), to)
	require.NoError(t, err)
	require.Same(t, first, same, "the credential is the same")
	now, data = now.Add(2*time.Minute), map[string][]byte{"token": []byte("b")}
	other, err := f.OpenTarget(t.Context(), to)
	require.NoError(t, err)
	require.NotSame(t, first, other)
	require.Equal(t, 3, reads)
}
