package rollout

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// steadyEnv is a duration, such as 60s: how long TestFieldReport_AC03 watches the cluster at rest. Unset: for as long as
// it takes to make steadyPasses passes, which proves the same in a few seconds.
const steadyEnv = "FLEETWRIGHT_TEST_STEADY"

const (
	steadyPasses = 25
	churnEvery   = 100 * time.Millisecond // ten label changes in a second
)

// TestFieldReport_AC03_TenObjectsOnFiftyNodesUnderChurn rolls ten objects over fifty nodes whose labels change ten times
// in a second, from the first node to the end. All rollouts finish, fewer writes meet a conflict than there are nodes, and
// then, while the labels go on changing and each change wakes the loop, not one request writes anything, events included.
func TestFieldReport_AC03_TenObjectsOnFiftyNodesUnderChurn(t *testing.T) {
	const objects, fleet = 10, 50
	w := newWorld(t)
	t.Cleanup(w.endJobs)
	nodes := w.addNodes(fleet, nil)
	passes := w.startCounted()
	churn := w.churn(nodes)
	for i := range objects {
		w.create(w.nodeWright(fmt.Sprintf("ac03-%d", i), nil))
	}
	for i := range objects {
		name := fmt.Sprintf("ac03-%d", i)
		require.Eventually(t, func() bool { return complete(w.get(name)) }, 4*patience, 200*time.Millisecond, "%s completes", name)
		require.Equal(t, "50/50", w.get(name).Status.CompleteNodes)
	}
	conflicts, writes := 0, 0
	for _, e := range w.requests(cluster.Match{}) {
		if writing(e) {
			writes++
		}
		if e.Code == http.StatusConflict || e.Code == http.StatusUnprocessableEntity {
			conflicts++
		}
	}
	require.Greater(t, writes, objects*fleet, "the log is read")
	require.Less(t, conflicts, fleet)
	require.Greater(t, churn.turns(), int64(10), "labels changed during the rollouts")
	w.requireSteady(passes, churn)
}

// endJobs removes the Jobs of many rollouts, which takes longer than the clean-up of a small test allows.
func (w *world) endJobs() {
	w.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	background := metav1.DeletePropagationBackground
	require.NoError(w.t, w.kube.BatchV1().Jobs(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}))
	require.Eventually(w.t, func() bool {
		pods, err := w.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(pods.Items) == 0
	}, 4*patience, 200*time.Millisecond, "Jobs and pods of the test are gone")
}

// requireSteady lets the last events and statuses be written, and then wants no write in many passes, each of which
// the changing labels have caused.
func (w *world) requireSteady(passes, churn *counter) {
	w.t.Helper()
	before := -1
	require.Eventually(w.t, func() bool { // a pass that writes nothing: what was to be written is written
		last := before
		before = w.allWrites()
		passes.await(w.t, 2)
		return last == before
	}, patience, time.Millisecond, "the writes end")
	least := time.Duration(0)
	if text := os.Getenv(steadyEnv); text != "" {
		var err error
		least, err = time.ParseDuration(text)
		require.NoError(w.t, err, steadyEnv)
	}
	first, turns, start := passes.turns(), churn.turns(), time.Now()
	for passes.turns() < first+steadyPasses || time.Since(start) < least {
		passes.await(w.t, 1)
	}
	require.Equal(w.t, before, w.allWrites(), "no write in %d passes and %s", passes.turns()-first, time.Since(start).Round(time.Second))
	require.GreaterOrEqual(w.t, churn.turns()-turns, int64(steadyPasses)-5, "labels went on changing")
}

// counter counts what goes on in the background.
type counter struct{ n atomic.Int64 }

func (c *counter) turns() int64 { return c.n.Load() }

// await waits for n more.
func (c *counter) await(t *testing.T, n int64) {
	t.Helper()
	first := c.turns()
	require.Eventually(t, func() bool { return c.turns() >= first+n }, patience, 5*time.Millisecond)
}

// after does something and waits for the next one; what is at rest is not waited for before.
func (c *counter) after(t *testing.T, do func()) {
	t.Helper()
	before := c.turns()
	do()
	require.Eventually(t, func() bool { return c.turns() > before }, patience, 5*time.Millisecond)
}

// churn changes a label of one node after the other until the test ends.
func (w *world) churn(nodes []string) *counter {
	c := &counter{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	w.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(churnEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			patch := fmt.Sprintf(`{"metadata":{"labels":{"churn":"%d"}}}`, c.turns())
			node := nodes[int(c.turns())%len(nodes)]
			_, err := w.kube.CoreV1().Nodes().Patch(ctx, node, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
			if err == nil {
				c.n.Add(1)
			}
		}
	}()
	return c
}

// startCounted starts the loop and counts its whole passes: those whose observation another one has followed.
func (w *world) startCounted() *counter {
	w.t.Helper()
	loop, run := w.build()
	loop.Interval = 0 // the product's own: each pass takes in several changes
	counted := &countedObserver{RolloutObserver: loop.Observer, passes: &counter{}}
	counted.passes.n.Store(-1)
	loop.Observer = counted
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, loop) }()
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(w.t, <-done)
		}
	}
	return counted.passes
}

type countedObserver struct {
	reconciler.RolloutObserver
	passes *counter
}

// Observe implements reconciler.RolloutObserver.
func (o *countedObserver) Observe(ctx context.Context, now time.Time) (plan.Input, error) {
	o.passes.n.Add(1)
	return o.RolloutObserver.Observe(ctx, now)
}

// allWrites counts every write of the reconciler so far.
func (w *world) allWrites() int {
	n := 0
	for _, e := range w.requests(cluster.Match{}) {
		if writing(e) {
			n++
		}
	}
	return n
}

func writing(e cluster.AuditEvent) bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}
