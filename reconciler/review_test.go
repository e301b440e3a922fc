package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
	"github.com/fleetwright/fleetwright/reconciler"
)

// reviewWorld is the outside of a reviewer, in memory: what the forge shows survives a restart, as on a real one.
type reviewWorld struct {
	client.Reader
	fleet      *fleetv1.Fleet
	pulls      []review.Pull
	shows      map[string]report.CommitStatus
	unreadable map[string]error
	fetched    []string
	cluster    string
	comments   []review.Comment
	reads      int
	clock      time.Time
	loop       *reconciler.Review
}

func newReviewWorld(t *testing.T, pulls ...review.Pull) *reviewWorld {
	f := &fleetv1.Fleet{}
	f.Namespace, f.Name, f.UID, f.Spec.Source.URL = "fleetwright", "us", "1", "https://git.example.com/acme/fleet.git"
	f.Spec.Interval.Duration = time.Minute
	f.Spec.Checks = &fleetv1.Checks{Provider: fleetv1.ProviderGitea, PullRequests: &fleetv1.PullRequestChecks{Plan: true}}
	w := &reviewWorld{fleet: f, pulls: pulls, shows: map[string]report.CommitStatus{}, unreadable: map[string]error{}, clock: time.Unix(1_800_000_000, 0)}
	w.restart(t)
	return w
}

func (w *reviewWorld) restart(*testing.T) {
	w.loop = &reconciler.Review{
		Reader: w, Forges: w, Source: w, Builder: w, Cluster: w, Events: events.NewFakeRecorder(1000),
		Metrics: reconciler.NewReviewMetrics(prometheus.NewRegistry()), Now: func() time.Time { return w.clock },
	}
}

func (w *reviewWorld) look(t *testing.T) ctrl.Result {
	t.Helper()
	w.fetched = nil
	result, err := w.loop.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.fleet)})
	require.NoError(t, err)
	return result
}

func (w *reviewWorld) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	w.fleet.DeepCopyInto(into.(*fleetv1.Fleet))
	return nil
}

func (w *reviewWorld) Forge(context.Context, *fleetv1.Fleet) (reconciler.PullForge, error) {
	return w, nil
}
func (w *reviewWorld) Forget(types.NamespacedName, string)                      {}
func (w *reviewWorld) OpenPulls(context.Context, string) ([]review.Pull, error) { return w.pulls, nil }
func (w *reviewWorld) MergeBase(context.Context, review.Pull) (string, error)   { return "main", nil }

func (w *reviewWorld) Shown(_ context.Context, commit string) (report.CommitStatus, error) {
	return w.shows[commit], w.unreadable[commit]
}

func (w *reviewWorld) Want(_ context.Context, all []report.CommitStatus) error {
	for _, s := range all {
		w.shows[s.Commit] = s
	}
	return nil
}
func (w *reviewWorld) Comments(context.Context, int64) ([]review.Comment, error) {
	w.reads++
	return w.comments, nil
}
func (w *reviewWorld) Edit(_ context.Context, _ int64, edits review.Edits) error {
	for _, body := range edits.Add {
		w.comments = append(w.comments, review.Comment{ID: "1", Body: body})
	}
	return nil
}
func (w *reviewWorld) CommentLimit() int                                              { return 60_000 }
func (w *reviewWorld) Annotate(context.Context, review.Pull, []finding.Finding) error { return nil }
func (w *reviewWorld) AddPods(context.Context, *preview.Input, []string) error        { return nil }
func (w *reviewWorld) Look(context.Context, *fleetv1.Fleet) (preview.Input, string, error) {
	return preview.Input{}, w.cluster, nil
}

func (w *reviewWorld) Resolve(context.Context, *fleetv1.Fleet) (reconciler.Revision, error) {
	return reconciler.Revision{Name: "main@sha1:main", Short: "main", Commit: "main", Ref: "refs/heads/main"}, nil
}

func (w *reviewWorld) FetchCommit(_ context.Context, _ *fleetv1.Fleet, commit, _ string) (reconciler.ListedTree, error) {
	w.fetched = append(w.fetched, commit)
	return emptyTree{}, nil
}

func (w *reviewWorld) Build(context.Context, *fleetv1.Fleet, reconciler.PullTree, bool) (reconciler.PullBuild, error) {
	return reconciler.PullBuild{}, nil
}

type emptyTree struct{}

func (emptyTree) Paths() []string                 { return nil }
func (emptyTree) ReadFile(string) ([]byte, error) { return nil, errors.New("there is no file") }
func (emptyTree) Listing() review.Listing         { return review.Listing{} }
func (emptyTree) Unsigned() string                { return "" }

func fork(number int64, head string, labels ...string) review.Pull {
	return review.Pull{Number: number, Head: head, HeadRef: fmt.Sprintf("refs/pull/%d/head", number), Fork: true, Labels: labels}
}

