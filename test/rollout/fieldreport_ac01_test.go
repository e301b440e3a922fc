package rollout

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// interleavings is how many writes of ours meet a foreign edit that came after our read; the nodes share them.
const (
	interleavings     = 1000
	interleavingNodes = 8
)

// TestFieldReport_AC01_ForeignEditsBetweenReadAndWrite lets the Actor write nodes a thousand times, each time with one or
// two edits by others after the Actor has read the node and before its write arrives. Everything foreign survives, taints
// with their timeAdded included, and everything of ours lands; where a write has to be refused it is tried again, as the
// loop's next pass does. Each node's sequence is drawn from a seed.
func TestFieldReport_AC01_ForeignEditsBetweenReadAndWrite(t *testing.T) {
	w := newWorld(t)
	between := newMeddling()
	actor := w.meddledActor(between)
	tally := &meddledWrites{}
	var all sync.WaitGroup
	for i, name := range w.addNodes(interleavingNodes, nil) {
		r := w.newMeddled(name, uint64(i), actor)
		between.on(name, r.meddle)
		all.Go(func() { // the Actor is safe for concurrent use, one node after the other
			for r.written < interleavings/interleavingNodes && r.err == nil {
				r.err = r.step(t.Context())
			}
			tally.add(r)
		})
	}
	all.Wait()
	for _, err := range tally.errs {
		require.NoError(t, err)
	}
	require.Equal(t, interleavings, tally.written, "every write met a foreign edit between its read and itself")
	require.Positive(t, tally.refused, "some were refused, re-read and written again")
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}) {
		for _, op := range w.operations(e, true) { // that another owner of the cordon is still there is tested, not written
			for _, foreign := range []string{"taints", "foreign", autoscalerTaint, otherNodeWright} {
				require.NotContains(t, op.Path+string(op.Value), foreign, "ours alone is written")
			}
		}
	}
}

// meddledWrites counts over all nodes.
type meddledWrites struct {
	mu               sync.Mutex
	written, refused int
	errs             []error
}

func (m *meddledWrites) add(r *meddled) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written, m.refused = m.written+r.written, m.refused+r.refused
	m.errs = append(m.errs, r.err)
}

// meddled is one node: what we write there, what others do there, and what must be there because of both.
type meddled struct {
	actor            *adapter.Actor
	admin            client.Client
	foreign          *foreigner
	rng              *rand.Rand
	node             *corev1.Node // as it was at the beginning
	record           *noderecord.Record
	status           nwv1.Status
	cordoned         bool
	again            bool // a refused decision is tried again
	writes           int  // decisions so far
	written, refused int
	err              error
}

const meddledNodeWright = "ac01"

func (w *world) newMeddled(name string, seed uint64, actor *adapter.Actor) *meddled {
	node := w.node(name)
	return &meddled{
		actor: actor, admin: w.admin, foreign: newForeigner(w.kube, node, seed),
		rng: rand.New(rand.NewPCG(seed, 1)), node: node,
	}
}

// meddle is called between the Actor's read of the node and its write. A repeated write is left alone half the time.
func (m *meddled) meddle(ctx context.Context) error {
	if m.again && m.rng.IntN(2) == 0 {
		return nil
	}
	for range 1 + m.rng.IntN(2) {
		if err := m.foreign.edit(ctx); err != nil {
			return fmt.Errorf("foreign edit of node %s: %w", m.node.Name, err)
		}
	}
	return nil
}

// step carries out one random decision until it is accepted, and compares the node with what it must be. Foreign keys
// are no reason to refuse: only a change of the cordon, or a first record, may have to be tried again.
func (m *meddled) step(ctx context.Context) error {
	if m.rng.IntN(4) == 0 {
		if err := m.foreign.dropCordon(ctx, m.cordoned); err != nil {
			return err
		}
	}
	d := m.decide()
	edits := m.foreign.edits
	for tries := 1; ; tries++ {
		m.again = tries > 1
		outcome, err := m.actor.Do(ctx, d)
		switch {
		case err != nil:
			return err
		case outcome.Conflict && (m.record != nil && d.Action == plan.ActionRecord || tries > 50):
			return fmt.Errorf("%s is refused after %d tries: %s", d.Action, tries, outcome.Detail)
		case outcome.Conflict:
			m.refused++
			continue
		case m.foreign.edits == edits:
			return fmt.Errorf("%s was written without a foreign edit in between", m.node.Name)
		}
		m.written++
		m.landed(d)
		return m.compare(ctx)
	}
}

