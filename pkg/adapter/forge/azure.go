package forge

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// AzureDevOps keeps statuses of commits and of pull requests, and comments, of Azure DevOps Services and Server. A status has a
// genre and a name; both together are the context.
type AzureDevOps struct{ api *client }

// azureVersion of the API: Azure DevOps Server 2022 and later know it.
const azureVersion = "7.1"

// NewAzureDevOps prepares a provider and calls nobody. Config.URL is the organisation or collection: https://dev.azure.com/acme;
// Config.Owner is the project.
func NewAzureDevOps(cfg Config) (*AzureDevOps, error) {
	api, err := newClient("azuredevops", cfg)
	if err != nil {
		return nil, err
	}
	// An expired token is sent to the sign-in page.
	api.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	api.explain = api.explainAzure
	api.sign = func(req *http.Request, token string) {
		switch {
		case token == "":
			req.SetBasicAuth(cfg.Credential.Username, cfg.Credential.Password)
		case cfg.Credential.Mint != nil || strings.Count(token, ".") == 2: // a token of Entra ID is a JWT
			req.Header.Set("Authorization", "Bearer "+token)
		default:
			req.SetBasicAuth("", token)
		}
	}
	return &AzureDevOps{api}, nil
}

// explainAzure knows what Azure DevOps means by its codes.
func (c *client) explainAzure(perr *ProviderError, _ *http.Response) {
	switch perr.code {
	case http.StatusFound, http.StatusNonAuthoritativeInfo, http.StatusUnauthorized:
		perr.Class = Permanent
		perr.Message = "the server does not accept the token: it has expired, was revoked, or is not for this organisation"
	case http.StatusForbidden:
		perr.Message = "the token may not do this (needed: Code (status), for plans also Code (read) and Pull Request Threads): " + perr.answer
	case http.StatusNotFound:
		c.notFound(perr)
	}
}

// Capabilities of Azure DevOps.
func (a *AzureDevOps) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, ContextLimit: 255, LiveText: true}
}

func (a *AzureDevOps) repo(rest ...string) string {
	return escaped(a.api.cfg.Owner) + "/_apis/git/repositories" + escaped(a.api.cfg.Repository) + strings.Join(rest, "")
}

func (a *AzureDevOps) do(ctx context.Context, q request) error {
	if q.query == nil {
		q.query = url.Values{}
	}
	if q.query.Get("api-version") == "" {
		q.query.Set("api-version", azureVersion)
	}
	_, err := a.api.do(ctx, q)
	return err
}

type azureContext struct {
	Genre string `json:"genre,omitempty"`
	Name  string `json:"name"`
}

type azureStatus struct {
	ID           int64        `json:"id,omitempty"`
	State        string       `json:"state"`
	Description  string       `json:"description,omitempty"`
	Context      azureContext `json:"context"`
	TargetURL    string       `json:"targetUrl,omitempty"`
	IterationID  int64        `json:"iterationId,omitempty"`
	CreationDate time.Time    `json:"creationDate,omitzero"`
}

type azureList[T any] struct {
	Value []T `json:"value"`
}

var azureStates = map[State]string{Pending: "pending", Success: "succeeded", Failure: "failed", Error: "error"}

func fromAzure(state string) State {
	switch state {
	case "succeeded":
		return Success
	case "failed":
		return Failure
	case "error", "notApplicable":
		return Error
	}
	return Pending
}

// genre is what is before the first slash; policies match genre and name exactly.
func azureContextOf(name string) azureContext {
	genre, rest, found := strings.Cut(name, "/")
	if !found || genre == "" || rest == "" {
		return azureContext{Name: name}
	}
	return azureContext{genre, rest}
}

func (c azureContext) String() string {
	if c.Genre == "" {
		return c.Name
	}
	return c.Genre + "/" + c.Name
}

// SetStatus posts to the commit, and before that to the pull request if it is about one: only those count for branch policies.
func (a *AzureDevOps) SetStatus(ctx context.Context, s Status) error {
	s = a.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	in := azureStatus{State: azureStates[s.State], Description: s.Description, Context: azureContextOf(s.Context), TargetURL: s.TargetURL}
	if s.Pull != 0 {
		if err := a.setOnPull(ctx, s, in); err != nil {
			return err
		}
	}
	return a.do(ctx, request{
		op: "post status", name: "status_set", method: http.MethodPost, path: a.repo("/commits/", s.Commit, "/statuses"), in: in,
	})
}

// setOnPull binds the status to the push that brought the commit: a policy then asks anew after the next push.
func (a *AzureDevOps) setOnPull(ctx context.Context, s Status, in azureStatus) error {
	var iterations azureList[struct {
		ID     int64       `json:"id"`
		Source azureCommit `json:"sourceRefCommit"`
	}]
	err := a.do(ctx, request{
		op: "list iterations", name: "pull_iterations", method: http.MethodGet, path: a.pull(s.Pull, "/iterations"), out: &iterations,
	})
	if err != nil {
		return err
	}
	for _, i := range iterations.Value {
		if i.Source.ID == s.Commit {
			in.IterationID = max(in.IterationID, i.ID)
		}
	}
	if in.IterationID == 0 { // it has moved on: this commit is no longer its head
		return nil
	}
	return a.do(ctx, request{
		op: "post status of pull request", name: "status_set", method: http.MethodPost, path: a.pull(s.Pull, "/statuses"), in: in,
	})
}

// Statuses reads the newest row of each context.
func (a *AzureDevOps) Statuses(ctx context.Context, commit string) ([]Status, error) {
	newest := map[string]azureStatus{}
	err := pages(pageLimit, func(page int) (bool, error) {
		var rows azureList[azureStatus]
		err := a.do(ctx, request{
			op: "read statuses", name: "status_list", method: http.MethodGet, path: a.repo("/commits/", commit, "/statuses"),
			query: url.Values{"latestOnly": {"true"}, "top": {strconv.Itoa(pageSize)}, "skip": {strconv.Itoa((page - 1) * pageSize)}},
			out:   &rows,
		})
		for _, row := range rows.Value {
			if name := row.Context.String(); row.ID >= newest[name].ID {
				newest[name] = row
			}
		}
		return len(rows.Value) == pageSize, err
	})
	if err != nil {
		return nil, err
	}
	byContext := map[string]Status{}
	for name, row := range newest {
		byContext[name] = Status{
			Commit: commit, Context: name, State: fromAzure(row.State), Description: row.Description, TargetURL: row.TargetURL, At: row.CreationDate,
		}
	}
	return sortedStatuses(byContext), nil
}
