package rollout

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/loop"
)

const (
	// restBudget is what docs/operations.md promises for 1000 nodes, at rest; startBudget while the caches fill.
	restBudget, startBudget = 32 << 20, 96 << 20
	// fixedBudget does not grow with the cluster: clients, buffers, the objects of the test.
	fixedBudget = 32 << 20
	// podBudget is what a pod of no relevance may cost: nothing, but for what a heap wavers by.
	podBudget = 32
)

// crowd is a cluster of objects alone: nodes and pods without kubelets.
type crowd struct {
	t           *testing.T
	kube        kubernetes.Interface
	nodes, pods int
	weight      int // bytes of a pod's spec, about
}

// size is how large the cluster is: few nodes and few but heavy pods, unless FLEETWRIGHT_CLUSTER=NODES/PODS asks for another
// one (make bench-cluster), whose pods are as large as those of a training job.
func (c *crowd) size() {
	c.t.Helper()
	asked := os.Getenv("FLEETWRIGHT_CLUSTER")
	if asked == "" {
		c.nodes, c.pods, c.weight = 50, 500, 20<<10
		return
	}
	nodes, pods, _ := strings.Cut(asked, "/")
	var err error
	c.nodes, err = strconv.Atoi(nodes)
	require.NoError(c.t, err)
	c.pods, err = strconv.Atoi(pods)
	require.NoError(c.t, err)
	c.weight = 3 << 10
}

// parallel calls do for 0 … n-1.
func (c *crowd) parallel(n int, do func(ctx context.Context, i int) error) {
	c.t.Helper()
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed.Load() == 0; i = next.Add(1) - 1 {
				if err := do(c.t.Context(), int(i)); err != nil {
					failed.Add(1)
					c.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Zero(c.t, failed.Load())
}

func (c *crowd) name(i int) string { return fmt.Sprintf("ac06-%05d", i) }

// addNodes makes nodes as large as those of a cloud.
func (c *crowd) addNodes() {
	c.t.Helper()
	c.parallel(c.nodes, func(ctx context.Context, i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.name(i), Labels: map[string]string{"crowd": "ac06"}}}
		if i == 0 {
			node.Labels["first"] = "ac06"
		}
		for j := range 60 {
			node.Labels[fmt.Sprintf("feature.example.com/label-%02d", j)] = fmt.Sprintf("value-%02d", j)
		}
		for j := range 50 {
			image := fmt.Sprintf("registry.example.com/team/image-%02d", j)
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{image + "@sha256:" + strings.Repeat("a", 64), image + ":1.0.0"}})
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_, err := c.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	_, err := c.kube.CoreV1().Nodes().Patch(c.t.Context(), c.name(0), "application/merge-patch+json", []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.NoError(c.t, err)
}

// addPods makes pods that are nobody's business, spread over the nodes.
func (c *crowd) addPods() {
	c.t.Helper()
	c.parallel(c.pods, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: c.name(i), Namespace: metav1.NamespaceDefault, Labels: map[string]string{"crowd": "ac06"}},
			Spec:       corev1.PodSpec{NodeName: c.name(i % c.nodes), Containers: []corev1.Container{{Name: "main", Image: "example.com/train"}}},
		}
		for j := range 40 {
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%02d", j), Value: strings.Repeat("v", c.weight/40)})
		}
		_, err := c.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func (c *crowd) clear() {
	ctx, now, of := context.Background(), int64(0), metav1.ListOptions{LabelSelector: "crowd=ac06"}
	_ = c.kube.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, of)
	_ = c.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, of)
}

// measured is one start of the reconciler's loop.
type measured struct {
	firstAction      time.Duration
	start, rest      int64 // bytes of heap: the most while it started, and what is kept afterwards
	nodes, pods, own int   // in its caches
}

