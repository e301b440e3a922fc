package chart_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/test/cluster"
)

var ledgers = schema.GroupVersionResource{Group: ours, Version: "v1alpha1", Resource: "ledgers"}

// somebody is a user with every right that RBAC can give, but not one of the exempt groups.
func somebody(t *testing.T) *rest.Config {
	t.Helper()
	client := clientOf(t, installed(t))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "somebody"}},
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	cfg, err := cluster.Shared(t).User("somebody")
	require.NoError(t, err)
	return cfg
}

func patchNode(t *testing.T, client kubernetes.Interface, patch string, subresources ...string) error {
	t.Helper()
	_, err := client.CoreV1().Nodes().
		Patch(t.Context(), "admission", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

func TestOnlyTheReconcilerWritesRecords(t *testing.T) {
	admin, user, reconciler := clientOf(t, installed(t)), clientOf(t, somebody(t)), clientOf(t, asReconciler(t))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admission"}}
	_, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	require.NoError(t, err)
	record := func(value string) string {
		return `{"metadata":{"annotations":{"fleetwright.dev/record_x":` + value + `}}}`
	}

	// A policy takes effect a moment after it was written.
	require.Eventually(t, func() bool {
		_, err := user.CoreV1().Nodes().Patch(t.Context(), "admission", types.MergePatchType, []byte(record(`"forged"`)),
			metav1.PatchOptions{DryRun: []string{"All"}})
		return err != nil
	}, patience, interval)
	require.ErrorContains(t, patchNode(t, user, record(`"forged"`)), "only the reconciler writes the annotations fleetwright.dev/record_*")
	require.NoError(t, patchNode(t, reconciler, record(`"{}"`)))
	require.ErrorContains(t, patchNode(t, user, record(`"forged"`)), "only the reconciler writes the annotations")
	require.ErrorContains(t, patchNode(t, user, record(`"forged"`), "status"), "only the reconciler writes the annotations")
	require.ErrorContains(t, patchNode(t, user, record("null")), "only the reconciler removes the annotations")
	forged := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "forged", Annotations: map[string]string{"fleetwright.dev/record_x": "{}"},
	}}
	_, err = user.CoreV1().Nodes().Create(t.Context(), forged, metav1.CreateOptions{})
	require.ErrorContains(t, err, "only the reconciler writes the annotations")

	// Everything else on a node stays with those who may write it, the operator's verbs too.
	require.NoError(t, patchNode(t, user, `{"metadata":{"annotations":{"fleetwright.dev/retry":"1"},"labels":{"tier":"canary"}}}`))
	require.NoError(t, patchNode(t, user, `{"spec":{"unschedulable":true}}`))
	require.NoError(t, patchNode(t, user, `{"status":{"phase":"Running"}}`, "status"))
	_, err = user.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "honest"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, patchNode(t, admin, record("null")), "system:masters can repair by hand")
	require.NoError(t, user.CoreV1().Nodes().Delete(t.Context(), "admission", metav1.DeleteOptions{}))
}

func TestOnlyTheReconcilerWritesTheLedger(t *testing.T) {
	admin := dynamicOf(t, installed(t)).Resource(ledgers)
	user, reconciler := dynamicOf(t, somebody(t)).Resource(ledgers), dynamicOf(t, asReconciler(t)).Resource(ledgers)
	ledger := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": ours + "/v1alpha1", "kind": "Ledger", "metadata": map[string]any{"name": name},
		}}
	}
	const refusal = "only the reconciler writes Ledgers; to end a halt, annotate the NodeWright with fleetwright.dev/resume"
	require.Eventually(t, func() bool {
		_, err := user.Create(t.Context(), ledger("cluster"), metav1.CreateOptions{DryRun: []string{"All"}})
		return err != nil
	}, patience, interval)
	_, err := user.Create(t.Context(), ledger("cluster"), metav1.CreateOptions{})
	require.ErrorContains(t, err, refusal)

	live, err := reconciler.Create(t.Context(), ledger("cluster"), metav1.CreateOptions{})
	require.NoError(t, err)
	live.Object["spec"] = map[string]any{"epoch": int64(1)}
	_, err = user.Update(t.Context(), live, metav1.UpdateOptions{})
	require.ErrorContains(t, err, refusal)
	live, err = reconciler.Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	epoch, _, err := unstructured.NestedInt64(live.Object, "spec", "epoch")
	require.NoError(t, err)
	require.EqualValues(t, 1, epoch)
	require.ErrorContains(t, user.Delete(t.Context(), "cluster", metav1.DeleteOptions{}), refusal)
	require.NoError(t, admin.Delete(t.Context(), "cluster", metav1.DeleteOptions{}), "system:masters can repair by hand")
}
