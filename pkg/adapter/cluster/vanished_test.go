package cluster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// A node is gone from the cache and its Job is not in the cache yet: the view waits for the Job.
func TestJobsOfVanishedNodesAreAwaited(t *testing.T) {
	scheme, err := Scheme()
	require.NoError(t, err)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleetwright", Name: "fw-late", ResourceVersion: "1",
		Labels: map[string]string{fleetv1.ManagedByLabel: fleetv1.FieldManager, fleetv1.NodeUIDLabel: "a"},
	}}
	other := job.DeepCopy()
	other.Name, other.Labels[fleetv1.NodeUIDLabel] = "fw-other", "b"
	api := fake.NewClientset(job, other)
	cached := clientfake.NewClientBuilder().WithScheme(scheme).Build()
	o := NewObserver(cached, cached, api, "fleetwright")
	require.NoError(t, o.awaitJobsOfVanished(t.Context(), &plan.Input{}))
	require.Empty(t, api.Actions(), "nothing is listed as long as no node vanishes")

	o.nodes.meet([]metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "a"}}})
	o.nodes.of(nil)
	require.Len(t, o.nodes.vanished(), 1, "a node of a new leader's list that the first view does not show")
	ctx, cancel := context.WithTimeout(t.Context(), 20*cachePoll)
	defer cancel()
	require.ErrorContains(t, o.awaitJobsOfVanished(ctx, &plan.Input{}), "wait for the cache to show fw-late")
	require.Len(t, o.nodes.vanished(), 1, "it is asked for again")

	job.ResourceVersion = ""
	require.NoError(t, cached.Create(t.Context(), job))
	require.NoError(t, o.awaitJobsOfVanished(t.Context(), &plan.Input{}))
	require.Empty(t, o.nodes.vanished(), "the Job is seen")
}
