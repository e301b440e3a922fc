package rollout

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// Records are written by hand: cut, no JSON, of another node, of a kind that nobody knows. The node that cannot be read is
// named and nothing is done to it; the others go on; with the annotation gone it goes on, too.
func TestAttackRecordsWrittenByHand(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(4, nil)
	bad := func(node, value string) {
		w.patchNode(node, `{"metadata":{"annotations":{"`+fleetv1.RecordKey("byhand")+`":`+value+`}}}`)
	}
	bad(nodes[0], `"{\"nw\":"`)
	bad(nodes[1], `"[]"`)
	bad(nodes[2], `"{\"nw\":\"x\",\"node\":\"another\",\"round\":7,\"batch\":3,\"order\":0}"`)
	w.start()
	w.create(w.nodeWright("byhand", nil))
	nw := w.awaitStatus("byhand", "those that can be read are done", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == "2/4" && len(nw.Status.Reasons) == 1
	})
	require.Equal(t, string(plan.RecordUnreadable), nw.Status.Reasons[0].Reason)
	require.Equal(t, nodes[:2], nw.Status.Reasons[0].Nodes)
	bad(nodes[0], "null")
	bad(nodes[1], "null")
	w.awaitComplete("byhand")
}

// The ledger is deleted by hand in the middle. The leader steps down, its successor begins with what the nodes say, and the
// budget holds.
func TestAttackLedgerIsDeleted(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(4, nil)
	ceiling := w.watchCeiling("ledger")
	first, run := w.build()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	deposed := make(chan error, 1)
	go func() { deposed <- run(ctx, first) }()
	w.create(w.nodeWright("ledger", func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = count(2) }))
	require.Eventually(t, func() bool { return len(w.jobs("ledger")) > 0 }, patience, 5*time.Millisecond)
	require.NoError(t, w.admin.DeleteAllOf(w.ctx(), &fleetv1.Ledger{}))
	require.ErrorIs(t, <-deposed, reconciler.ErrDeposed)
	w.start()
	w.awaitComplete("ledger")
	require.LessOrEqual(t, ceiling.peak(), 2)
	require.Len(t, w.jobs("ledger"), len(nodes), "no node was worked on twice")
}

// A NodeWright is deleted and made anew under its name while an execution of the old one is at work. The new one waits for
// it, node by node, and what was applied is not run again.
func TestAttackNodeWrightIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	gate := w.gate(checkOn(nodes[0]))
	w.start()
	old := w.nodeWright("anew", nil)
	w.create(old)
	w.awaitAtWork("anew", nodes[0])
	require.Eventually(t, func() bool { return w.record("anew", nodes[1]).Outcome == noderecord.Succeeded }, patience, 20*time.Millisecond)
	orphan := metav1.DeletePropagationOrphan // the slowest garbage collector
	require.NoError(t, w.kube.BatchV1().Jobs(namespace).DeleteCollection(w.ctx(), metav1.DeleteOptions{PropagationPolicy: &orphan},
		metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=anew"}))
	require.NoError(t, w.admin.Delete(w.ctx(), old))
	w.create(w.nodeWright("anew", nil))
	w.awaitStatus("anew", "it is seen", func(nw *nwv1.NodeWright) bool { return nw.UID != old.UID && nw.Status.CompleteNodes == "1/2" })
	require.Empty(t, w.jobs("anew"), "the node that is complete runs nothing again, and the other waits for the old pod")
	gate.open()
	now := int64(0)
	require.NoError(t, w.kube.CoreV1().Pods(namespace).DeleteCollection(w.ctx(), metav1.DeleteOptions{GracePeriodSeconds: &now},
		metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=anew"}))
	w.awaitComplete("anew")
}

// failingWith lets the apply stage fail with exit code 42 and a termination message.
func failingWith(message string) func(*corev1.Pod, string) simnode.Result {
	return func(_ *corev1.Pod, container string) simnode.Result {
		if strings.HasSuffix(container, "-apply") {
			return simnode.Result{Exit: 42, Message: message}
		}
		return simnode.Result{}
	}
}

// The agent reports as JSON. People read a sentence.
func TestAttackAgentsResultIsASentence(t *testing.T) {
	w := newWorld(t)
	w.addNode(nil)
	w.result.set(failingWith(`{"stage":"apply","outcome":"failed","step":"two","exitCode":42,"message":"step two returned 42 (accepted: 0)","lines":["no space left"],"seconds":0.1}`))
	w.start()
	w.create(w.nodeWright("sentence", nil))
	nw := w.awaitStatus("sentence", "failed", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesFailed == 1 })
	require.Contains(t, nw.Status.Reasons[0].Message, "package tuning, stage apply, exit code 42: step two returned 42 (accepted: 0): no space left")
	retry := func(token string) {
		w.edit("sentence", func(nw *nwv1.NodeWright) {
			nw.Annotations = map[string]string{fleetv1.VerbKey(fleetv1.VerbRetry): token}
		})
	}
	retry("once")
	w.awaitStatus("sentence", "the retry is echoed when it has failed as well", func(nw *nwv1.NodeWright) bool {
		return nw.Status.HandledRequests[fleetv1.VerbRetry] == "once" && nw.Status.NodesFailed == 1
	})
	require.Len(t, w.jobs("sentence"), 4, "two attempts in each turn")
	w.result.set(nil)
	retry("twice")
	nw = w.awaitComplete("sentence")
	require.Equal(t, "twice", nw.Status.HandledRequests[fleetv1.VerbRetry])
}
