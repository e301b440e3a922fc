package explain

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rules are those of the eviction API (pkg/registry/core/pod/storage/eviction.go of Kubernetes).
func TestRefusedByBudget(t *testing.T) {
	always := policyv1.AlwaysAllow
	spent := policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 1}
	for name, tc := range map[string]struct {
		status  policyv1.PodDisruptionBudgetStatus
		policy  *policyv1.UnhealthyPodEvictionPolicyType
		label   string
		phase   corev1.PodPhase
		ready   bool
		leaving bool
		want    bool
	}{
		"a spent budget":                         {status: spent, label: "web", phase: corev1.PodRunning, ready: true, want: true},
		"one that allows":                        {status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}, label: "web", phase: corev1.PodRunning, ready: true},
		"another application":                    {status: spent, label: "db", phase: corev1.PodRunning, ready: true},
		"a pod that has not begun":               {status: spent, label: "web", phase: corev1.PodPending},
		"a pod that leaves":                      {status: spent, label: "web", phase: corev1.PodRunning, ready: true, leaving: true},
		"not ready, enough others are":           {status: spent, label: "web", phase: corev1.PodRunning},
		"not ready, others are missing":          {status: policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 1}, label: "web", phase: corev1.PodRunning, want: true},
		"not ready, and always allowed to leave": {status: policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 1}, policy: &always, label: "web", phase: corev1.PodRunning},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": tc.label}}, Status: corev1.PodStatus{Phase: tc.phase}}
			if tc.ready {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			if tc.leaving {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			budget := policyv1.PodDisruptionBudget{Status: tc.status, Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, UnhealthyPodEvictionPolicy: tc.policy,
			}}
			require.Equal(t, tc.want, refuses(budget, pod))
		})
	}
}
