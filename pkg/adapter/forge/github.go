package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// GitHub keeps statuses, pull requests and comments through the REST API of github.com and of GitHub Enterprise. Every status is
// a row that is added, at most 1000 for each commit and context, so callers compare before they post.
type GitHub struct{ api *client }

// githubContextLimit is the length of a context that GitHub is known to take.
const githubContextLimit = 255

// pageSize and pageLimit bound how much of a list is read: a thousand entries.
const (
	pageSize  = 100
	pageLimit = 10
)

// NewGitHub prepares a provider and calls nobody. Config.URL is the API: https://api.github.com or https://HOST/api/v3.
func NewGitHub(cfg Config) (*GitHub, error) {
	api, err := newClient("github", cfg)
	if err != nil {
		return nil, err
	}
	api.explain = api.explainGitHub
	return &GitHub{api}, nil
}

// explainGitHub knows what GitHub means by its codes.
func (c *client) explainGitHub(perr *ProviderError, _ *http.Response) {
	said := strings.ToLower(perr.answer)
	switch {
	case perr.Class == Wait:
	case perr.code == http.StatusForbidden && strings.Contains(said, "rate limit"):
		perr.Class, perr.RetryAfter = Wait, c.cfg.Host.refused(c.cfg.Credential.identity(), 0)
	case perr.code == http.StatusUnauthorized:
		perr.Message = "the server does not accept the token"
	case perr.code == http.StatusForbidden:
		perr.Message = "the token may not do this (needed: statuses:write, for plans also pull_requests:write): " + perr.answer
	case perr.code == http.StatusNotFound:
		perr.Message = fmt.Sprintf("repository %s/%s not found, or the token may not do this (needed: statuses:write)", c.cfg.Owner, c.cfg.Repository)
	case perr.code == http.StatusUnprocessableEntity && strings.Contains(said, "no commit found"):
		perr.Class = UnknownCommit
	}
}

// Capabilities of GitHub: 140 characters of text, contexts without distinction of case.
func (g *GitHub) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, ContextLimit: githubContextLimit, LiveText: true}
}

func (g *GitHub) repo(rest ...string) string {
	return "/repos" + escaped(g.api.cfg.Owner, g.api.cfg.Repository) + strings.Join(rest, "")
}

// githubStatus is a row as it is sent and read.
type githubStatus struct {
	State       string    `json:"state"`
	Context     string    `json:"context"`
	Description string    `json:"description"`
	TargetURL   string    `json:"target_url,omitempty"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
}

// SetStatus adds a row.
func (g *GitHub) SetStatus(ctx context.Context, s Status) error {
	s = g.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	_, err := g.api.do(ctx, request{
		op: "post status", name: "status_set", method: http.MethodPost, path: g.repo("/statuses/", s.Commit),
		in: githubStatus{State: string(s.State), Context: s.Context, Description: s.Description, TargetURL: s.TargetURL},
	})
	return err
}

// Statuses reads the combined status: the newest row of each context.
func (g *GitHub) Statuses(ctx context.Context, commit string) ([]Status, error) {
	byContext := map[string]Status{}
	err := pages(pageLimit, func(page int) (bool, error) {
		var found struct {
			Statuses []githubStatus `json:"statuses"`
		}
		_, err := g.api.do(ctx, request{
			op: "read statuses", name: "status_list", method: http.MethodGet,
			path: g.repo("/commits/", commit, "/status"), query: pageOf(page), out: &found,
		})
		for _, row := range found.Statuses {
			byContext[row.Context] = Status{
				Commit: commit, Context: row.Context, State: State(row.State), Description: row.Description,
				TargetURL: row.TargetURL, At: row.CreatedAt,
			}
		}
		return len(found.Statuses) == pageSize, err
	})
	if err != nil {
		return nil, err
	}
	return sortedStatuses(byContext), nil
}

func pageOf(page int) url.Values {
	return url.Values{"per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(page)}}
}
