package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

type dcPull struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
	From  dcSide `json:"fromRef"`
	To    dcSide `json:"toRef"`
	Links struct {
		Self []struct {
			Href string `json:"href"`
		} `json:"self"`
	} `json:"links"`
}

type dcSide struct {
	ID         string `json:"id"`
	Commit     string `json:"latestCommit"`
	Repository struct {
		ID int64 `json:"id"`
	} `json:"repository"`
}

// OpenPullRequests lists the open pull requests on a branch, the newest first from the server.
func (b *BitbucketDataCenter) OpenPullRequests(ctx context.Context, base string) ([]PullRequest, error) {
	found := map[int64]PullRequest{}
	q := request{
		op: "list pull requests", name: "pull_list", method: http.MethodGet, path: b.repo("api", "/pull-requests"),
		query: url.Values{"state": {"OPEN"}, "direction": {"INCOMING"}, "at": {"refs/heads/" + base}, "order": {"NEWEST"}},
	}
	err := eachStart(ctx, b.api, q, func(row dcPull) { found[row.ID] = row.pull() })
	return byNumber(found), err
}

func (p dcPull) pull() PullRequest {
	out := PullRequest{
		Number: p.ID, Title: p.Title, Head: p.From.Commit, HeadBranch: strings.TrimPrefix(p.From.ID, "refs/heads/"),
		HeadRef: fmt.Sprintf("refs/pull-requests/%d/from", p.ID),
		Base:    strings.TrimPrefix(p.To.ID, "refs/heads/"), BaseHead: p.To.Commit, Fork: p.From.Repository.ID != p.To.Repository.ID,
	}
	if len(p.Links.Self) > 0 {
		out.URL = p.Links.Self[0].Href
	}
	return out
}

// MergeBase asks the pull request.
func (b *BitbucketDataCenter) MergeBase(ctx context.Context, pull PullRequest) (string, error) {
	var found struct {
		ID string `json:"id"`
	}
	_, err := b.api.do(ctx, request{
		op: "find merge base", name: "merge_base", method: http.MethodGet, path: b.pull(pull.Number, "/merge-base"), out: &found,
	})
	if codeOf(err) == http.StatusNotFound {
		return "", nil
	}
	return found.ID, err
}

func (b *BitbucketDataCenter) pull(number int64, rest ...string) string {
	return b.repo("api", "/pull-requests/", strconv.FormatInt(number, 10), strings.Join(rest, ""))
}

type dcComment struct {
	ID      int64  `json:"id,omitempty"`
	Version *int   `json:"version,omitempty"`
	Text    string `json:"text"`
	Author  *struct {
		Name string `json:"name"`
	} `json:"author,omitempty"`
}

type dcActivity struct {
	Action  string     `json:"action"`
	Comment *dcComment `json:"comment"`
}

// OwnComments are those of the credential's user. The server lists comments among all that happened, the newest first.
func (b *BitbucketDataCenter) OwnComments(ctx context.Context, number int64) ([]Comment, error) {
	me, err := b.me(ctx)
	if err != nil {
		return nil, err
	}
	var out []Comment
	seen := map[int64]bool{}
	q := request{op: "list comments", name: "comment_list", method: http.MethodGet, path: b.pull(number, "/activities")}
	err = eachStart(ctx, b.api, q, func(a dcActivity) {
		c := a.Comment
		if a.Action != "COMMENTED" || c == nil || c.Author == nil || !strings.EqualFold(c.Author.Name, me) || seen[c.ID] {
			return
		}
		seen[c.ID] = true
		out = append(out, Comment{ID: strconv.FormatInt(c.ID, 10), Body: c.Text})
	})
	slices.Reverse(out)
	return out, err
}

// me is the user's name, which the server puts into the head of each answer to him.
func (b *BitbucketDataCenter) me(ctx context.Context) (string, error) {
	header, err := b.api.do(ctx, request{op: "ask for own name", name: "user", method: http.MethodGet, path: b.repo("api")})
	if err != nil {
		return "", err
	}
	name, err := url.QueryUnescape(header.Get("X-AUSERNAME"))
	if err != nil || name == "" || name == "anonymous" {
		return "", permanent("ask for own name (bitbucket)", "the server does not say whose credential this is (header X-AUSERNAME)")
	}
	return name, nil
}

func (b *BitbucketDataCenter) comment(number int64, rest ...string) string {
	return b.pull(number, "/comments", escaped(rest...))
}

// AddComment adds one.
func (b *BitbucketDataCenter) AddComment(ctx context.Context, number int64, body string) error {
	_, err := b.api.do(ctx, request{
		op: "add comment", name: "comment_add", method: http.MethodPost, header: noCheck, path: b.comment(number), in: dcComment{Text: body},
	})
	return err
}

// withVersion makes a change that the server takes for the newest version of a comment only; somebody else may be faster.
func (b *BitbucketDataCenter) withVersion(ctx context.Context, path string, change func(version int) error) error {
	for try := 1; ; try++ {
		var now dcComment
		_, err := b.api.do(ctx, request{op: "read comment", name: "comment_get", method: http.MethodGet, path: path, out: &now})
		if err != nil {
			return err
		}
		version := 0
		if now.Version != nil {
			version = *now.Version
		}
		if err = change(version); codeOf(err) != http.StatusConflict || try == 3 {
			return err
		}
	}
}

// EditComment replaces the text.
func (b *BitbucketDataCenter) EditComment(ctx context.Context, number int64, id, body string) error {
	path := b.comment(number, id)
	return b.withVersion(ctx, path, func(version int) error {
		_, err := b.api.do(ctx, request{
			op: "edit comment", name: "comment_edit", method: http.MethodPut, header: noCheck, path: path, in: dcComment{Text: body, Version: &version},
		})
		return err
	})
}

// DeleteComment removes one. The server refuses this while others have answered it.
func (b *BitbucketDataCenter) DeleteComment(ctx context.Context, number int64, id string) error {
	path := b.comment(number, id)
	return unlessGone(b.withVersion(ctx, path, func(version int) error {
		_, err := b.api.do(ctx, request{
			op: "delete comment", name: "comment_delete", method: http.MethodDelete, header: noCheck, path: path,
			query: url.Values{"version": {strconv.Itoa(version)}},
		})
		return err
	}))
}

// CommentLimit is Bitbucket's.
func (b *BitbucketDataCenter) CommentLimit() int { return 32768 }
