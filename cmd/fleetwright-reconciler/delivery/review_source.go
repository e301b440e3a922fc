package delivery

import (
	"context"
	"errors"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/confined"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
	"github.com/fleetwright/fleetwright/reconciler"
)

// pullSource reads commits of pull requests.
type pullSource struct{ source }

// FetchCommit transfers one commit. A signature is not demanded: what is not signed is planned, and the plan says so. Nor do
// credentials open submodules: whoever opens a pull request would choose what is read with them, and see it in the plan.
func (s pullSource) FetchCommit(ctx context.Context, fleet *fleetv1.Fleet, commit, ref string) (reconciler.ListedTree, error) {
	from, err := s.of(ctx, fleet)
	if err != nil {
		return nil, err
	}
	demanded := from.Verify
	from.Verify, from.AnonymousSubmodules = nil, true
	tree, err := git.FetchAt(ctx, from.Source, ref, commit)
	if err != nil {
		return nil, from.failure(err)
	}
	out := listed{Tree: tree}
	if demanded != nil && demanded.Mode != git.VerifyTag {
		if err := demanded.Keys.VerifyCommit(tree); err != nil {
			out.unsigned = report.Redact(err.Error())
		}
	}
	return out, nil
}

// listed is a tree with its hashes in the reviewer's words.
type listed struct {
	*git.Tree
	unsigned string
}

// Unsigned says what is wrong with the signature of its commit.
func (l listed) Unsigned() string { return l.unsigned }

// Listing has the hashes of all files.
func (l listed) Listing() review.Listing { return l.Tree.Listing() }

// pullBuilder builds in a process of its own, with what validation may know of the cluster: labels of nodes, and objects of other
// sources. No Secret is among it.
type pullBuilder struct {
	builds *confined.Builder
	known  renderer
}

// Build builds and validates the Fleet's path.
func (b pullBuilder) Build(ctx context.Context, fleet *fleetv1.Fleet, tree reconciler.PullTree, strict bool) (reconciler.PullBuild, error) {
	known, err := b.known.known(ctx, fleet)
	if err != nil {
		return reconciler.PullBuild{}, err
	}
	result, err := b.builds.Build(ctx, tree, confined.Request{Dir: fleet.Spec.Path, Options: known, Strict: strict})
	if err != nil {
		return reconciler.PullBuild{}, buildFailure(err)
	}
	return reconciler.PullBuild{Objects: objectsOf(result.Set), Files: result.Files, Findings: result.Findings}, nil
}

// buildFailure tells apart what the files are to blame for, and what may go better another time.
func buildFailure(err error) error {
	var ended *sandbox.Error
	switch {
	case errors.Is(err, confined.ErrLoose):
		return &report.Failure{Reason: report.ReasonUnsupported, Stalled: true, Message: "cannot be built, as it is from a fork: " + err.Error()}
	case !errors.As(err, &ended):
		return err
	}
	return &report.Failure{
		Reason: report.ReasonBuildFailed, Stalled: ended.Kind != sandbox.NoStart, Message: report.Redact("cannot be built: " + ended.Message),
	}
}

func objectsOf(s manifest.Set) simulate.Objects {
	return simulate.Objects{NodeWrights: s.NodeWrights, Policies: s.DeploymentPolicies, Packages: s.Packages}
}
