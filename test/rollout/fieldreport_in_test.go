package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// executionPods are the pods of a NodeWright's executions, as admission left them.
func (w *world) executionPods(nodeWright string) []corev1.Pod {
	w.t.Helper()
	list, err := w.kube.CoreV1().Pods(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright})
	require.NoError(w.t, err)
	require.NotEmpty(w.t, list.Items)
	return list.Items
}

// requireReferences asserts that everything a pod refers to is there, and that it refers to no Secret.
func (w *world) requireReferences(pod corev1.Pod) {
	w.t.Helper()
	require.Empty(w.t, pod.Spec.ImagePullSecrets, pod.Name)
	_, err := w.kube.CoreV1().ServiceAccounts(namespace).Get(w.ctx(), pod.Spec.ServiceAccountName, metav1.GetOptions{})
	require.NoError(w.t, err)
	_, err = w.kube.SchedulingV1().PriorityClasses().Get(w.ctx(), pod.Spec.PriorityClassName, metav1.GetOptions{})
	require.NoError(w.t, err)
	for _, v := range pod.Spec.Volumes {
		require.Nil(w.t, v.Secret, "volume %s of %s", v.Name, pod.Name)
		if v.ConfigMap != nil {
			_, err := w.kube.CoreV1().ConfigMaps(namespace).Get(w.ctx(), v.ConfigMap.Name, metav1.GetOptions{})
			require.NoError(w.t, err)
		}
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		require.Empty(w.t, c.EnvFrom, "%s of %s", c.Name, pod.Name)
		for _, e := range c.Env {
			require.True(w.t, e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil && e.ValueFrom.ConfigMapKeyRef == nil, e.Name)
		}
	}
}

// TestFieldReport_IN08_NothingOptionalIsReferredTo: as the chart is installed by default, with a configMap and an interrupt.
func TestFieldReport_IN08_NothingOptionalIsReferredTo(t *testing.T) {
	w := newWorld(t)
	w.addNodes(1, nil)
	w.start()
	w.create(w.nodeWright("in08", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptService)
		p := nw.Spec.Packages["tuning"]
		p.ConfigMap = map[string]string{"grub.conf": "iommu=pt"}
		nw.Spec.Packages["tuning"] = p
	}))
	w.awaitComplete("in08")
	pods := w.executionPods("in08")
	require.Len(t, pods, 3)
	for _, pod := range pods {
		w.requireReferences(pod)
	}
}

// TestFieldReport_IN08_AMissingPullSecretIsReported: the chart's value imagePullSecrets stands in the execution account, from
// where admission copies it into each pod. Without the Secret the image cannot be pulled, and that is what people read.
func TestFieldReport_IN08_AMissingPullSecretIsReported(t *testing.T) {
	w := newWorld(t)
	w.addNodes(1, nil)
	accounts := w.kube.CoreV1().ServiceAccounts(namespace)
	set := func(secrets string) {
		_, err := accounts.Patch(w.ctx(), chart.ExecutionAccount, types.MergePatchType, []byte(`{"imagePullSecrets":`+secrets+`}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	set(`[{"name":"registry"}]`)
	defer set("null")
	const refused = "pull access denied, no basic auth credentials"
	w.result.set(func(pod *corev1.Pod, container string) simnode.Result {
		if container == "tuning-init" && len(pod.Spec.ImagePullSecrets) > 0 {
			return simnode.Result{ImagePullError: refused}
		}
		return simnode.Result{}
	})
	w.start()
	w.create(w.nodeWright("in08b", nil))
	nw := w.awaitStatus("in08b", "it is said", func(nw *nwv1.NodeWright) bool {
		return nw.Status.NodesFailed == 1 && len(nw.Status.Reasons) == 1
	})
	require.Equal(t, string(plan.ImagePull), nw.Status.Reasons[0].Reason)
	require.Contains(t, nw.Status.Reasons[0].Message, refused)
}

// TestFieldReport_IN07_DeletionNeedsNoProcessOfOurs: with no reconciler running, whoever may edit an object can let it go, and
// what is wrong is refused all the same.
func TestFieldReport_IN07_DeletionNeedsNoProcessOfOurs(t *testing.T) {
	w := newWorld(t)
	w.addNodes(1, nil)
	w.start()
	w.create(w.nodeWright("in07", withUninstall))
	require.Contains(t, w.awaitComplete("in07").Finalizers, fleetv1.UninstallFinalizer)
	w.stop()
	fleet := &fleetv1.Fleet{
		ObjectMeta: metav1.ObjectMeta{Name: "in07", Namespace: namespace, Finalizers: []string{fleetv1.PruneFinalizer}},
		Spec: fleetv1.FleetSpec{
			Source:   fleetv1.Source{URL: "https://git.example.com/acme/fleet.git"},
			Interval: metav1.Duration{Duration: time.Minute}, Timeout: metav1.Duration{Duration: time.Minute},
		},
	}
	w.create(fleet)
	for _, o := range []client.Object{w.get("in07"), fleet} {
		require.NoError(t, w.admin.Delete(w.ctx(), o))
		require.NoError(t, w.admin.Get(w.ctx(), client.ObjectKeyFromObject(o), o), "the finalizer holds it")
		require.NotNil(t, o.GetDeletionTimestamp())
		require.NoError(t, w.admin.Patch(w.ctx(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		require.True(t, apierrors.IsNotFound(w.admin.Get(w.ctx(), client.ObjectKeyFromObject(o), o)), "%T is gone", o)
	}
	wrong := w.nodeWright("in07b", func(nw *nwv1.NodeWright) {
		nw.Spec.Packages["tuning"] = nwv1.Package{Version: "1.0.0", Image: "example.com/tuning:1.0.0"}
	})
	require.ErrorContains(t, w.admin.Create(w.ctx(), wrong), "must be an image name without tag and digest")
}
