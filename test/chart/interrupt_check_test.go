package chart_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	"github.com/fleetwright/fleetwright/pkg/agent"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/chart"
)

// lastLook is the agent's side of an interrupt Job: what its container is given, against the real API server and with the
// rights of the chart's account.
func lastLook(t *testing.T, config *rest.Config, node *corev1.Node, stay ...types.UID) func() error {
	job := adapter.BuildJob(plan.ExecutionSpec{
		ExecutionKey: plan.ExecutionKey{NodeWright: "tune", NodeUID: node.UID, Phase: plan.PhaseInterrupt},
		Node:         node.Name, Interrupt: &noderecord.Interrupt{Type: nwv1.InterruptReboot},
		Guard: plan.InterruptGuard{Protect: labels.SelectorFromSet(labels.Set{"team": "ml"}), DaemonSets: true, Stay: stay},
	}, node, adapter.JobSettings{Namespace: namespace, AgentImage: "agent:1", InterruptAccount: chart.InterruptAccount})
	pod := job.Spec.Template.Spec
	require.Equal(t, chart.InterruptAccount, pod.ServiceAccountName)
	container := pod.InitContainers[0]
	require.Equal(t, agent.CredentialsDir, container.VolumeMounts[len(container.VolumeMounts)-1].MountPath)
	value := ""
	for _, e := range container.Env {
		if e.Name == agent.NodeCheckVariable {
			value = e.Value
		}
	}
	check, err := agent.ParseNodeCheck(value)
	require.NoError(t, err)

	account, err := chart.AccountConfig(t.Context(), config, namespace, chart.InterruptAccount)
	require.NoError(t, err)
	dir := t.TempDir()
	ca := account.CAData
	if len(ca) == 0 {
		ca, err = os.ReadFile(account.CAFile)
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(account.BearerToken), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600))
	at, err := url.Parse(account.Host)
	require.NoError(t, err)
	server, err := agent.InCluster([]string{"KUBERNETES_SERVICE_HOST=" + at.Hostname(), "KUBERNETES_SERVICE_PORT=" + at.Port()}, dir)
	require.NoError(t, err)
	return func() error { return check.Look(t.Context(), server) }
}

// TestTheLastLookOfAnInterrupt: the agent sees in the API server itself what has changed since the interrupt was decided.
func TestTheLastLookOfAnInterrupt(t *testing.T) {
	config := installed(t)
	client := clientOf(t, config)
	nodes, pods := client.CoreV1().Nodes(), client.CoreV1().Pods(namespace)
	clean := func(f func(context.Context) error) {
		t.Cleanup(func() { _ = f(context.WithoutCancel(t.Context())) })
	}
	node, err := nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "last-look"}, Spec: corev1.NodeSpec{Unschedulable: true},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	clean(func(ctx context.Context) error { return nodes.Delete(ctx, node.Name, metav1.DeleteOptions{}) })
	addPod := func(name string, l map[string]string) *corev1.Pod {
		none := int64(0)
		pod, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l},
			Spec: corev1.PodSpec{
				NodeName: node.Name, TerminationGracePeriodSeconds: &none, ServiceAccountName: chart.ExecutionAccount,
				Containers: []corev1.Container{{Name: "c", Image: "i"}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		clean(func(ctx context.Context) error {
			return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &none})
		})
		return pod
	}
	dns := addPod("dns", nil)
	look := lastLook(t, config, node, dns.UID)
	require.NoError(t, look(), "cordoned, and only a pod that may stay")

	late := addPod("late", nil)
	require.EqualError(t, look(), "pod "+namespace+"/late is on node last-look")
	require.NoError(t, pods.Delete(t.Context(), late.Name, metav1.DeleteOptions{}))
	addPod("execution", map[string]string{nwv1.NameLabel: "tune"})
	require.NoError(t, look(), "executions are no workload")
	addPod("train", map[string]string{"team": "ml"})
	require.EqualError(t, look(), "the protected pod "+namespace+"/train is on node last-look")
	require.NoError(t, pods.Delete(t.Context(), "train", metav1.DeleteOptions{}))
	require.NoError(t, look())

	_, err = nodes.Patch(t.Context(), node.Name, types.MergePatchType, []byte(`{"spec":{"unschedulable":false}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.EqualError(t, look(), "node last-look is not cordoned")
	other := node.DeepCopy()
	other.UID = "another"
	require.ErrorContains(t, lastLook(t, config, other)(), "node last-look is another one: its UID is "+string(node.UID))
}
