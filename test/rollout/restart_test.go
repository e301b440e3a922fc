package rollout

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// toggle is a switch that a test turns off.
type toggle struct{ stopped atomic.Bool }

func newSwitch() *toggle   { return &toggle{} }
func (s *toggle) on() bool { return !s.stopped.Load() }
func (s *toggle) off()     { s.stopped.Store(true) }

func TestUpgradeAdmitsUnderTheBudget(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(10, nil)
	w.start()
	w.create(w.nodeWright("upgrade", nil))
	w.awaitComplete("upgrade")
	w.edit("upgrade", func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = count(2) })
	ceiling := w.watchCeiling("upgrade")
	gate := w.gate(func(_ *corev1.Pod, container string) bool { return container == "tuning-upgradecheck" })
	w.edit("upgrade", setVersion("2.0.0"))
	w.awaitStatus("upgrade", "two are at work, eight wait", func(nw *nwv1.NodeWright) bool {
		return nw.Status.NodesInProgress == 2 && nw.Status.CompleteNodes == "0/10"
	})
	gate.open()
	require.Equal(t, "10/10", w.awaitComplete("upgrade").Status.CompleteNodes)
	require.Equal(t, 2, ceiling.peak())
	require.Len(t, ceiling.seen(), len(nodes))
}

// TestRestartAnywhere stops the loop at several points of a rollout with reboots and starts it again. The end is the
// same as without, the ceiling holds, and no stage runs twice.
func TestRestartAnywhere(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(4, nil)
	w.podsOn(nodes, 1)
	ceiling := w.watchCeiling("restart")
	w.start()
	w.create(w.nodeWright("restart", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		nw.Spec.InterruptionBudget = count(2)
	}))
	for _, point := range []struct {
		name string
		at   func() bool
	}{
		{"the first cordon", func() bool { return w.node(nodes[0]).Spec.Unschedulable }},
		{"the first Job", func() bool { return len(w.jobs("restart")) > 0 }},
		{"the first interrupt", func() bool { return len(w.bootsOf("restart")) > 0 }},
		{"the first complete node", func() bool { return w.ended("restart", nodes) > 0 }},
		{"the third complete node", func() bool { return w.ended("restart", nodes) > 2 }},
	} {
		require.Eventually(t, point.at, patience, 5*time.Millisecond, point.name)
		w.stop()
		w.start()
	}
	w.awaitComplete("restart")
	require.LessOrEqual(t, ceiling.peak(), 2)
	require.Len(t, w.bootsOf("restart"), 4, "each node was rebooted once")
	// A stop in the middle of a request may lose its answer, so the Jobs themselves are counted; and no name was created twice.
	require.Len(t, w.jobs("restart"), 3*len(nodes), "install, interrupt and post-interrupt for each node")
	created := map[string]int{}
	for _, e := range w.requests(cluster.Match{Verb: "create", Resource: "jobs"}) {
		if e.Code == 201 && strings.Contains(string(e.Request), w.prefix) {
			created[nameIn(t, e.Request)]++
		}
	}
	for name, times := range created {
		require.Equal(t, 1, times, "Job %s was created once", name)
	}
	require.GreaterOrEqual(t, len(created), 3*len(nodes)-5, "no more answers were lost than there were stops")
	for _, n := range nodes {
		require.False(t, w.node(n).Spec.Unschedulable)
	}
}

// nameIn is the name of the object in a recorded request.
func nameIn(t *testing.T, request []byte) string {
	t.Helper()
	var object metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(request, &object))
	require.NotEmpty(t, object.Name)
	return object.Name
}

func (w *world) ended(nodeWright string, nodes []string) int {
	n := 0
	for _, name := range nodes {
		if w.record(nodeWright, name).Outcome == noderecord.Succeeded {
			n++
		}
	}
	return n
}

// TestTwoLeaders starts a second process while the first one still believes that it leads, as in a failover. The budget
// holds, and the first ends by itself.
func TestTwoLeaders(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(6, nil)
	ceiling := w.watchCeiling("leaders")
	first, run := w.build()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	deposed := make(chan error, 1)
	go func() { deposed <- run(ctx, first) }()
	w.create(w.nodeWright("leaders", func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = count(2) }))
	require.Eventually(t, func() bool { return len(w.jobs("leaders")) > 0 }, patience, 5*time.Millisecond)
	w.start()
	w.awaitComplete("leaders")
	require.ErrorIs(t, <-deposed, reconciler.ErrDeposed)
	require.LessOrEqual(t, ceiling.peak(), 2)
	require.Len(t, w.jobs("leaders"), len(nodes), "no node was worked on twice")
}
