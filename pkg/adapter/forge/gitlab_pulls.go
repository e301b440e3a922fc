package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

type gitlabMergeRequest struct {
	IID           int64    `json:"iid"`
	Title         string   `json:"title"`
	URL           string   `json:"web_url"`
	SHA           string   `json:"sha"`
	Source        string   `json:"source_branch"`
	Target        string   `json:"target_branch"`
	SourceProject int64    `json:"source_project_id"`
	TargetProject int64    `json:"target_project_id"`
	Labels        []string `json:"labels"`
}

// OpenPullRequests lists the open merge requests on a branch; those that changed last come first from the server.
func (g *GitLab) OpenPullRequests(ctx context.Context, base string) ([]PullRequest, error) {
	found := map[int64]PullRequest{}
	err := pages(pageLimit, func(page int) (bool, error) {
		query := pageOf(page)
		for key, value := range map[string]string{"state": "opened", "target_branch": base, "order_by": "updated_at", "sort": "desc"} {
			query.Set(key, value)
		}
		var rows []gitlabMergeRequest
		_, err := g.api.do(ctx, request{
			op: "list merge requests", name: "pull_list", method: http.MethodGet, path: g.project("/merge_requests"), query: query, out: &rows,
		})
		for _, row := range rows {
			if row.SHA == "" { // its branch is gone, or not looked at yet
				continue
			}
			found[row.IID] = PullRequest{
				Number: row.IID, Title: row.Title, URL: row.URL, Head: row.SHA, HeadBranch: row.Source, Base: row.Target,
				HeadRef: fmt.Sprintf("refs/merge-requests/%d/head", row.IID), Fork: row.SourceProject != row.TargetProject, Labels: row.Labels,
			}
		}
		return len(rows) == pageSize, err
	})
	return byNumber(found), err
}

// MergeBase asks the repository.
func (g *GitLab) MergeBase(ctx context.Context, pull PullRequest) (string, error) {
	var found struct {
		ID string `json:"id"`
	}
	_, err := g.api.do(ctx, request{
		op: "find merge base", name: "merge_base", method: http.MethodGet, path: g.project("/repository/merge_base"),
		query: url.Values{"refs[]": {pull.Base, pull.Head}}, out: &found,
	})
	if codeOf(err) == http.StatusNotFound {
		return "", nil
	}
	return found.ID, err
}

type gitlabNote struct {
	ID     int64  `json:"id,omitempty"`
	Body   string `json:"body"`
	System bool   `json:"system,omitempty"`
	Author *struct {
		ID int64 `json:"id"`
	} `json:"author,omitempty"`
}

func (g *GitLab) notes(number int64, rest ...string) string {
	return g.project("/merge_requests/", strconv.FormatInt(number, 10), "/notes", escaped(rest...))
}

// OwnComments are the notes of the token's user.
func (g *GitLab) OwnComments(ctx context.Context, number int64) ([]Comment, error) {
	var me struct {
		ID int64 `json:"id"`
	}
	_, err := g.api.do(ctx, request{op: "ask for own name", name: "user", method: http.MethodGet, path: "/user", out: &me})
	if err != nil {
		return nil, err
	}
	var out []Comment
	err = pages(pageLimit, func(page int) (bool, error) {
		query := pageOf(page)
		query.Set("order_by", "created_at")
		query.Set("sort", "asc")
		var rows []gitlabNote
		_, err := g.api.do(ctx, request{
			op: "list comments", name: "comment_list", method: http.MethodGet, path: g.notes(number), query: query, out: &rows,
		})
		for _, row := range rows {
			if !row.System && row.Author != nil && row.Author.ID == me.ID && me.ID != 0 {
				out = append(out, Comment{ID: strconv.FormatInt(row.ID, 10), Body: row.Body})
			}
		}
		return len(rows) == pageSize, err
	})
	return out, err
}

// AddComment adds a note.
func (g *GitLab) AddComment(ctx context.Context, number int64, body string) error {
	_, err := g.api.do(ctx, request{
		op: "add comment", name: "comment_add", method: http.MethodPost, path: g.notes(number), in: gitlabNote{Body: body},
	})
	return err
}

// EditComment replaces the text.
func (g *GitLab) EditComment(ctx context.Context, number int64, id, body string) error {
	_, err := g.api.do(ctx, request{
		op: "edit comment", name: "comment_edit", method: http.MethodPut, path: g.notes(number, id), in: gitlabNote{Body: body},
	})
	return err
}

// DeleteComment removes one.
func (g *GitLab) DeleteComment(ctx context.Context, number int64, id string) error {
	_, err := g.api.do(ctx, request{op: "delete comment", name: "comment_delete", method: http.MethodDelete, path: g.notes(number, id)})
	return unlessGone(err)
}

// CommentLimit of GitLab is a million characters; longer comments than this are no longer read by people.
func (g *GitLab) CommentLimit() int { return 100_000 }
