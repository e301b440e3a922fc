//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/realnode"
)

// patience bounds every wait: a loaded machine is slow, a broken product never comes to an end.
const patience = 5 * time.Minute

// until waits for look to find nothing wrong. It gives up with what look said last, and what a person would look at next.
func (l *lab) until(what string, look func() string) {
	l.t.Helper()
	begin, wrong := time.Now(), ""
	for time.Since(begin) < patience {
		if wrong = look(); wrong == "" {
			l.say("%s", what)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	l.t.Fatalf("%s: not within %s: %s\n%s", what, patience, wrong, l.situation())
}

// situation is what `kubectl describe` and the log would show.
func (l *lab) situation() string {
	var b strings.Builder
	list := &nwv1.NodeWrightList{}
	if err := l.client.List(l.t.Context(), list); err == nil {
		for _, nw := range list.Items {
			fmt.Fprintf(&b, "NodeWright %s: %s %s\n", nw.Name, nw.Status.Status, nw.Status.CompleteNodes)
			for _, c := range nw.Status.Conditions {
				fmt.Fprintf(&b, "  %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	pods, err := l.kube.CoreV1().Pods("").List(l.t.Context(), metav1.ListOptions{})
	if err == nil {
		for _, p := range pods.Items {
			fmt.Fprintf(&b, "Pod %s on %s: %s %s\n", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Message)
		}
	}
	fmt.Fprintf(&b, "logs are in %s", l.nodes.Dir())
	return b.String()
}

// told waits until the commit has the status that a person sees beside it.
func (l *lab) told(commit, state string) string {
	l.t.Helper()
	note := ""
	l.until(fmt.Sprintf("commit %.7s says %s", commit, state), func() string {
		note, _ = l.git.Git(repo, "notes", "--ref=fleetwright", "show", commit) // none yet: it is empty
		if strings.Contains(note, `"state":"`+state+`"`) {
			return ""
		}
		return "its statuses are: " + note
	})
	return note
}

// nodeWright reads an object.
func (l *lab) nodeWright(name string) *nwv1.NodeWright {
	nw := &nwv1.NodeWright{}
	require.NoError(l.t, l.client.Get(l.t.Context(), client.ObjectKey{Name: name}, nw))
	return nw
}

// pod finds the newest execution of a package's phase on a node.
func (l *lab) pods(selector string) []corev1.Pod {
	list, err := l.kube.CoreV1().Pods(namespace).List(l.t.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(l.t, err)
	return list.Items
}

// logs reads a container's log as `kubectl logs` does: from the API server, which asks the node's kubelet.
func (l *lab) logs(pod, container string) string {
	data, err := l.kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(l.t.Context())
	require.NoError(l.t, err)
	return string(data)
}

// read is a file of a machine's disk; empty if there is none.
func read(m *realnode.Machine, path string) string {
	data, err := os.ReadFile(m.Path(path))
	if err != nil {
		return ""
	}
	return string(data)
}

// ready says what is not well with a machine's node.
func (l *lab) ready(m *realnode.Machine) string {
	node, err := l.kube.CoreV1().Nodes().Get(l.t.Context(), m.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if node.Status.NodeInfo.BootID != m.BootID() {
		return m.Name + " reports another boot"
	}
	if node.Spec.Unschedulable {
		return m.Name + " is cordoned"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return m.Name + " is not Ready"
}

// witness watches the nodes from beginning to end, and knows of the product only what it must not do.
type witness struct {
	mu       sync.Mutex
	cordoned map[string]bool
	order    []string // of cordons
	broken   string
}

func (l *lab) watch() *witness {
	w := &witness{cordoned: map[string]bool{}}
	nodes, err := l.kube.CoreV1().Nodes().Watch(l.t.Context(), metav1.ListOptions{})
	require.NoError(l.t, err)
	l.t.Cleanup(nodes.Stop)
	go func() {
		for event := range nodes.ResultChan() {
			w.see(event)
		}
	}()
	return w
}

func (w *witness) see(event watch.Event) {
	node, ok := event.Object.(*corev1.Node)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if node.Spec.Unschedulable && !w.cordoned[node.Name] {
		w.order = append(w.order, node.Name)
	}
	w.cordoned[node.Name] = node.Spec.Unschedulable
	both := 0
	for _, is := range w.cordoned {
		if is {
			both++
		}
	}
	if both > 1 {
		w.broken = fmt.Sprintf("%d nodes were cordoned at once, after %s", both, strings.Join(w.order, ", "))
	}
}

func (w *witness) verdict(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.broken)
	require.GreaterOrEqual(t, len(w.order), 4, "each machine was cordoned for a restart and for a reboot: %v", w.order)
}

func lines(text string) []string {
	return strings.Split(strings.TrimSpace(text), "\n")
}

func TestWitnessSeesTwoCordonsAtOnce(t *testing.T) {
	w := &witness{cordoned: map[string]bool{}}
	see := func(name string, cordoned bool) {
		node := &corev1.Node{}
		node.Name, node.Spec.Unschedulable = name, cordoned
		w.see(watch.Event{Type: watch.Modified, Object: node})
	}
	see("a", true)
	see("a", true)
	see("a", false)
	see("b", true)
	require.Empty(t, w.broken)
	require.Equal(t, []string{"a", "b"}, w.order)
	see("a", true)
	require.Equal(t, "2 nodes were cordoned at once, after a, b, a", w.broken)
}
