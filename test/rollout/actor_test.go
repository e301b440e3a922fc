package rollout

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// actor is an Actor alone, without the loop: what a process that lost the lead and does not know it yet still has.
func (w *world) actor() *adapter.Actor {
	w.t.Helper()
	scheme, err := adapter.Scheme()
	require.NoError(w.t, err)
	options := adapter.CacheOptions(namespace)
	options.Scheme = scheme
	caches, err := cache.New(w.config, options)
	require.NoError(w.t, err)
	live, err := client.New(w.config, client.Options{Scheme: scheme})
	require.NoError(w.t, err)
	kube, err := kubernetes.NewForConfig(w.config)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- caches.Start(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	observer := adapter.NewObserver(caches, live, kube, namespace)
	return adapter.NewActor(kube, observer, adapter.JobSettings{
		Namespace: namespace, AgentImage: "agent:1", HostRoot: "/", ServiceAccount: chart.ExecutionAccount,
	}, "test")
}

// A decision that changes no record is held against the node of this moment all the same: nothing is evicted from a node
// that was uncordoned, and nothing is started on one that got another turn since.
func TestDecisionsWithoutARecordAreConfirmed(t *testing.T) {
	w := newWorld(t)
	name := w.addNode(nil)
	pod := w.addPod("web", name, nil)
	actor := w.actor()
	before := noderecord.Record{NodeWright: "nw", Node: w.node(name).UID, Round: 1, Batch: 1, Started: true}
	seen := func(r noderecord.Record) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{fleetv1.RecordKey("stale"): noderecord.Encode(r)},
		}})
		require.NoError(t, err)
		w.patchNode(name, string(patch))
	}
	seen(before)
	evict := plan.Decision{
		NodeWright: "stale", NodeWrightUID: "nw", Node: name, NodeUID: w.node(name).UID, Action: plan.ActionDrain, Before: &before,
		Evict: []plan.Eviction{{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}},
	}
	outcome, err := actor.Do(w.ctx(), evict)
	require.NoError(t, err)
	require.True(t, outcome.Conflict)
	require.Equal(t, "the node is not cordoned any more", outcome.Detail)

	w.patchNode(name, `{"spec":{"unschedulable":true}}`)
	later := before
	later.Batch = 2
	seen(later)
	outcome, err = actor.Do(w.ctx(), evict)
	require.NoError(t, err)
	require.True(t, outcome.Conflict, "the node has another turn by now")

	start := evict
	start.Evict, start.Start = nil, []plan.ExecutionSpec{{
		ExecutionKey: plan.ExecutionKey{NodeWright: "stale", NodeWrightUID: "nw", NodeUID: evict.NodeUID, Round: 1, Package: "p", Phase: plan.PhaseConfig, Attempt: 1},
		Node:         name,
	}}
	outcome, err = actor.Do(w.ctx(), start)
	require.NoError(t, err)
	require.True(t, outcome.Conflict)
	require.Empty(t, w.evictions(pod.Name), "nothing was asked to leave")
	require.Empty(t, w.requests(cluster.Match{Verb: "create", Resource: "jobs"}), "nothing was started")

	evict.Before = &later
	outcome, err = actor.Do(w.ctx(), evict)
	require.NoError(t, err)
	require.False(t, outcome.Conflict)
	require.Len(t, w.evictions(pod.Name), 1, "the confirmed eviction is carried out")
}
