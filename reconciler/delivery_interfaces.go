package reconciler

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/promotion"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Revision is one commit and how it was named.
type Revision struct {
	// Name in Flux's form, for example main@sha1:<hash>.
	Name string
	// Commit is the full hash.
	Commit string
	// Short is the branch or tag, empty for a bare commit.
	Short string
	// Ref is the full name of the ref on the server, empty for a bare commit.
	Ref string
}

// Source reads the repository of a Fleet. Both calls end with their context and with the Fleet's timeout. Their errors are
// *report.Failure, free of credentials.
type Source interface {
	// Resolve asks the server which commit the Fleet's ref names now. It transfers no content.
	Resolve(ctx context.Context, fleet *fleetv1.Fleet) (Revision, error)
	// Fetch transfers the content of that commit, and nothing where it lacks the signatures that the Fleet demands.
	Fetch(ctx context.Context, fleet *fleetv1.Fleet, revision Revision) (Tree, error)
}

// Tree is the immutable content of one commit.
type Tree interface {
	Paths() []string
	ReadFile(path string) ([]byte, error)
	// SignedBy says whose signatures were verified, of what; empty where the Fleet demands none.
	SignedBy() string
}

// Renderer builds the Fleet's path of a tree and validates what comes out, in the light of the Fleet's scope and of the
// cluster. What is wrong with the files is a finding; an error means that the cluster could not be asked.
type Renderer interface {
	Render(ctx context.Context, fleet *fleetv1.Fleet, tree Tree) (Rendered, error)
}

// Rendered is what a path of a commit comes to.
type Rendered struct {
	// Built says that the overlay builds; otherwise the findings say why not, and there is nothing to validate.
	Built bool
	// Objects as they are to be applied; each names its origin in an annotation.
	Objects []*unstructured.Unstructured
	// Findings sorted by place. With an error among them nothing may be applied.
	Findings []finding.Finding
	// Provisional says that an error may go without a commit, because it is about objects that other sources deliver.
	Provisional bool
}

// Applier writes and deletes the objects of a Fleet. Errors are *report.Failure.
type Applier interface {
	Apply(ctx context.Context, fleet *fleetv1.Fleet, revision string, objects []*unstructured.Unstructured) (report.Applied, error)
	Prune(ctx context.Context, fleet *fleetv1.Fleet, entries []fleetv1.InventoryEntry) ([]report.Change, error)
}

// ShownStatuses reads what a forge shows on a commit, whoever wrote it. The error says in one sentence why it cannot be read,
// free of credentials.
type ShownStatuses interface {
	Shown(ctx context.Context, fleet *fleetv1.Fleet, commit string) ([]promotion.Shown, error)
}

// CommitStatuses makes a forge show what is wanted. It returns at once; what cannot be written now is written later.
type CommitStatuses interface {
	// Want replaces what the Fleet's commits shall show, and returns by commit the final states that the forge is known to
	// show. The error says in one sentence why nothing can be written for this Fleet.
	Want(ctx context.Context, fleet *fleetv1.Fleet, statuses []report.CommitStatus) (map[string]report.CommitState, error)
	// Forget drops a Fleet that is gone or wants no statuses any more; what its commits show as not final is ended, with the
	// reason.
	Forget(fleet types.NamespacedName, why string)
}
