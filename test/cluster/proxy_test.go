package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetwright/fleetwright/test/cluster"
)

func newProxy(t *testing.T) (*cluster.Cluster, *cluster.Proxy) {
	t.Helper()
	c := cluster.Shared(t)
	p, err := c.Proxy()
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return c, p
}

func TestProxy_KeepsTheCallersIdentity(t *testing.T) {
	c, p := newProxy(t)
	ns := c.Namespace(t)
	require.Equal(t, "admin", whoAmI(t, p.Config()))
	alice, err := c.User("alice")
	require.NoError(t, err)
	require.Equal(t, "alice", whoAmI(t, p.ConfigFor(alice)))
	token, err := c.ServiceAccountToken(t.Context(), ns, "default")
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:"+ns+":default", whoAmI(t, p.ConfigFor(token)))
}

func TestProxy_FailAnswersInsteadOfTheServer(t *testing.T) {
	c, p := newProxy(t)
	maps := client(t, p.Config()).CoreV1().ConfigMaps(c.Namespace(t))
	fault := p.Fail(cluster.Match{Verb: "create", Resource: "configmaps"}, 409, 2)
	for range 2 {
		_, err := maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
		require.True(t, apierrors.IsConflict(err), "got %v", err)
	}
	_, err := maps.Create(t.Context(), configMap("a"), metav1.CreateOptions{})
	require.NoError(t, err, "the fault was for two times")
	require.Equal(t, 2, fault.Hits())

	fault = p.Fail(cluster.Match{Resource: "configmaps", Name: "a"}, 503, cluster.Always)
	_, err = maps.Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsServiceUnavailable(err), "got %v", err)
	fault.Remove()
	_, err = maps.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
}

func TestProxy_FailAfterLosesTheAnswerAndAbortTheRequest(t *testing.T) {
	c, p := newProxy(t)
	ns := c.Namespace(t)
	direct, through := client(t, c.Config()).CoreV1().ConfigMaps(ns), client(t, p.Config()).CoreV1().ConfigMaps(ns)

	p.FailAfter(cluster.Match{Verb: "create", Resource: "configmaps"}, 1)
	_, err := through.Create(t.Context(), configMap("done"), metav1.CreateOptions{})
	require.Error(t, err)
	_, err = direct.Get(t.Context(), "done", metav1.GetOptions{})
	require.NoError(t, err, "the request took effect")

	p.Abort(cluster.Match{Verb: "create", Resource: "configmaps"}, 1)
	_, err = through.Create(t.Context(), configMap("never"), metav1.CreateOptions{})
	require.Error(t, err)
	_, err = direct.Get(t.Context(), "never", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "got %v", err)
}

func TestProxy_HoldStopsTheWorldUntilItIsRemoved(t *testing.T) {
	c, p := newProxy(t)
	ns := c.Namespace(t)
	direct, through := client(t, c.Config()).CoreV1().ConfigMaps(ns), client(t, p.Config()).CoreV1().ConfigMaps(ns)
	hold := p.Hold(cluster.Match{Verb: "create", Name: ""}, 1)
	answer := make(chan error, 1)
	go func() {
		_, err := through.Create(t.Context(), configMap("held"), metav1.CreateOptions{})
		answer <- err
	}()
	require.Eventually(t, func() bool { return hold.Hits() == 1 }, patience, interval)
	_, err := direct.Get(t.Context(), "held", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "got %v", err)
	hold.Remove()
	require.NoError(t, <-answer)

	late := p.Delay(cluster.Match{Verb: "get"}, time.Millisecond, 1)
	_, err = through.Get(t.Context(), "held", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, late.Hits())
}

func TestProxy_DropsWatchesAndConnections(t *testing.T) {
	c, p := newProxy(t)
	ns := c.Namespace(t)
	maps := client(t, p.Config()).CoreV1().ConfigMaps(ns)
	w, err := maps.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	_, err = client(t, c.Config()).CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("seen"), metav1.CreateOptions{})
	require.NoError(t, err)
	waitForEvent(t, w, "seen")
	require.Equal(t, 1, p.DropWatches())
	waitForEnd(t, w)

	w, err = maps.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err, "a new watch is served")
	waitForEvent(t, w, "seen")
	p.KillConnections()
	waitForEnd(t, w)
	_, err = maps.Get(t.Context(), "seen", metav1.GetOptions{})
	require.NoError(t, err, "a new connection is served")
}

func waitForEvent(t *testing.T, w watch.Interface, name string) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case e, open := <-w.ResultChan():
			require.True(t, open, "the watch ended before %s was seen", name)
			if o, ok := e.Object.(metav1.Object); ok && o.GetName() == name {
				return
			}
		case <-timeout:
			require.Fail(t, "timed out", "waiting for %s", name)
		}
	}
}

func waitForEnd(t *testing.T, w watch.Interface) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
		case <-timeout:
			require.Fail(t, "timed out", "waiting for the watch's end")
		}
	}
}
