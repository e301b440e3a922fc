package forge

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says which repository of which forge, and as whom. [Locate] fills the first three fields from a clone URL.
type Config struct {
	// URL is the base of the forge's API as [Locate] gives it: for Gitea the server, for GitHub https://api.github.com. Required.
	URL string
	// Owner holds the repository: a user, an organisation, a group with its parents, a workspace, or a project. Required.
	Owner string
	// Repository is the short name. Required.
	Repository string
	// Web is the address of the repository as people see it, for links to commits. Required where the forge demands links.
	Web string
	// Credential opens the API. Required.
	Credential Credential
	// CABundle holds PEM certificates that are trusted beside the system's. Optional.
	CABundle []byte
	// Proxy for https. Default: that of the environment.
	Proxy *url.URL
	// Host is the budget that all repositories of one server share. Default: one of its own, without pacing.
	Host *Host
	// Now is the clock for dates of limits. Default time.Now.
	Now func() time.Time
	// Pause waits between tries within one call, and returns early with the context. Default: a timer.
	Pause func(ctx context.Context, d time.Duration)
}

// Credential is what a forge asks for: a token, a name with a password, or tokens that are minted as they are needed.
type Credential struct {
	// Token is an access token: key token of the Secret.
	Token string
	// Username and Password are for servers that want HTTP basic authentication: the keys of that name.
	Username, Password string
	// Mint returns the token of the moment, for example of an installation of a GitHub App. It may call the forge.
	Mint func(ctx context.Context) (string, error)
	// Drop says that the forge refused a minted token: it may have been revoked. Optional.
	Drop func()
	// AppID is the GitHub App behind Mint: what it writes is our own.
	AppID string
}

// empty says that there is nothing to show the forge.
func (c Credential) empty() bool {
	return c.Token == "" && c.Mint == nil && (c.Username == "" || c.Password == "")
}

// identity tells apart who has a budget of his own at the forge. It cannot be turned back into a secret.
func (c Credential) identity() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{c.Token, c.Username, c.Password, c.AppID}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// token is the token of the moment; empty for basic authentication.
func (c Credential) token(ctx context.Context) (string, error) {
	if c.Mint == nil {
		return c.Token, nil
	}
	return c.Mint(ctx)
}

// check fills in defaults and says in one sentence what is missing. Kind is the forge's name.
func (cfg Config) check(kind string) (Config, error) {
	cfg.URL = strings.TrimSuffix(cfg.URL, "/")
	cfg.Credential.Token = strings.TrimSpace(cfg.Credential.Token)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Pause == nil {
		cfg.Pause = pause
	}
	if cfg.Host == nil {
		cfg.Host = NewHost(HostOptions{Now: cfg.Now})
	}
	for _, field := range []struct{ name, value string }{
		{"server URL", cfg.URL}, {"owner", cfg.Owner}, {"repository", cfg.Repository},
	} {
		if field.value == "" {
			return cfg, permanent("prepare "+kind+" client", "no "+field.name)
		}
	}
	if cfg.Credential.empty() {
		return cfg, permanent("prepare "+kind+" client", "no token")
	}
	return cfg, nil
}

// Transport is the default one, which honours HTTPS_PROXY, with the configuration's certificates and proxy.
func (cfg Config) Transport() (*http.Transport, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.Proxy != nil {
		base.Proxy = http.ProxyURL(cfg.Proxy)
	}
	if len(cfg.CABundle) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(cfg.CABundle) {
			return nil, permanent("read CA bundle", "no PEM certificate found in key ca.crt")
		}
		base.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return base, nil
}

// transport asks the budget before each request.
func (cfg Config) transport(kind string) (http.RoundTripper, error) {
	base, err := cfg.Transport()
	if err != nil {
		return nil, err
	}
	return &budgeted{next: base, host: cfg.Host, kind: kind, who: cfg.Credential.identity()}, nil
}

// callTimeout bounds one call, whoever forgot to: a server that accepts and stays silent must hold nobody up.
const callTimeout = 30 * time.Second

// sameHost keeps the credential on the server it was made for. A write that would go on as a read, as browsers do after 301 and 302, would write nothing
// and look like a success.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.Method != via[0].Method {
		return fmt.Errorf("server redirects to %s: set the final address", req.URL.Host+req.URL.Path)
	}
	if len(via) > 3 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("server redirects to %s: set the final address", req.URL.Host)
	}
	return nil
}
