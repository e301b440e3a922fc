package rollout

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

func TestFieldReport_DR10_DeletedWhileFailing(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		if container == "tuning-apply" {
			return simnode.Result{Exit: 1, Log: "no space left on device"}
		}
		return simnode.Result{}
	})
	w.start()
	nw := w.nodeWright("dr10", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) })
	w.create(nw)
	got := w.awaitStatus("dr10", "the node failed", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesFailed == 1 })
	require.Contains(t, got.Status.Conditions[0].Message, "package tuning, stage apply, exit code 1")
	require.True(t, w.node(node).Spec.Unschedulable, "a failed node that was to be interrupted stays cordoned")
	require.NoError(t, w.admin.Delete(w.ctx(), nw))
	require.Eventually(t, func() bool {
		n := w.node(node)
		return !n.Spec.Unschedulable && n.Annotations[nwv1.CordonKey("dr10")] == "" && n.Annotations[nwv1.StatusKey("dr10")] == "" &&
			n.Labels[nwv1.StatusKey("dr10")] == "" && n.Annotations[fleetv1.RecordKey("dr10")] == "" && n.Annotations[nwv1.NodeStateKey("dr10")] == ""
	}, patience, 20*time.Millisecond, "the node is given back and nothing of the rollout is left on it")
	require.True(t, apierrors.IsNotFound(w.admin.Get(w.ctx(), client.ObjectKeyFromObject(nw), nw)), "the object is really gone")
	require.Eventually(t, func() bool { return len(w.jobs("dr10")) == 0 }, patience, 20*time.Millisecond, "its Jobs end")
}

// jobs of a NodeWright.
func (w *world) jobs(nodeWright string) []string {
	w.t.Helper()
	list, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright})
	require.NoError(w.t, err)
	var out []string
	for _, j := range list.Items {
		out = append(out, j.Name)
	}
	return out
}

func TestFieldReport_BA01_NodesLeaveTheGroup(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(6, nil)
	w.create(fixedPolicy("ba01", 2))
	gate := w.gate(checkOn(nodes[4], nodes[5]))
	w.start()
	w.create(w.nodeWright("ba01", func(nw *nwv1.NodeWright) { nw.Spec.DeploymentPolicy = "ba01" }))
	w.awaitStatus("ba01", "two batches are done", func(nw *nwv1.NodeWright) bool { return nw.Status.CompleteNodes == "4/6" })
	for _, n := range nodes[:3] {
		w.patchNode(n, `{"metadata":{"labels":{"test":"elsewhere"}}}`)
	}
	w.t.Cleanup(func() { // so that the test's nodes are found again
		for _, n := range nodes[:3] {
			w.patchNode(n, `{"metadata":{"labels":{"test":"`+w.prefix+`"}}}`)
		}
	})
	w.awaitStatus("ba01", "the numbers are the real ones", func(nw *nwv1.NodeWright) bool {
		c := nw.Status.CompartmentStatuses["default"]
		return nw.Status.CompleteNodes == "1/3" && c.Matched == 3 && c.Completed == 1
	})
	gate.open()
	require.Equal(t, "3/3", w.awaitComplete("ba01").Status.CompleteNodes)
}

func fixedPolicy(name string, n int32) *nwv1.DeploymentPolicy {
	return &nwv1.DeploymentPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{
			Budget:   nwv1.DeploymentBudget{Count: &n},
			Strategy: &nwv1.DeploymentStrategy{Fixed: &nwv1.FixedStrategy{BatchRules: nwv1.BatchRules{InitialBatch: n}}},
		}},
	}
}

func TestFieldReport_BA03_NodesOfABatchAdvanceAlone(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	gate := w.gate(checkOn(nodes[1]))
	w.start()
	w.create(w.nodeWright("ba03", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		nw.Spec.InterruptionBudget = count(2)
	}))
	w.awaitStatus("ba03", "one is complete while the other works", func(nw *nwv1.NodeWright) bool { return nw.Status.CompleteNodes == "1/2" })
	require.True(t, w.record("ba03", nodes[1]).IsOpen(), "the other is still at work")
	require.False(t, w.node(nodes[0]).Spec.Unschedulable)
	gate.open()
	w.awaitComplete("ba03")
}

