package delivery

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/githubapp"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// secretReader knows Secrets by name.
type secretReader map[string]map[string][]byte

func (r secretReader) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	data, ok := r[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	o.(*corev1.Secret).Data = data
	return nil
}

func (secretReader) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// TestGitHubApp: the key is exchanged for a token, which opens the repository; one that is refused is replaced; and neither goes
// to another server.
func TestGitHubApp(t *testing.T) {
	issued := 0
	forge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		issued++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":"ghs_s3cret%d","expires_at":%q}`, issued, time.Now().Add(time.Hour).Format(time.RFC3339))
	}))
	t.Cleanup(forge.Close)
	server, err := gitserver.New(t.TempDir(), gitserver.Options{Username: githubapp.User, Password: "ghs_s3cret2"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.CreateRepo("fleet"))
	sha, err := server.Commit("fleet", map[string]string{"a": "b"}, "first")
	require.NoError(t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	s := source{
		insecure: true, apps: &githubapp.Tokens{Now: time.Now, AllowInsecureHTTP: true},
		secrets: secrets{secretReader{"app": {
			"githubAppID": []byte("1"), "githubAppInstallationID": []byte("2"), "githubAppBaseURL": []byte(forge.URL),
			"githubAppPrivateKey": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		}}},
	}
	fleet := &fleetv1.Fleet{}
	fleet.Spec.Source = fleetv1.Source{URL: server.URL("fleet"), SecretRef: &meta.LocalObjectReference{Name: "app"}}

	_, err = s.Resolve(t.Context(), fleet)
	requireReason(t, err, "AuthenticationFailed")
	revision, err := s.Resolve(t.Context(), fleet)
	require.NoError(t, err, "a token that was refused is not used again")
	require.Equal(t, sha, revision.Commit)
	_, err = s.Fetch(t.Context(), fleet, revision)
	require.NoError(t, err)
	require.Equal(t, 2, issued)

	fleet.Spec.Source.URL = strings.Replace(server.URL("fleet"), "127.0.0.1", "localhost", 1)
	server.ResetRequests()
	_, err = s.Resolve(t.Context(), fleet)
	requireReason(t, err, "InvalidSecret")
	require.EqualError(t, err,
		"the Secret of secretRef is of a GitHub App, whose token is for https://127.0.0.1 and no other server; check the url and githubAppBaseURL")
	require.Empty(t, server.Requests())
}

func requireReason(t *testing.T, err error, reason string) {
	t.Helper()
	var failure *report.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, reason, failure.Reason)
	require.NotContains(t, failure.Message, "s3cret")
}

// TestProxyOfAFleet: the Secret of proxySecretRef is read, and what is wrong with it is said.
func TestProxyOfAFleet(t *testing.T) {
	proxy, err := gitserver.NewProxy("", "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	server, err := gitserver.New(t.TempDir(), gitserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.CreateRepo("fleet"))
	_, err = server.Commit("fleet", map[string]string{"a": "b"}, "first")
	require.NoError(t, err)
	s := source{secrets: secrets{secretReader{"proxy": {"address": []byte(proxy.URL())}, "bad": {}}}}
	fleet := &fleetv1.Fleet{}
	fleet.Spec.Source = fleetv1.Source{URL: server.URL("fleet"), ProxySecretRef: &meta.LocalObjectReference{Name: "proxy"}}
	_, err = s.Resolve(t.Context(), fleet)
	require.NoError(t, err)
	require.NotEmpty(t, proxy.Targets())
	for name, message := range map[string]string{"bad": "the Secret of proxySecretRef has no key address", "none": "Secret /none does not exist"} {
		fleet.Spec.Source.ProxySecretRef.Name = name
		_, err = s.Resolve(t.Context(), fleet)
		requireReason(t, err, "InvalidSecret")
		require.EqualError(t, err, message)
	}
}

// TestDeliveryReport_GF18_BuildsOfTwoRevisionsDoNotMix: base and head of a change, built at the same time again and again, are what
// they are one after the other.
func TestDeliveryReport_GF18_BuildsOfTwoRevisionsDoNotMix(t *testing.T) {
	server, err := gitserver.New(t.TempDir(), gitserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.CreateRepo("fleet"))
	validator, err := manifest.New()
	require.NoError(t, err)
	var trees []*git.Tree
	var want []string
	for _, version := range []string{"1.0.0", "2.0.0"} {
		sha, err := server.Commit("fleet", map[string]string{
			"base/kustomization.yaml": "resources: [package.yaml]\n",
			"base/package.yaml":       "apiVersion: fleetwright.dev/v1alpha1\nkind: Package\nmetadata: {name: tuning}\nspec: {image: ghcr.io/acme/tuning, version: " + version + "}\n",
			"us/kustomization.yaml":   "resources: [../base]\ncommonAnnotations: {version: \"" + version + "\"}\n",
		}, "next")
		require.NoError(t, err)
		tree, err := git.FetchAt(t.Context(), git.Source{URL: server.URL("fleet")}, "refs/heads/main", sha)
		require.NoError(t, err)
		trees = append(trees, tree)
		want = append(want, built(validator, tree))
		require.Contains(t, want[len(want)-1], version)
	}
	var wait sync.WaitGroup
	var mixed atomic.Int64
	for round := range 100 {
		wait.Go(func() {
			if built(validator, trees[round%2]) != want[round%2] {
				mixed.Add(1)
			}
		})
	}
	wait.Wait()
	require.Zero(t, mixed.Load())
}

func built(validator *manifest.Validator, tree *git.Tree) string {
	result := render.Overlay(validator, tree, "us", manifest.Options{})
	var out strings.Builder
	for _, o := range result.Objects {
		out.Write(o.JSON)
	}
	return out.String()
}
