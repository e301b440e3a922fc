package rollout

import (
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// gate holds containers back from starting until it is opened; it opens at the end of the test at the latest.
type gate struct {
	once sync.Once
	free chan struct{}
}

// gate holds the containers that match; what a container then comes to is up to `then`, or it ends well.
func (w *world) gate(match func(pod *corev1.Pod, container string) bool) *gate {
	g := &gate{free: make(chan struct{})}
	w.result.set(func(pod *corev1.Pod, container string) simnode.Result {
		if match(pod, container) {
			<-g.free
		}
		return simnode.Result{}
	})
	w.t.Cleanup(g.open)
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.free) }) }

// checkOn matches the check of the apply stage on the nodes: the stage has run, its result is not known yet.
func checkOn(nodes ...string) func(*corev1.Pod, string) bool {
	return func(pod *corev1.Pod, container string) bool {
		for _, n := range nodes {
			if pod.Spec.NodeName == n && strings.HasSuffix(container, "-applycheck") {
				return true
			}
		}
		return false
	}
}

// awaitAtWork waits until an execution of the NodeWright is recorded as started on the node.
func (w *world) awaitAtWork(nodeWright, node string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		r := w.record(nodeWright, node)
		return r.IsOpen() && r.Started && r.Packages["tuning"].State == nwv1.StateInProgress
	}, patience, 20*time.Millisecond, "node %s is at work", node)
}
