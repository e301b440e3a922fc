package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// requireOneWarning asserts that one warning says this about the object: passes add none, and people who filter by type see it.
func (w *world) requireOneWarning(name, reason, note string) {
	w.t.Helper()
	events := w.eventsAbout(name, reason)
	require.Len(w.t, events, 1, "events %s about %s", reason, name)
	require.Equal(w.t, corev1.EventTypeWarning, events[0].Type)
	require.Contains(w.t, events[0].Note, note)
}

// TestFieldReport_ST03_ADrainThatIsHeldUp: a pod that may not be evicted, then the time that is up, are one event each, however
// many passes look at the node meanwhile.
func TestFieldReport_ST03_ADrainThatIsHeldUp(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.addPod(w.prefix+"-bare", node, nil)
	passes := w.startCounted()
	w.create(w.nodeWright("st03", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptService)
		nw.Spec.DrainConfig = &nwv1.DrainConfig{Force: new(false), Timeout: &metav1.Duration{Duration: 2 * time.Second}}
	}))
	require.Equal(t, "Node", w.awaitEvent(node, string(plan.DrainBlocked)).Regarding.Kind)
	w.awaitEvent(node, string(plan.DrainTimeout))
	passes.await(t, 5)
	w.requireOneWarning(node, string(plan.DrainBlocked), "default/"+w.prefix+"-bare")
	w.requireOneWarning(node, string(plan.DrainTimeout), "default/"+w.prefix+"-bare")
}

// TestFieldReport_ST03_ARebootThatIsNotSeen: the machine takes the order and does not restart.
func TestFieldReport_ST03_ARebootThatIsNotSeen(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		if container == "interrupt" {
			return simnode.Result{Duration: time.Millisecond}
		}
		return simnode.Result{}
	})
	w.startWith(func(loop *reconciler.Rollout) { loop.Settings.RebootGrace = 200 * time.Millisecond })
	w.create(w.nodeWright("st03b", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptReboot) }))
	w.awaitEvent(node, report.EventNodeFailed)
	w.requireOneWarning(node, report.EventNodeFailed, "reboot")
	require.NotEmpty(t, w.eventsAbout(node, report.EventInterrupt))
}

// TestFieldReport_ST03_APackageThatFails: its attempts are one event whose count grows; the node that failed is one, and so is
// the batch that stopped the rollout.
func TestFieldReport_ST03_APackageThatFails(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(4, nil)
	w.result.set(func(*corev1.Pod, string) simnode.Result { return simnode.Result{Exit: 3, Log: "no such device"} })
	policy := fixedPolicy("st03", 1)
	policy.Spec.Default.Strategy.Fixed.FailureThreshold = new(int32(1))
	w.create(policy)
	passes := w.startCounted()
	w.create(w.nodeWright("st03c", func(nw *nwv1.NodeWright) { nw.Spec.DeploymentPolicy = "st03" }))
	require.Equal(t, nwv1.KindNodeWright, w.awaitEvent("st03c", report.EventRolloutHalted).Regarding.Kind)
	failed := w.awaitEvent(nodes[0], report.EventNodeFailed)
	passes.after(t, func() { w.patchNode(nodes[1], `{"metadata":{"labels":{"wake":"1"}}}`) }) // a halted rollout rests
	w.requireOneWarning("st03c", report.EventRolloutHalted, "exit code 3: no such device")
	w.requireOneWarning(failed.Regarding.Name, report.EventNodeFailed, "exit code 3: no such device")
	var attempts []eventsv1.Event
	require.Eventually(t, func() bool {
		attempts = w.eventsAbout(failed.Regarding.Name, report.EventApply)
		return len(attempts) > 0 && attempts[0].Series != nil
	}, patience, 50*time.Millisecond, "the second attempt is counted")
	require.Len(t, attempts, 1)
	require.EqualValues(t, 2, attempts[0].Series.Count)
	for _, n := range nodes[1:] {
		require.Empty(t, w.eventsAbout(n, report.EventNodeFailed), "the rollout has stopped")
	}
}
