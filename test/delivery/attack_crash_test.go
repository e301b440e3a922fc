package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

var errDead = errors.New("the process is dead")

// mortal lets a process die right behind one of its writes: the write takes effect, its answer and all that follows are lost.
type mortal struct {
	next   http.RoundTripper
	after  int64
	writes *atomic.Int64
	died   chan struct{}
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.writes.Load() >= m.after {
		return nil, errDead
	}
	answer, err := m.next.RoundTrip(r)
	ours := strings.Contains(r.URL.Path, "/fleetwright.dev/") || strings.Contains(r.URL.Path, "/nodewright.nvidia.com/")
	if r.Method == http.MethodGet || !ours || r.URL.Query().Get("dryRun") != "" || err != nil {
		return answer, err
	}
	switch n := m.writes.Add(1); {
	case n == m.after:
		close(m.died)
		fallthrough
	case n > m.after:
		_ = answer.Body.Close()
		return nil, errDead
	}
	return answer, nil
}

// startMortal starts a process that dies behind its n-th write.
func (w *world) startMortal(n int) (died <-chan struct{}) {
	account, gone := w.account, make(chan struct{})
	var writes atomic.Int64
	w.account = rest.CopyConfig(account)
	w.account.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &mortal{next: next, after: int64(n), writes: &writes, died: gone}
	})
	w.start()
	w.account = account
	return gone
}

// TestCrashBehindEveryWriteOfADelivery: a commit that changes, adds, renames and removes objects is delivered by a process that
// dies behind its first write, its second, and so on. The next process ends in the same state every time, and the commits' ends
// are told once.
func TestCrashBehindEveryWriteOfADelivery(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	for n := 1; ; n++ {
		require.Less(t, n, 40, "a delivery has an end")
		if !w.crashBehind(n) {
			require.Greater(t, n, 8, "the writes are counted")
			return
		}
	}
}

// crashBehind runs one delivery; false: it ended before the n-th write.
func (w *world) crashBehind(n int) bool {
	w.t.Helper()
	name := fmt.Sprintf("crash-%d", n)
	first := w.repo(name, withSecond())
	f := w.fleet(name, name, slow, func(f *fleetv1.Fleet) { f.Spec.DeletionPolicy = fleetv1.DeletionPrune })
	w.untilApplied(f, first)
	w.untilNote(name, first, "pending")
	w.kill()
	second := w.commit(name, map[string]string{
		"a/package.yaml": strings.Replace(packageFile, "1.0.0", "1.0.1", 1),
		"a/second.yaml":  strings.ReplaceAll(nodeWrightFile, "name: gpu", "name: third"),
	})

	died := w.startMortal(n)
	crashed := w.diesBefore(died, func() bool {
		return len(w.notes(name, second)) > 0 && len(w.notes(name, first)) > 1 && w.get(f).Status.LastAppliedRevision == "main@sha1:"+second &&
			len(w.get(f).Status.Inventory.Entries) == 4
	})
	w.kill()
	w.start()

	w.untilApplied(f, second)
	now := w.until(f, func(now *fleetv1.Fleet) bool { return len(now.Status.Inventory.Entries) == 4 })
	require.Equal(w.t, "_third_nodewright.nvidia.com_NodeWright", now.Status.Inventory.Entries[2].ID)
	require.False(w.t, w.exists(&nwv1.NodeWright{}, "second"), "what left the repository is gone")
	w.play("gpu", completed)
	w.play("third", completed)
	w.untilNote(name, second, "success")
	w.untilReason(f, "ReconciliationSucceeded")
	require.Equal(w.t, 1, count(w.notes(name, second), "success"))
	require.Equal(w.t, "superseded by "+second[:12], w.untilNote(name, first, "error").Description)
	require.Equal(w.t, 1, count(w.notes(name, first), "error"))
	require.NotContains(w.t, everything(w, now), "outside git", "our own half-done work is nobody's drift")
	w.clean()
	return crashed
}

// diesBefore waits for the death, or until the process has done all that it has to do.
func (w *world) diesBefore(died <-chan struct{}, done func() bool) bool {
	w.t.Helper()
	var dead bool
	require.Eventually(w.t, func() bool {
		select {
		case <-died:
			dead = true
			return true
		default:
			return done()
		}
	}, patience, moment)
	return dead
}
