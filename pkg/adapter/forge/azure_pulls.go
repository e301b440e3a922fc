package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

type azureCommit struct {
	ID string `json:"commitId"`
}

type azurePull struct {
	ID         int64       `json:"pullRequestId"`
	Title      string      `json:"title"`
	Source     string      `json:"sourceRefName"`
	Target     string      `json:"targetRefName"`
	SourceHead azureCommit `json:"lastMergeSourceCommit"`
	TargetHead azureCommit `json:"lastMergeTargetCommit"`
	Fork       *struct {
		Name string `json:"name"`
	} `json:"forkSource"`
	Labels []struct {
		Name   string `json:"name"`
		Active bool   `json:"active"`
	} `json:"labels"`
}

// OpenPullRequests lists the active pull requests on a branch. Azure DevOps keeps a ref of the merge result only: the head of
// one from a fork cannot be fetched from the base repository, and has no HeadRef.
func (a *AzureDevOps) OpenPullRequests(ctx context.Context, base string) ([]PullRequest, error) {
	found := map[int64]PullRequest{}
	err := pages(pageLimit, func(page int) (bool, error) {
		var rows azureList[azurePull]
		err := a.do(ctx, request{
			op: "list pull requests", name: "pull_list", method: http.MethodGet, path: a.repo("/pullrequests"),
			query: url.Values{
				"searchCriteria.status": {"active"}, "searchCriteria.targetRefName": {"refs/heads/" + base},
				"$top": {strconv.Itoa(pageSize)}, "$skip": {strconv.Itoa((page - 1) * pageSize)},
			},
			out: &rows,
		})
		for _, row := range rows.Value {
			if row.SourceHead.ID != "" { // it is still being prepared
				found[row.ID] = a.fromRow(row)
			}
		}
		return len(rows.Value) == pageSize, err
	})
	return byNumber(found), err
}

func (a *AzureDevOps) fromRow(row azurePull) PullRequest {
	out := PullRequest{
		Number: row.ID, Title: row.Title, Head: row.SourceHead.ID, HeadBranch: strings.TrimPrefix(row.Source, "refs/heads/"),
		Base: strings.TrimPrefix(row.Target, "refs/heads/"), BaseHead: row.TargetHead.ID, Fork: row.Fork != nil,
		URL: fmt.Sprintf("%s/pullrequest/%d", a.api.cfg.Web, row.ID),
	}
	if !out.Fork {
		out.HeadRef = row.Source
	}
	for _, label := range row.Labels {
		out.Labels = append(out.Labels, label.Name)
	}
	return out
}

// MergeBase asks the repository.
func (a *AzureDevOps) MergeBase(ctx context.Context, pull PullRequest) (string, error) {
	var found azureList[azureCommit]
	err := a.do(ctx, request{
		op: "find merge base", name: "merge_base", method: http.MethodGet, path: a.repo("/commits/", pull.Head, "/mergebases"),
		query: url.Values{"otherCommitId": {pull.BaseHead}, "api-version": {azureVersion + "-preview.1"}}, out: &found,
	})
	if codeOf(err) == http.StatusNotFound {
		return "", nil
	}
	if err != nil || len(found.Value) == 0 {
		return "", err
	}
	return found.Value[0].ID, nil
}

func (a *AzureDevOps) pull(number int64, rest ...string) string {
	return a.repo("/pullRequests/", strconv.FormatInt(number, 10), strings.Join(rest, ""))
}

type azureComment struct {
	ID      int64  `json:"id,omitempty"`
	Parent  int64  `json:"parentCommentId"`
	Content string `json:"content"`
	Type    string `json:"commentType"`
	Deleted bool   `json:"isDeleted,omitempty"`
	Author  *struct {
		ID string `json:"id"`
	} `json:"author,omitempty"`
}

type azureThread struct {
	ID       int64          `json:"id,omitempty"`
	Status   string         `json:"status,omitempty"`
	Deleted  bool           `json:"isDeleted,omitempty"`
	Comments []azureComment `json:"comments"`
}

// OwnComments are those of the credential's user that begin a thread.
func (a *AzureDevOps) OwnComments(ctx context.Context, number int64) ([]Comment, error) {
	var who struct {
		User struct {
			ID string `json:"id"`
		} `json:"authenticatedUser"`
	}
	err := a.do(ctx, request{
		op: "ask for own name", name: "user", method: http.MethodGet, path: "/_apis/connectionData",
		query: url.Values{"api-version": {azureVersion + "-preview.1"}}, out: &who,
	})
	if err != nil {
		return nil, err
	}
	var threads azureList[azureThread]
	err = a.do(ctx, request{op: "list comments", name: "comment_list", method: http.MethodGet, path: a.pull(number, "/threads"), out: &threads})
	if err != nil {
		return nil, err
	}
	var out []Comment
	for _, thread := range threads.Value {
		if thread.Deleted || len(thread.Comments) == 0 {
			continue
		}
		first := thread.Comments[0]
		if !first.Deleted && first.Author != nil && first.Author.ID == who.User.ID && who.User.ID != "" {
			out = append(out, Comment{ID: fmt.Sprintf("%d/%d", thread.ID, first.ID), Body: first.Content})
		}
	}
	return out, nil
}

// AddComment adds a thread that is closed: open ones block where a policy wants them resolved.
func (a *AzureDevOps) AddComment(ctx context.Context, number int64, body string) error {
	return a.do(ctx, request{
		op: "add comment", name: "comment_add", method: http.MethodPost, path: a.pull(number, "/threads"),
		in: azureThread{Status: "closed", Comments: []azureComment{{Content: body, Type: "text"}}},
	})
}

// comment is the path of one: thread and number.
func (a *AzureDevOps) comment(number int64, id string) string {
	thread, comment, _ := strings.Cut(id, "/")
	return a.pull(number, "/threads", escaped(thread), "/comments", escaped(comment))
}

// EditComment replaces the text.
func (a *AzureDevOps) EditComment(ctx context.Context, number int64, id, body string) error {
	return a.do(ctx, request{
		op: "edit comment", name: "comment_edit", method: http.MethodPatch, path: a.comment(number, id),
		in: struct {
			Content string `json:"content"`
		}{body},
	})
}

// DeleteComment removes one.
func (a *AzureDevOps) DeleteComment(ctx context.Context, number int64, id string) error {
	return unlessGone(a.do(ctx, request{
		op: "delete comment", name: "comment_delete", method: http.MethodDelete, path: a.comment(number, id),
	}))
}

// CommentLimit is that of Azure DevOps.
func (a *AzureDevOps) CommentLimit() int { return 150_000 }
