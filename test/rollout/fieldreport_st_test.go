package rollout

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// eventsAbout are the events about objects of this test, in the namespace for cluster-scoped ones.
func (w *world) eventsAbout(name, reason string) []eventsv1.Event {
	w.t.Helper()
	list, err := w.kube.EventsV1().Events(metav1.NamespaceDefault).List(w.ctx(), metav1.ListOptions{})
	require.NoError(w.t, err)
	var out []eventsv1.Event
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == reason && e.CreationTimestamp.After(w.began.Add(-time.Second)) {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) awaitEvent(name, reason string) eventsv1.Event {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.eventsAbout(name, reason)) > 0 }, patience, 50*time.Millisecond,
		"event %s about %s", reason, name)
	return w.eventsAbout(name, reason)[0]
}

// TestFieldReport_ST02_EventsArriveUnderTheShippedRoles rolls out a service restart as the chart's account: what is told about
// nodes and NodeWrights, both cluster-scoped, can be read, and nothing was refused.
func TestFieldReport_ST02_EventsArriveUnderTheShippedRoles(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.podsOn([]string{node}, 1)
	w.start()
	w.create(w.nodeWright("st02", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	w.awaitComplete("st02")
	for _, reason := range []string{
		report.EventAdmitted, report.EventDrain, report.EventApply, report.EventInterrupt, report.EventNodeComplete,
	} {
		e := w.awaitEvent(node, reason)
		require.Equal(t, "Node", e.Regarding.Kind)
		require.Equal(t, w.node(node).UID, e.Regarding.UID)
		require.Equal(t, "st02", e.Related.Name)
	}
	for _, reason := range []string{report.EventRolloutStarted, report.EventRolloutComplete} {
		require.Equal(t, nwv1.KindNodeWright, w.awaitEvent("st02", reason).Regarding.Kind)
	}
	for _, e := range w.requests(cluster.Match{}) {
		require.NotEqual(t, http.StatusForbidden, e.Code, "%s %s", e.Verb, e.URI)
	}
}

// TestFieldReport_ST11_AManualCordonDoesNotMatter: completion depends on our work only.
func TestFieldReport_ST11_AManualCordonDoesNotMatter(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(2, nil)[0]
	passes := w.startCounted()
	w.create(w.nodeWright("st11", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	w.awaitComplete("st11")
	passes.after(t, func() { w.patchNode(node, `{"spec":{"unschedulable":true}}`) })
	passes.after(t, func() { w.patchNode(node, `{"metadata":{"labels":{"wake":"1"}}}`) })
	nw := w.get("st11")
	require.True(t, complete(nw))
	require.True(t, apimeta.IsStatusConditionTrue(nw.Status.Conditions, meta.ReadyCondition))
	require.True(t, w.node(node).Spec.Unschedulable)
}

// TestFieldReport_ST12_EveryPrintedColumn asks the API server for the table that kubectl prints.
func TestFieldReport_ST12_EveryPrintedColumn(t *testing.T) {
	w := newWorld(t)
	w.addNodes(2, nil)
	w.create(w.nodeWright("st12", nil))
	gate := w.gate(func(*corev1.Pod, string) bool { return true })
	w.start()
	w.awaitStatus("st12", "both are at work", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesInProgress == 2 })
	require.Equal(t, map[string]any{
		"Name": "st12", "Status": "in_progress", "Priority": 200.0, "Nodes In-Progress": 2.0, "Complete Nodes": "0/2",
		"Packages": "tuning:1.0.0", "Policy": "",
	}, w.printed("st12"))
	gate.open()
	w.awaitComplete("st12")
	got := w.printed("st12")
	require.Equal(t, []any{"complete", "", "2/2"}, []any{got["Status"], got["Nodes In-Progress"], got["Complete Nodes"]})
}

// printed is the row of a NodeWright by column, without its age.
func (w *world) printed(name string) map[string]any {
	w.t.Helper()
	body, err := w.kube.CoreV1().RESTClient().Get().AbsPath("/apis/"+nwv1.GroupVersion.String()+"/nodewrights/"+name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(w.ctx())
	require.NoError(w.t, err)
	var table metav1.Table
	require.NoError(w.t, json.Unmarshal(body, &table))
	out := map[string]any{}
	for i, c := range table.ColumnDefinitions {
		out[c.Name] = table.Rows[0].Cells[i]
		if out[c.Name] == nil {
			out[c.Name] = ""
		}
	}
	require.NotEmpty(w.t, out["Age"])
	delete(out, "Age")
	return out
}

// TestFieldReport_ST12_ANewNodeWaits: before anything was done it is waiting, never unknown.
func TestFieldReport_ST12_ANewNodeWaits(t *testing.T) {
	w := newWorld(t)
	w.addNodes(1, nil)
	zero := int32(0)
	w.start()
	w.create(w.nodeWright("st12b", func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = &nwv1.InterruptionBudget{Count: &zero} }))
	nw := w.awaitStatus("st12b", "it has a status", func(nw *nwv1.NodeWright) bool { return nw.Status.Status != "" })
	require.NotEqual(t, nwv1.StatusUnknown, nw.Status.Status)
}

// TestFieldReport_ST12_AttemptsAreShown: what failed three times says so on the node, in NVIDIA's field.
func TestFieldReport_ST12_AttemptsAreShown(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1, nil)[0]
	w.result.set(func(*corev1.Pod, string) simnode.Result { return simnode.Result{Exit: 3} })
	w.start()
	w.create(w.nodeWright("st12c", nil))
	w.awaitStatus("st12c", "it failed", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesFailed == 1 })
	var state map[string]struct{ Restarts int }
	require.NoError(t, json.Unmarshal([]byte(w.node(node).Annotations[nwv1.NodeStateKey("st12c")]), &state))
	require.Equal(t, 2, state[nwv1.NodeStateEntry("tuning", "1.0.0")].Restarts, "the loop of the tests allows two attempts")
}

// waitedFor is what `kubectl wait --for=condition=…` waits for: a condition that is True and not about an older generation.
func waitedFor(nw *nwv1.NodeWright, kind string) bool {
	c := apimeta.FindStatusCondition(nw.Status.Conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= nw.Generation
}

// TestFieldReport_ST13_NobodyWaitsForTheOldReady looks at every version of the object: what waits for Ready of a new generation
// returns when its content is on every node, and not on the Ready of the generation before.
func TestFieldReport_ST13_NobodyWaitsForTheOldReady(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.start()
	w.create(w.nodeWright("st13", nil))
	w.awaitComplete("st13")
	watching, err := client.NewWithWatch(w.c.Config(), client.Options{Scheme: w.admin.Scheme()})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	events, err := watching.Watch(ctx, &nwv1.NodeWrightList{})
	require.NoError(t, err)
	w.edit("st13", setVersion("2.0.0"))
	generation := w.get("st13").Generation
	for e := range events.ResultChan() {
		nw, ok := e.Object.(*nwv1.NodeWright)
		if !ok || nw.Name != "st13" || nw.Generation < generation || !waitedFor(nw, meta.ReadyCondition) {
			continue
		}
		for _, n := range nodes {
			require.Equal(t, "2.0.0", w.record("st13", n).Packages["tuning"].Version, "Ready of generation %d", nw.Generation)
		}
		require.Equal(t, "2/2", nw.Status.CompleteNodes)
		for _, c := range nw.Status.Conditions {
			require.Equal(t, nw.Generation, c.ObservedGeneration, c.Type)
		}
		return
	}
	t.Fatal("Ready of the new generation never came")
}