// TestDeliveryReport_PP10_AnotherPullRequestDoesNotOpenTheFirst: a label was given for commit a. Whoever opens a second pull request with commit b gets
// it asked for a label; when b becomes the head of the first one, its old label does not count for it all the same.
func TestDeliveryReport_PP10_AnotherPullRequestDoesNotOpenTheFirst(t *testing.T) {
	for name, restarts := range map[string]bool{"as it runs": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			w := newReviewWorld(t, fork(1, "a"))
			w.look(t)
			w.pulls = []review.Pull{fork(1, "a", fleetv1.ForkLabel), fork(2, "b")}
			w.look(t)
			require.Equal(t, report.CommitSuccess, w.shows["a"].State)
			require.Contains(t, w.shows["b"].Description, "(pull request 2)")
			if restarts {
				w.restart(t)
			}
			w.pulls = []review.Pull{fork(1, "b", fleetv1.ForkLabel)}
			w.look(t)
			require.Contains(t, w.shows["b"].Description, "may be for an earlier commit")
			require.NotContains(t, w.fetched, "b")
		})
	}
}

// TestASecondPullRequestOfACommitTakesNothingAway: a commit has one status, and it is that of the pull request that is planned.
func TestASecondPullRequestOfACommitTakesNothingAway(t *testing.T) {
	w := newReviewWorld(t, fork(5, "a"))
	w.look(t)
	w.pulls = []review.Pull{fork(3, "a"), fork(5, "a", fleetv1.ForkLabel), fork(7, "a")}
	w.look(t)
	require.Equal(t, report.CommitSuccess, w.shows["a"].State)
}

// TestCommentsThatSayTheSameAreNotReadForEachPlan: changes of the cluster make new plans; the forge is asked when they say something
// else, and once an hour, which also brings back a comment that somebody deleted.
func TestCommentsThatSayTheSameAreNotReadForEachPlan(t *testing.T) {
	w := newReviewWorld(t, review.Pull{Number: 2, Head: "b"})
	w.fleet.Spec.Checks.PullRequests.Comment = true
	w.look(t)
	require.Len(t, w.comments, 1)
	before := w.reads
	for i := range 5 {
		w.cluster, w.clock = fmt.Sprint(i), w.clock.Add(reconciler.DefaultClusterEvery)
		w.look(t)
		require.NotEmpty(t, w.fetched, "there is a new plan")
	}
	require.Equal(t, before, w.reads)
	w.comments, w.clock = nil, w.clock.Add(reconciler.DefaultRefresh)
	w.look(t)
	require.Len(t, w.comments, 1)
}

// TestOnePullRequestDoesNotHoldUpTheOthers: what cannot be read of one is tried again, and the others are planned meanwhile.
func TestOnePullRequestDoesNotHoldUpTheOthers(t *testing.T) {
	w := newReviewWorld(t, fork(1, "a"), review.Pull{Number: 2, Head: "b"})
	w.unreadable["a"] = errors.New("no such commit")
	w.look(t)
	require.Equal(t, report.CommitSuccess, w.shows["b"].State)
	require.Empty(t, w.shows["a"])
	delete(w.unreadable, "a")
	w.look(t)
	require.Equal(t, report.CommitFailure, w.shows["a"].State)
}

// TestManyPullRequestsArePlannedInPortions: a thousand are not held in memory at once, new ones come first, and those that fail do not starve the rest.
func TestManyPullRequestsArePlannedInPortions(t *testing.T) {
	w := newReviewWorld(t)
	for i := range int64(45) {
		w.pulls = append(w.pulls, review.Pull{Number: i + 1, Head: fmt.Sprintf("head-%02d", i+1)})
	}
	require.Equal(t, time.Second, w.look(t).RequeueAfter)
	require.Len(t, w.fetched, 1+20, "the branch, and a portion")
	w.pulls = append(w.pulls, review.Pull{Number: 99, Head: "new"})
	require.Equal(t, time.Second, w.look(t).RequeueAfter)
	require.Equal(t, time.Minute, w.look(t).RequeueAfter)
	for _, p := range w.pulls {
		require.Equal(t, report.CommitSuccess, w.shows[p.Head].State, p.Head)
	}
	require.Equal(t, time.Minute, w.look(t).RequeueAfter)
	require.Empty(t, w.fetched, "everything stands")
}

// TestAForkReadsNoSubmodules: its .gitmodules could name any repository that the Fleet's credentials open.
func TestAForkReadsNoSubmodules(t *testing.T) {
	w := newReviewWorld(t, fork(1, "a"), review.Pull{Number: 2, Head: "b"})
	w.fleet.Spec.Source.RecurseSubmodules = true
	w.fleet.Spec.Checks.PullRequests.Forks = fleetv1.ForksAlways
	w.look(t)
	require.NotContains(t, w.fetched, "a")
	require.Equal(t, report.CommitStatus{Commit: "a", State: report.CommitFailure, Description: "not planned, as it is from a fork and the Fleet reads submodules " +
		"(spec.source.recurseSubmodules); push it to a branch of this repository"}, w.shows["a"])
	require.Equal(t, report.CommitSuccess, w.shows["b"].State, "who may push to the repository is trusted with what it may read")
}

// TestAForkThatCannotBeReadEnds: where a forge keeps nothing of it in the repository, the check says so, and nobody asks for it again and again.
func TestAForkThatCannotBeReadEnds(t *testing.T) {
	p := fork(1, "a")
	p.HeadRef = ""
	w := newReviewWorld(t, p)
	w.fleet.Spec.Checks.PullRequests.Forks = fleetv1.ForksAlways
	w.look(t)
	require.Equal(t, report.CommitFailure, w.shows["a"].State)
	require.Contains(t, w.shows["a"].Description, "push it to a branch of this repository")
	w.look(t)
	require.Empty(t, w.fetched)
}
