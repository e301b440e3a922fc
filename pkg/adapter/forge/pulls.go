package forge

import "context"

// PullRequest is an open pull request (merge request) as a reviewer needs it.
type PullRequest struct {
	// Number as people write it; GitLab's iid.
	Number int64
	// Title is one line.
	Title string
	// Head is the full hash of its newest commit.
	Head string
	// HeadRef is the full name of a ref of the base repository that leads to Head, also for pull requests from forks:
	// refs/pull/7/head, refs/merge-requests/7/head, or refs/heads/topic where a forge keeps no such refs. Empty if there is none:
	// forks at Bitbucket Cloud and Azure DevOps.
	HeadRef string
	// HeadBranch is the short name of the branch in the repository that it comes from.
	HeadBranch string
	// Base is the short name of the branch that it is to be merged into.
	Base string
	// BaseHead is the full hash of the newest commit of Base; empty where the list does not say.
	BaseHead string
	// Fork says that the commits come from another repository, whose owners need not be trusted.
	Fork bool
	// Labels of it; none where a forge has none.
	Labels []string
	// URL is where people read it.
	URL string

	mergeBase string // where the list says it
}

// PullRequests lists pull requests. Implemented by providers whose forge has them.
type PullRequests interface {
	// OpenPullRequests returns those that are to be merged into a branch, by number. Of more than a thousand, those that changed
	// last.
	OpenPullRequests(ctx context.Context, base string) ([]PullRequest, error)
	// MergeBase is the full hash of the newest common commit of the pull request's head and its base; empty if there is none.
	// It may cost a call.
	MergeBase(ctx context.Context, pull PullRequest) (string, error)
}

// Comment is what we wrote to a pull request.
type Comment struct {
	// ID of the forge.
	ID string
	// Body in markdown.
	Body string
}

// Comments reads and writes comments of pull requests.
type Comments interface {
	// OwnComments returns the comments that the token's own user wrote, oldest first. Those of other people are left out,
	// whatever their text claims.
	OwnComments(ctx context.Context, number int64) ([]Comment, error)
	// AddComment adds one.
	AddComment(ctx context.Context, number int64, body string) error
	// EditComment replaces the text of an own one.
	EditComment(ctx context.Context, number int64, id, body string) error
	// DeleteComment removes an own one. One that is gone already is no error.
	DeleteComment(ctx context.Context, number int64, id string) error
	// CommentLimit is the longest comment in bytes.
	CommentLimit() int
}

// Annotation is a finding at a line of the head of a pull request.
type Annotation struct {
	// File relative to the root, Line from 1; 0: the file as a whole.
	File string
	Line int
	// Error tells an error from a warning.
	Error bool
	// Text is one sentence.
	Text string
}

// Annotator shows findings at lines, where a forge can: GitHub with an App, Bitbucket. Calling it again for the same commit and context replaces what it showed.
type Annotator interface {
	// Annotate shows the findings of one context on a pull request; none clears them.
	Annotate(ctx context.Context, pull PullRequest, context string, all []Annotation) error
}
