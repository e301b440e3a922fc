package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// BitbucketCloud keeps build statuses, pull requests, comments and Code Insights reports of bitbucket.org. A status is one row for
// each key, which is replaced.
type BitbucketCloud struct {
	api *client
	// full finds the full hash behind the twelve digits that lists of pull requests show.
	full shortHashes
}

const (
	// bitbucketKeyLimit is the longest key of a status, in characters.
	bitbucketKeyLimit = 40
	// bitbucketPulls is the largest page of pull requests.
	bitbucketPulls = 50
)

// NewBitbucketCloud prepares a provider and calls nobody. Config.URL is the API: https://api.bitbucket.org/2.0.
func NewBitbucketCloud(cfg Config) (*BitbucketCloud, error) {
	api, err := newBitbucketClient(cfg)
	if err != nil {
		return nil, err
	}
	api.explain = api.explainBitbucket
	return &BitbucketCloud{api: api}, nil
}

// newBitbucketClient is for both kinds of server, which demand a link with each status.
func newBitbucketClient(cfg Config) (*client, error) {
	api, err := newClient("bitbucket", cfg)
	if err == nil && cfg.Web == "" {
		return nil, permanent("prepare bitbucket client", "no web address")
	}
	return api, err
}

// explainBitbucket knows what Bitbucket Cloud means by its codes.
func (c *client) explainBitbucket(perr *ProviderError, _ *http.Response) {
	switch perr.code {
	case http.StatusUnauthorized:
		perr.Message = "the server does not accept the credential: app passwords have ended; use an access token (key token), " +
			"or an API token as password with the account's e-mail address as username"
	case http.StatusForbidden:
		perr.Message = "the token may not do this (needed: write access to repositories and pull requests): " + perr.answer
	case http.StatusNotFound:
		c.notFound(perr)
	}
}

// Capabilities of Bitbucket Cloud.
func (b *BitbucketCloud) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, ContextLimit: 255, LiveText: true}
}

func (b *BitbucketCloud) repo(rest ...string) string {
	return "/repositories" + escaped(b.api.cfg.Owner, b.api.cfg.Repository) + strings.Join(rest, "")
}

type bitbucketStatus struct {
	Key         string    `json:"key"`
	State       string    `json:"state"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	URL         string    `json:"url"`
	RefName     string    `json:"refname,omitempty"`
	UpdatedOn   time.Time `json:"updated_on,omitzero"`
}

var bitbucketStates = map[State]string{Pending: "INPROGRESS", Success: "SUCCESSFUL", Failure: "FAILED", Error: "STOPPED"}

func fromBitbucket(state string) State {
	switch state {
	case "SUCCESSFUL":
		return Success
	case "FAILED":
		return Failure
	case "STOPPED", "CANCELLED", "UNKNOWN":
		return Error
	}
	return Pending
}

// bitbucketKey shortens a context to a key: two long ones that begin alike stay two.
func bitbucketKey(name string) string {
	runes := []rune(name)
	if len(runes) <= bitbucketKeyLimit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return string(runes[:bitbucketKeyLimit-9]) + "-" + hex.EncodeToString(sum[:4])
}

// commitPage is the address that stands in for a link: Bitbucket demands one.
func (c *client) commitPage(commit string) string { return c.cfg.Web + "/commits/" + commit }

// branchOf is the name of a branch as forges want it beside a status; empty for refs of pull requests.
func branchOf(ref string) string {
	ref = strings.TrimPrefix(ref, "refs/heads/")
	if strings.HasPrefix(ref, "refs/") {
		return ""
	}
	return ref
}

// SetStatus replaces the row of the context.
func (b *BitbucketCloud) SetStatus(ctx context.Context, s Status) error {
	s = b.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	in := bitbucketStatus{
		Key: bitbucketKey(s.Context), State: bitbucketStates[s.State], Name: s.Context, Description: s.Description,
		URL: s.TargetURL, RefName: branchOf(s.Ref),
	}
	if in.URL == "" {
		in.URL = b.api.commitPage(s.Commit)
	}
	_, err := b.api.do(ctx, request{
		op: "post status", name: "status_set", method: http.MethodPost, path: b.repo("/commit/", s.Commit, "/statuses/build"), in: in,
	})
	return err
}

// Statuses reads all rows.
func (b *BitbucketCloud) Statuses(ctx context.Context, commit string) ([]Status, error) {
	byContext := map[string]Status{}
	q := request{op: "read statuses", name: "status_list", method: http.MethodGet, path: b.repo("/commit/", commit, "/statuses")}
	err := eachPage(ctx, b.api, q, func(row bitbucketStatus) {
		s := b.api.fromRow(row, commit)
		if had, ok := byContext[s.Context]; !ok || s.At.After(had.At) {
			byContext[s.Context] = s
		}
	})
	if err != nil {
		return nil, err
	}
	return sortedStatuses(byContext), nil
}

// fromRow: the name is the context, if the key is the one that we would have made of it.
func (c *client) fromRow(row bitbucketStatus, commit string) Status {
	s := Status{
		Commit: commit, Context: row.Key, State: fromBitbucket(row.State), Description: row.Description, TargetURL: row.URL, At: row.UpdatedOn,
	}
	if bitbucketKey(row.Name) == row.Key {
		s.Context = row.Name
	}
	if s.TargetURL == c.commitPage(commit) {
		s.TargetURL = ""
	}
	return s
}
