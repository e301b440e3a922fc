//lint:file-ignore U1000 the vocabulary of the tests of this package
package rollout

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// nodeWright is a NodeWright over all nodes of the test with one package.
func (w *world) nodeWright(name string, change func(*nwv1.NodeWright)) *nwv1.NodeWright {
	nw := &nwv1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: nwv1.NodeWrightSpec{
			NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"test": w.prefix}},
			Packages:      map[string]nwv1.Package{"tuning": {Version: "1.0.0", Image: "example.com/tuning"}},
		},
	}
	if change != nil {
		change(nw)
	}
	return nw
}

func count(n int32) *nwv1.InterruptionBudget { return &nwv1.InterruptionBudget{Count: &n} }

// withInterrupt gives the package an interrupt.
func withInterrupt(nw *nwv1.NodeWright, kind nwv1.InterruptType) {
	p := nw.Spec.Packages["tuning"]
	p.Interrupt = &nwv1.Interrupt{Type: kind}
	if kind == nwv1.InterruptService {
		p.Interrupt.Services = []string{"containerd"}
	}
	nw.Spec.Packages["tuning"] = p
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	require.NoError(w.t, w.admin.Create(w.ctx(), o))
}

// edit changes the spec of a NodeWright, as a person would.
func (w *world) edit(name string, change func(*nwv1.NodeWright)) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		nw := w.get(name)
		change(nw)
		err := w.admin.Update(w.ctx(), nw)
		if !apierrors.IsConflict(err) {
			require.NoError(w.t, err)
		}
		return err == nil
	}, patience, 10*time.Millisecond)
}

func setVersion(v string) func(*nwv1.NodeWright) {
	return func(nw *nwv1.NodeWright) {
		for name, p := range nw.Spec.Packages {
			p.Version = v
			nw.Spec.Packages[name] = p
		}
	}
}

func (w *world) get(name string) *nwv1.NodeWright {
	w.t.Helper()
	nw := &nwv1.NodeWright{}
	require.NoError(w.t, w.admin.Get(w.ctx(), client.ObjectKey{Name: name}, nw))
	return nw
}

// complete says that the status is about the newest generation and complete, at that version of the package.
func complete(nw *nwv1.NodeWright) bool {
	return nw.Status.Status == nwv1.StatusComplete && nw.Status.ObservedGeneration == nw.Generation
}

func (w *world) awaitStatus(name, what string, ok func(*nwv1.NodeWright) bool) *nwv1.NodeWright {
	w.t.Helper()
	var nw *nwv1.NodeWright
	require.Eventually(w.t, func() bool {
		nw = w.get(name)
		return ok(nw)
	}, patience, 20*time.Millisecond, "nodewright %s: %s; last: %v", name, what, lazy(func() any { return nw.Status }))
	return nw
}

func (w *world) awaitComplete(name string) *nwv1.NodeWright {
	w.t.Helper()
	return w.awaitStatus(name, "complete", complete)
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	node, err := w.kube.CoreV1().Nodes().Get(w.ctx(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return node
}

func (w *world) patchNode(name, patch string) {
	w.t.Helper()
	_, err := w.kube.CoreV1().Nodes().Patch(w.ctx(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// record reads the record of a NodeWright on a node.
func (w *world) record(nodeWright, name string) noderecord.Record {
	w.t.Helper()
	node := w.node(name)
	r, _, err := noderecord.Decode(node.Annotations[fleetv1.RecordKey(nodeWright)], node.UID)
	require.NoError(w.t, err)
	return r
}

// addPod binds a pod to a node, in the namespace default.
func (w *world) addPod(name, node string, change func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"test": w.prefix}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
	}
	if change != nil {
		change(pod)
	}
	require.NoError(w.t, w.admin.Create(w.ctx(), pod))
	w.t.Cleanup(func() {
		_ = w.admin.Delete(w.ctx(), pod, client.GracePeriodSeconds(0))
	})
	require.Eventually(w.t, func() bool {
		err := w.admin.Get(w.ctx(), client.ObjectKeyFromObject(pod), pod)
		return err == nil && pod.Status.Phase == corev1.PodRunning
	}, patience, 20*time.Millisecond, "pod %s runs", name)
	return pod
}

// lazy words a value when a failed assertion is printed.
type lazy func() any

func (l lazy) String() string { return sprint(l()) }

// dropFinalizers lets deleted NodeWrights go.
func (w *world) dropFinalizers(ctx context.Context) {
	list := &nwv1.NodeWrightList{}
	require.NoError(w.t, w.admin.List(ctx, list))
	for i := range list.Items {
		if len(list.Items[i].Finalizers) > 0 {
			list.Items[i].Finalizers = nil
			require.NoError(w.t, client.IgnoreNotFound(w.admin.Update(ctx, &list.Items[i])))
		}
	}
}
