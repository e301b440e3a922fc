package rollout

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/agent"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// interrupts plays the agents of interrupts: the shipped last look, on the real API server, and then the interrupt.
type interrupts struct {
	w  *world
	mu sync.Mutex
	// acted are the nodes that were interrupted, refused what the last look said.
	acted   []string
	refused []string
}

func (w *world) playInterrupts() *interrupts {
	i := &interrupts{w: w}
	w.result.set(func(pod *corev1.Pod, container string) simnode.Result {
		if container != "interrupt" {
			return simnode.Result{}
		}
		return i.run(pod)
	})
	return i
}

func (i *interrupts) run(pod *corev1.Pod) simnode.Result {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := i.look(ctx, pod.Spec.InitContainers[0].Env)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		i.acted = append(i.acted, pod.Spec.NodeName)
		return simnode.Result{}
	}
	i.refused = append(i.refused, err.Error())
	message := agent.Result{Outcome: agent.Unsafe, Message: "not safe to interrupt: " + err.Error()}.TerminationMessage()
	return simnode.Result{Exit: 3, Message: string(message)}
}

func (i *interrupts) look(ctx context.Context, env []corev1.EnvVar) error {
	for _, e := range env {
		if e.Name == agent.NodeCheckVariable {
			check, err := agent.ParseNodeCheck(e.Value)
			if err != nil {
				return err
			}
			return check.Look(ctx, i)
		}
	}
	return nil // without the look, nothing stops the agent
}

func (i *interrupts) counts() (acted, refused int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.acted), len(i.refused)
}

// Node reads a node as the agent does.
func (i *interrupts) Node(ctx context.Context, name string) (out agent.Node, err error) {
	n, err := i.w.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return out, err
	}
	return out, translate(n, &out)
}

// Pods lists the pods of a node as the agent does.
func (i *interrupts) Pods(ctx context.Context, node, selector string) ([]agent.Pod, error) {
	list, err := i.w.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node, LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	out := make([]agent.Pod, len(list.Items))
	for k := range list.Items {
		if err := translate(list.Items[k], &out[k]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func translate(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// The cordon was accepted and is taken off by somebody while the reconciler's watch of nodes stands still: whatever it
// believes, nothing is interrupted on a schedulable node, and it ends well when the watch goes on.
func TestFieldReport_DR22_NoInterruptOnASchedulableNode(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	agents := w.playInterrupts()
	training := w.addPod(w.prefix+"-training", node, func(p *corev1.Pod) { p.Labels["workload"] = "training" })
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	w.config = proxy.ConfigFor(w.config)
	w.start()
	w.create(w.nodeWright("dr22", func(nw *nwv1.NodeWright) {
		withInterrupt(nw, nwv1.InterruptService)
		nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"workload": "training"}}
	}))
	w.awaitStatus("dr22", "it is cordoned, and waits for the training run", func(nw *nwv1.NodeWright) bool {
		return len(nw.Status.Reasons) == 1 && nw.Status.Reasons[0].Reason == string(plan.ProtectedPod) && w.node(node).Spec.Unschedulable
	})
	held := proxy.Hold(cluster.Match{Verb: "watch", Resource: "nodes"}, cluster.Always)
	proxy.DropWatches()
	require.Eventually(t, func() bool { return held.Hits() > 0 }, patience, 10*time.Millisecond, "the watch of nodes stands still")
	w.patchNode(node, `{"spec":{"unschedulable":null}}`) // reverted behind its back
	uncordoned := time.Now()
	require.NoError(t, w.admin.Delete(w.ctx(), training, client.GracePeriodSeconds(0)))
	require.Eventually(t, func() bool { return w.triedSince(node, uncordoned) }, patience, 50*time.Millisecond,
		"it notices that the pod is gone")
	acted, _ := agents.counts()
	require.Zero(t, acted, "nothing is interrupted on a node that takes pods")
	held.Remove()
	w.awaitComplete("dr22")
	acted, refused := agents.counts()
	require.Equal(t, 1, acted, "interrupted once")
	require.Zero(t, refused, "the reconciler itself does not begin on a view that is older than its own last write")
	require.Zero(t, w.record("dr22", node).Packages["tuning"].Failures)
	var again []time.Time
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes", Name: node}) {
		if cordons(e) && e.Received.After(uncordoned) {
			again = append(again, e.Completed)
		}
	}
	require.Len(t, again, 1, "it is cordoned again, once")
	for _, e := range w.requests(cluster.Match{Verb: "create", Resource: "jobs"}) {
		if e.Code == 201 && strings.HasPrefix(nameIn(t, e.Request), "dr22-interrupt-") {
			require.True(t, e.Received.After(again[0]), "before the interrupt")
		}
	}
}

// triedSince: the reconciler has sent a write for the node since then.
func (w *world) triedSince(node string, since time.Time) bool {
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes", Name: node}) {
		if e.Received.After(since) {
			return true
		}
	}
	return false
}
