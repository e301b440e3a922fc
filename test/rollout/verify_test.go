package rollout

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// TestDriftIsFoundAndMended lets two hours go by after an installation: the checks run again, alone; what they say is told, and with
// onDrift: Reapply the package runs again.
func TestDriftIsFoundAndMended(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.start()
	w.create(w.nodeWright("drift", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptService)
		nw.Spec.VerifyInterval = &metav1.Duration{Duration: time.Hour}
	}))
	w.awaitComplete("drift")
	w.stop()

	var mended atomic.Bool
	w.result.set(func(pod *corev1.Pod, container string) simnode.Result {
		if strings.HasSuffix(container, "-apply") {
			mended.Store(true)
		}
		if strings.HasSuffix(container, "-applycheck") && !mended.Load() {
			return simnode.Result{Exit: 1, Log: "vm.max_map_count is 65530"}
		}
		return simnode.Result{}
	})
	w.age("drift", node, 2*time.Hour)
	cordons := len(w.requests(cluster.Match{Verb: "create", Resource: "pods/eviction"}))
	w.start()
	nw := w.awaitStatus("drift", "drifted", func(nw *nwv1.NodeWright) bool {
		return apimeta.IsStatusConditionTrue(nw.Status.Conditions, report.ConditionHostsDrifted)
	})
	require.Equal(t, "1 nodes: "+node+"; "+node+": the host does not match package tuning any more: its apply check failed: vm.max_map_count is 65530",
		apimeta.FindStatusCondition(nw.Status.Conditions, report.ConditionHostsDrifted).Message)
	require.True(t, complete(nw))
	require.Equal(t, node, w.awaitEvent(node, report.EventHostDrifted).Regarding.Name)
	require.False(t, w.node(node).Spec.Unschedulable)
	require.Len(t, w.requests(cluster.Match{Verb: "create", Resource: "pods/eviction"}), cordons)
	require.Equal(t, map[string]int{"install": 1, "interrupt": 1, "post-interrupt": 1, "verify": 1}, w.phases("drift"))
	require.False(t, mended.Load(), "a check changes nothing")

	w.edit("drift", func(nw *nwv1.NodeWright) { nw.Spec.OnDrift = nwv1.DriftReapply })
	nw = w.awaitStatus("drift", "complete again", func(nw *nwv1.NodeWright) bool { return complete(nw) && nw.Status.Round == 2 })
	require.Nil(t, apimeta.FindStatusCondition(nw.Status.Conditions, report.ConditionHostsDrifted))
	require.True(t, mended.Load())
	require.Contains(t, w.awaitEvent(node, report.EventAskedFor).Note, "the host does not match package tuning any more (onDrift: Reapply)")
	require.Equal(t, map[string]int{"install": 2, "interrupt": 2, "post-interrupt": 2, "verify": 1}, w.phases("drift"))
	require.Empty(t, w.record("drift", node).Packages["tuning"].Drift)
}

// age lets the record of a node say that its turn ended that much earlier. No reconciler runs meanwhile.
func (w *world) age(nodeWright, node string, by time.Duration) {
	w.t.Helper()
	r := w.record(nodeWright, node)
	earlier := r.EndedAt.Add(-by)
	r.EndedAt = &earlier
	value, err := json.Marshal(noderecord.Encode(r))
	require.NoError(w.t, err)
	w.patchNode(node, `{"metadata":{"annotations":{"`+fleetv1.RecordKey(nodeWright)+`":`+string(value)+`}}}`)
}

// phases counts the executions of a NodeWright by phase.
func (w *world) phases(nodeWright string) map[string]int {
	w.t.Helper()
	jobs, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright})
	require.NoError(w.t, err)
	out := map[string]int{}
	for _, j := range jobs.Items {
		out[string(plan.Phase(j.Labels[fleetv1.PhaseLabel]))]++
	}
	return out
}
