package forge

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// BitbucketDataCenter keeps build statuses, pull requests, comments and Code Insights reports of Bitbucket servers that people run
// themselves, from version 7.14. A status is one row for each key, which is replaced.
type BitbucketDataCenter struct{ api *client }

// NewBitbucketDataCenter prepares a provider and calls nobody. Config.URL is the server, with its context path.
func NewBitbucketDataCenter(cfg Config) (*BitbucketDataCenter, error) {
	api, err := newBitbucketClient(cfg)
	if err != nil {
		return nil, err
	}
	api.explain = api.explainDataCenter
	return &BitbucketDataCenter{api}, nil
}

// noCheck tells the server's protection against forged requests that no browser is at work.
var noCheck = map[string]string{"X-Atlassian-Token": "no-check"}

// explainDataCenter knows what Bitbucket Data Center means by its codes.
func (c *client) explainDataCenter(perr *ProviderError, _ *http.Response) {
	switch perr.code {
	case http.StatusUnauthorized:
		perr.Message = "the server does not accept the credential, or the repository needs a person's (needed: an HTTP access token with write access)"
	case http.StatusForbidden:
		perr.Message = "the token may not do this (needed: repository write): " + perr.answer
	case http.StatusNotFound:
		c.notFound(perr)
	}
}

// Capabilities of Bitbucket Data Center: 255 characters of key, name and text, 450 of link.
func (b *BitbucketDataCenter) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, ContextLimit: 255, URLLimit: 450, LiveText: true}
}

func (b *BitbucketDataCenter) repo(api string, rest ...string) string {
	return "/rest/" + api + "/latest/projects" + escaped(b.api.cfg.Owner) + "/repos" + escaped(b.api.cfg.Repository) + strings.Join(rest, "")
}

type dcStatus struct {
	Key         string `json:"key"`
	State       string `json:"state"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	URL         string `json:"url"`
	Ref         string `json:"ref,omitempty"`
	DateAdded   int64  `json:"dateAdded,omitempty"`   // Unix milliseconds
	UpdatedDate int64  `json:"updatedDate,omitempty"` // the same, of newer versions
}

var dcStates = map[State]string{Pending: "INPROGRESS", Success: "SUCCESSFUL", Failure: "FAILED", Error: "CANCELLED"}

// SetStatus replaces the row of the context.
func (b *BitbucketDataCenter) SetStatus(ctx context.Context, s Status) error {
	s = b.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	in := dcStatus{Key: s.Context, State: dcStates[s.State], Name: s.Context, Description: s.Description, URL: s.TargetURL}
	if branch := branchOf(s.Ref); branch != "" {
		in.Ref = "refs/heads/" + branch
	}
	if in.URL == "" {
		in.URL = b.api.commitPage(s.Commit)
	}
	_, err := b.api.do(ctx, request{
		op: "post status", name: "status_set", method: http.MethodPost, header: noCheck,
		path: b.repo("api", "/commits/", s.Commit, "/builds"), in: in,
	})
	return err
}

// Statuses reads the rows of the commit. The newer resource gives one key at a time only.
func (b *BitbucketDataCenter) Statuses(ctx context.Context, commit string) ([]Status, error) {
	byContext := map[string]Status{}
	q := request{op: "read statuses", name: "status_list", method: http.MethodGet, path: "/rest/build-status/latest/commits/" + commit}
	err := eachStart(ctx, b.api, q, func(row dcStatus) {
		s := Status{
			Commit: commit, Context: row.Key, State: fromBitbucket(row.State), Description: row.Description, TargetURL: row.URL,
		}
		if at := max(row.UpdatedDate, row.DateAdded); at != 0 {
			s.At = time.UnixMilli(at)
		}
		if s.TargetURL == b.api.commitPage(commit) {
			s.TargetURL = ""
		}
		if had, ok := byContext[s.Context]; !ok || s.At.After(had.At) {
			byContext[s.Context] = s
		}
	})
	if err != nil {
		return nil, err
	}
	return sortedStatuses(byContext), nil
}

// startPage is a page of a list.
type startPage[T any] struct {
	Values []T  `json:"values"`
	Last   bool `json:"isLastPage"`
	Next   int  `json:"nextPageStart"`
}

// eachStart walks a list of Bitbucket Data Center.
func eachStart[T any](ctx context.Context, c *client, q request, visit func(T)) error {
	if q.query == nil {
		q.query = url.Values{}
	}
	q.query.Set("limit", strconv.Itoa(pageSize))
	return pages(pageLimit, func(int) (bool, error) {
		var page startPage[T]
		q.out = &page
		if _, err := c.do(ctx, q); err != nil {
			return false, err
		}
		for _, v := range page.Values {
			visit(v)
		}
		q.query.Set("start", strconv.Itoa(page.Next))
		return !page.Last && page.Next > 0, nil
	})
}
