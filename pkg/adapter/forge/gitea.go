package forge

import (
	"context"
	"fmt"
	"net/http"

	"code.gitea.io/sdk/gitea"
)

// Gitea keeps statuses through the API of Gitea and Forgejo: every post adds a row, and the newest row of a context counts.
type Gitea struct {
	cfg    Config
	http   *http.Client // one for all calls: connections are reused and none is left behind
	redact redactor
}

// giteaPage is the number of rows asked for at a time (the server may have a lower limit), giteaPages how many pages are read.
const (
	giteaPage  = 50
	giteaPages = 100
)

// NewGitea prepares a provider and calls nobody: the server's version is not probed. Config.URL is the server, with the path it
// is served under. It fails if something required is missing.
func NewGitea(cfg Config) (*Gitea, error) {
	cfg, err := cfg.check("gitea")
	if err != nil {
		return nil, err
	}
	transport, err := cfg.transport("gitea")
	if err != nil {
		return nil, err
	}
	hide := redactor{cfg.Credential.Token, cfg.Credential.Password}
	return &Gitea{cfg: cfg, http: &http.Client{Transport: transport, CheckRedirect: sameHost, Timeout: callTimeout}, redact: hide}, nil
}

// Capabilities of Gitea: a text column without a practical limit; descriptions keep the length that fits every forge.
func (g *Gitea) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, LiveText: true}
}

// client binds the SDK to one call's context. The SDK's value is light; connections belong to the shared HTTP client.
// Op is for metrics.
func (g *Gitea) client(ctx context.Context, op string) (*gitea.Client, error) {
	token, err := g.cfg.Credential.token(ctx)
	if err != nil {
		return nil, err
	}
	sign := gitea.SetToken(token)
	if token == "" {
		sign = gitea.SetBasicAuth(g.cfg.Credential.Username, g.cfg.Credential.Password)
	}
	return gitea.NewClient(g.cfg.URL, gitea.SetGiteaVersion(""), sign,
		gitea.SetHTTPClient(g.http), gitea.SetContext(withOp(ctx, op)), gitea.SetUserAgent("fleetwright"))
}

// SetStatus adds a row. The server stores states that it does not know, so the answer is compared with what was sent.
func (g *Gitea) SetStatus(ctx context.Context, s Status) error {
	const op = "post status to gitea"
	s = g.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	client, err := g.client(ctx, "status_set")
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
	client, err := g.client(ctx, "status_list")
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
		if !more(resp, len(rows)) {
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
			Commit: commit, Context: name, State: fromGitea(row.State), Description: row.Description,
			TargetURL: row.TargetURL, At: row.Created,
		}
	}
	return sortedStatuses(byContext)
}

// fromGitea: warnings and skipped checks of others are no success.
func fromGitea(state gitea.StatusState) State {
	switch s := State(state); s {
	case Pending, Success, Failure, Error:
		return s
	}
	return Error
}