// decide draws a decision that the planner could have made from what is on the node. Each changes something.
func (m *meddled) decide() plan.Decision {
	m.writes++
	d := plan.Decision{
		NodeWright: meddledNodeWright, NodeWrightUID: "nw-uid", Node: m.node.Name, NodeUID: m.node.UID, Before: m.record,
		Action: plan.ActionRecord, Status: []nwv1.Status{nwv1.StatusInProgress, nwv1.StatusComplete}[m.writes%2],
	}
	next := noderecord.Record{NodeWright: "nw-uid", Node: m.node.UID, Round: int64(m.writes), Batch: 1}
	next.Packages = map[string]noderecord.Package{"tuning": {
		Version: "1.0.0", Image: "example.com/tuning", Stage: nwv1.StageApply, State: nwv1.StateInProgress, Attempt: int32(m.writes),
	}}
	d.Record = &next
	switch draw := m.rng.IntN(10); {
	case m.record != nil && draw == 0:
		d.Erase, d.Action = true, plan.ActionRelease
		if m.rng.IntN(2) == 0 {
			d.Record = nil
		}
	case !m.cordoned && draw < 5:
		d.Cordon, d.Action = plan.CordonTake, plan.ActionCordon
	case m.cordoned && draw < 5:
		d.Cordon, d.Action = plan.CordonDrop, plan.ActionUncordon
	}
	return d
}

// landed notes what an accepted decision has put on the node.
func (m *meddled) landed(d plan.Decision) {
	m.record, m.status = d.Record, d.Status
	m.cordoned = (m.cordoned || d.Cordon == plan.CordonTake) && d.Cordon != plan.CordonDrop && !d.Erase
	if d.Erase {
		m.status = ""
	}
}

// compare reads the node from the API server: it must be exactly what others and we have made of it.
func (m *meddled) compare(ctx context.Context) error {
	var node corev1.Node
	if err := m.admin.Get(ctx, client.ObjectKey{Name: m.node.Name}, &node); err != nil {
		return err
	}
	labels, annotations := maps.Clone(m.node.Labels), maps.Clone(m.node.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, m.foreign.labels)
	maps.Copy(annotations, m.foreign.annotations)
	if m.foreign.cordon {
		annotations[nwv1.CordonKey(otherNodeWright)] = nwv1.TrueValue
	}
	m.ours(labels, annotations)
	for _, same := range []struct {
		what       string
		want, have any
	}{
		{"labels", labels, node.Labels},
		{"annotations", annotations, node.Annotations},
		{"taints", taintsJSON(m.foreign.taints), taintsJSON(node.Spec.Taints)},
		{"unschedulable", m.cordoned || m.foreign.cordon, node.Spec.Unschedulable},
	} {
		if sprint(same.want) != sprint(same.have) {
			return fmt.Errorf("node %s after write %d: %s: want %v, have %v", node.Name, m.writes, same.what, same.want, same.have)
		}
	}
	return nil
}

// ours adds what we have written.
func (m *meddled) ours(labels, annotations map[string]string) {
	if m.record != nil {
		maps.Copy(annotations, noderecord.Annotations(meddledNodeWright, *m.record, m.status, "test"))
	}
	if m.status == "" {
		delete(annotations, nwv1.StatusKey(meddledNodeWright))
		delete(annotations, nwv1.VersionKey(meddledNodeWright))
	} else {
		labels[nwv1.StatusKey(meddledNodeWright)] = string(m.status)
	}
	if m.cordoned {
		annotations[nwv1.CordonKey(meddledNodeWright)] = nwv1.TrueValue
	}
}

// meddledActor is an Actor under the chart's rights whose reads are live, trimmed as the caches trim, and whose
// writes of nodes pass the meddling on their way. Live reads make the order of a node's edits and writes the same in
// each run; a cache would only read older views, which the meddling makes anyway.
func (w *world) meddledActor(between *meddling) *adapter.Actor {
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		between.next = next
		return between
	})
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(w.t, err)
	scheme, err := adapter.Scheme()
	require.NoError(w.t, err)
	live, err := client.New(w.config, client.Options{Scheme: scheme})
	require.NoError(w.t, err)
	observer := adapter.NewObserver(newTrimmed(live), live, kube, namespace)
	return adapter.NewActor(kube, observer, adapter.JobSettings{Namespace: namespace, AgentImage: "agent:1", HostRoot: "/"}, "test")
}

// trimmed reads nodes live, in the shape in which the reconciler's cache holds them.
type trimmed struct {
	client.Reader
	trim func(any) (any, error)
}

func newTrimmed(live client.Reader) trimmed {
	for object, by := range adapter.CacheOptions(namespace).ByObject {
		if _, ok := object.(*corev1.Node); ok {
			return trimmed{live, by.Transform}
		}
	}
	panic("the cache does not trim nodes")
}

// Get implements client.Reader.
func (r trimmed) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := r.Reader.Get(ctx, key, o, opts...); err != nil {
		return err
	}
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	small, err := r.trim(node.DeepCopy())
	if err == nil {
		*node = *small.(*corev1.Node)
	}
	return err
}

// meddling is a transport that lets others act just before a patch of a node goes out.
type meddling struct {
	next http.RoundTripper
	mu   sync.Mutex
	acts map[string]func(context.Context) error
}

func newMeddling() *meddling { return &meddling{acts: map[string]func(context.Context) error{}} }

func (m *meddling) on(node string, act func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acts[node] = act
}

// RoundTrip implements http.RoundTripper.
func (m *meddling) RoundTrip(r *http.Request) (*http.Response, error) {
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); ok && r.Method == http.MethodPatch {
		m.mu.Lock()
		act := m.acts[name]
		m.mu.Unlock()
		if err := act(r.Context()); err != nil {
			return nil, err
		}
	}
	return m.next.RoundTrip(r)
}
