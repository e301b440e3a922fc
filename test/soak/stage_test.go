package soak

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

const (
	namespace = "fleetwright"
	patience  = time.Minute
	// stageTimeout ends stages that hang, as long as there is noise; a busy machine may let others run into it.
	stageTimeout = 4 * time.Second
	// keepJobs is how long ended Jobs stay: short, so that thousands of steps do not pile up.
	keepJobs = 30 * time.Second
)

// settings of a soak.
type settings struct {
	seed         uint64
	steps, nodes int
	// pace is the mean pause between two steps.
	pace time.Duration
}

// stage is the cluster of a soak and everything that acts on it beside the reconciler. Only the test's goroutine uses it, but
// for the faults, which the simulated kubelets ask for.
type stage struct {
	t       *testing.T
	o       settings
	random  *rand.Rand
	c       *cluster.Cluster
	proxy   *cluster.Proxy
	admin   client.Client
	kube    kubernetes.Interface
	noise   kubernetes.Interface // the same as others: their requests are told apart in the log
	kubelet *simnode.Fleet
	account *rest.Config // the reconciler's
	program *program
	process *process
	witness *witness

	wishes map[string]*wish
	policy policyWish
	most   int // nodes at once
	faults *faults
	model  model
	counts map[string]int // steps by kind
	kills  int
	ends   int // of a reconciler, by itself
	peak   figures
}

// model is what the noise has done: all later choices come from it and the seed.
type model struct {
	nodes  []string // in order of their names' birth
	born   int
	off    map[string]bool
	asked  map[string]bool // others wanted to cordon it
	cordon map[string]bool // and the cordon is theirs
	taints map[string]bool
	marks  map[string]string // the foreign label and annotation of each node
	pods   []appPod
	podsNo int
	pdb    bool
}

type appPod struct {
	name, node string
	number     int
	training   bool
}

func newStage(t *testing.T, o settings) *stage {
	t.Helper()
	c := cluster.Shared(t)
	scheme, err := adapter.Scheme()
	require.NoError(t, err)
	config := c.Config()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	require.NoError(t, chart.Apply(ctx, config, namespace, map[string]any{"replicas": 0, "rbac": map[string]any{"deletePods": true}}))
	s := &stage{
		t: t, o: o, random: rand.New(rand.NewPCG(o.seed, 1)), c: c, wishes: newWishes(), counts: map[string]int{},
		policy: policyWish{a: 3, b: 4, rest: 2, yield: 4}, most: o.nodes * 13 / 10, faults: newFaults(),
		model: model{off: map[string]bool{}, asked: map[string]bool{}, cordon: map[string]bool{}, taints: map[string]bool{}, marks: map[string]string{}},
	}
	s.admin, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	s.kube, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	others := rest.CopyConfig(config)
	others.UserAgent = noiseAgent
	s.noise, err = kubernetes.NewForConfig(others)
	require.NoError(t, err)
	s.playNodes()
	s.proxy, err = c.Proxy()
	require.NoError(t, err)
	s.account, err = chart.ReconcilerConfig(ctx, config, namespace)
	require.NoError(t, err)
	s.program = buildProgram(t, s.proxy.ConfigFor(s.account))
	s.witness = newWitness(s)
	return s
}

func (s *stage) playNodes() {
	var err error
	s.kubelet, err = simnode.New(s.c.Config(), simnode.Options{
		Outcome: s.faults.outcome, Duration: 10 * time.Millisecond, Relist: 25 * time.Millisecond, RebootDuration: 100 * time.Millisecond,
		Termination: func(*corev1.Pod) time.Duration { return 50 * time.Millisecond },
	})
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.kubelet.Run(ctx)
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// begin makes nodes and objects, and starts the reconciler.
func (s *stage) begin() {
	for range s.o.nodes {
		s.join()
	}
	s.populate()
	s.create(capFleet(s.cap()))
	s.create(s.policyObject(policyKernel))
	s.create(s.policyObject(policyYield))
	for _, name := range wrights {
		s.create(s.wrightObject(name))
	}
	s.process = s.program.start()
	s.t.Cleanup(func() { s.process.kill() })
}

// cap is the cluster-wide budget of disrupted nodes. It never changes.
func (s *stage) cap() int { return max(5, s.o.nodes/8) }

func (s *stage) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func (s *stage) create(o client.Object) {
	s.t.Helper()
	ctx, cancel := s.ctx()
	defer cancel()
	require.NoError(s.t, s.admin.Create(ctx, o), "create %s", o.GetName())
}

// pick chooses one of them; empty if there is none.
func (s *stage) pick(from []string) string {
	if len(from) == 0 {
		return ""
	}
	return from[s.random.IntN(len(from))]
}

// faults are what goes wrong on nodes, by node name.
type faults struct {
	mu      sync.Mutex
	of      map[string]fault
	reboots map[string]int
	doubled []string
}

// fault is one way in which work on a node fails.
type fault string

const (
	faultExit   fault = "exit"   // stages end with exit code 1
	faultPull   fault = "pull"   // images cannot be pulled
	faultMemory fault = "memory" // stages run out of memory
	faultHang   fault = "hang"   // stages do not end
	faultFlaky  fault = "flaky"  // every third container fails
	faultLost   fault = "lost"   // a reboot from which the machine does not come back by itself
)

var allFaults = []fault{faultExit, faultPull, faultMemory, faultHang, faultFlaky, faultLost}

func newFaults() *faults { return &faults{of: map[string]fault{}, reboots: map[string]int{}} }

func (f *faults) set(node string, kind fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind == "" {
		delete(f.of, node)
		return
	}
	f.of[node] = kind
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.of)
}

// outcome is asked by the kubelets as a container starts.
func (f *faults) outcome(pod *corev1.Pod, container string) simnode.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := f.of[pod.Spec.NodeName]
	if container == "interrupt" && rebooting(pod) {
		return f.reboot(pod, kind)
	}
	switch kind {
	case faultExit:
		if strings.HasSuffix(container, "check") {
			return simnode.Result{Exit: 1, Log: "check failed"}
		}
	case faultPull:
		return simnode.Result{ImagePullError: "manifest unknown"}
	case faultMemory:
		return simnode.Result{OOMKilled: true}
	case faultHang:
		return simnode.Result{Hangs: true}
	case faultFlaky:
		if fraction(string(pod.UID)+container) == 0 {
			return simnode.Result{Exit: 3, Log: "once in a while"}
		}
	}
	return simnode.Result{}
}

// reboot counts the reboots of one request: there may be one.
func (f *faults) reboot(pod *corev1.Pod, kind fault) simnode.Result {
	if kind == faultExit {
		return simnode.Result{Exit: 1, Log: "reboot refused"}
	}
	key := strings.Join([]string{
		pod.Labels[fleetv1.NodeWrightUIDLabel], pod.Labels[fleetv1.NodeUIDLabel], pod.Labels[fleetv1.RoundLabel], pod.Labels[waveLabel],
	}, "/")
	f.reboots[key]++
	if f.reboots[key] > 1 {
		f.doubled = append(f.doubled, fmt.Sprintf("node %s is rebooted %d times for one request (%s)", pod.Spec.NodeName, f.reboots[key], key))
	}
	if kind == faultLost {
		return simnode.Result{Reboot: simnode.RebootForEver}
	}
	return simnode.Result{Reboot: simnode.RebootKills}
}

const waveLabel = fleetv1.Group + "/wave"

// fraction is 0 for a third of all texts.
func fraction(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return h.Sum32() % 3
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
