package rollout

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

func sprint(v any) string { return fmt.Sprintf("%+v", v) }

func TestInstallWithoutInterrupt(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(3, nil)
	w.start()
	w.create(w.nodeWright("plain", nil))
	nw := w.awaitComplete("plain")
	require.Equal(t, "3/3", nw.Status.CompleteNodes)
	for _, name := range nodes {
		node := w.node(name)
		require.False(t, node.Spec.Unschedulable)
		require.Equal(t, "complete", node.Labels[nwv1.StatusKey("plain")])
		require.JSONEq(t, `{"tuning|1.0.0":{"name":"tuning","version":"1.0.0","image":"example.com/tuning","stage":"config","state":"complete"}}`,
			node.Annotations[nwv1.NodeStateKey("plain")])
	}
}

func TestInstallWithReboot(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(3, nil)
	before := map[string]string{}
	for _, name := range nodes {
		before[name] = w.node(name).Status.NodeInfo.BootID
	}
	w.start()
	w.create(w.nodeWright("reboot", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		nw.Spec.InterruptionBudget = count(1)
	}))
	w.awaitComplete("reboot")
	for _, name := range nodes {
		node := w.node(name)
		require.NotEqual(t, before[name], node.Status.NodeInfo.BootID, "the node was rebooted")
		require.False(t, node.Spec.Unschedulable)
		require.Empty(t, node.Annotations[nwv1.CordonKey("reboot")])
	}
}
