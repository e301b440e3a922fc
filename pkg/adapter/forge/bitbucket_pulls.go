package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// cloudPage is a page of a list; Next is the whole address of the one behind it.
type cloudPage[T any] struct {
	Values []T    `json:"values"`
	Next   string `json:"next"`
}

// eachPage walks a list of Bitbucket Cloud, in pages of pageSize where the request does not say otherwise.
func eachPage[T any](ctx context.Context, c *client, q request, visit func(T)) error {
	if q.query == nil {
		q.query = url.Values{}
	}
	if !q.query.Has("pagelen") {
		q.query.Set("pagelen", strconv.Itoa(pageSize))
	}
	return pages(pageLimit*2, func(int) (bool, error) {
		var page cloudPage[T]
		q.out = &page
		if _, err := c.do(ctx, q); err != nil {
			return false, err
		}
		for _, v := range page.Values {
			visit(v)
		}
		if page.Next == "" {
			return false, nil
		}
		next, err := c.below(page.Next)
		if err != nil {
			return false, permanent(q.op+" ("+c.kind+")", err.Error())
		}
		q.path, q.query = next, nil
		return true, nil
	})
}

// below takes the base URL off an address that the server named: the credential goes nowhere else.
func (c *client) below(address string) (string, error) {
	rest, found := strings.CutPrefix(address, c.cfg.URL+"/")
	if !found {
		return "", fmt.Errorf("the next page is not below %s", c.cfg.URL)
	}
	return "/" + rest, nil
}

type cloudPull struct {
	ID          int64     `json:"id"`
	Title       string    `json:"title"`
	Source      cloudSide `json:"source"`
	Destination cloudSide `json:"destination"`
	Links       struct {
		HTML struct {
			Href string `json:"href"`
		} `json:"html"`
	} `json:"links"`
}

type cloudSide struct {
	Branch struct {
		Name string `json:"name"`
	} `json:"branch"`
	Commit struct {
		Hash string `json:"hash"`
	} `json:"commit"`
	Repository *struct {
		UUID string `json:"uuid"`
	} `json:"repository"` // null: the fork was deleted
}

// shortHashes remembers full hashes by pull request and short hash.
type shortHashes struct {
	mu    sync.Mutex
	known map[string]string
}

func (s *shortHashes) get(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key]
}

func (s *shortHashes) put(key, full string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) > 4096 {
		s.known = map[string]string{}
	}
	s.known[key] = full
}

// OpenPullRequests lists the open pull requests on a branch. Bitbucket Cloud keeps no refs of them: the head of one from a fork
// cannot be fetched from the base repository, and has no HeadRef.
func (b *BitbucketCloud) OpenPullRequests(ctx context.Context, base string) ([]PullRequest, error) {
	q := request{
		op: "list pull requests", name: "pull_list", method: http.MethodGet, path: b.repo("/pullrequests"),
		query: url.Values{
			"state": {"OPEN"}, "sort": {"-updated_on"}, "q": {fmt.Sprintf("destination.branch.name=%q", base)}, "pagelen": {strconv.Itoa(bitbucketPulls)},
		},
	}
	var rows []cloudPull
	if err := eachPage(ctx, b.api, q, func(row cloudPull) { rows = append(rows, row) }); err != nil {
		return nil, err
	}
	found := map[int64]PullRequest{}
	for _, row := range rows {
		pull := row.pull()
		var err error
		if pull.Head, err = b.head(ctx, row); err != nil {
			return nil, err
		}
		if pull.Head != "" { // otherwise the next look tells
			found[row.ID] = pull
		}
	}
	return byNumber(found), nil
}

func (p cloudPull) pull() PullRequest {
	out := PullRequest{
		Number: p.ID, Title: p.Title, URL: p.Links.HTML.Href, HeadBranch: p.Source.Branch.Name, Base: p.Destination.Branch.Name,
		Fork: p.Source.Repository == nil || p.Destination.Repository == nil || p.Source.Repository.UUID != p.Destination.Repository.UUID,
	}
	if !out.Fork {
		out.HeadRef = "refs/heads/" + out.HeadBranch
	}
	return out
}

