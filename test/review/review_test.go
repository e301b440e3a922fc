package review

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// TestPullRequestIsPlanned follows one pull request: pending, planned, commented, changed by a push, and never twice.
func TestPullRequestIsPlanned(t *testing.T) {
	w := newWorld(t)
	p := w.pull(false, gitserver.Change{Files: more()})
	f := w.fleet("us")
	require.Equal(t, "3 nodes reboot", w.until(f, p.Head, "success"))
	text := w.untilComment(p, "## Plan for `./a`, `fleetwright/us`")
	require.Contains(t, text, "**3 of 3 nodes have something to do because of this change: 3 reboot.**")
	require.Contains(t, text, fmt.Sprintf("Compared: `pull request 1, merged` at `%.12s` with `main` at `%.12s`", p.Head, w.main))
	states := []string{}
	for _, row := range w.forge.Rows(p.Head) {
		states = append(states, row.State)
	}
	require.Equal(t, []string{"pending", "success"}, states)

	bad := w.push(p, gitserver.Change{Files: map[string]string{"a/more.yaml": strings.Replace(more()["a/more.yaml"], "version", "vresion", 1)}})
	w.look(f)
	require.Contains(t, w.until(f, bad, "failure"), "a/more.yaml:12:")
	w.untilComment(p, "**This change has")
	require.Len(t, w.forge.Comments(p.Number), 1, "it is updated in place")
	require.Equal(t, "success", w.status(f, p.Head).State, "the old commit keeps its plan")

	w.forge.EditPull(p.Number, func(p *pullAlias) { p.Head = bad })
	good := w.push(headed(p, bad), gitserver.Change{Files: more()})
	w.look(f)
	require.Equal(t, "3 nodes reboot", w.until(f, good, "success"))
}

// TestDeliveryReport_CS16_APullRequestThatTouchesNothingGetsItsSuccess: a README, and a file of another overlay.
func TestDeliveryReport_CS16_APullRequestThatTouchesNothingGetsItsSuccess(t *testing.T) {
	w := newWorld(t)
	p := w.pull(false, gitserver.Change{Files: map[string]string{"README.md": "bye\n", "b/x.yaml": "a: b\n"}})
	f := w.fleet("us")
	require.Equal(t, "no changes", w.until(f, p.Head, "success"))
	w.untilComment(p, "**No changes.**")
	broken := w.fleet("broken", func(f *fleetv1.Fleet) { f.Spec.Path = "./nowhere" })
	require.Equal(t, "no changes", w.until(broken, p.Head, "success"), "the branch has the same error, so it is not the pull request's")
	require.Eventually(t, func() bool {
		return strings.Contains(strings.Join(w.forge.Comments(p.Number), ""), "the branch main itself has 1 error, with or without this change")
	}, patience, moment)
	require.Len(t, w.forge.Comments(p.Number), 2, "one for each Fleet")
}

// TestDeliveryReport_PP09_ThePlanIsOfTheMerge: what the branch gained since is not shown as taken back; a file that both changed is said to be.
func TestDeliveryReport_PP09_ThePlanIsOfTheMerge(t *testing.T) {
	w := newWorld(t)
	elsewhere := w.pull(false, gitserver.Change{Files: map[string]string{"a/gpu.yaml": files()["a/gpu.yaml"] + "  priority: 7\n"}})
	same := w.pull(false, gitserver.Change{Files: map[string]string{"a/kustomization.yaml": "# mine\n" + files()["a/kustomization.yaml"]}})
	advanced := w.commit("main", more())
	f := w.fleet("us")
	require.Equal(t, "no node has anything to do; changes 1 NodeWright and no package", w.until(f, elsewhere.Head, "success"))
	text := w.untilComment(elsewhere, "spec.priority")
	require.Contains(t, text, fmt.Sprintf("with `main` at `%.12s`", advanced))
	require.NotContains(t, text, "NodeWright/more")

	w.until(f, same.Head, "success")
	text = w.untilComment(same, "main changed the same files since: a/kustomization.yaml")
	require.Contains(t, text, fmt.Sprintf("with `the commit where it began` at `%.12s`", w.main))
	require.Contains(t, text, fmt.Sprintf("The branch has gone on to `%.12s` since", advanced))
	require.Contains(t, text, "**No changes.**")
}

