package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// TestScopeHoldsWhoeverWritesTheObjects: objects of a Fleet that were edited by hand, a Package that changed under them and a scope
// that was narrowed start nothing outside of the scope. Two teams select the same nodes and stay on their own. A Fleet that is gone
// limits nothing.
func TestScopeHoldsWhoeverWritesTheObjects(t *testing.T) {
	w := newWorld(t)
	mine := w.addNodes(2, map[string]string{"team": "a"})
	theirs := w.addNode(map[string]string{"team": "b"})
	a, b := w.scopedFleet("a"), w.scopedFleet("b")
	catalogue := w.pkg("scoped", "1.0.0")
	w.start()
	w.create(w.nodeWright("team-a", func(nw *nwv1.NodeWright) { nw.Labels, nw.Spec.Packages = ownedBy(a), refTo("scoped") }))
	w.create(w.nodeWright("team-b", func(nw *nwv1.NodeWright) { nw.Labels = ownedBy(b) }))
	require.Equal(t, "2/2", w.awaitComplete("team-a").Status.CompleteNodes)
	require.Equal(t, "1/1", w.awaitComplete("team-b").Status.CompleteNodes)
	require.NotContains(t, w.node(theirs).Annotations, fleetv1.RecordKey("team-a"))
	for _, name := range mine {
		require.NotContains(t, w.node(name).Annotations, fleetv1.RecordKey("team-b"))
	}

	const evil = `image "evil.example.org/rootkit" is not allowed (allowed: example.com/*)`
	w.edit("team-b", func(nw *nwv1.NodeWright) {
		nw.Spec.Packages["tuning"] = nwv1.Package{Version: "2.0.0", Image: "evil.example.org/rootkit"}
	})
	w.awaitOutOfScope("team-b", evil)
	catalogue.Spec.Image, catalogue.Spec.Version = "evil.example.org/rootkit", "2.0.0"
	require.NoError(t, w.admin.Update(w.ctx(), catalogue))
	w.awaitOutOfScope("team-a", evil)
	require.Contains(t, w.awaitEvent("team-a", "OutOfScope").Note, evil)
	for _, name := range []string{"team-a", "team-b"} {
		for ran := range w.versionsOf(name) {
			require.False(t, strings.HasSuffix(ran, "2.0.0"), "%s ran %s", name, ran)
		}
	}

	catalogue.Spec.Image = "example.com/scoped"
	require.NoError(t, w.admin.Update(w.ctx(), catalogue))
	w.awaitStatus("team-a", "the new version is there", func(nw *nwv1.NodeWright) bool { return complete(nw) && nw.Status.PackageList == "scoped:2.0.0" })
	before := a.DeepCopy()
	a.Spec.Scope.RequireDigest = true
	require.NoError(t, w.admin.Patch(w.ctx(), a, client.MergeFrom(before)))
	w.awaitOutOfScope("team-a", "containerSHA is missing, and digests are required")

	require.NoError(t, w.admin.Delete(w.ctx(), a))
	nw := w.awaitStatus("team-a", "the Fleet that is gone limits nothing", func(nw *nwv1.NodeWright) bool { return complete(nw) && nw.Status.CompleteNodes == "3/3" })
	require.False(t, meta.IsStatusConditionTrue(nw.Status.Conditions, "Stalled"))
}

func (w *world) scopedFleet(team string) *fleetv1.Fleet {
	f := &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Name: w.prefix + "-" + team, Namespace: namespace}}
	f.Spec.Source.URL = "https://git.example.com/" + team
	f.Spec.Interval.Duration, f.Spec.Timeout.Duration = time.Minute, time.Minute
	f.Spec.Scope = &fleetv1.Scope{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}, Images: []string{"example.com/*"},
	}
	w.put(f)
	return f
}

func ownedBy(f *fleetv1.Fleet) map[string]string {
	return map[string]string{fleetv1.FleetNameLabel: f.Name, fleetv1.FleetNamespaceLabel: f.Namespace}
}

func (w *world) awaitOutOfScope(name, want string) {
	w.t.Helper()
	w.awaitStatus(name, "out of scope: "+want, func(nw *nwv1.NodeWright) bool {
		c := meta.FindStatusCondition(nw.Status.Conditions, "Stalled")
		return c != nil && c.Reason == "OutOfScope" && strings.Contains(c.Message, want) && nw.Status.Status == nwv1.StatusBlocked
	})
}
