package forges

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/githubapp"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Options of [New].
type Options struct {
	// Secrets reads one Secret. Required for [Forges.Open]; its errors are shown to people.
	Secrets func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// AllowInsecureHTTP lets credentials go over http without TLS.
	AllowInsecureHTTP bool
	// AllowLocal lets git notes be written to a directory of this machine. For the demo only.
	AllowLocal bool
	// Meter counts requests. Optional.
	Meter forge.Meter
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Target is a repository at a forge, and the Secret that opens it.
type Target struct {
	// Provider is the kind of forge; Server is spec.checks.url; Repository is spec.source.url.
	Provider           fleetv1.ForgeProvider
	Server, Repository string
	// SecretNamespace and SecretName name the Secret; an empty name means none.
	SecretNamespace, SecretName string
}

// TargetOf is where a Fleet with spec.checks reports to.
func TargetOf(fleet *fleetv1.Fleet) Target {
	checks := fleet.Spec.Checks
	to := Target{
		Provider: checks.Provider, Server: checks.URL, Repository: fleet.Spec.Source.URL, SecretNamespace: fleet.Namespace,
	}
	ref := checks.SecretRef
	if ref == nil && checks.Provider == fleetv1.ProviderGitNotes {
		ref = fleet.Spec.Source.SecretRef
	}
	if ref != nil {
		to.SecretName = ref.Name
	}
	return to
}

// Forges makes providers, one for each target, and keeps one budget for each server. It is safe for concurrent use.
type Forges struct {
	opts Options

	mu    sync.Mutex
	hosts map[string]*forge.Host
	open  map[Target]opened

	tokens *githubapp.Tokens
}

type opened struct {
	provider forge.Provider
	data     map[string][]byte
	readAt   time.Time
}

// secretAge is how long a credential is used before its Secret is read again.
const secretAge = time.Minute

// New calls nobody.
func New(o Options) *Forges {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Forges{
		opts: o, hosts: map[string]*forge.Host{}, open: map[Target]opened{},
		tokens: &githubapp.Tokens{Now: o.Now, AllowInsecureHTTP: o.AllowInsecureHTTP},
	}
}

// Open is the provider of a Fleet with spec.checks, with the credential of now. The same value is returned until the credential
// changes. Whether its forge has pull requests and comments, a type assertion tells ([forge.PullRequests], [forge.Comments]).
func (f *Forges) Open(ctx context.Context, fleet *fleetv1.Fleet) (forge.Provider, error) {
	return f.OpenTarget(ctx, TargetOf(fleet))
}

// OpenTarget is Open for a target.
func (f *Forges) OpenTarget(ctx context.Context, to Target) (forge.Provider, error) {
	if had, ok := f.fresh(to); ok {
		return had, nil
	}
	var data map[string][]byte
	if to.SecretName != "" {
		var err error
		if data, err = f.opts.Secrets(ctx, to.SecretNamespace, to.SecretName); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	had, ok := f.open[to]
	if !ok || !reflect.DeepEqual(had.data, data) {
		provider, err := f.make(to, data)
		if err != nil {
			return nil, errors.New(report.Redact(err.Error()))
		}
		had = opened{provider: provider, data: data}
	}
	had.readAt = f.opts.Now()
	f.open[to] = had
	return had.provider, nil
}

// fresh is the provider whose credential was read not long ago.
func (f *Forges) fresh(to Target) (forge.Provider, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, ok := f.open[to]
	return had.provider, ok && f.opts.Now().Sub(had.readAt) < secretAge
}

// Provider makes a provider from the content of a Secret, which is nil where there is none.
func (f *Forges) Provider(to Target, data map[string][]byte) (forge.Provider, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.make(to, data)
}

// make chooses the provider; the caller holds the lock.
func (f *Forges) make(to Target, data map[string][]byte) (forge.Provider, error) {
	if to.Provider == fleetv1.ProviderGitNotes {
		return f.notes(to.Repository, data)
	}
	kind, ok := kindOf(to)
	if !ok {
		return nil, fmt.Errorf("provider %s is not supported (allowed: %s)", to.Provider, report.Providers())
	}
	cfg, err := forge.Locate(kind, to.Repository, to.Server)
	if err != nil {
		return nil, err
	}
	if err := f.checkServerURL(cfg.URL); err != nil {
		return nil, err
	}
	cfg.CABundle, cfg.Now, cfg.Host = data["ca.crt"], f.opts.Now, f.host(kind, cfg.URL)
	if cfg.Credential, err = f.credential(data, kind, cfg); err != nil {
		return nil, err
	}
	return forge.New(kind, cfg)
}

// kindOf tells the two Bitbuckets apart: bitbucket.org is the Cloud, every other host runs Data Center.
func kindOf(to Target) (forge.Kind, bool) {
	switch to.Provider {
	case fleetv1.ProviderGitHub:
		return forge.KindGitHub, true
	case fleetv1.ProviderGitea:
		return forge.KindGitea, true
	case fleetv1.ProviderGitLab:
		return forge.KindGitLab, true
	case fleetv1.ProviderAzureDevOps:
		return forge.KindAzureDevOps, true
	case fleetv1.ProviderBitbucket:
		host := forge.HostOf(to.Repository)
		if host == "bitbucket.org" || strings.HasSuffix(host, ".bitbucket.org") {
			return forge.KindBitbucketCloud, true
		}
		return forge.KindBitbucketDataCenter, true
	case fleetv1.ProviderGitNotes:
	}
	return "", false
}

// host is the budget of a server; the caller holds the lock.
func (f *Forges) host(kind forge.Kind, api string) *forge.Host {
	name := api
	if u, err := url.Parse(api); err == nil {
		name = strings.ToLower(u.Host)
	}
	if f.hosts[name] == nil {
		pace := forge.DefaultPace
		if kind == forge.KindGitHub {
			pace = forge.GitHubPace
		}
		f.hosts[name] = forge.NewHost(forge.HostOptions{Name: name, Pace: pace, Meter: f.opts.Meter, Now: f.opts.Now})
	}
	return f.hosts[name]
}

// credential reads a Secret: `token`, or `username` and `password`, or the keys of a GitHub App.
func (f *Forges) credential(data map[string][]byte, kind forge.Kind, cfg forge.Config) (forge.Credential, error) {
	if githubapp.Is(data) {
		return f.app(data, kind, cfg)
	}
	text := func(key string) string { return strings.TrimSpace(string(data[key])) }
	c := forge.Credential{Token: text("token"), Username: text("username"), Password: text("password")}
	if c.Token == "" && (c.Username == "" || c.Password == "") {
		return c, errors.New("the Secret of spec.checks.secretRef holds no credential (allowed keys: token; username and password; those of a GitHub App)")
	}
	return c, nil
}

// app mints installation tokens. They open the server that made them, and go to no other.
func (f *Forges) app(data map[string][]byte, kind forge.Kind, cfg forge.Config) (forge.Credential, error) {
	if kind != forge.KindGitHub {
		return forge.Credential{}, errors.New("the Secret of spec.checks.secretRef is that of a GitHub App, and the provider is not github")
	}
	app, err := githubapp.FromSecret(data)
	if err != nil {
		return forge.Credential{}, err
	}
	if !strings.EqualFold(app.API(), cfg.URL) {
		return forge.Credential{}, fmt.Errorf("the GitHub App belongs to %s, and the repository to %s: set %s", app.API(), cfg.URL, githubapp.KeyBaseURL)
	}
	transport, err := cfg.Transport()
	if err != nil {
		return forge.Credential{}, err
	}
	return forge.Credential{
		Mint:  func(ctx context.Context) (string, error) { return f.tokens.Token(ctx, app, transport) },
		Drop:  func() { f.tokens.Forget(app) },
		AppID: strings.TrimSpace(string(data[githubapp.KeyID])),
	}, nil
}