// TestDeliveryReport_CS24_AStatusFollowsWhatIsTrueNow: trouble that is over leaves no trace, without a new commit; a plan that was made outlives trouble.
func TestDeliveryReport_CS24_AStatusFollowsWhatIsTrueNow(t *testing.T) {
	w := newWorld(t)
	p := w.pull(false, gitserver.Change{Files: more()})
	path := w.git.Path(repo)
	hidden := path + ".away"
	rename(t, path, hidden)
	f := w.fleet("us")
	require.Contains(t, w.until(f, p.Head, "error"), "could not be planned, and is tried again")
	w.untilEvent(f, "ReviewFailed", "")
	require.Empty(t, w.forge.Comments(p.Number))
	rename(t, hidden, path)
	w.look(f)
	require.Equal(t, "3 nodes reboot", w.until(f, p.Head, "success"))
	rename(t, path, hidden)
	require.NoError(t, w.admin.Create(t.Context(), node("n9")))
	w.look(f)
	time.Sleep(20 * moment)
	require.Equal(t, "success", w.status(f, p.Head).State)
	rename(t, hidden, path)
	w.look(f)
	w.untilText(f, p.Head, "4 nodes reboot")
}

// TestReviewerRestartsWithoutATrace: a process that dies after it wrote the comment, or at any other time, writes no second one.
func TestReviewerRestartsWithoutATrace(t *testing.T) {
	w := newWorld(t)
	p := w.pull(false, gitserver.Change{Files: more()})
	dying := make(chan struct{})
	w.forge.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/comments") {
			select {
			case <-dying:
			default:
				close(dying)
			}
		}
		return false
	})
	f := w.fleet("us")
	<-dying // the comment is being written: its answer may be lost
	w.kill()
	w.forge.Intercept(nil)
	w.start()
	require.Equal(t, "3 nodes reboot", w.until(f, p.Head, "success"))
	w.untilComment(p, "3 reboot")
	before := len(w.forge.Calls())
	w.kill()
	w.start()
	require.Eventually(t, func() bool { return w.reads(before) > 1 }, patience, moment, "it looks again")
	time.Sleep(20 * moment)
	require.Len(t, w.forge.Comments(p.Number), 1)
	for _, call := range w.forge.Calls()[before:] {
		require.True(t, strings.HasPrefix(call, "GET "), "nothing changed, so nothing is written: %s", call)
	}
}

// reads counts reads of comments since a call.
func (w *world) reads(since int) (n int) {
	for _, call := range w.forge.Calls()[since:] {
		if strings.HasPrefix(call, "GET ") && (strings.HasSuffix(call, "/comments") || strings.HasSuffix(call, "/statuses")) {
			n++
		}
	}
	return n
}

// TestReviewerCannotTouchTheCluster: with its own credentials, nothing that matters can be written.
func TestReviewerCannotTouchTheCluster(t *testing.T) {
	w := newWorld(t)
	f := w.fleet("us")
	asReviewer, err := client.New(w.account, client.Options{Scheme: w.admin.Scheme()})
	require.NoError(t, err)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`))
	require.True(t, isForbidden(asReviewer.Patch(t.Context(), node("n0"), patch)))
	require.True(t, isForbidden(asReviewer.Patch(t.Context(), f.DeepCopy(), patch)))
	require.True(t, isForbidden(asReviewer.Delete(t.Context(), &corev1.Node{ObjectMeta: node("n0").ObjectMeta})))
}

// TestScopeBoundsThePlan: nodes outside of the Fleet's scope have nothing to do.
func TestScopeBoundsThePlan(t *testing.T) {
	w := newWorld(t)
	p := w.pull(false, gitserver.Change{Files: more()})
	f := w.fleet("us", func(f *fleetv1.Fleet) {
		f.Spec.Scope = &fleetv1.Scope{NodeSelector: selecting("rack", "7")}
	})
	n := node("n7")
	n.Labels["rack"] = "7"
	require.NoError(t, w.admin.Create(t.Context(), n))
	require.Equal(t, "1 node: reboot", w.until(f, p.Head, "success"))
}
