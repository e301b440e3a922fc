package rollout

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// ceilingWatch counts for itself, from a watch of its own, how many nodes of the test are admitted and unfinished or
// cordoned by us at the same time.
type ceilingWatch struct {
	mu    sync.Mutex
	busy  map[string]bool
	most  int
	order []string // nodes in the order in which they were first busy
}

func (w *world) watchCeiling(nodeWright string) *ceilingWatch {
	w.t.Helper()
	c := &ceilingWatch{busy: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	events, err := w.kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{LabelSelector: "test=" + w.prefix})
	require.NoError(w.t, err)
	go func() {
		for e := range events.ResultChan() {
			if node, ok := e.Object.(*corev1.Node); ok {
				c.see(nodeWright, e.Type, node)
			}
		}
	}()
	return c
}

func (c *ceilingWatch) see(nodeWright string, kind watch.EventType, node *corev1.Node) {
	r, found, err := noderecord.Decode(node.Annotations[fleetv1.RecordKey(nodeWright)], node.UID)
	busy := err == nil && found && r.IsOpen() || node.Annotations[nwv1.CordonKey(nodeWright)] != ""
	c.mu.Lock()
	defer c.mu.Unlock()
	if busy && !c.busy[node.Name] {
		c.order = append(c.order, node.Name)
	}
	c.busy[node.Name] = busy && kind != watch.Deleted
	n := 0
	for _, b := range c.busy {
		if b {
			n++
		}
	}
	c.most = max(c.most, n)
}

func (c *ceilingWatch) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

func (c *ceilingWatch) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.order...)
}

// reconcilerUser is who the chart's reconciler is.
const reconcilerUser = "system:serviceaccount:" + namespace + ":fleetwright-reconciler"

// requests are the reconciler's own since the test began, from the API server's log.
func (w *world) requests(m cluster.Match) []cluster.AuditEvent {
	w.t.Helper()
	require.NoError(w.t, w.c.Audit().Sync(w.ctx()))
	m.User = reconcilerUser
	events, err := w.c.Audit().Events(m)
	require.NoError(w.t, err)
	return slices.DeleteFunc(events, func(e cluster.AuditEvent) bool { return e.Received.Before(w.began) })
}

// evictions of pods of this test.
func (w *world) evictions(podPrefix string) []cluster.AuditEvent {
	w.t.Helper()
	var out []cluster.AuditEvent
	for _, e := range w.requests(cluster.Match{Verb: "create", Resource: "pods/eviction"}) {
		if strings.HasPrefix(e.Name, podPrefix) {
			out = append(out, e)
		}
	}
	return out
}

// cordons says whether a request is an accepted patch that makes a node unschedulable.
func cordons(e cluster.AuditEvent) bool {
	var ops []struct {
		Op, Path string
		Value    any
	}
	if e.Code != 200 || json.Unmarshal(e.Request, &ops) != nil {
		return false
	}
	for _, op := range ops {
		if op.Op == "add" && op.Path == "/spec/unschedulable" && op.Value == true {
			return true
		}
	}
	return false
}
