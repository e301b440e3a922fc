package cluster_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// simulate runs simulated nodes named after the test's namespace; pods choose them by the label "test".
func simulate(t *testing.T, c *cluster.Cluster, ns string, count int) {
	t.Helper()
	fleet, err := simnode.New(c.Config(), simnode.Options{})
	require.NoError(t, err)
	for i := range count {
		name := ns + "-" + string(rune('a'+i))
		_, err := fleet.AddNode(t.Context(), name, map[string]string{"test": ns}, simnode.NodeOptions{})
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, fleet.Cleanup(context.Background()))
	})
}

func podSpec(ns string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector:  map[string]string{"test": ns},
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "main", Image: "registry.test/main:1"}},
	}
}

func TestScheduler_BindsAndAJobCompletesOnSimulatedNodes(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	simulate(t, c, ns, 2)
	k := client(t, c.Config())
	four := int32(4)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "work"}, Spec: batchv1.JobSpec{
		Completions: &four, Parallelism: &four, Template: corev1.PodTemplateSpec{Spec: podSpec(ns)}}}
	_, err := k.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		j, err := k.BatchV1().Jobs(ns).Get(t.Context(), "work", metav1.GetOptions{})
		return err == nil && j.Status.Succeeded == 4 && complete(j)
	}, patience, interval)
	pods, err := k.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, p := range pods.Items {
		require.Contains(t, []string{ns + "-a", ns + "-b"}, p.Spec.NodeName)
	}
}

func complete(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func TestEviction_IsRefusedWith429WhileABudgetForbidsIt(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	simulate(t, c, ns, 1)
	k := client(t, c.Config())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}, Spec: podSpec(ns)}
	_, err := k.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	one := intstr.FromInt32(1)
	_, err = k.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	requireHealthyBudget(t, k, ns)

	evict := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: ns}}
	err = k.PolicyV1().Evictions(ns).Evict(t.Context(), evict)
	require.True(t, apierrors.IsTooManyRequests(err), "got %v", err)

	require.NoError(t, k.PolicyV1().PodDisruptionBudgets(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return k.PolicyV1().Evictions(ns).Evict(t.Context(), evict) == nil }, patience, interval)
	require.Eventually(t, func() bool {
		_, err := k.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, patience, interval, "the simulated kubelet ends the pod")
}

func requireHealthyBudget(t *testing.T, k kubernetes.Interface, ns string) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := k.PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && b.Status.CurrentHealthy == 1 && b.Status.ObservedGeneration == b.Generation
	}, patience, interval)
}
