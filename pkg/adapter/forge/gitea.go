package forge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"
)

// GiteaConfig says which repository of which Gitea or Forgejo server, and as whom.
type GiteaConfig struct {
	// URL of the server, with the path it is served under, for example https://git.example.com. Required.
	URL string
	// Owner and Repository name the repository. Required; [ParseRepositoryURL] reads them from a clone URL.
	Owner, Repository string
	// Token is an access token with scope write:repository: key `token` of the Secret. Required.
	Token string
	// CABundle holds PEM certificates that are trusted beside the system's. Optional.
	CABundle []byte
	// Now is the clock for dates in Retry-After. Default time.Now.
	Now func() time.Time
}

// Gitea keeps statuses through the API of Gitea and Forgejo: every post adds a row, and the newest row of a context counts.
type Gitea struct {
	cfg    GiteaConfig
	http   *http.Client // one for all calls: connections are reused and none is left behind
	redact redactor
}

// giteaPage is the number of rows asked for at a time (the server may have a lower limit), giteaPages how many pages are read.
const (
	giteaPage  = 50
	giteaPages = 100
)

// NewGitea prepares a provider and calls nobody: the server's version is not probed. It fails if something required is missing.
func NewGitea(cfg GiteaConfig) (*Gitea, error) {
	cfg.URL, cfg.Token = strings.TrimSuffix(cfg.URL, "/"), strings.TrimSpace(cfg.Token)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	for _, field := range []struct{ name, value string }{
		{"server URL", cfg.URL}, {"owner", cfg.Owner}, {"repository", cfg.Repository}, {"token", cfg.Token},
	} {
		if field.value == "" {
			return nil, permanent("prepare gitea client", "no "+field.name)
		}
	}
	transport, err := trust(cfg.CABundle)
	if err != nil {
		return nil, err
	}
	return &Gitea{cfg: cfg, http: &http.Client{Transport: transport, CheckRedirect: sameHost}, redact: redactor{cfg.Token}}, nil
}

// trust is the default transport, which honours HTTPS_PROXY, with the bundle's certificates beside the system's.
func trust(bundle []byte) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if len(bundle) == 0 {
		return transport, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, permanent("read CA bundle", "no PEM certificate found in key ca.crt")
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// sameHost keeps the token on the server it was made for.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || req.URL.Host != via[0].URL.Host {
		return fmt.Errorf("server redirects to %s: set the final address", req.URL.Host)
	}
	return nil
}

// Capabilities of Gitea: a text column without a practical limit; descriptions keep the length that fits every forge.
func (g *Gitea) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, LiveText: true}
}

// client binds the SDK to one call's context. The SDK's value is light; connections belong to the shared HTTP client.
func (g *Gitea) client(ctx context.Context) (*gitea.Client, error) {
	return gitea.NewClient(g.cfg.URL, gitea.SetGiteaVersion(""), gitea.SetToken(g.cfg.Token),
		gitea.SetHTTPClient(g.http), gitea.SetContext(ctx), gitea.SetUserAgent("fleetwright"))
}

// SetStatus adds a row. The server stores states that it does not know, so the answer is compared with what was sent.
func (g *Gitea) SetStatus(ctx context.Context, s Status) error {
	const op = "post status to gitea"
	s = g.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	client, err := g.client(ctx)
	if err != nil {
		return g.redact.fail(Permanent, op, err)
	}
	row, resp, err := client.CreateStatus(g.cfg.Owner, g.cfg.Repository, s.Commit, gitea.CreateStatusOption{
		State: gitea.StatusState(s.State), TargetURL: s.TargetURL, Description: s.Description, Context: s.Context,
	})
	switch {
	case err != nil && resp != nil && resp.StatusCode == http.StatusInternalServerError:
		return g.explain500(client, s.Commit, g.fail(op, resp, err))
	case err != nil:
		return g.fail(op, resp, err)
	case string(row.State) != string(s.State):
		return permanent(op, fmt.Sprintf("server stored state %q instead of %q", row.State, s.State))
	}
	return nil
}

