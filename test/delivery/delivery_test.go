package delivery

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// TestHappyPath follows one commit from the push to the success that is written back.
func TestHappyPath(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("happy", "fleet")
	now := w.untilApplied(f, sha)

	require.Len(t, now.Status.Inventory.Entries, 3)
	require.Equal(t, "_careful_nodewright.nvidia.com_DeploymentPolicy", now.Status.Inventory.Entries[0].ID)
	nw := &nwv1.NodeWright{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: "gpu"}, nw))
	require.Equal(t, "happy", nw.Labels[fleetv1.FleetNameLabel])
	require.Equal(t, namespace, nw.Labels[fleetv1.FleetNamespaceLabel])
	require.Equal(t, "main@sha1:"+sha, nw.Annotations[fleetv1.RevisionAnnotation])
	require.Equal(t, "a/nodewright.yaml", nw.Annotations[fleetv1.OriginAnnotation])
	now = w.untilReason(f, "Progressing")
	require.Equal(t, metav1.ConditionUnknown, ready(now).Status)
	require.True(t, has(now, "Reconciling"))
	require.Equal(t, "pending", w.untilNote("fleet", sha, "pending").State)

	w.play("gpu", func(s *nwv1.NodeWrightStatus) {
		s.Status, s.CompleteNodes = nwv1.StatusInProgress, "12/24"
		s.CompartmentStatuses = map[string]nwv1.CompartmentStatus{
			"default": {Matched: 24, Completed: 12, BatchState: &nwv1.BatchState{CurrentBatch: 3}},
		}
	})
	w.until(f, func(now *fleetv1.Fleet) bool { return strings.HasSuffix(ready(now).Message, "12/24 nodes, batch 3") })
	require.Empty(t, w.get(f).Status.LastRolledOutRevision)

	w.play("gpu", completed)
	now = w.untilReason(f, "ReconciliationSucceeded")
	require.Equal(t, metav1.ConditionTrue, ready(now).Status)
	require.Len(t, now.Status.Conditions, 1, "neither Reconciling nor Stalled")
	require.Equal(t, "main@sha1:"+sha, now.Status.LastRolledOutRevision)
	require.Equal(t, &fleetv1.RolloutSummary{Complete: 24, Total: 24}, now.Status.Rollout)
	require.Equal(t, note{"fleetwright/fleetwright/happy", "success", "24/24 nodes complete"}, w.untilNote("fleet", sha, "success"))
	w.untilEvent("Fleet", "happy", "NewRevision", sha)
	w.untilEvent("Fleet", "happy", "Applied", "Package/tuning created")
	w.untilEvent("Fleet", "happy", "ReconciliationSucceeded", "24/24 nodes complete")

	before, fetches := w.versions(), fetches(w)
	now = w.ask(f)
	w.ask(f)
	require.Equal(t, before, w.versions(), "an apply of the same writes nothing")
	require.Equal(t, fetches+2, len(fetchesOf(w)), "each request of a person fetches afresh")
	require.Equal(t, 1, count(w.notes("fleet", sha), "success"))
	require.Equal(t, metav1.ConditionTrue, ready(now).Status)
}

func count(notes []note, state string) int {
	n := 0
	for _, one := range notes {
		if one.State == state {
			n++
		}
	}
	return n
}

func fetches(w *world) int { return len(fetchesOf(w)) }

// fetchesOf are the transfers of content that the server has seen; looking up refs is not one.
func fetchesOf(w *world) []gitserver.Request {
	var out []gitserver.Request
	for _, r := range w.git.Requests() {
		if r.Method == "POST" && strings.HasSuffix(r.Path, "git-upload-pack") {
			out = append(out, r)
		}
	}
	return out
}

// TestChangedPackageIsNotSuccessBeforeItsRollout: the NodeWright's generation does not move when a Package does.
func TestChangedPackageIsNotSuccessBeforeItsRollout(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("content", "fleet")
	w.untilApplied(f, first)
	w.play("gpu", completed)
	w.untilNote("fleet", first, "success")

	second := w.commit("fleet", map[string]string{"a/package.yaml": strings.Replace(packageFile, "262144", "524288", 1)})
	w.ask(f)
	now := w.untilApplied(f, second)
	require.Equal(t, "Progressing", ready(now).Reason)
	require.Equal(t, "main@sha1:"+first, now.Status.LastRolledOutRevision)
	w.untilNote("fleet", second, "pending")
	w.play("gpu", completed)
	w.untilNote("fleet", second, "success")
}

// TestHalt: the failing node, package, stage and exit code are on the commit.
func TestHalt(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("halt", "fleet")
	w.untilApplied(f, sha)
	w.play("gpu", func(s *nwv1.NodeWrightStatus) {
		s.Status, s.CompleteNodes, s.NodesFailed = nwv1.StatusErroring, "3/24", 1
		s.CompartmentStatuses = map[string]nwv1.CompartmentStatus{
			"default": {Matched: 24, Completed: 3, Failed: 1, BatchState: &nwv1.BatchState{CurrentBatch: 2, ShouldStop: true}},
		}
		s.Reasons = []nwv1.ReasonCount{{
			Reason: "PackageFailed", Count: 1, Nodes: []string{"gpu-7"}, Message: "package tuning 1.0.0, stage apply: exit code 3",
		}}
	})
	now := w.untilReason(f, "RolloutHalted")
	require.True(t, has(now, "Stalled"))
	require.False(t, has(now, "Reconciling"))
	const want = "halted: node gpu-7: package tuning 1.0.0, stage apply: exit code 3"
	require.Equal(t, want, w.untilNote("fleet", sha, "failure").Description)
	w.untilEvent("Fleet", "halt", "RolloutHalted", want)
	require.True(t, now.Status.Rollout.Halted)

	fixed := w.commit("fleet", map[string]string{"a/package.yaml": strings.Replace(packageFile, "1.0.0", "1.0.1", 1)})
	w.ask(f)
	w.untilApplied(f, fixed)
	w.play("gpu", func(s *nwv1.NodeWrightStatus) { completed(s); s.CompartmentStatuses = nil })
	w.untilNote("fleet", fixed, "success")
	require.Equal(t, "failure", w.untilNote("fleet", sha, "failure").State, "an end is not rewritten")
}

// TestSuperseded: a commit that was overtaken comes to an end, also when the process dies in between.
func TestSuperseded(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("overtaken", "fleet")
	w.untilApplied(f, first)
	w.untilNote("fleet", first, "pending")
	w.kill()
	second := w.commit("fleet", map[string]string{"a/package.yaml": strings.Replace(packageFile, "262144", "524288", 1)})
	w.start()
	w.untilApplied(f, second)
	require.Equal(t, "superseded by "+second[:12], w.untilNote("fleet", first, "error").Description)
	w.play("gpu", completed)
	w.untilNote("fleet", second, "success")
	w.until(f, func(*fleetv1.Fleet) bool { w.ask(f); return w.get(f).Annotations["fleetwright.dev/open-commits"] == "" })
}
