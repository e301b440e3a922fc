//go:build linux

package e2e

import (
	"net/http"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/realnode"
)

// web is a workload that may be moved, and has to be before an interrupt.
const web = "web"

func (l *lab) addWorkload() {
	labels, one, grace := map[string]string{"app": web}, int32(1), int64(1)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: web, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					HostNetwork: true, TerminationGracePeriodSeconds: &grace, // machines have no pod network
					Containers: []corev1.Container{{Name: web, Image: realnode.Registry + "/base:1"}},
				},
			},
		},
	}
	require.NoError(l.t, l.client.Create(l.t.Context(), d))
	l.until("the workload runs", l.workload)
}

// workload says what is not well with it.
func (l *lab) workload() string {
	d, err := l.kube.AppsV1().Deployments(metav1.NamespaceDefault).Get(l.t.Context(), web, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if d.Status.AvailableReplicas < 1 {
		return "no replica is available"
	}
	return ""
}

// moved: before each interrupt of its machine the workload was asked to leave, by eviction, and it runs again.
func (l *lab) moved() {
	evictions, err := l.nodes.Cluster.Audit().Events(cluster.Match{
		Verb: "create", Resource: "pods/eviction", Namespace: metav1.NamespaceDefault, UserAgent: "fleetwright-reconciler",
	})
	require.NoError(l.t, err)
	accepted := map[string]bool{}
	for _, e := range evictions {
		if e.Code == http.StatusCreated {
			accepted[e.Name] = true
		}
	}
	require.GreaterOrEqual(l.t, len(accepted), 2, "pods that were evicted: %v", accepted)
	l.until("the workload runs again", l.workload)
}
