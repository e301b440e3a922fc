package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// A status whose write was answered by a conflict is not written: the pass has to say so, as nothing else may wake the loop. What
// was deleted, or made anew under its name, needs no status.
func TestAConflictOfAStatusIsAnError(t *testing.T) {
	w := newWorld(t)
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	scheme, err := adapter.Scheme()
	require.NoError(t, err)
	writer, err := client.New(proxy.ConfigFor(w.config), client.Options{Scheme: scheme})
	require.NoError(t, err)
	statuses := adapter.NewStatuses(w.admin, writer)
	w.create(w.nodeWright("conflict", nil))
	old := w.get("conflict")
	status := nwv1.NodeWrightStatus{Status: nwv1.StatusWaiting}

	proxy.Fail(cluster.Match{Verb: "patch", Resource: "nodewrights/status"}, 409, 1)
	require.ErrorContains(t, statuses.Write(w.ctx(), old, status), "write status of nodewright conflict: ")
	require.NoError(t, statuses.Write(w.ctx(), old, status))
	require.Equal(t, nwv1.StatusWaiting, w.get("conflict").Status.Status)

	require.NoError(t, w.admin.Delete(w.ctx(), w.get("conflict")))
	require.NoError(t, statuses.Write(w.ctx(), old, status), "it is gone")
	w.create(w.nodeWright("conflict", nil))
	require.NoError(t, statuses.Write(w.ctx(), old, status), "it is another one")
	require.Empty(t, w.get("conflict").Status.Status)
}
