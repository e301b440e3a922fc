package forge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GitLab keeps statuses through the REST API of gitlab.com and of own servers. A status is a job of a pipeline with a state
// machine: a row that is under way can be ended, but neither its text nor its link can change, and what ended stays.
type GitLab struct {
	api *client

	mu        sync.Mutex
	pipelines map[gitlabPlace]int64 // the pipeline in which a status was begun has to be the one in which it ends
}

type gitlabPlace struct{ commit, context, ref string }

const (
	// gitlabTries is how often a post is tried while another one holds the lock of the commit (409).
	gitlabTries = 5
	// gitlabLimit is the longest name, text and link.
	gitlabLimit = 255
	// keepPipelines bounds the memory of pipelines; a forgotten one costs a look.
	keepPipelines = 1024
)

// NewGitLab prepares a provider and calls nobody. Config.URL is the API: https://HOST/api/v4.
func NewGitLab(cfg Config) (*GitLab, error) {
	api, err := newClient("gitlab", cfg)
	if err != nil {
		return nil, err
	}
	api.explain = api.explainGitLab
	return &GitLab{api: api, pipelines: map[gitlabPlace]int64{}}, nil
}

var (
	gitlabTransition = regexp.MustCompile(`[Cc]annot transition status via :(\w+) from :(\w+)`)
	gitlabReached    = map[string]string{"enqueue": "pending", "run": "running", "success": "success", "drop": "failed", "cancel": "canceled"}
)

// explainGitLab knows what GitLab means by its codes.
func (c *client) explainGitLab(perr *ProviderError, _ *http.Response) {
	said := strings.ToLower(perr.answer)
	switch perr.code {
	case http.StatusUnauthorized:
		perr.Message = "the server does not accept the token"
	case http.StatusForbidden:
		perr.Message = "the token may not do this (needed: scope api and the role Developer): " + perr.answer
	case http.StatusConflict:
		perr.Class = Retry
	case http.StatusNotFound:
		if strings.Contains(said, "commit") {
			perr.Class = UnknownCommit
			return
		}
		perr.Message = fmt.Sprintf("project %s/%s not found, or the token may not see it", c.cfg.Owner, c.cfg.Repository)
	case http.StatusBadRequest:
		if m := gitlabTransition.FindStringSubmatch(perr.answer); m != nil && gitlabReached[m[1]] == m[2] {
			perr.Class = AlreadyThere
		}
	}
}

// Capabilities of GitLab.
func (g *GitLab) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, ContextLimit: gitlabLimit, URLLimit: gitlabLimit}
}

func (g *GitLab) project(rest ...string) string {
	return "/projects" + escaped(g.api.cfg.Owner+"/"+g.api.cfg.Repository) + strings.Join(rest, "")
}

