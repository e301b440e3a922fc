package rollout

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fleetwright/fleetwright/reconciler"
)

// ahead is a clock that can be put forward: what takes minutes in a cluster is there at once.
type ahead struct {
	w     *world
	by    atomic.Int64
	woken int
}

// startAhead runs the loop with such a clock.
func (w *world) startAhead() *ahead {
	w.t.Helper()
	a := &ahead{w: w}
	w.startWith(func(r *reconciler.Rollout) {
		r.Now = func() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }
	})
	return a
}

// forward puts the clock forward, and changes a node so that the loop looks.
func (a *ahead) forward(by time.Duration, node string) {
	a.w.t.Helper()
	a.by.Add(int64(by))
	a.woken++
	a.w.patchNode(node, `{"metadata":{"labels":{"wake":"`+strconv.Itoa(a.woken)+`"}}}`)
}
