package forge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type githubPull struct {
	Number int64        `json:"number"`
	Title  string       `json:"title"`
	URL    string       `json:"html_url"`
	Head   githubBranch `json:"head"`
	Base   githubBranch `json:"base"`
	Labels []struct {
		Name string `json:"name"`
	} `json:"labels"`
}

type githubBranch struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *struct {
		ID int64 `json:"id"`
	} `json:"repo"` // null: the fork was deleted
}

// OpenPullRequests lists the open pull requests on a branch; those that changed last come first from the server.
func (g *GitHub) OpenPullRequests(ctx context.Context, base string) ([]PullRequest, error) {
	found := map[int64]PullRequest{} // a list that changes between two pages repeats entries
	err := pages(pageLimit, func(page int) (bool, error) {
		query := pageOf(page)
		for key, value := range map[string]string{"state": "open", "base": base, "sort": "updated", "direction": "desc"} {
			query.Set(key, value)
		}
		var rows []githubPull
		_, err := g.api.do(ctx, request{
			op: "list pull requests", name: "pull_list", method: http.MethodGet, path: g.repo("/pulls"), query: query, out: &rows,
		})
		for _, row := range rows {
			found[row.Number] = row.pull()
		}
		return len(rows) == pageSize, err
	})
	return byNumber(found), err
}

func (p githubPull) pull() PullRequest {
	out := PullRequest{
		Number: p.Number, Title: p.Title, URL: p.URL, Head: p.Head.SHA, HeadBranch: p.Head.Ref, Base: p.Base.Ref, BaseHead: p.Base.SHA,
		HeadRef: fmt.Sprintf("refs/pull/%d/head", p.Number),
		Fork:    p.Head.Repo == nil || p.Base.Repo == nil || p.Head.Repo.ID != p.Base.Repo.ID,
	}
	for _, label := range p.Labels {
		out.Labels = append(out.Labels, label.Name)
	}
	return out
}

func byNumber(found map[int64]PullRequest) []PullRequest {
	return slices.SortedFunc(maps.Values(found), func(a, b PullRequest) int { return cmp.Compare(a.Number, b.Number) })
}

// MergeBase asks the comparison of the base branch with the head.
func (g *GitHub) MergeBase(ctx context.Context, pull PullRequest) (string, error) {
	var found struct {
		MergeBase struct {
			SHA string `json:"sha"`
		} `json:"merge_base_commit"`
	}
	_, err := g.api.do(ctx, request{
		op: "find merge base", name: "merge_base", method: http.MethodGet,
		path: g.repo("/compare", escaped(pull.Base+"..."+pull.Head)), query: map[string][]string{"per_page": {"1"}}, out: &found,
	})
	if codeOf(err) == http.StatusNotFound { // no common ancestor
		return "", nil
	}
	return found.MergeBase.SHA, err
}

type githubComment struct {
	ID   int64  `json:"id,omitempty"`
	Body string `json:"body"`
	User *struct {
		Login string `json:"login"`
	} `json:"user,omitempty"`
	App *struct {
		ID int64 `json:"id"`
	} `json:"performed_via_github_app,omitempty"`
}

// OwnComments are those of the token's user, or of the App.
func (g *GitHub) OwnComments(ctx context.Context, number int64) ([]Comment, error) {
	mine, err := g.mine(ctx)
	if err != nil {
		return nil, err
	}
	var out []Comment
	err = pages(pageLimit, func(page int) (bool, error) {
		var rows []githubComment
		_, err := g.api.do(ctx, request{
			op: "list comments", name: "comment_list", method: http.MethodGet, path: g.comments(number), query: pageOf(page), out: &rows,
		})
		for _, row := range rows {
			if mine(row) {
				out = append(out, Comment{ID: strconv.FormatInt(row.ID, 10), Body: row.Body})
			}
		}
		return len(rows) == pageSize, err
	})
	return out, err
}

// mine says how own comments are told. An installation of an App cannot ask who it is, but GitHub marks what it writes.
func (g *GitHub) mine(ctx context.Context) (func(githubComment) bool, error) {
	if app := g.api.cfg.Credential.AppID; app != "" {
		return func(c githubComment) bool { return c.App != nil && strconv.FormatInt(c.App.ID, 10) == app }, nil
	}
	var me struct {
		Login string `json:"login"`
	}
	_, err := g.api.do(ctx, request{op: "ask for own name", name: "user", method: http.MethodGet, path: "/user", out: &me})
	if err != nil {
		return nil, err
	}
	return func(c githubComment) bool {
		return me.Login != "" && c.User != nil && strings.EqualFold(c.User.Login, me.Login)
	}, nil
}

func (g *GitHub) comments(number int64) string {
	return g.repo("/issues/", strconv.FormatInt(number, 10), "/comments")
}

// AddComment adds one below the pull request.
func (g *GitHub) AddComment(ctx context.Context, number int64, body string) error {
	_, err := g.api.do(ctx, request{
		op: "add comment", name: "comment_add", method: http.MethodPost, path: g.comments(number), in: githubComment{Body: body},
	})
	return err
}

// EditComment replaces the text.
func (g *GitHub) EditComment(ctx context.Context, _ int64, id, body string) error {
	_, err := g.api.do(ctx, request{
		op: "edit comment", name: "comment_edit", method: http.MethodPatch, path: g.repo("/issues/comments", escaped(id)), in: githubComment{Body: body},
	})
	return err
}

// DeleteComment removes one.
func (g *GitHub) DeleteComment(ctx context.Context, _ int64, id string) error {
	_, err := g.api.do(ctx, request{
		op: "delete comment", name: "comment_delete", method: http.MethodDelete, path: g.repo("/issues/comments", escaped(id)),
	})
	return unlessGone(err)
}

func unlessGone(err error) error {
	if codeOf(err) == http.StatusNotFound || codeOf(err) == http.StatusGone {
		return nil
	}
	return err
}

// CommentLimit is GitHub's: 65536 characters.
func (g *GitHub) CommentLimit() int { return 65536 }
