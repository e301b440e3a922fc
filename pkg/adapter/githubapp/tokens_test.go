package githubapp_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/githubapp"
)

// forge issues tokens as GitHub does: for a proof that is signed by the App's key, in time, and not for longer than ten minutes.
type forge struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu     sync.Mutex
	now    time.Time
	issued int
	status int // to answer with instead
	header http.Header
}

func newForge(t *testing.T) *forge {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	f := &forge{key: key, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), header: http.Header{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *forge) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *forge) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, values := range f.header {
		w.Header()[name] = values
	}
	proof, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case f.status != 0:
		http.Error(w, "s3cret-in-body", f.status)
	case r.Method != http.MethodPost || r.URL.Path != "/api/v3/app/installations/77/access_tokens":
		http.NotFound(w, r)
	case !ok || f.refuses(proof):
		http.Error(w, "bad proof", http.StatusUnauthorized)
	default:
		f.issued++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":"ghs_s3cret%d","expires_at":%q}`, f.issued, f.now.Add(time.Hour).Format(time.RFC3339))
	}
}

func (f *forge) refuses(proof string) bool {
	parts := strings.Split(proof, ".")
	if len(parts) != 3 {
		return true
	}
	var header struct{ Alg, Typ string }
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	return err != nil || decode(parts[0], &header) != nil || decode(parts[1], &claims) != nil ||
		rsa.VerifyPKCS1v15(&f.key.PublicKey, crypto.SHA256, digest[:], signature) != nil || header.Alg != "RS256" || claims.Iss != "42" ||
		claims.Iat > f.now.Unix() || claims.Exp < f.now.Unix() || claims.Exp-claims.Iat > 600
}

func decode(part string, into any) error {
	data, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func (f *forge) secret() map[string][]byte {
	return map[string][]byte{
		"githubAppID": []byte("42\n"), "githubAppInstallationID": []byte("77"), "githubAppBaseURL": []byte(f.URL + "/api/v3/"),
		"githubAppPrivateKey": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(f.key)}),
	}
}

func (f *forge) app(t *testing.T) githubapp.App {
	app, err := githubapp.FromSecret(f.secret())
	require.NoError(t, err)
	return app
}

func TestTokenIsKeptAndRenewedBeforeItsEnd(t *testing.T) {
	f := newForge(t)
	tokens, app := &githubapp.Tokens{Now: f.clock, AllowInsecureHTTP: true}, f.app(t)
	token := func() string {
		token, err := tokens.Token(t.Context(), app, http.DefaultTransport)
		require.NoError(t, err)
		return token
	}
	require.Equal(t, "ghs_s3cret1", token())
	f.advance(54 * time.Minute)
	require.Equal(t, "ghs_s3cret1", token())
	f.advance(2 * time.Minute) // four minutes before its end
	require.Equal(t, "ghs_s3cret2", token())
	tokens.Forget(app)
	require.Equal(t, "ghs_s3cret3", token())
	require.Equal(t, 3, f.issued)
}

func TestOneRequestForManyWhoAsk(t *testing.T) {
	f := newForge(t)
	tokens, app := &githubapp.Tokens{Now: f.clock, AllowInsecureHTTP: true}, f.app(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { _, _ = tokens.Token(t.Context(), app, http.DefaultTransport) })
	}
	wait.Wait()
	require.Equal(t, 1, f.issued)
}

func TestAnotherKeyOfTheSameAppHasAnotherToken(t *testing.T) {
	f := newForge(t)
	tokens := &githubapp.Tokens{Now: f.clock, AllowInsecureHTTP: true}
	_, err := tokens.Token(t.Context(), f.app(t), http.DefaultTransport)
	require.NoError(t, err)
	stranger := newForge(t)
	secret := f.secret()
	secret["githubAppPrivateKey"] = stranger.secret()["githubAppPrivateKey"]
	app, err := githubapp.FromSecret(secret)
	require.NoError(t, err)
	_, err = tokens.Token(t.Context(), app, http.DefaultTransport)
	requireFailure(t, err, githubapp.ReasonAuthenticationFailed, strings.TrimPrefix(f.URL, "http://")+
		" does not accept the key of GitHub App 42; check githubAppID and githubAppPrivateKey, and the clock of this machine")
}