func TestFieldReport_BA10_NewTargetDuringAnUpdate(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(3, nil)
	w.start()
	w.create(w.nodeWright("ba10", func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = count(1) }))
	w.awaitComplete("ba10")
	gate := w.gate(func(_ *corev1.Pod, container string) bool { return container == "tuning-upgradecheck" })
	ceiling := w.watchCeiling("ba10")
	w.edit("ba10", setVersion("2.0.0"))
	w.awaitAtWork("ba10", nodes[0])
	w.edit("ba10", setVersion("3.0.0"))
	w.awaitStatus("ba10", "the new target is seen", func(nw *nwv1.NodeWright) bool { return nw.Status.ObservedGeneration == nw.Generation })
	gate.open()
	w.awaitComplete("ba10")
	require.Equal(t, 1, ceiling.peak(), "never a second node")
	for _, n := range nodes {
		require.Equal(t, "3.0.0", w.record("ba10", n).Packages["tuning"].Version)
	}
}

func TestFieldReport_BA11_FreeSlotsAreUsed(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(9, nil)
	gate := w.gate(checkOn(nodes[0], nodes[1]))
	ceiling := w.watchCeiling("ba11")
	w.start()
	w.create(w.nodeWright("ba11", func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = count(3) }))
	w.awaitStatus("ba11", "all others go through the one free slot", func(nw *nwv1.NodeWright) bool { return nw.Status.CompleteNodes == "7/9" })
	gate.open()
	w.awaitComplete("ba11")
	require.Equal(t, 3, ceiling.peak())
}

func TestFieldReport_PF01_ImageThatCannotBePulled(t *testing.T) {
	for _, text := range []string{"manifest unknown", "invalid reference format"} {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t)
			node := w.addNodes(1, nil)[0]
			missing := newSwitch()
			w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
				if container == "tuning-init" && missing.on() {
					return simnode.Result{ImagePullError: text}
				}
				return simnode.Result{}
			})
			w.start()
			w.create(w.nodeWright("pf01", nil))
			nw := w.awaitStatus("pf01", "it counts as failed, with the reason", func(nw *nwv1.NodeWright) bool {
				return nw.Status.NodesFailed == 1 && len(nw.Status.Reasons) == 1
			})
			require.Contains(t, nw.Status.Reasons[0].Message, text)
			require.Equal(t, string(plan.ImagePull), nw.Status.Reasons[0].Reason)
			missing.off()
			w.awaitComplete("pf01")
			require.Nil(t, w.record("pf01", node).Failure, "the failure is cleared")
		})
	}
}

func TestFieldReport_ST01_CompleteOnceAtTheEnd(t *testing.T) {
	w := newWorld(t)
	w.addNodes(2, nil)
	list := &nwv1.NodeWrightList{}
	watching, err := client.NewWithWatch(w.c.Config(), client.Options{Scheme: w.admin.Scheme()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events, err := watching.Watch(ctx, list)
	require.NoError(t, err)
	w.start()
	w.create(w.nodeWright("st01", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptReboot)
		nw.Spec.Packages["kernel"] = nwv1.Package{
			Version: "1.0.0", Image: "example.com/kernel", DependsOn: map[string]string{"tuning": "1.0.0"},
			Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot},
		}
		nw.Spec.Packages["last"] = nwv1.Package{Version: "1.0.0", Image: "example.com/last", DependsOn: map[string]string{"kernel": "1.0.0"}}
		nw.Spec.InterruptionBudget = count(1)
	}))
	var words []nwv1.Status
	for e := range events.ResultChan() {
		nw, ok := e.Object.(*nwv1.NodeWright)
		if !ok || nw.Name != "st01" || nw.Status.Status == "" {
			continue
		}
		words = append(words, nw.Status.Status)
		if nw.Status.Status == nwv1.StatusComplete {
			require.Equal(t, "2/2", nw.Status.CompleteNodes)
			require.Equal(t, nw.Generation, nw.Status.ObservedGeneration)
			break
		}
	}
	require.Len(t, w.bootsOf("st01"), 4, "two reboots on each node")
	require.Equal(t, 1, tally(words, nwv1.StatusComplete))
	require.Equal(t, nwv1.StatusComplete, words[len(words)-1])
}

