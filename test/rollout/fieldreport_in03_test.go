package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/reconciler"
)

// withoutField takes a field of the spec out of an installed CRD, as an older one is without it, and returns what puts it back.
func (w *world) withoutField(name, field string) (restore func()) {
	w.t.Helper()
	var original any
	edit := func(change func(properties map[string]any)) {
		require.Eventually(w.t, func() bool {
			crd := &unstructured.Unstructured{}
			crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
			require.NoError(w.t, w.admin.Get(w.ctx(), client.ObjectKey{Name: name}, crd))
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			require.NoError(w.t, err)
			properties := versions[0].(map[string]any)
			for _, step := range []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"} {
				properties = properties[step].(map[string]any)
			}
			change(properties)
			require.NoError(w.t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
			err = w.admin.Update(w.ctx(), crd)
			require.True(w.t, err == nil || apierrors.IsConflict(err), "%v", err)
			return err == nil
		}, patience, 20*time.Millisecond)
	}
	edit(func(properties map[string]any) {
		original = properties[field]
		delete(properties, field)
	})
	require.NotNil(w.t, original)
	return func() { edit(func(properties map[string]any) { properties[field] = original }) }
}

// TestFieldReport_IN03_OlderCRDsAreNamedAndNothingIsDone: of a NodeWright whose drainConfig the API server drops, the nodes would
// be drained without its limits. The check runs with the rights of the reconciler's account.
func TestFieldReport_IN03_OlderCRDsAreNamedAndNothingIsDone(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	kube, err := kubernetes.NewForConfig(w.config)
	require.NoError(t, err)
	says := func(want string) func() bool {
		return func() bool {
			problem, err := adapter.NewSchemas(kube, time.Now).Outdated(w.ctx())
			require.NoError(t, err)
			return problem == want
		}
	}
	require.Eventually(t, says(""), patience, 100*time.Millisecond, "the chart's own CRDs are as expected")
	restore := w.withoutField("nodewrights.nodewright.nvidia.com", "drainConfig")
	t.Cleanup(restore)
	const problem = "CustomResourceDefinition nodewrights.nodewright.nvidia.com is older than this reconciler: the API server drops " +
		"spec.drainConfig; apply the directory crds/ of this version's chart with kubectl apply --server-side"
	require.Eventually(t, says(problem), patience, 100*time.Millisecond)

	w.startWith(func(loop *reconciler.Rollout) { loop.Standby = adapter.NewSchemas(kube, time.Now).Outdated })
	w.create(w.nodeWright("in03", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	nw := w.awaitStatus("in03", "it says why nothing is done", func(nw *nwv1.NodeWright) bool { return len(nw.Status.Reasons) == 1 })
	require.Equal(t, string(plan.Standby), nw.Status.Reasons[0].Reason)
	require.Contains(t, nw.Status.Reasons[0].Message, problem)
	require.Empty(t, w.jobs("in03"))
	require.False(t, w.node(node).Spec.Unschedulable)
	require.NotContains(t, w.node(node).Annotations, fleetv1.RecordKey("in03"))

	restore()
	require.Eventually(t, says(""), patience, 100*time.Millisecond)
	w.patchNode(node, `{"metadata":{"labels":{"wake":"1"}}}`)
	w.awaitComplete("in03")
}
