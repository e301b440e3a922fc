package simnode_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/test/simnode"
)

func TestAddNode_IsReadyAndSchedulable(t *testing.T) {
	w := newWorld(t, simnode.Options{})
	n := w.node()
	require.Equal(t, "KubeletReady", condition(n).Reason)
	require.Empty(t, n.Spec.Taints)
	require.Equal(t, "a", n.Labels["pool"])
	require.Equal(t, n.Name, n.Labels[corev1.LabelHostname])
	require.NotEmpty(t, n.Status.NodeInfo.BootID)
	require.NotEmpty(t, n.Status.NodeInfo.MachineID)
	require.Equal(t, "Simulated Linux 1", n.Status.NodeInfo.OSImage)
	require.Equal(t, int64(8), n.Status.Allocatable.Cpu().Value())

	fresh, err := w.fleet.AddNode(t.Context(), w.ns+"-fresh", nil, simnode.NodeOptions{NotReady: true, OSImage: "Other OS"})
	require.NoError(t, err)
	require.Equal(t, corev1.ConditionFalse, condition(fresh).Status)
	require.Equal(t, []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}, fresh.Spec.Taints)
	require.Equal(t, "Other OS", fresh.Status.NodeInfo.OSImage)
	_, err = w.fleet.AddNode(t.Context(), w.ns, nil, simnode.NodeOptions{})
	require.True(t, apierrors.IsAlreadyExists(err), "got %v", err)
}

func TestNodeWrites_LeaveForeignFieldsAlone(t *testing.T) {
	w := newWorld(t, simnode.Options{RebootDuration: time.Millisecond})
	patch := func(body string, sub ...string) {
		_, err := w.k.CoreV1().Nodes().Patch(t.Context(), w.ns, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, sub...)
		require.NoError(t, err)
	}
	patch(`{"metadata":{"annotations":{"a":"b"}},"spec":{"unschedulable":true,"taints":[{"key":"mine","effect":"NoSchedule"}]}}`)
	patch(`{"status":{"conditions":[{"type":"Foreign","status":"True"}],"nodeInfo":{"osImage":"Patched"}}}`, "status")
	boot := w.node().Status.NodeInfo.BootID
	require.NoError(t, w.fleet.SetReady(t.Context(), w.ns, false))
	require.Equal(t, corev1.ConditionFalse, condition(w.node()).Status)
	require.NoError(t, w.fleet.Reboot(t.Context(), w.ns))
	require.Eventually(t, func() bool {
		n := w.node()
		return n.Status.NodeInfo.BootID != boot && condition(n).Status == corev1.ConditionTrue && !hasTaint(n, corev1.TaintNodeNotReady)
	}, patience, interval)

	n := w.node()
	require.True(t, n.Spec.Unschedulable)
	require.Equal(t, "b", n.Annotations["a"])
	require.True(t, hasTaint(n, "mine"))
	require.Equal(t, "Patched", n.Status.NodeInfo.OSImage)
	var types []corev1.NodeConditionType
	for _, c := range n.Status.Conditions {
		types = append(types, c.Type)
	}
	require.Contains(t, types, corev1.NodeConditionType("Foreign"))
}

func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

func TestRecreateNode_IsAnotherMachineOfTheSameName(t *testing.T) {
	w := newWorld(t, simnode.Options{})
	before := w.node()
	after, err := w.fleet.RecreateNode(t.Context(), w.ns)
	require.NoError(t, err)
	require.Equal(t, before.Labels, after.Labels)
	require.NotEqual(t, before.UID, after.UID)
	require.NotEqual(t, before.Status.NodeInfo.MachineID, after.Status.NodeInfo.MachineID)
	require.NotEqual(t, before.Status.NodeInfo.BootID, after.Status.NodeInfo.BootID)

	require.NoError(t, w.fleet.DeleteNode(t.Context(), w.ns))
	_, err = w.k.CoreV1().Nodes().Get(t.Context(), w.ns, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "got %v", err)
	require.EqualError(t, w.fleet.Reboot(t.Context(), w.ns), "power off: node "+w.ns+" is not one of this fleet")
}

func TestHeartbeat_RenewsTheLeaseWhileTheMachineIsOn(t *testing.T) {
	w := newWorld(t, simnode.Options{Heartbeat: 5 * time.Millisecond})
	lease := func() *coordinationv1.Lease {
		l, err := w.k.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), w.ns, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return l
	}
	require.Eventually(t, func() bool { return lease() != nil }, patience, interval)
	first := lease()
	require.Eventually(t, func() bool { return lease().Spec.RenewTime.After(first.Spec.RenewTime.Time) }, patience, interval)
	t.Cleanup(func() {
		_ = w.k.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(context.Background(), w.ns, metav1.DeleteOptions{})
	})
}
