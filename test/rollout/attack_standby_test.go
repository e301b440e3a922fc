package rollout

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// startWith runs the loop as start does, changed.
func (w *world) startWith(change func(*reconciler.Rollout)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	loop, run := w.build()
	change(loop)
	go func() { done <- run(ctx, loop) }()
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(w.t, <-done)
		}
	}
}

// put creates an object that goes at the end of the test.
func (w *world) put(o client.Object) {
	w.t.Helper()
	w.create(o)
	w.t.Cleanup(func() { _ = w.admin.Delete(context.Background(), o) })
}

func rivalWebhook() *admissionv1.ValidatingWebhookConfiguration {
	none, ignore := admissionv1.SideEffectClassNone, admissionv1.Ignore
	path := "/validate-nodewright-nvidia-com-v1alpha1-nodewright"
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "nodewright-operator-validating-webhook"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "vnodewright.kb.io", SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "nowhere", Name: "x", Path: &path}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{nwv1.Group}, APIVersions: []string{"v1alpha1"}, Resources: []string{"nothing"}},
			}},
		}},
	}
}

func rivalLease(renewed time.Time) *coordinationv1.Lease {
	holder, seconds, at := "operator-1", int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "3c22c1ae.nvidia.com", Namespace: metav1.NamespaceDefault},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
}

func rivalDeployment(env ...string) *appsv1.Deployment {
	labels := map[string]string{"control-plane": "controller-manager"}
	container := corev1.Container{Name: "manager", Image: "mirror.example.com/any"}
	for _, name := range env {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: "x"})
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "operator", Namespace: metav1.NamespaceDefault, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
		},
	}
}

// While NVIDIA's operator is active, nothing is done and every condition says so; when it goes, the work begins by itself.
// The check runs under the rights that the chart gives.
func TestAttackAnotherOwnerIsActive(t *testing.T) {
	w := newWorld(t)
	w.addNodes(2, nil)
	webhook := rivalWebhook()
	w.put(webhook)
	kube, err := kubernetes.NewForConfig(w.config)
	require.NoError(t, err)
	w.startWith(func(loop *reconciler.Rollout) { // each answer counts at once: the look is new in every pass
		loop.Standby = func(ctx context.Context) (string, error) { return adapter.NewRivals(kube, time.Now).Active(ctx) }
	})
	w.create(w.nodeWright("rival", nil))
	nw := w.awaitStatus("rival", "it stands by", func(nw *nwv1.NodeWright) bool { return nw.Status.Status == nwv1.StatusBlocked })
	ready := apimeta.FindStatusCondition(nw.Status.Conditions, "Ready")
	require.Equal(t, metav1.ConditionFalse, ready.Status)
	require.Contains(t, nw.Status.Reasons[0].Message, "NVIDIA's operator is active: its ValidatingWebhookConfiguration nodewright-operator-validating-webhook is there")
	require.Empty(t, w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}))
	require.Empty(t, w.jobs("rival"))
	require.NoError(t, w.admin.Delete(w.ctx(), webhook))
	w.awaitComplete("rival")
}

func TestAttackSignsOfAnotherOwner(t *testing.T) {
	w := newWorld(t)
	kube, err := kubernetes.NewForConfig(w.config)
	require.NoError(t, err)
	now := time.Now()
	active := func() string {
		sign, err := adapter.NewRivals(kube, func() time.Time { return now }).Active(w.ctx())
		require.NoError(t, err)
		return sign
	}
	require.Empty(t, active())
	w.put(rivalLease(now))
	require.Equal(t, "NVIDIA's operator is active: operator-1 holds the lease default/3c22c1ae.nvidia.com", active())
	now = now.Add(2 * time.Minute)
	require.Empty(t, active(), "a lease that is not renewed is not held")

	other := rivalDeployment("RUNTIME_REQUIRED_TAINT")
	other.Name = "another-operator"
	ours := rivalDeployment("RUNTIME_REQUIRED_TAINT", "COPY_DIR_ROOT")
	for _, d := range []*appsv1.Deployment{other, ours} {
		w.put(d)
		require.Empty(t, active(), "no pod of it is ready")
	}
	ready := []byte(`{"status":{"readyReplicas":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`)
	require.Eventually(t, func() bool { // a Deployment controller may write its own count in between
		for _, d := range []*appsv1.Deployment{other, ours} {
			require.NoError(t, w.admin.Status().Patch(w.ctx(), d, client.RawPatch(types.MergePatchType, ready)))
		}
		return active() == "NVIDIA's operator is active: Deployment default/operator has 1 ready pods"
	}, patience, 20*time.Millisecond)
	require.NoError(t, w.admin.Delete(w.ctx(), ours))
	require.Empty(t, active(), "the Deployment of another operator is none of ours")

	engine := rivalWebhook()
	path := "/validate/fail"
	engine.Name, engine.Webhooks[0].ClientConfig.Service.Path = "policy-engine", &path
	w.put(engine)
	require.Empty(t, active(), "a policy engine may judge these kinds")
}