// explain500 asks for the commit, because the server answers 500 to a status on a commit that it does not have.
func (g *Gitea) explain500(client *gitea.Client, commit string, perr *ProviderError) error {
	_, resp, err := client.GetSingleCommit(g.cfg.Owner, g.cfg.Repository, commit)
	if err != nil && resp != nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusUnprocessableEntity) {
		perr.Class = UnknownCommit
		perr.Message = fmt.Sprintf("%s/%s has no commit %s", g.cfg.Owner, g.cfg.Repository, commit)
	}
	return perr
}

// fail classifies a failed call; resp is nil if there was no answer.
func (g *Gitea) fail(op string, resp *gitea.Response, err error) *ProviderError {
	if resp == nil || resp.Response == nil || resp.StatusCode < http.StatusBadRequest {
		return g.redact.fail(Retry, op, err)
	}
	perr := g.redact.httpFailure(op, resp.Response, g.cfg.Now())
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		perr.Message = "the server does not accept the token"
	case http.StatusForbidden:
		perr.Message = "the token may not do this (needed: scope write:repository and write access to the repository)"
	case http.StatusNotFound:
		perr.Message = fmt.Sprintf("repository %s/%s not found, or the token may not see it", g.cfg.Owner, g.cfg.Repository)
	default:
		perr.Message += ": " + g.redact.text(err.Error())
	}
	return perr
}

// Statuses reads all rows of the commit and keeps the one with the highest id of each context: the order of the list has a
// resolution of a second and its sort parameter cannot be relied on.
func (g *Gitea) Statuses(ctx context.Context, commit string) ([]Status, error) {
	const op = "read statuses from gitea"
	client, err := g.client(ctx)
	if err != nil {
		return nil, g.redact.fail(Permanent, op, err)
	}
	top := map[string]*gitea.Status{}
	for page := 1; page <= giteaPages; page++ {
		rows, resp, err := client.ListStatuses(g.cfg.Owner, g.cfg.Repository, commit,
			gitea.ListStatusesOption{ListOptions: gitea.ListOptions{Page: page, PageSize: giteaPage}})
		if err != nil {
			return nil, g.fail(op, resp, err)
		}
		keepNewest(top, rows)
		if len(rows) == 0 || resp.NextPage == 0 && len(rows) < giteaPage {
			break
		}
	}
	return giteaStatuses(top, commit), nil
}

func keepNewest(top map[string]*gitea.Status, rows []*gitea.Status) {
	for _, row := range rows {
		if row != nil && (top[row.Context] == nil || row.ID > top[row.Context].ID) {
			top[row.Context] = row
		}
	}
}

func giteaStatuses(top map[string]*gitea.Status, commit string) []Status {
	byContext := make(map[string]Status, len(top))
	for name, row := range top {
		byContext[name] = Status{
			Commit: commit, Context: name, State: State(row.State), Description: row.Description, TargetURL: row.TargetURL,
		}
	}
	return sortedStatuses(byContext)
}

// ParseRepositoryURL reads a clone URL: https://host/owner/name.git, ssh://git@host/owner/name or git@host:owner/name. The server
// is the web address: for http and https with port and leading path, otherwise https and the host. Credentials are left out.
func ParseRepositoryURL(clone string) (server, owner, name string, err error) {
	u, perr := url.Parse(scpToURL(strings.TrimSpace(clone)))
	if perr != nil {
		return "", "", "", errors.New("read repository URL: not a URL (allowed: https://host/owner/name.git, ssh://git@host/owner/name.git)")
	}
	parts := strings.Split(strings.Trim(strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), ".git"), "/"), "/")
	if u.Host == "" || len(parts) < 2 {
		return "", "", "", fmt.Errorf("read repository URL: %s%s names no owner and repository (allowed: https://host/owner/name.git)", u.Host, u.Path)
	}
	owner, name = parts[len(parts)-2], parts[len(parts)-1]
	if u.Scheme != "http" && u.Scheme != "https" {
		return "https://" + u.Hostname(), owner, name, nil
	}
	server = strings.TrimSuffix(u.Scheme+"://"+u.Host+"/"+strings.Join(parts[:len(parts)-2], "/"), "/")
	return server, owner, name, nil
}

// scpToURL turns git@host:owner/name into a URL.
func scpToURL(clone string) string {
	if strings.Contains(clone, "://") {
		return clone
	}
	host, path, found := strings.Cut(clone, ":")
	if !found || strings.Contains(host, "/") {
		return clone
	}
	return "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
}