func requireFailure(t *testing.T, err error, reason githubapp.Reason, message string) {
	t.Helper()
	var failure *githubapp.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, message, failure.Error())
	require.Equal(t, reason, failure.Reason)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestAnswersThatAreNoToken(t *testing.T) {
	f := newForge(t)
	host := strings.TrimPrefix(f.URL, "http://")
	installation := "installation 77 of GitHub App 42 at 127.0.0.1"
	cases := map[string]struct {
		status  int
		header  http.Header
		reason  githubapp.Reason
		message string
	}{
		"no installation": {404, nil, githubapp.ReasonAuthenticationFailed,
			"GitHub App 42 has no installation 77 at " + host + "; check githubAppInstallationID"},
		"suspended":   {403, nil, githubapp.ReasonAuthenticationFailed, host + " refuses a token of " + installation + "; is the installation suspended?"},
		"rate limit":  {403, http.Header{"Retry-After": {"60"}}, githubapp.ReasonUnreachable, host + " limits requests for tokens of " + installation + "; it is tried again"},
		"maintenance": {503, nil, githubapp.ReasonUnreachable, host + " answered with HTTP status 503 to the request for a token of " + installation},
		"redirect": {302, http.Header{"Location": {"https://elsewhere.example.com/"}}, githubapp.ReasonUnexpectedAnswer,
			host + " answered with HTTP status 302 to the request for a token of " + installation + "; check githubAppBaseURL"},
		"not a token": {201, nil, githubapp.ReasonUnexpectedAnswer, host + " did not answer with a token of " + installation + "; check githubAppBaseURL"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f.mu.Lock()
			f.status, f.header = tc.status, tc.header
			f.mu.Unlock()
			tokens := &githubapp.Tokens{Now: f.clock, AllowInsecureHTTP: true}
			_, err := tokens.Token(t.Context(), f.app(t), http.DefaultTransport)
			requireFailure(t, err, tc.reason, tc.message)
		})
	}
	f.Close()
	tokens := &githubapp.Tokens{Now: f.clock, AllowInsecureHTTP: true}
	_, err := tokens.Token(t.Context(), f.app(t), http.DefaultTransport)
	requireFailure(t, err, githubapp.ReasonUnreachable, "cannot reach "+host+" for a token of "+installation)
	_, err = (&githubapp.Tokens{Now: f.clock}).Token(t.Context(), f.app(t), http.DefaultTransport)
	requireFailure(t, err, githubapp.ReasonInsecureURL, "the proof of the GitHub App would go to "+host+" over http without TLS; use https")
}

func TestFromSecret(t *testing.T) {
	f := newForge(t)
	edits := map[string]struct {
		key, value, problem string
	}{
		"no id":             {"githubAppID", "", "has no key githubAppID, which a GitHub App needs"},
		"no installation":   {"githubAppInstallationID", "", "has no key githubAppInstallationID, which a GitHub App needs"},
		"no key":            {"githubAppPrivateKey", "", "has no key githubAppPrivateKey, which a GitHub App needs"},
		"id in words":       {"githubAppID", "s3cret", "has a githubAppID that is not a number"},
		"key is not PEM":    {"githubAppPrivateKey", "s3cret", "has a githubAppPrivateKey that is not PEM"},
		"key is not RSA":    {"githubAppPrivateKey", "-----BEGIN PRIVATE KEY-----\nczNjcmV0\n-----END PRIVATE KEY-----\n", "has a githubAppPrivateKey that is not an RSA private key"},
		"base URL is words": {"githubAppBaseURL", "s3cret", "has a githubAppBaseURL that is not a URL (allowed: https://host/api/v3)"},
	}
	for name, tc := range edits {
		t.Run(name, func(t *testing.T) {
			data := f.secret()
			data[tc.key] = []byte(tc.value)
			require.True(t, githubapp.Is(data))
			_, err := githubapp.FromSecret(data)
			requireFailure(t, err, githubapp.ReasonInvalidSecret, "the Secret "+tc.problem)
		})
	}
	require.False(t, githubapp.Is(map[string][]byte{"username": nil}))
	hosts := map[string]string{
		"": "github.com", "https://api.github.com": "github.com", "https://ghe.example.com/api/v3": "ghe.example.com",
		"https://api.acme.ghe.com": "acme.ghe.com",
	}
	for base, host := range hosts {
		data := f.secret()
		data["githubAppBaseURL"] = []byte(base)
		app, err := githubapp.FromSecret(data)
		require.NoError(t, err)
		require.Equal(t, host, app.Host())
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", app, app, app), f.key.D.String())
	}
}