// TestFieldReport_AC06_MemoryDoesNotDependOnThePods starts the loop in a cluster without pods and in the same with many: of the
// pods it keeps nothing, and the nodes stay within the documented budget.
func TestFieldReport_AC06_MemoryDoesNotDependOnThePods(t *testing.T) {
	cluster, config := installed(t)
	config.QPS, config.ContentType = -1, "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	c := &crowd{t: t, kube: kube}
	c.size()
	t.Cleanup(c.clear)
	c.addNodes()
	scheme, err := adapter.Scheme()
	require.NoError(t, err)
	admin, err := client.New(cluster.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	without := c.measure(admin, "ac06-without")
	c.addPods()
	with := c.measure(admin, "ac06-with")
	for name, m := range map[string]measured{"without pods": without, "with pods": with} {
		t.Logf("%d nodes, %d pods, %s: first action after %s, heap %d KiB at start, %d KiB at rest; cached: %d nodes, %d pods",
			c.nodes, c.pods, name, m.firstAction.Round(10*time.Millisecond), m.start>>10, m.rest>>10, m.nodes, m.pods)
		require.Equal(t, c.nodes, m.nodes)
		require.Equal(t, m.own, m.pods, "only our own pods are cached")
		require.Less(t, m.rest, int64(restBudget*c.nodes/1000+fixedBudget))
		require.Less(t, m.start, int64(startBudget*c.nodes/1000+fixedBudget))
		if os.Getenv("FLEETWRIGHT_CLUSTER") != "" {
			require.Less(t, m.firstAction, 10*time.Second)
		}
	}
	require.Less(t, with.rest-without.rest, int64(podBudget*c.pods+1<<20), "pods of no relevance cost nothing")
}

// measure starts the loop with one NodeWright that waits for it, until it has admitted a node.
func (c *crowd) measure(admin client.Client, name string) (m measured) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	nw := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: nwv1.NodeWrightSpec{
		NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"first": "ac06"}},
		Packages:      map[string]nwv1.Package{"tuning": {Version: "1.0.0", Image: "example.com/tuning"}},
	}}
	require.NoError(c.t, admin.Create(ctx, nw))
	defer c.forget(admin, nw)
	cluster, _ := installed(c.t)
	config, err := chart.ReconcilerConfig(ctx, cluster.Config(), namespace)
	require.NoError(c.t, err)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(c.t, err)
	defer func() { _ = null.Close() }()

	before := kept()
	peak, began := watchHeap(ctx), time.Now()
	one, err := loop.New(config, namespace, null)
	require.NoError(c.t, err)
	one.Rollout.Interval = 0
	done := make(chan error, 1)
	go func() { done <- one.Run(ctx) }()
	require.Eventually(c.t, func() bool {
		node, err := c.kube.CoreV1().Nodes().Get(ctx, c.name(0), metav1.GetOptions{})
		return err == nil && node.Annotations[fleetv1.RecordKey(name)] != ""
	}, time.Minute, 5*time.Millisecond, "the first node is admitted")
	m.firstAction = time.Since(began)
	own := client.MatchingLabels{nwv1.NameLabel: name}
	require.Eventually(c.t, func() bool { // then it waits for the pod, which no kubelet runs
		pods := &corev1.PodList{}
		return one.Cached().List(ctx, pods, own) == nil && len(pods.Items) == 1
	}, patience, pause)
	m.rest, m.start = kept()-before, peak.Load()-before
	m.nodes, m.pods, m.own = c.cached(one, &corev1.NodeList{}), c.cached(one, &corev1.PodList{}), 1
	cancel()
	require.NoError(c.t, <-done)
	runtime.KeepAlive(one)
	return m
}

func (c *crowd) cached(one *loop.Loop, list client.ObjectList) int {
	c.t.Helper()
	require.NoError(c.t, one.Cached().List(c.t.Context(), list))
	switch l := list.(type) {
	case *corev1.NodeList:
		return len(l.Items)
	case *corev1.PodList:
		return len(l.Items)
	}
	return -1
}

// forget removes the NodeWright, its Jobs and pods.
func (c *crowd) forget(admin client.Client, nw *nwv1.NodeWright) {
	ctx, background, now := context.Background(), metav1.DeletePropagationBackground, int64(0)
	of := metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nw.Name}
	_ = admin.Delete(ctx, nw)
	_ = admin.DeleteAllOf(ctx, &fleetv1.Ledger{})
	_ = c.kube.BatchV1().Jobs(namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, of)
	require.Eventually(c.t, func() bool {
		_ = c.kube.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, of)
		pods, err := c.kube.CoreV1().Pods(namespace).List(ctx, of)
		return err == nil && len(pods.Items) == 0
	}, patience, 50*time.Millisecond)
}

// kept is the heap that is in use after a collection.
func kept() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// watchHeap samples the most that the heap holds, garbage included, until ctx ends.
func watchHeap(ctx context.Context) *atomic.Int64 {
	most := &atomic.Int64{}
	go func() {
		var m runtime.MemStats
		for ctx.Err() == nil {
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), int64(m.HeapAlloc)))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return most
}
