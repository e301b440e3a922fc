package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// pkg creates a Package of this test's Fleet, if there is one.
func (w *world) pkg(name, version string) *fleetv1.Package {
	w.t.Helper()
	p := &fleetv1.Package{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       fleetv1.PackageSpec{Image: "example.com/" + name, Version: version},
	}
	w.put(p)
	return p
}

func refTo(names ...string) map[string]nwv1.Package {
	out := map[string]nwv1.Package{}
	for _, name := range names {
		out[name] = nwv1.Package{PackageRef: &nwv1.PackageReference{Name: name}}
	}
	return out
}

// versionsOf are the packages that the Jobs of a NodeWright ran, by what they are labelled with.
func (w *world) versionsOf(nodeWright string) map[string]bool {
	w.t.Helper()
	list, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright})
	require.NoError(w.t, err)
	out := map[string]bool{}
	for _, j := range list.Items {
		out[j.Labels[nwv1.PackageLabel]] = true
	}
	return out
}

// A Package and the NodeWright that refers to it are changed, and the watch of the Packages lags. The old Package with the
// new NodeWright is what nobody asked for: it is not put on any node, and other rollouts go on meanwhile.
func TestAttackPackageIsSeenLaterThanItsNodeWright(t *testing.T) {
	w := newWorld(t)
	w.addNodes(2, nil)
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	w.config = proxy.ConfigFor(w.config)
	lagging := w.pkg("lagging", "1.0.0")
	w.start()
	w.create(w.nodeWright("lags", func(nw *nwv1.NodeWright) { nw.Spec.Packages = refTo("lagging") }))
	w.awaitComplete("lags")
	hold := proxy.Hold(cluster.Match{Verb: "watch", Resource: "packages"}, cluster.Always)
	proxy.DropWatches()
	lagging.Spec.Version = "2.0.0"
	require.NoError(t, w.admin.Update(w.ctx(), lagging))
	w.edit("lags", func(nw *nwv1.NodeWright) {
		nw.Spec.Packages["lagging"] = nwv1.Package{
			PackageRef: &nwv1.PackageReference{Name: "lagging"}, Env: []corev1.EnvVar{{Name: "NEW", Value: "1"}},
		}
	})
	w.create(w.nodeWright("bystander", nil))
	w.awaitStatus("bystander", "it is seen", func(nw *nwv1.NodeWright) bool { return nw.Status.ObservedGeneration > 0 })
	require.EqualValues(t, 1, w.get("lags").Status.Round)
	hold.Remove()
	nw := w.awaitStatus("lags", "complete with the new Package", func(nw *nwv1.NodeWright) bool {
		return complete(nw) && nw.Status.PackageList == "lagging:2.0.0"
	})
	require.EqualValues(t, 2, nw.Status.Round, "one change is one round")
	w.awaitComplete("bystander")
}

// A delivery writes the Packages one after the other and the NodeWright last. Nothing begins in between.
func TestAttackDeliveryIsHalfDone(t *testing.T) {
	w := newWorld(t)
	w.addNodes(2, nil)
	fleet := &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Name: w.prefix, Namespace: namespace}}
	fleet.Spec.Source.URL, fleet.Spec.Suspend = "https://git.example.com/fleet.git", true
	fleet.Spec.Interval.Duration, fleet.Spec.Timeout.Duration = time.Minute, time.Minute
	w.put(fleet)
	fleet.Status.Inventory = &fleetv1.Inventory{}
	for _, name := range []string{"half-a", "half-b"} {
		fleet.Status.Inventory.Entries = append(fleet.Status.Inventory.Entries,
			fleetv1.InventoryEntry{ID: report.EntryID("", name, fleetv1.Group, fleetv1.KindPackage), Version: "v1alpha1"})
	}
	require.NoError(t, w.admin.Status().Update(w.ctx(), fleet))
	of := func(o client.Object, revision string) {
		o.SetLabels(map[string]string{fleetv1.FleetNameLabel: fleet.Name, fleetv1.FleetNamespaceLabel: fleet.Namespace})
		o.SetAnnotations(map[string]string{fleetv1.RevisionAnnotation: revision})
	}
	packages := map[string]*fleetv1.Package{}
	for _, name := range []string{"half-a", "half-b", "half-kept"} { // the last left the repository and was kept
		p := w.pkg(name, "1.0.0")
		of(p, "main@sha1:1")
		if name == "half-kept" {
			of(p, "main@sha1:0")
		}
		require.NoError(t, w.admin.Update(w.ctx(), p))
		packages[name] = p
	}
	w.start()
	w.create(w.nodeWright("half", func(nw *nwv1.NodeWright) {
		nw.Spec.Packages = refTo("half-a", "half-b", "half-kept")
		of(nw, "main@sha1:1")
	}))
	w.awaitComplete("half")
	deliver := func(name string) {
		p := packages[name]
		p.Spec.Version = "2.0.0"
		of(p, "main@sha1:2")
		require.NoError(t, w.admin.Update(w.ctx(), p))
	}
	deliver("half-a")
	w.create(w.nodeWright("whole", func(nw *nwv1.NodeWright) { nw.Spec.Packages = refTo("half-a") })) // of no Fleet: it sees 2.0.0
	w.awaitComplete("whole")
	require.EqualValues(t, 1, w.get("half").Status.Round, "half of a delivery begins nothing")
	deliver("half-b")
	w.edit("half", func(nw *nwv1.NodeWright) { of(nw, "main@sha1:2") })
	nw := w.awaitStatus("half", "complete with both", func(nw *nwv1.NodeWright) bool {
		return complete(nw) && nw.Status.PackageList == "half-a:2.0.0,half-b:2.0.0,half-kept:1.0.0"
	})
	require.EqualValues(t, 2, nw.Status.Round, "one delivery is one round")
	require.Len(t, w.versionsOf("half"), 5)
}