// head finds the full hash of the newest commit; empty where there is none, or where it was pushed to meanwhile.
func (b *BitbucketCloud) head(ctx context.Context, row cloudPull) (string, error) {
	short := row.Source.Commit.Hash
	if commitPattern.MatchString(short) {
		return short, nil
	}
	key := fmt.Sprintf("%d %s", row.ID, short)
	if full := b.full.get(key); full != "" {
		return full, nil
	}
	var page cloudPage[struct {
		Hash string `json:"hash"`
	}]
	_, err := b.api.do(ctx, request{
		op: "find head of pull request", name: "pull_commits", method: http.MethodGet,
		path: b.repo("/pullrequests/", strconv.FormatInt(row.ID, 10), "/commits"), query: url.Values{"pagelen": {"1"}}, out: &page,
	})
	if err != nil {
		return "", err
	}
	if short == "" || len(page.Values) == 0 || !strings.HasPrefix(page.Values[0].Hash, short) {
		return "", nil
	}
	b.full.put(key, page.Values[0].Hash)
	return page.Values[0].Hash, nil
}

// MergeBase asks the repository. It does not know commits of forks.
func (b *BitbucketCloud) MergeBase(ctx context.Context, pull PullRequest) (string, error) {
	var found struct {
		Hash string `json:"hash"`
	}
	_, err := b.api.do(ctx, request{
		op: "find merge base", name: "merge_base", method: http.MethodGet,
		path: b.repo("/merge-base", escaped(pull.Base+".."+pull.Head)), out: &found,
	})
	if codeOf(err) == http.StatusNotFound {
		return "", nil
	}
	return found.Hash, err
}

type cloudText struct {
	Raw string `json:"raw"`
}

type cloudComment struct {
	ID      int64     `json:"id,omitempty"`
	Content cloudText `json:"content"`
	Deleted bool      `json:"deleted,omitempty"`
	User    *struct {
		UUID string `json:"uuid"`
	} `json:"user,omitempty"`
}

func (b *BitbucketCloud) comments(number int64, rest ...string) string {
	return b.repo("/pullrequests/", strconv.FormatInt(number, 10), "/comments", escaped(rest...))
}

// OwnComments are those of the credential's account.
func (b *BitbucketCloud) OwnComments(ctx context.Context, number int64) ([]Comment, error) {
	var me struct {
		UUID string `json:"uuid"`
	}
	_, err := b.api.do(ctx, request{op: "ask for own name", name: "user", method: http.MethodGet, path: "/user", out: &me})
	if err != nil {
		return nil, err
	}
	var out []Comment
	q := request{op: "list comments", name: "comment_list", method: http.MethodGet, path: b.comments(number), query: url.Values{"sort": {"created_on"}}}
	err = eachPage(ctx, b.api, q, func(row cloudComment) {
		if !row.Deleted && row.User != nil && row.User.UUID == me.UUID && me.UUID != "" {
			out = append(out, Comment{ID: strconv.FormatInt(row.ID, 10), Body: row.Content.Raw})
		}
	})
	return out, err
}

// AddComment adds one.
func (b *BitbucketCloud) AddComment(ctx context.Context, number int64, body string) error {
	_, err := b.api.do(ctx, request{
		op: "add comment", name: "comment_add", method: http.MethodPost, path: b.comments(number), in: cloudComment{Content: cloudText{body}},
	})
	return err
}

// EditComment replaces the text.
func (b *BitbucketCloud) EditComment(ctx context.Context, number int64, id, body string) error {
	_, err := b.api.do(ctx, request{
		op: "edit comment", name: "comment_edit", method: http.MethodPut, path: b.comments(number, id), in: cloudComment{Content: cloudText{body}},
	})
	return err
}

// DeleteComment removes one.
func (b *BitbucketCloud) DeleteComment(ctx context.Context, number int64, id string) error {
	_, err := b.api.do(ctx, request{op: "delete comment", name: "comment_delete", method: http.MethodDelete, path: b.comments(number, id)})
	return unlessGone(err)
}

// CommentLimit is Bitbucket's.
func (b *BitbucketCloud) CommentLimit() int { return 32768 }
