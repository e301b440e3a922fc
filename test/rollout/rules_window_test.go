package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// opensAt is a window of a minute, once a year.
func opensAt(t time.Time) nwv1.Window {
	t = t.UTC()
	return nwv1.Window{
		Cron:     fmt.Sprintf("%d %d %d %d *", t.Minute(), t.Hour(), t.Day(), t.Month()),
		Duration: metav1.Duration{Duration: time.Minute},
	}
}

var alwaysOpen = nwv1.Window{Cron: "* * * * *", Duration: metav1.Duration{Duration: time.Hour}}

func (w *world) setWindow(policy string, window nwv1.Window) {
	w.t.Helper()
	p := &nwv1.DeploymentPolicy{}
	require.NoError(w.t, w.admin.Get(w.ctx(), client.ObjectKey{Name: policy}, p))
	p.Spec.Windows = []nwv1.Window{window}
	require.NoError(w.t, w.admin.Update(w.ctx(), p))
}

// Outside of its windows a rollout admits nobody and says when the next one opens; a node under way is finished.
func TestMaintenanceWindow(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	gate := w.gate(checkOn(nodes[0]))
	opens := time.Now().UTC().Truncate(time.Minute).Add(49 * time.Hour)
	policy := fixedPolicy("windows", 1)
	policy.Spec.Windows = []nwv1.Window{opensAt(opens)}
	w.create(policy)
	w.start()
	w.create(w.nodeWright("windows", func(nw *nwv1.NodeWright) {
		nw.Spec.DeploymentPolicy = "windows"
		withInterrupt(nw, nwv1.InterruptService)
	}))
	nw := w.awaitStatus("windows", "both wait for the window", hasReason(plan.WaitingForWindow, nodes...))
	said, _ := because(nw, plan.WaitingForWindow)
	require.Equal(t, "the maintenance windows are closed; the next one opens at "+opens.Format(time.RFC3339), said)
	require.Empty(t, w.cordonedNodes())
	require.Empty(t, w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}), "nothing was written on a node")
	require.Empty(t, w.jobs("windows"))

	w.setWindow("windows", alwaysOpen)
	w.awaitAtWork("windows", nodes[0])
	w.setWindow("windows", opensAt(opens))
	w.awaitStatus("windows", "the other one waits again", hasReason(plan.WaitingForWindow, nodes[1]))
	gate.open()
	w.awaitStatus("windows", "what was begun is finished", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == "1/2" && hasReason(plan.WaitingForWindow, nodes[1])(nw)
	})
	require.False(t, w.node(nodes[0]).Spec.Unschedulable, "and the node is back in service")
	require.Equal(t, []string{nodes[0]}, w.cordonedNodes())
	w.setWindow("windows", alwaysOpen)
	w.awaitComplete("windows")
}

// When its window opens the rollout begins by itself: nothing in the cluster changes then. The reconciler's clock is moved
// to just before the opening.
func TestMaintenanceWindowOpensByItself(t *testing.T) {
	w := newWorld(t)
	node := w.addNode(nil)
	opens := time.Now().UTC().Truncate(time.Minute)
	policy := fixedPolicy("opens", 1)
	policy.Spec.Windows = []nwv1.Window{opensAt(opens)}
	w.create(policy)
	w.create(w.nodeWright("opens", func(nw *nwv1.NodeWright) { nw.Spec.DeploymentPolicy = "opens" }))
	behind := time.Since(opens) + 3*time.Second
	w.startWith(func(loop *reconciler.Rollout) { loop.Now = func() time.Time { return time.Now().Add(-behind) } })
	w.awaitComplete("opens")
	require.False(t, w.record("opens", node).AdmittedAt.Before(opens), "nobody was admitted before")
}
