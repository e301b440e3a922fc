package rollout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// drop gives the cordon of a NodeWright back.
func drop(nodeWright string, node *corev1.Node) plan.Decision {
	return plan.Decision{
		NodeWright: nodeWright, Node: node.Name, NodeUID: node.UID, Action: plan.ActionUncordon, Cordon: plan.CordonDrop,
	}
}

// Two processes, as in a failover, give back the last two cordons of a node at the same time: each has seen the other's
// mark. One is refused, looks again, and takes the cordon off; without that the node would stay cordoned by nobody.
func TestTheLastTwoOwnersOfACordonGoAtOnce(t *testing.T) {
	w := newWorld(t)
	node := w.node(w.addNode(nil))
	between, direct := newMeddling(), newMeddling()
	slow, quick := w.meddledActor(between), w.meddledActor(direct)
	direct.on(node.Name, func(context.Context) error { return nil })
	var other report.Outcome
	once := sync.Once{}
	between.on(node.Name, func(ctx context.Context) (err error) {
		once.Do(func() { other, err = quick.Do(ctx, drop("two", node)) })
		return err
	})
	w.patchNode(node.Name, fmt.Sprintf(`{"spec":{"unschedulable":true},"metadata":{"annotations":{%q:"true",%q:"true"}}}`,
		nwv1.CordonKey("one"), nwv1.CordonKey("two")))

	outcome, err := slow.Do(t.Context(), drop("one", node))
	require.NoError(t, err)
	require.False(t, other.Conflict)
	require.True(t, outcome.Conflict, "the other owner is not what was seen any more")
	require.True(t, w.node(node.Name).Spec.Unschedulable)
	outcome, err = slow.Do(t.Context(), drop("one", node)) // the next pass
	require.NoError(t, err)
	require.False(t, outcome.Conflict)
	after := w.node(node.Name)
	require.False(t, after.Spec.Unschedulable, "the last one takes the cordon off")
	require.Empty(t, after.Annotations[nwv1.CordonKey("one")]+after.Annotations[nwv1.CordonKey("two")])
}

// TestFieldReport_AC01_ForeignTaintsBetweenReadAndWrite takes our taint off a thousand times, each time with an edit of the
// node's taints by others, and often one more edit, after the Actor has read the node and before its write arrives. What
// others put there stays, with the time when it was added; where our place in the list moved the write is refused and made
// again.
func TestFieldReport_AC01_ForeignTaintsBetweenReadAndWrite(t *testing.T) {
	w := newWorld(t)
	between := newMeddling()
	actor := w.meddledActor(between)
	var all sync.WaitGroup
	gated := make([]*gatedNode, 0, interleavingNodes)
	for i, name := range w.addNodes(interleavingNodes, nil) {
		node := w.node(name)
		g := &gatedNode{actor: actor, foreign: newForeigner(w.kube, node, uint64(i)), rng: rand.New(rand.NewPCG(uint64(i), 2)), node: node}
		gated = append(gated, g)
		between.on(name, g.meddle)
		all.Go(func() {
			for g.written < interleavings/interleavingNodes && g.err == nil {
				g.err = g.step(t.Context())
			}
		})
	}
	all.Wait()
	written, refused, deleting := 0, 0, 0
	for _, g := range gated {
		require.NoError(t, g.err)
		written, refused, deleting = written+g.written, refused+g.refused, deleting+g.deleting
	}
	require.Equal(t, interleavings, written, "every write met a foreign edit between its read and itself")
	require.Positive(t, refused, "some were refused, re-read and written again")
	require.Positive(t, deleting, "the autoscaler's mark came in between, and stayed")
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}) {
		for _, op := range w.operations(e, true) {
			require.Regexp(t, `^remove /spec/taints/\d+$`, op.Op+" "+op.Path)
		}
	}
}

// gatedNode is one node, on which our taint is put again and again.
type gatedNode struct {
	actor                      *adapter.Actor
	foreign                    *foreigner
	rng                        *rand.Rand
	node                       *corev1.Node
	again                      bool // a refused decision is tried again
	written, refused, deleting int
	err                        error
}

func (g *gatedNode) meddle(ctx context.Context) error {
	if g.again && g.rng.IntN(2) == 0 {
		return nil
	}
	if err := g.foreign.editTaints(ctx); err != nil {
		return err
	}
	if g.rng.IntN(2) == 0 {
		return g.foreign.edit(ctx)
	}
	return nil
}

// step puts our taint somewhere between those of others, and takes it off.
func (g *gatedNode) step(ctx context.Context) error {
	nodes := g.foreign.kube.CoreV1().Nodes()
	node, err := nodes.Get(ctx, g.node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node.Spec.Taints = slices.Insert(node.Spec.Taints, g.rng.IntN(len(node.Spec.Taints)+1), requiredTaint)
	if _, err := nodes.Update(ctx, node, metav1.UpdateOptions{FieldManager: "foreign"}); err != nil {
		return err
	}
	marked := g.marked()
	d := plan.Decision{
		NodeWright: "gate", Node: node.Name, NodeUID: node.UID, Action: plan.ActionUngate, Untaint: []corev1.Taint{requiredTaint},
	}
	for tries := 1; ; tries++ {
		g.again = tries > 1
		outcome, err := g.actor.Do(ctx, d)
		switch {
		case err != nil:
			return err
		case outcome.Conflict && tries > 50:
			return fmt.Errorf("refused after %d tries: %s", tries, outcome.Detail)
		case outcome.Conflict:
			g.refused++
			continue
		}
		g.written++
		if !marked && g.marked() {
			g.deleting++
		}
		return g.compare(ctx)
	}
}

// marked: the autoscaler is about to remove the node.
func (g *gatedNode) marked() bool {
	return slices.ContainsFunc(g.foreign.taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint })
}

func (g *gatedNode) compare(ctx context.Context) error {
	node, err := g.foreign.kube.CoreV1().Nodes().Get(ctx, g.node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	want, have := taintsJSON(g.foreign.taints), taintsJSON(node.Spec.Taints)
	if want != have || node.Spec.Unschedulable != g.foreign.cordon {
		return fmt.Errorf("node %s after write %d: want %s, cordoned %t; have %s, %t",
			node.Name, g.written, want, g.foreign.cordon, have, node.Spec.Unschedulable)
	}
	return nil
}
