package cluster_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/test/cluster"
)

func TestAudit_TellsWhoAskedForWhatInOrder(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	bob, err := c.User("bob", "system:masters")
	require.NoError(t, err)
	k := client(t, rest.AddUserAgent(bob, "audit-test"))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	_, err = k.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.CoreV1().Nodes().Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	_, err = k.CoreV1().Nodes().Patch(t.Context(), ns, types.MergePatchType,
		[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "nobody", Namespace: ns}}
	require.Error(t, k.PolicyV1().Evictions(ns).Evict(t.Context(), eviction), "there is no such pod")

	require.NoError(t, c.Audit().Sync(t.Context()))
	events, err := c.Audit().Events(cluster.Match{User: "bob", UserAgent: "audit-test"})
	require.NoError(t, err)
	require.Len(t, events, 3)
	cordon, evict := events[1], events[2]
	require.Equal(t, []string{"patch", "nodes", ns}, []string{cordon.Verb, cordon.Resource, cordon.Name})
	require.Equal(t, 200, cordon.Code)
	require.JSONEq(t, `{"spec":{"unschedulable":true}}`, string(cordon.Request))
	require.False(t, cordon.Completed.Before(cordon.Received))
	require.Equal(t, []string{"create", "pods", "eviction", ns, "nobody"},
		[]string{evict.Verb, evict.Resource, evict.Subresource, evict.Namespace, evict.Name})
	require.Equal(t, 404, evict.Code)

	evictions, err := c.Audit().Events(cluster.Match{Resource: "pods/eviction", Namespace: ns})
	require.NoError(t, err)
	require.Len(t, evictions, 1)
	require.Equal(t, evict.URI, evictions[0].URI)
}
