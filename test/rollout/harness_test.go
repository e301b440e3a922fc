//lint:file-ignore U1000 the vocabulary of the tests of this package
package rollout

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/loop"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// patience is how long a test waits for something that has to happen: seconds on a quiet machine.
const patience = 2 * time.Minute

// pause is how long a test waits between two looks.
const pause = 20 * time.Millisecond

// namespace of the reconciler; all tests of this package share it, one after the other.
const namespace = "fleetwright"

var install sync.Once

// world is one test's part of the cluster: nodes, objects, and a reconciler that can be stopped and started.
type world struct {
	t      *testing.T
	c      *cluster.Cluster
	admin  client.Client
	kube   kubernetes.Interface
	prefix string // of every name in this test
	nodes  *simnode.Fleet
	result *outcomes
	config *rest.Config // the reconciler's; a test may put a proxy in front
	ownPod string       // the pod in which the reconciler runs, in its namespace; empty: in none
	stop   func()
	began  time.Time
}

// outcomes are what the test wants containers to do; it is asked by the simulated kubelets.
type outcomes struct {
	mu     sync.Mutex
	of     func(pod *corev1.Pod, container string) simnode.Result
	admits func(pod *corev1.Pod) simnode.Refusal
}

// admit sets which pods the kubelets refuse.
func (o *outcomes) admit(admits func(pod *corev1.Pod) simnode.Refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.admits = admits
}

func (o *outcomes) refusal(pod *corev1.Pod) simnode.Refusal {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.admits == nil {
		return simnode.Refusal{}
	}
	return o.admits(pod)
}

func (o *outcomes) set(of func(pod *corev1.Pod, container string) simnode.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of = of
}

func (o *outcomes) ask(pod *corev1.Pod, container string) simnode.Result {
	o.mu.Lock()
	of := o.of
	o.mu.Unlock()
	var r simnode.Result
	if of != nil {
		r = of(pod, container)
	}
	if container == "interrupt" && r == (simnode.Result{}) && rebooting(pod) {
		r.Reboot = simnode.RebootKills
	}
	return r
}

// rebooting reads the interrupt's argument: base64 of {"type":"node_restart"}.
func rebooting(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == "interrupt" {
			return len(c.Args) == 4 && c.Args[3] == "eyJ0eXBlIjoibm9kZV9yZXN0YXJ0In0="
		}
	}
	return false
}

// installed is the control plane, with the chart installed.
func installed(t *testing.T) (*cluster.Cluster, *rest.Config) {
	t.Helper()
	c := cluster.Shared(t)
	config := c.Config()
	var err error
	install.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = chart.Apply(ctx, config, namespace, map[string]any{"replicas": 0})
	})
	require.NoError(t, err, "install the chart")
	return c, config
}

// newWorld makes a world with the chart installed, no nodes, and no reconciler running.
func newWorld(t *testing.T) *world {
	t.Helper()
	c, config := installed(t)
	scheme, err := adapter.Scheme()
	require.NoError(t, err)
	admin, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	w := &world{t: t, c: c, admin: admin, kube: kube, result: &outcomes{}, stop: func() {}, began: time.Now()}
	w.prefix = strings.ToLower(strings.NewReplacer("TestFieldReport_", "", "Test", "", "_", "-", "/", "-").Replace(t.Name()))
	if len(w.prefix) > 24 {
		w.prefix = strings.Trim(w.prefix[:24], "-")
	}
	w.config, err = chart.ReconcilerConfig(w.ctx(), config, namespace)
	require.NoError(t, err)
	c.Audit().NeverRefused("system:serviceaccount:" + namespace + ":" + chart.ReconcilerAccount)
	w.playNodes()
	return w
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// playNodes starts the kubelets. At the end of the test everything of it is removed, so that the next starts clean.
func (w *world) playNodes() {
	var err error
	w.nodes, err = simnode.New(w.c.Config(), simnode.Options{
		Outcome: w.result.ask, Admit: w.result.refusal, Duration: 15 * time.Millisecond,
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.nodes.Run(ctx)
	}()
	w.t.Cleanup(func() {
		w.stop()
		w.cleanUp()
		cancel()
		<-done
	})
}

func (w *world) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = w.admin.DeleteAllOf(ctx, &nwv1.NodeWright{})
	w.dropFinalizers(ctx) // no reconciler runs that would uninstall anything
	_ = w.admin.DeleteAllOf(ctx, &nwv1.DeploymentPolicy{})
	_ = w.admin.DeleteAllOf(ctx, &fleetv1.Ledger{})
	background := metav1.DeletePropagationBackground
	_ = w.kube.BatchV1().Jobs(namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
	require.Eventually(w.t, func() bool {
		jobs, err := w.kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(jobs.Items) == 0
	}, patience, 50*time.Millisecond, "Jobs of the test are gone")
	require.NoError(w.t, w.kube.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
		LabelSelector: fleetv1.ManagedByLabel + "=" + fleetv1.FieldManager,
	}))
	require.NoError(w.t, w.nodes.Cleanup(ctx))
}

// addNodes adds Ready nodes <prefix>-0 … with the label `test: <prefix>` and more.
func (w *world) addNodes(n int, labels map[string]string) []string {
	w.t.Helper()
	var names []string
	for range n {
		names = append(names, w.addNode(labels))
	}
	return names
}

func (w *world) addNode(labels map[string]string) string {
	w.t.Helper()
	all := map[string]string{"test": w.prefix}
	for k, v := range labels {
		all[k] = v
	}
	list, err := w.kube.CoreV1().Nodes().List(w.ctx(), metav1.ListOptions{LabelSelector: "test=" + w.prefix})
	require.NoError(w.t, err)
	name := fmt.Sprintf("%s-%02d", w.prefix, len(list.Items))
	_, err = w.nodes.AddNode(w.ctx(), name, all, simnode.NodeOptions{})
	require.NoError(w.t, err)
	return name
}

// start runs the reconciler's loop as its own account until stop is called or the test ends.
func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	one, run := w.build()
	go func() { done <- run(ctx, one) }()
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(w.t, <-done)
		}
	}
}

// build wires the loop as cmd/fleetwright-reconciler does, without a manager.
func (w *world) build() (*reconciler.Rollout, func(context.Context, *reconciler.Rollout) error) {
	one, err := loop.New(w.config, namespace, w.logWriter())
	require.NoError(w.t, err)
	one.Observer.RunsAs(w.ownPod)
	return one.Rollout, func(ctx context.Context, _ *reconciler.Rollout) error { return one.Run(ctx) }
}

// logWriter sends the loop's log to the test's output with FLEETWRIGHT_TEST_LOG=1.
func (w *world) logWriter() *os.File {
	if os.Getenv("FLEETWRIGHT_TEST_LOG") != "" {
		return os.Stderr
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = null.Close() })
	return null
}