// bootsOf are the interrupt Jobs of a NodeWright.
func (w *world) bootsOf(nodeWright string) []string {
	list, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{
		LabelSelector: nwv1.NameLabel + "=" + nodeWright + "," + nwv1.InterruptLabel + "=" + nwv1.InterruptLabelValue,
	})
	require.NoError(w.t, err)
	var out []string
	for _, j := range list.Items {
		out = append(out, j.Name)
	}
	return out
}

func tally[T comparable](all []T, one T) int {
	n := 0
	for _, v := range all {
		if v == one {
			n++
		}
	}
	return n
}

func TestFieldReport_AC01_ForeignKeysAndTaintsSurvive(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.start()
	w.create(w.nodeWright("ac01", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptReboot) }))
	meddled := 0
	for ; meddled == 0 || !complete(w.get("ac01")); meddled++ {
		w.patchNode(node, fmt.Sprintf(`{"metadata":{"labels":{"foreign":"%d"},"annotations":{"foreign.example.com/x":"%d"}}}`, meddled, meddled))
	}
	w.patchNode(node, `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"PreferNoSchedule"}]}}`)
	w.edit("ac01", setVersion("2.0.0"))
	require.Eventually(t, func() bool {
		return w.record("ac01", node).Packages["tuning"].Version == "2.0.0" && complete(w.get("ac01"))
	},
		patience, 20*time.Millisecond)
	n := w.node(node)
	require.Greater(t, meddled, 5, "the test meddled during the rollout")
	require.Equal(t, fmt.Sprint(meddled-1), n.Labels["foreign"])
	require.Equal(t, fmt.Sprint(meddled-1), n.Annotations["foreign.example.com/x"])
	require.Len(t, n.Spec.Taints, 1)
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}) {
		require.NotContains(t, string(e.Request), "taints")
		require.NotContains(t, string(e.Request), "foreign")
	}
}

func TestFieldReport_D06_SameNamesShareNothing(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.start()
	for i, name := range []string{"d06-a", "d06-b"} {
		w.create(w.nodeWright(name, func(nw *nwv1.NodeWright) {
			value := map[string]string{"settings": fmt.Sprint("value of ", name)}
			nw.Spec.Packages["tuning"] = nwv1.Package{Version: "1.0.0", Image: "example.com/tuning", ConfigMap: value}
			nw.Spec.Packages["other"] = nwv1.Package{Version: "1.0.0", Image: "example.com/other", ConfigMap: map[string]string{"settings": fmt.Sprint(i)}}
		}))
	}
	for _, name := range []string{"d06-a", "d06-b"} {
		w.awaitComplete(name)
		require.Len(t, w.record(name, node).Packages, 2)
	}
	found := map[string]bool{}
	for _, name := range []string{"d06-a", "d06-b"} {
		for _, value := range w.configurations(name) {
			require.False(t, found[value], "%q is used once", value)
			found[value] = true
		}
	}
	require.Equal(t, map[string]bool{"value of d06-a": true, "value of d06-b": true, "0": true, "1": true}, found)
}

// configurations are the values of the key `settings` that the Jobs of a NodeWright mount.
func (w *world) configurations(nodeWright string) []string {
	w.t.Helper()
	list, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright})
	require.NoError(w.t, err)
	var out []string
	for _, j := range list.Items {
		for _, v := range j.Spec.Template.Spec.Volumes {
			if v.ConfigMap != nil {
				cm, err := w.kube.CoreV1().ConfigMaps(namespace).Get(w.ctx(), v.ConfigMap.Name, metav1.GetOptions{})
				require.NoError(w.t, err)
				out = append(out, cm.Data["settings"])
			}
		}
	}
	return out
}
