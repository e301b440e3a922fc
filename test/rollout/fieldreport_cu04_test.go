package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// withUninstall lets the package be uninstalled when it is removed.
func withUninstall(nw *nwv1.NodeWright) {
	p := nw.Spec.Packages["tuning"]
	p.Uninstall = &nwv1.Uninstall{Enabled: true}
	nw.Spec.Packages["tuning"] = p
}

func (w *world) gone(name string) bool {
	return apierrors.IsNotFound(w.admin.Get(w.ctx(), client.ObjectKey{Name: name}, &nwv1.NodeWright{}))
}

// A deleted NodeWright waits for its uninstalls. One that fails is visible with the way out, and can be abandoned: then the
// object goes, its records and cordons too. Before, the finalizer was there when the first Job was made.
func TestFieldReport_CU04_DeletionWaitsForTheUninstallAndCanBeReleased(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		if container == "tuning-uninstall" {
			return simnode.Result{Exit: 3, Log: "cannot remove: device busy"}
		}
		return simnode.Result{}
	})
	w.start()
	w.create(w.nodeWright("removed", withUninstall))
	require.Contains(t, w.awaitComplete("removed").Finalizers, fleetv1.UninstallFinalizer)
	require.NoError(t, w.admin.Delete(w.ctx(), w.get("removed")))
	nw := w.awaitStatus("removed", "the uninstall failed on both nodes", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesFailed == 2 })
	failed := meta.FindStatusCondition(nw.Status.Conditions, report.ConditionUninstallFailed)
	require.NotNil(t, failed)
	require.Equal(t, "node "+nodes[0]+" failed, package tuning, stage uninstall, exit code 3: cannot remove: device busy; "+
		"to leave the files where they are and go on, annotate the NodeWright with fleetwright.dev/abandon-uninstall=<new value>", failed.Message)
	waits := meta.FindStatusCondition(nw.Status.Conditions, report.ConditionUninstallProgress)
	require.Equal(t, "deleted; to be uninstalled on 2 nodes: "+strings.Join(nodes, ", "), waits.Message)

	w.edit("removed", func(nw *nwv1.NodeWright) {
		nw.Annotations = map[string]string{fleetv1.VerbKey(fleetv1.VerbAbandonUninstall): "1"}
	})
	require.Eventually(t, func() bool { return w.gone("removed") }, patience, 20*time.Millisecond, "the object goes")
	for _, n := range nodes {
		require.Eventually(t, func() bool {
			node := w.node(n)
			return node.Annotations[fleetv1.RecordKey("removed")] == "" && !node.Spec.Unschedulable
		}, patience, 20*time.Millisecond, "nothing is left on %s", n)
	}
}

// A deletion uninstalls with everything that was installed, and the object goes by itself.
func TestDeletionUninstallsAndGoes(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.start()
	w.create(w.nodeWright("going", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		withUninstall(nw)
		nw.Spec.InterruptionBudget = count(1)
	}))
	w.awaitComplete("going")
	boots := map[string]string{}
	for _, n := range nodes {
		boots[n] = w.node(n).Status.NodeInfo.BootID
	}
	require.NoError(t, w.admin.Delete(w.ctx(), w.get("going")))
	require.Eventually(t, func() bool { return w.gone("going") }, patience, 20*time.Millisecond, "the object goes")
	for _, n := range nodes {
		require.NotEqual(t, boots[n], w.node(n).Status.NodeInfo.BootID, "the interrupt of the uninstall ran on %s", n)
		require.False(t, w.node(n).Spec.Unschedulable)
	}
}
