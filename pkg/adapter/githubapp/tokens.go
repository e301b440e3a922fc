package githubapp

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// renewBefore is how long before its end a token is replaced: longer than one use of it takes.
	renewBefore = 5 * time.Minute
	// clockSkew is how far the server's clock may be behind ours.
	clockSkew = time.Minute
	// proofLife is how long the proof of identity is valid. GitHub takes ten minutes at most.
	proofLife = 5 * time.Minute
	// requestTimeout bounds one request for a token.
	requestTimeout = 30 * time.Second
	maxAnswer      = 1 << 20
)

// Tokens hands out installation tokens and keeps them until shortly before their end. It is safe for concurrent use.
type Tokens struct {
	// Now is the clock. Required.
	Now func() time.Time
	// AllowInsecureHTTP lets a proof and a token go over http without TLS.
	AllowInsecureHTTP bool

	mu   sync.Mutex
	held map[string]*held
}

// held is the token of one installation. Its lock is taken while a new one is asked for, so that one request is enough.
type held struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// Token returns a token of the installation that is valid for some minutes more. A new one is asked for through transport, which
// knows the proxy and the authorities to trust; redirects are not followed. The error is an *Error.
func (t *Tokens) Token(ctx context.Context, app App, transport http.RoundTripper) (string, error) {
	if app.key == nil {
		return "", invalid("was not read")
	}
	if app.api.Scheme != "https" && !t.AllowInsecureHTTP {
		return "", failure(ReasonInsecureURL, "the proof of the GitHub App would go to %s over http without TLS; use https", app.api.Host)
	}
	h := t.of(app)
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Now().Before(h.until.Add(-renewBefore)) {
		return h.token, nil
	}
	token, until, err := t.request(ctx, app, transport)
	if err != nil {
		return "", err
	}
	h.token, h.until = token, until
	return token, nil
}

// Forget drops a token that a server refused: it may have been revoked.
func (t *Tokens) Forget(app App) {
	h := t.of(app)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token, h.until = "", time.Time{}
}

// of also drops what has ended long ago, so that keys that were replaced do not stay for ever.
func (t *Tokens) of(app App) *held {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		t.held = map[string]*held{}
	}
	key := app.cacheKey()
	if t.held[key] == nil {
		t.sweep()
		t.held[key] = &held{}
	}
	return t.held[key]
}

func (t *Tokens) sweep() {
	for key, h := range t.held {
		if h.mu.TryLock() {
			if !h.until.IsZero() && h.until.Before(t.Now()) {
				delete(t.held, key)
			}
			h.mu.Unlock()
		}
	}
}

func (t *Tokens) request(ctx context.Context, app App, transport http.RoundTripper) (string, time.Time, error) {
	proof, err := app.proof(t.Now())
	if err != nil {
		return "", time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	address := fmt.Sprintf("%s/app/installations/%d/access_tokens", app.api, app.installation)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return "", time.Time{}, failure(ReasonInvalidSecret, "the Secret has a %s that is not a URL", KeyBaseURL)
	}
	req.Header.Set("Authorization", "Bearer "+proof)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return "", time.Time{}, failure(ReasonUnreachable, "cannot reach %s for a token of %s", app.api.Host, app).because(err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end or refused
	return app.read(res)
}

// proof is a JSON Web Token, signed with RS256, that says who we are.
func (a App) proof(now time.Time) (string, error) {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"iss":"%d"}`, now.Add(-clockSkew).Unix(), now.Add(proofLife).Unix(), a.id)
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode([]byte(claims))
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, digest[:])
	if err != nil { // a key that is too short, say
		return "", invalid("has a %s that cannot sign", KeyPrivateKey)
	}
	return signed + "." + encode(signature), nil
}

// read takes the token out of an answer. What else the server says is not quoted.
func (a App) read(res *http.Response) (string, time.Time, error) {
	if res.StatusCode != http.StatusCreated {
		return "", time.Time{}, a.refused(res)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	var answer struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(body)).Decode(&answer)
	}
	if err != nil || answer.Token == "" || strings.ContainsAny(answer.Token, "\r\n ") || answer.ExpiresAt.IsZero() {
		return "", time.Time{}, failure(ReasonUnexpectedAnswer, "%s did not answer with a token of %s; check %s", a.api.Host, a, KeyBaseURL)
	}
	return answer.Token, answer.ExpiresAt, nil
}

func (a App) refused(res *http.Response) *Error {
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return failure(ReasonAuthenticationFailed,
			"%s does not accept the key of GitHub App %d; check %s and %s, and the clock of this machine", a.api.Host, a.id, KeyID, KeyPrivateKey)
	case code == http.StatusNotFound:
		return failure(ReasonAuthenticationFailed, "GitHub App %d has no installation %d at %s; check %s", a.id, a.installation, a.api.Host,
			KeyInstallationID)
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && res.Header.Get("Retry-After") != "",
		res.Header.Get("X-Ratelimit-Remaining") == "0":
		return failure(ReasonUnreachable, "%s limits requests for tokens of %s; it is tried again", a.api.Host, a)
	case code == http.StatusForbidden:
		return failure(ReasonAuthenticationFailed, "%s refuses a token of %s; is the installation suspended?", a.api.Host, a)
	case code >= 500:
		return failure(ReasonUnreachable, "%s answered with HTTP status %d to the request for a token of %s", a.api.Host, code, a)
	default:
		return failure(ReasonUnexpectedAnswer, "%s answered with HTTP status %d to the request for a token of %s; check %s", a.api.Host, code, a,
			KeyBaseURL)
	}
}