type gitlabStatus struct {
	ID          int64     `json:"id,omitempty"`
	State       string    `json:"state,omitempty"`  // as it is sent
	Status      string    `json:"status,omitempty"` // as it is read
	Name        string    `json:"name"`
	Ref         string    `json:"ref,omitempty"`
	TargetURL   string    `json:"target_url,omitempty"`
	Description string    `json:"description,omitempty"`
	Pipeline    int64     `json:"pipeline_id,omitempty"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	FinishedAt  time.Time `json:"finished_at,omitzero"`
}

// Of the words of GitLab, `pending` is for what nobody works on yet, and cannot follow `running`.
var gitlabStates = map[State]string{Pending: "running", Success: "success", Failure: "failed", Error: "canceled"}

func fromGitLab(state string) State {
	switch state {
	case "success":
		return Success
	case "failed":
		return Failure
	case "canceled", "canceling", "skipped":
		return Error
	}
	return Pending
}

// SetStatus begins a row, or ends the one that is under way.
func (g *GitLab) SetStatus(ctx context.Context, s Status) error {
	s = g.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	s.Ref = strings.TrimPrefix(strings.TrimPrefix(s.Ref, "refs/heads/"), "refs/tags/")
	pipeline, err := g.pipeline(ctx, &s)
	if err != nil {
		return err
	}
	in := gitlabStatus{
		State: gitlabStates[s.State], Name: s.Context, Ref: s.Ref, TargetURL: s.TargetURL, Description: s.Description, Pipeline: pipeline,
	}
	var row gitlabStatus
	for try := 1; ; try++ {
		_, err = g.api.do(ctx, request{
			op: "post status", name: "status_set", method: http.MethodPost, path: g.project("/statuses/", s.Commit), in: in, out: &row,
		})
		if codeOf(err) != http.StatusConflict || try == gitlabTries || ctx.Err() != nil {
			break
		}
		g.api.cfg.Pause(ctx, time.Duration(try)*time.Second+rand.N(time.Second)) // another writer holds the lock of the commit
	}
	if err != nil {
		return g.taken(err, s.Context)
	}
	g.remember(gitlabPlace{s.Commit, s.Context, s.Ref}, row.Pipeline)
	return nil
}

// taken explains that a CI job has the name: GitLab keeps both in one list.
func (g *GitLab) taken(err error, name string) error {
	perr, ok := err.(*ProviderError) //nolint:errorlint // it comes from do as it is
	if ok && perr.code == http.StatusBadRequest && strings.Contains(perr.answer, "already been taken") {
		perr.Message = fmt.Sprintf("a CI job of this commit is named %q too: choose another spec.checks.context", name)
	}
	return err
}

// pipeline finds where the status belongs: where it was begun; else the newest pipeline of the ref, or of the merge request,
// whose ref then counts; else none, and GitLab makes one.
func (g *GitLab) pipeline(ctx context.Context, s *Status) (int64, error) {
	ref := s.Ref
	if s.Pull != 0 {
		ref = fmt.Sprintf("refs/merge-requests/%d/head", s.Pull)
	}
	if id := g.remembered(gitlabPlace{s.Commit, s.Context, ref}); id != 0 {
		s.Ref = ref
		return id, nil
	}
	q := request{op: "find pipeline", name: "pipeline_list", method: http.MethodGet, path: g.project("/pipelines")}
	q.query = url.Values{"sha": {s.Commit}, "order_by": {"id"}, "sort": {"desc"}, "per_page": {strconv.Itoa(pageSize)}}
	if s.Pull != 0 {
		q.path, q.query = g.project("/merge_requests/", strconv.FormatInt(s.Pull, 10), "/pipelines"), pageOf(1)
	}
	var found []struct {
		ID  int64  `json:"id"`
		SHA string `json:"sha"`
		Ref string `json:"ref"`
	}
	q.out = &found
	if _, err := g.api.do(ctx, q); err != nil {
		return 0, err
	}
	var id int64
	for _, p := range found {
		if p.SHA == s.Commit && p.ID > id && (s.Pull != 0 || s.Ref == "" || p.Ref == s.Ref) {
			id, ref = p.ID, p.Ref
		}
	}
	if id != 0 {
		s.Ref = ref
	}
	return id, nil
}

func (g *GitLab) remembered(at gitlabPlace) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pipelines[at]
}

func (g *GitLab) remember(at gitlabPlace, id int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pipelines) >= keepPipelines {
		clear(g.pipelines)
	}
	if id != 0 {
		g.pipelines[at] = id
	}
}

// Statuses reads the rows of the commit that are not repeated, and keeps the newest of each name.
func (g *GitLab) Statuses(ctx context.Context, commit string) ([]Status, error) {
	newest := map[string]gitlabStatus{}
	err := pages(pageLimit, func(page int) (bool, error) {
		var rows []gitlabStatus
		_, err := g.api.do(ctx, request{
			op: "read statuses", name: "status_list", method: http.MethodGet,
			path: g.project("/repository/commits/", commit, "/statuses"), query: pageOf(page), out: &rows,
		})
		for _, row := range rows {
			if row.ID >= newest[row.Name].ID {
				newest[row.Name] = row
			}
		}
		return len(rows) == pageSize, err
	})
	if err != nil {
		return nil, err
	}
	byContext := map[string]Status{}
	for name, row := range newest {
		g.remember(gitlabPlace{commit, name, row.Ref}, row.Pipeline)
		byContext[name] = Status{
			Commit: commit, Context: name, State: fromGitLab(row.Status), Description: row.Description, TargetURL: row.TargetURL,
			At: latest(row.CreatedAt, row.FinishedAt),
		}
	}
	return sortedStatuses(byContext), nil
}
