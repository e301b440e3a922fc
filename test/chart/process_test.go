package chart_test

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// TestFieldReport_SE03_TheProcessIsNeverRefused runs the real reconciler under the shipped roles until it has created an execution, and finds
// no refusal in the API server's log.
func TestFieldReport_SE03_TheProcessIsNeverRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the reconciler")
	}
	admin := clientOf(t, installed(t))
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "process", Labels: map[string]string{"test": "process"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	becomeReady(t, "process")
	start(t)

	wright := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nvidia + "/v1alpha1", "kind": "NodeWright", "metadata": map[string]any{"name": "process"},
		"spec": map[string]any{
			"nodeSelectors": map[string]any{"matchLabels": map[string]any{"test": "process"}},
			"packages": map[string]any{"tuning": map[string]any{
				"version": "1.1.6", "image": "ghcr.io/nvidia/nodewright-packages/tuning",
				"interrupt": map[string]any{"type": "reboot"}, "configMap": map[string]any{"grub.conf": "iommu=pt"},
			}},
		},
	}}
	wrights := dynamicOf(t, installed(t)).Resource(schema.GroupVersionResource{Group: nvidia, Version: "v1alpha1", Resource: "nodewrights"})
	_, err = wrights.Create(t.Context(), wright, metav1.CreateOptions{})
	require.NoError(t, err)

	t.Cleanup(func() {
		if live, err := wrights.Get(context.Background(), "process", metav1.GetOptions{}); t.Failed() && err == nil {
			t.Logf("status: %v", live.Object["status"])
		}
	})
	require.Eventually(t, func() bool {
		jobs, err := admin.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(jobs.Items) == 1
	}, 2*patience, interval, "an execution is created")
	job, err := admin.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	pod := job.Items[0].Spec.Template.Spec
	require.Equal(t, chart.ExecutionAccount, pod.ServiceAccountName)
	require.Equal(t, "fleetwright-execution", pod.PriorityClassName)
	require.Eventually(t, func() bool {
		events, err := admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for _, e := range events.Items {
			if e.Regarding.Name == "process" && e.ReportingController == "fleetwright" {
				return true
			}
		}
		return false
	}, patience, interval, "an event about a cluster-scoped object arrives")

	require.NoError(t, cluster.Shared(t).Audit().Sync(t.Context()))
	requests, err := cluster.Shared(t).Audit().Events(cluster.Match{UserAgent: "fleetwright-reconciler"})
	require.NoError(t, err)
	require.NotEmpty(t, requests)
	for _, r := range requests {
		require.NotEqual(t, http.StatusForbidden, r.Code, "%s %s is refused by the chart's roles", r.Verb, r.URI)
	}
}

// becomeReady does what a kubelet and the node controller do.
func becomeReady(t *testing.T, name string) {
	t.Helper()
	nodes := clientOf(t, installed(t)).CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	node.Spec.Taints = nil
	node, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.MachineID = "boot-1", "machine-1"
	_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// start builds the reconciler and runs it with the token of its account; it is stopped at the test's end.
func start(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	binary, kubeconfig := filepath.Join(dir, "fleetwright-reconciler"), filepath.Join(dir, "kubeconfig")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/fleetwright-reconciler").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, cluster.WriteKubeconfig(kubeconfig, asReconciler(t)))
	var log bytes.Buffer
	process := exec.Command(binary, "--kubeconfig="+kubeconfig, "--namespace="+namespace, "--agent-image=example.com/agent:1",
		"--metrics-address=127.0.0.1:0", "--probe-address=127.0.0.1:0")
	process.Stdout, process.Stderr = &log, &log
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		require.NoError(t, process.Process.Signal(syscall.SIGTERM))
		timer := time.AfterFunc(patience, func() { _ = process.Process.Kill() })
		defer timer.Stop()
		err := process.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
		require.NoError(t, err, "it stops by itself")
	})
}
