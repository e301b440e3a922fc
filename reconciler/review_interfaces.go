package reconciler

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// PullForges finds the forge of a Fleet.
type PullForges interface {
	// Forge of the Fleet. The error says in one sentence why its pull requests cannot be reviewed.
	Forge(ctx context.Context, fleet *fleetv1.Fleet) (PullForge, error)
	// Forget drops a Fleet; what its commits show as not final is ended, with the reason.
	Forget(fleet types.NamespacedName, why string)
}

// PullForge is the forge of one Fleet. Errors are one sentence, free of credentials; one with a method RetryAfter says how long to
// leave the forge alone.
type PullForge interface {
	// OpenPulls are the open pull requests to a branch, by number.
	OpenPulls(ctx context.Context, branch string) ([]review.Pull, error)
	// MergeBase is the newest commit that a pull request shares with its branch; empty if the forge does not say.
	MergeBase(ctx context.Context, pull review.Pull) (string, error)
	// Shown is what the commit shows as the Fleet's plan; without a state if nothing.
	Shown(ctx context.Context, commit string) (report.CommitStatus, error)
	// Want replaces what commits shall show as the Fleet's plan. It returns at once; what cannot be written now is written later.
	Want(ctx context.Context, statuses []report.CommitStatus) error
	// Comments are our own on a pull request, oldest first.
	Comments(ctx context.Context, number int64) ([]review.Comment, error)
	// Edit makes the comments of a pull request other ones.
	Edit(ctx context.Context, number int64, edits review.Edits) error
	// CommentLimit is the longest comment in bytes.
	CommentLimit() int
	// Annotate shows findings at their lines, where the forge can; none clears them.
	Annotate(ctx context.Context, pull review.Pull, findings []finding.Finding) error
}

// PullSource reads the repository of a Fleet. Errors are *report.Failure, free of credentials.
type PullSource interface {
	// Resolve asks the server for the head of the Fleet's branch.
	Resolve(ctx context.Context, fleet *fleetv1.Fleet) (Revision, error)
	// FetchCommit transfers one commit. Ref is the full name of a ref that leads to it, or did.
	FetchCommit(ctx context.Context, fleet *fleetv1.Fleet, commit, ref string) (ListedTree, error)
}

// PullTree is what a build reads.
type PullTree interface {
	Paths() []string
	ReadFile(path string) ([]byte, error)
}

// ListedTree is a tree that knows the hashes of its files.
type ListedTree interface {
	PullTree
	// Listing has every file that can be read.
	Listing() review.Listing
	// Unsigned says what is wrong with the signature of its commit; empty if nothing, or if the Fleet demands none.
	Unsigned() string
}

// PullBuilder builds and validates the Fleet's path of a tree, as a delivery does, in a place where the tree can do no harm. Where nobody of the
// repository has a say in the tree (strict), it refuses to build in a place that is less than that. An error is a *report.Failure: Stalled
// where the tree is to blame.
type PullBuilder interface {
	Build(ctx context.Context, fleet *fleetv1.Fleet, tree PullTree, strict bool) (PullBuild, error)
}

// PullBuild is what a path of a tree comes to.
type PullBuild struct {
	Objects  simulate.Objects
	Files    []string
	Findings []finding.Finding
}

// PullCluster looks at the cluster that is planned for. It writes nothing.
type PullCluster interface {
	// Look returns an input with everything of the cluster, without pods, and a digest of what decides about a plan.
	Look(ctx context.Context, fleet *fleetv1.Fleet) (preview.Input, string, error)
	// AddPods puts the pods of the named nodes into the input.
	AddPods(ctx context.Context, in *preview.Input, nodes []string) error
}

// retryLater is an error that knows when to try again.
type retryLater interface{ RetryAfter() time.Duration }
