package rollout

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/adoption"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// adopted is the name of the NodeWright in the recorded nodes.
const adopted = "base"

// recordedNode puts on a node what a version of NVIDIA's operator left on a recorded one.
func (w *world) recordedNode(version string) string {
	w.t.Helper()
	data, err := os.ReadFile("../../pkg/core/adopt/testdata/node-" + version + ".yaml")
	require.NoError(w.t, err)
	recorded := corev1.Node{}
	require.NoError(w.t, yaml.UnmarshalStrict(data, &recorded))
	name := w.addNode(nil)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": recorded.Annotations, "labels": recorded.Labels},
		"spec":     map[string]any{"unschedulable": recorded.Spec.Unschedulable},
	})
	require.NoError(w.t, err)
	w.patchNode(name, string(patch))
	return name
}

// recordedSpec is what both operators were told.
func (w *world) recordedSpec() *nwv1.NodeWright {
	return w.nodeWright(adopted, func(nw *nwv1.NodeWright) {
		nw.Spec.Packages = map[string]nwv1.Package{
			"tuning": {Version: "1.0.0", Image: "example.com/tuning", Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot}},
			"tools":  {Version: "2.0.0", Image: "example.com/tools"},
		}
	})
}

// legacyCRD installs the least of the old group's kind, and takes it away at the end.
func (w *world) legacyCRD() {
	w.t.Helper()
	keep := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "skyhooks." + nwv1.LegacyGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: nwv1.LegacyGroup, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "skyhooks", Singular: "skyhook", Kind: "Skyhook", ListKind: "SkyhookList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	}
	scheme := runtime.NewScheme()
	require.NoError(w.t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(w.c.Config(), client.Options{Scheme: scheme})
	require.NoError(w.t, err)
	require.NoError(w.t, c.Create(w.ctx(), crd))
	w.t.Cleanup(func() { _ = c.Delete(w.ctx(), crd) })
}

// skyhook is the object of the old group that became recordedSpec.
func (w *world) skyhook() {
	w.t.Helper()
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&w.recordedSpec().Spec)
	require.NoError(w.t, err)
	packages := spec["packages"].(map[string]any)
	packages["tools"].(map[string]any)["image"] = "example.com/tools:2.0.0" // the old API let a tag that equals the version pass
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nwv1.LegacyGroup + "/v1alpha1", "kind": "Skyhook",
		"metadata": map[string]any{"name": adopted, "annotations": map[string]any{nwv1.LegacyGroup + "/pause": "false"}}, "spec": spec,
	}}
	require.Eventually(w.t, func() bool {
		admin, err := client.New(w.c.Config(), client.Options{})
		return err == nil && admin.Create(w.ctx(), o) == nil
	}, patience, 100*time.Millisecond, "the old kind is served")
}

// takeover gathers as the command does.
func (w *world) takeover() (*adoption.Source, *adoption.Takeover) {
	w.t.Helper()
	source, err := adoption.NewSource(w.c.Config(), namespace, time.Now)
	require.NoError(w.t, err)
	var t *adoption.Takeover
	require.Eventually(w.t, func() bool { // an operator that an earlier test played is gone
		t, err = source.Gather(w.ctx())
		return err == nil
	}, patience, 100*time.Millisecond, "%v", lazy(func() any { return err }))
	return source, t
}

// After the adoption of both formats with an unchanged spec, no Job is created, no node cordoned, and the cordon that NVIDIA's
// operator still owned is given back. What it wrote stays.
func TestAdoptionRunsNothingAgain(t *testing.T) {
	w := newWorld(t)
	old, recent := w.recordedNode("v0.15"), w.recordedNode("v0.20")
	before := maps.Clone(w.node(old).Annotations)
	w.legacyCRD()
	w.skyhook()

	source, takeover := w.takeover()
	require.Len(t, takeover.Objects, 1)
	require.Zero(t, takeover.Unclear(), takeover.Text(false))
	require.NoError(t, source.Create(w.ctx(), takeover))
	w.start() // it is there before the records are: nodes without one are held
	w.awaitStatus(adopted, "not adopted yet", func(nw *nwv1.NodeWright) bool {
		return len(nw.Status.Reasons) == 1 && nw.Status.Reasons[0].Reason == string(plan.NotAdopted) && nw.Status.Reasons[0].Count == 2
	})
	takeover.Entries[0].Seen[nwv1.StatusKey(adopted)] = "something else"
	require.ErrorContains(t, source.Write(w.ctx(), takeover), "the node changed since it was read: run it again")

	_, takeover = w.takeover() // as after a crash in the middle: one node has its record, the other not
	require.NoError(t, source.Write(w.ctx(), takeover))
	w.awaitComplete(adopted)
	require.Eventually(t, func() bool { return !w.node(old).Spec.Unschedulable }, patience, 20*time.Millisecond, "the cordon is given back")
	require.False(t, w.node(recent).Spec.Unschedulable)
	jobs, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, jobs.Items)
	for key, value := range before {
		require.Equal(t, value, w.node(old).Annotations[key], "the way back: %s stays", key)
	}
	_, again := w.takeover()
	require.Empty(t, again.Objects)
	for _, e := range again.Entries {
		require.True(t, e.Adopted, fmt.Sprint(e))
	}
	w.edit(adopted, func(nw *nwv1.NodeWright) {
		p := nw.Spec.Packages["tools"]
		p.Version = "2.1.0"
		nw.Spec.Packages["tools"] = p
	})
	w.awaitComplete(adopted)
	for _, node := range []string{old, recent} {
		require.Equal(t, "2.1.0", w.record(adopted, node).Packages["tools"].Version, "and a change runs as any other")
	}
	jobs, err = w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, j := range jobs.Items {
		require.True(t, strings.HasPrefix(j.Labels[fleetv1.PackageNameLabel], "tools"), "only what changed: %s", j.Name)
		require.Equal(t, "install", j.Labels[fleetv1.PhaseLabel])
	}
	require.Len(t, jobs.Items, 2)
}
