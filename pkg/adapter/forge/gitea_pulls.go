package forge

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"code.gitea.io/sdk/gitea"
)

// OpenPullRequests lists the open pull requests on a branch; those that changed last come first from the server.
func (g *Gitea) OpenPullRequests(ctx context.Context, base string) ([]PullRequest, error) {
	const op = "list pull requests of gitea"
	client, err := g.client(ctx, "pull_list")
	if err != nil {
		return nil, g.redact.fail(Permanent, op, err)
	}
	found := map[int64]PullRequest{}
	err = pages(giteaPages, func(page int) (bool, error) {
		rows, resp, err := client.ListRepoPullRequests(g.cfg.Owner, g.cfg.Repository, gitea.ListPullRequestsOptions{
			ListOptions: gitea.ListOptions{Page: page, PageSize: giteaPage}, State: gitea.StateOpen, Sort: "recentupdate",
		})
		if err != nil {
			return false, g.fail(op, resp, err)
		}
		for _, row := range rows {
			if row != nil && row.Base != nil && row.Head != nil && row.Base.Ref == base {
				found[row.Index] = giteaPull(row)
			}
		}
		return more(resp, len(rows)), nil
	})
	return byNumber(found), err
}

// more says whether another page is worth asking for: the server may hand out fewer rows than it is asked for.
func more(resp *gitea.Response, rows int) bool {
	return rows > 0 && (resp.NextPage != 0 || rows >= giteaPage)
}

func giteaPull(row *gitea.PullRequest) PullRequest {
	out := PullRequest{
		Number: row.Index, Title: row.Title, URL: row.HTMLURL, Head: row.Head.Sha, HeadBranch: row.Head.Ref, Base: row.Base.Ref,
		BaseHead: row.Base.Sha, mergeBase: row.MergeBase, HeadRef: fmt.Sprintf("refs/pull/%d/head", row.Index),
		Fork: row.Head.RepoID != row.Base.RepoID,
	}
	for _, label := range row.Labels {
		if label != nil {
			out.Labels = append(out.Labels, label.Name)
		}
	}
	return out
}

// MergeBase is what the list said.
func (g *Gitea) MergeBase(_ context.Context, pull PullRequest) (string, error) {
	return pull.mergeBase, nil
}

// OwnComments are those of the token's user.
func (g *Gitea) OwnComments(ctx context.Context, number int64) ([]Comment, error) {
	const op = "list comments of gitea"
	me, err := g.me(ctx)
	if err != nil {
		return nil, err
	}
	client, err := g.client(ctx, "comment_list")
	if err != nil {
		return nil, g.redact.fail(Permanent, op, err)
	}
	// The server answers all comments at once, whatever the page.
	rows, resp, err := client.ListIssueComments(g.cfg.Owner, g.cfg.Repository, number, gitea.ListIssueCommentOptions{})
	if err != nil {
		return nil, g.fail(op, resp, err)
	}
	var out []Comment
	for _, row := range rows {
		if row != nil && row.Poster != nil && row.Poster.ID == me {
			out = append(out, Comment{ID: strconv.FormatInt(row.ID, 10), Body: row.Body})
		}
	}
	return out, nil
}

// me is the number of the token's user.
func (g *Gitea) me(ctx context.Context) (int64, error) {
	const op = "ask gitea for own name"
	client, err := g.client(ctx, "user")
	if err != nil {
		return 0, g.redact.fail(Permanent, op, err)
	}
	user, resp, err := client.GetMyUserInfo()
	if err != nil {
		return 0, g.fail(op, resp, err)
	}
	return user.ID, nil
}

// AddComment adds one below the pull request.
func (g *Gitea) AddComment(ctx context.Context, number int64, body string) error {
	return g.change(ctx, "add comment on gitea", "comment_add", func(c *gitea.Client) (*gitea.Response, error) {
		_, resp, err := c.CreateIssueComment(g.cfg.Owner, g.cfg.Repository, number, gitea.CreateIssueCommentOption{Body: body})
		return resp, err
	})
}

// EditComment replaces the text.
func (g *Gitea) EditComment(ctx context.Context, _ int64, id, body string) error {
	return g.change(ctx, "edit comment on gitea", "comment_edit", func(c *gitea.Client) (*gitea.Response, error) {
		number, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read id of comment: %w", err)
		}
		_, resp, err := c.EditIssueComment(g.cfg.Owner, g.cfg.Repository, number, gitea.EditIssueCommentOption{Body: body})
		return resp, err
	})
}

// DeleteComment removes one.
func (g *Gitea) DeleteComment(ctx context.Context, _ int64, id string) error {
	return g.change(ctx, "delete comment on gitea", "comment_delete", func(c *gitea.Client) (*gitea.Response, error) {
		number, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read id of comment: %w", err)
		}
		resp, err := c.DeleteIssueComment(g.cfg.Owner, g.cfg.Repository, number)
		if resp != nil && resp.Response != nil && resp.StatusCode == http.StatusNotFound {
			return resp, nil
		}
		return resp, err
	})
}

func (g *Gitea) change(ctx context.Context, op, name string, do func(*gitea.Client) (*gitea.Response, error)) error {
	client, err := g.client(ctx, name)
	if err != nil {
		return g.redact.fail(Permanent, op, err)
	}
	if resp, err := do(client); err != nil {
		return g.fail(op, resp, err)
	}
	return nil
}

// CommentLimit of Gitea: its text column is larger; longer comments are no longer read by people.
func (g *Gitea) CommentLimit() int { return 65535 }
