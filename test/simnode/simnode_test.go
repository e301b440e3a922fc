package simnode_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// patience bounds waits for real API state; it is never waited out when all is well.
const (
	patience = 60 * time.Second
	interval = 10 * time.Millisecond
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{}) }

// world is one simulated node, named after the test's namespace, on the shared control plane.
type world struct {
	t     *testing.T
	k     kubernetes.Interface
	fleet *simnode.Fleet
	ns    string
}

func newWorld(t *testing.T, o simnode.Options) *world {
	t.Helper()
	c := cluster.Shared(t)
	k, err := kubernetes.NewForConfig(c.Config())
	require.NoError(t, err)
	w := &world{t: t, k: k, ns: c.Namespace(t)}
	w.fleet, err = simnode.New(c.Config(), o)
	require.NoError(t, err)
	_, err = w.fleet.AddNode(t.Context(), w.ns, map[string]string{"pool": "a"}, simnode.NodeOptions{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.fleet.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.NoError(t, w.fleet.Cleanup(context.Background()))
	})
	return w
}

func container(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "registry.test/" + name + ":1",
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError}
}

// pod is bound to the node already; a Job owns it unless change says otherwise.
func (w *world) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "0", Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: w.ns, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{container("main")}},
	}
	if change != nil {
		change(p)
	}
	p, err := w.k.CoreV1().Pods(w.ns).Create(w.t.Context(), p, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return p
}

func (w *world) get(name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.k.CoreV1().Pods(w.ns).Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return p
}

func (w *world) node() *corev1.Node {
	w.t.Helper()
	n, err := w.k.CoreV1().Nodes().Get(w.t.Context(), w.ns, metav1.GetOptions{})
	require.NoError(w.t, err)
	return n
}

// await polls a pod until the condition holds.
func (w *world) await(name string, holds func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var last *corev1.Pod
	require.Eventually(w.t, func() bool {
		p, err := w.k.CoreV1().Pods(w.ns).Get(w.t.Context(), name, metav1.GetOptions{})
		last = p
		return err == nil && holds(p)
	}, patience, interval)
	return last
}

func (w *world) awaitGone(name string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		_, err := w.k.CoreV1().Pods(w.ns).Get(w.t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, patience, interval)
}

func phase(want corev1.PodPhase) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.Status.Phase == want }
}

func condition(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// line is what a watcher sees of a pod: "i1=running i2=waiting main=waiting".
func line(p *corev1.Pod) string {
	var words []string
	for _, cs := range append(append([]corev1.ContainerStatus{}, p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...) {
		state := "waiting"
		switch {
		case cs.State.Running != nil:
			state = "running"
		case cs.State.Terminated != nil:
			state = fmt.Sprint(cs.State.Terminated.ExitCode)
		}
		words = append(words, cs.Name+"="+state)
	}
	return strings.Join(words, " ")
}

func TestInitContainers_RunOneAfterAnotherForAWatcher(t *testing.T) {
	w := newWorld(t, simnode.Options{})
	watcher, err := w.k.CoreV1().Pods(w.ns).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watcher.Stop()
	w.pod("p", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{container("i1"), container("i2")} })
	var seen []string
	for e := range watcher.ResultChan() {
		p := e.Object.(*corev1.Pod)
		if l := line(p); l != "" && (len(seen) == 0 || seen[len(seen)-1] != l) {
			seen = append(seen, l)
		}
		if p.Status.Phase == corev1.PodSucceeded {
			break
		}
	}
	require.Equal(t, []string{
		"i1=running i2=waiting main=waiting",
		"i1=0 i2=running main=waiting",
		"i1=0 i2=0 main=running",
		"i1=0 i2=0 main=0",
	}, seen)
}

func TestFailure_HasExitCodeAndTheLogsTail(t *testing.T) {
	w := newWorld(t, simnode.Options{Outcome: func(_ *corev1.Pod, name string) simnode.Result {
		if name == "i1" {
			return simnode.Result{Exit: 3, Log: strings.Repeat("noise\n", 1000) + "no space left on device"}
		}
		return simnode.Result{}
	}})
	w.pod("p", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{container("i1"), container("i2")} })
	p := w.await("p", phase(corev1.PodFailed))
	require.Equal(t, "i1=3 i2=waiting main=waiting", line(p))
	end := p.Status.InitContainerStatuses[0].State.Terminated
	require.Equal(t, "Error", end.Reason)
	require.True(t, strings.HasSuffix(end.Message, "noise\nno space left on device"), end.Message)
	require.Len(t, strings.Split(end.Message, "\n"), 80, "a kubelet keeps 80 lines")

	w.pod("file", func(p *corev1.Pod) {
		quiet := container("i1")
		quiet.TerminationMessagePolicy = corev1.TerminationMessageReadFile
		p.Spec.InitContainers = []corev1.Container{quiet}
	})
	p = w.await("file", phase(corev1.PodFailed))
	require.Empty(t, p.Status.InitContainerStatuses[0].State.Terminated.Message, "without the policy a kubelet shows no log")
}

func TestOOM_IsExit137(t *testing.T) {
	w := newWorld(t, simnode.Options{Outcome: func(*corev1.Pod, string) simnode.Result { return simnode.Result{OOMKilled: true} }})
	w.pod("p", nil)
	end := w.await("p", phase(corev1.PodFailed)).Status.ContainerStatuses[0].State.Terminated
	require.Equal(t, "OOMKilled", end.Reason)
	require.Equal(t, int32(137), end.ExitCode)
}

func TestImagePullError_WaitsUntilTheImageIsThere(t *testing.T) {
	var there atomic.Bool
	w := newWorld(t, simnode.Options{Outcome: func(*corev1.Pod, string) simnode.Result {
		if there.Load() {
			return simnode.Result{}
		}
		return simnode.Result{ImagePullError: "manifest unknown"}
	}})
	w.pod("p", nil)
	for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
		p := w.await("p", func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
				p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
		})
		require.Equal(t, corev1.PodPending, p.Status.Phase)
		require.Contains(t, p.Status.ContainerStatuses[0].State.Waiting.Message, "manifest unknown")
	}
	there.Store(true)
	w.await("p", phase(corev1.PodSucceeded))
}

func TestRestartPolicy_OnFailureTriesAgain(t *testing.T) {
	var tries atomic.Int32
	w := newWorld(t, simnode.Options{Outcome: func(*corev1.Pod, string) simnode.Result {
		if tries.Add(1) < 3 {
			return simnode.Result{Exit: 1}
		}
		return simnode.Result{}
	}})
	w.pod("p", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure })
	status := w.await("p", phase(corev1.PodSucceeded)).Status.ContainerStatuses[0]
	require.Equal(t, int32(2), status.RestartCount)
	require.Equal(t, int32(1), status.LastTerminationState.Terminated.ExitCode)
}

func TestReboot_ChangesTheBootIDAndKillsWhatRuns(t *testing.T) {
	w := newWorld(t, simnode.Options{Outcome: func(p *corev1.Pod, _ string) simnode.Result {
		if p.Name == "interrupt" {
			return simnode.Result{Reboot: simnode.RebootKills}
		}
		return simnode.Result{Hangs: true}
	}})
	before := w.node().Status.NodeInfo
	w.pod("other", nil)
	w.pod("web", func(p *corev1.Pod) { p.OwnerReferences, p.Spec.RestartPolicy = nil, corev1.RestartPolicyAlways })
	w.await("other", phase(corev1.PodRunning))
	w.await("web", phase(corev1.PodRunning))
	w.pod("interrupt", nil)

	for _, name := range []string{"interrupt", "other"} {
		end := w.await(name, phase(corev1.PodFailed)).Status.ContainerStatuses[0].State.Terminated
		require.Equal(t, int32(255), end.ExitCode, name)
		require.Equal(t, "Unknown", end.Reason, name)
	}
	web := w.await("web", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	require.Equal(t, int32(255), web.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode)
	after := w.node()
	require.NotEqual(t, before.BootID, after.Status.NodeInfo.BootID)
	require.Equal(t, before.MachineID, after.Status.NodeInfo.MachineID)
	require.Equal(t, corev1.ConditionTrue, condition(after).Status)
	require.Empty(t, after.Spec.Taints)
}

func TestReboot_AfterExitReportsTheExitFirst(t *testing.T) {
	w := newWorld(t, simnode.Options{Outcome: func(*corev1.Pod, string) simnode.Result {
		return simnode.Result{Reboot: simnode.RebootAfterExit}
	}})
	boot := w.node().Status.NodeInfo.BootID
	w.pod("p", nil)
	w.await("p", phase(corev1.PodSucceeded))
	require.Eventually(t, func() bool { return w.node().Status.NodeInfo.BootID != boot }, patience, interval)
}

func TestReboot_ThatNeverComesBack(t *testing.T) {
	w := newWorld(t, simnode.Options{Outcome: func(*corev1.Pod, string) simnode.Result {
		return simnode.Result{Reboot: simnode.RebootForEver}
	}})
	boot := w.node().Status.NodeInfo.BootID
	w.pod("p", nil)
	require.Eventually(t, func() bool { return condition(w.node()).Status == corev1.ConditionUnknown }, patience, interval)
	require.Eventually(t, func() bool { return len(w.node().Spec.Taints) == 1 }, patience, interval)
	require.Equal(t, boot, w.node().Status.NodeInfo.BootID)
	require.Equal(t, corev1.PodRunning, w.get("p").Status.Phase, "nobody reports the pod's end")
	require.NoError(t, w.fleet.PowerOn(t.Context(), w.ns))
	w.await("p", phase(corev1.PodFailed))
	require.NotEqual(t, boot, w.node().Status.NodeInfo.BootID)
}

func TestTermination_TakesItsTimeWithinTheGracePeriod(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, simnode.Options{Clock: clock, Termination: func(p *corev1.Pod) time.Duration {
		if p.Name == "stubborn" {
			return time.Hour
		}
		return 5 * time.Second
	}})
	for _, name := range []string{"polite", "stubborn"} {
		w.pod(name, func(p *corev1.Pod) {
			p.OwnerReferences = nil
			p.Finalizers = []string{"fleetwright.test/look"} // to see the end that the kubelet reported
		})
		w.await(name, phase(corev1.PodRunning))
		require.NoError(t, w.k.CoreV1().Pods(w.ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	require.Eventually(t, clock.HasWaiters, patience, interval)
	for _, tc := range []struct {
		name string
		exit int32
	}{{"polite", 143}, {"stubborn", 137}} { // in the order of their ends
		name, exit := tc.name, tc.exit
		require.Equal(t, corev1.PodRunning, w.get(name).Status.Phase, "time stands still")
		w.advance(clock, 5*time.Second)
		if name == "stubborn" {
			w.advance(clock, 30*time.Second) // the default grace period
		}
		end := w.await(name, phase(corev1.PodFailed)).Status.ContainerStatuses[0].State.Terminated
		require.Equal(t, exit, end.ExitCode, name)
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := w.k.CoreV1().Pods(w.ns).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
		w.awaitGone(name)
	}
}

// advance moves a fake clock in small steps, since work that is queued meanwhile counts from its own beginning.
func (w *world) advance(clock *clocktesting.FakeClock, d time.Duration) {
	for range 10 {
		clock.Step(d / 10)
		time.Sleep(time.Millisecond)
	}
}

func TestActiveDeadline_FailsThePod(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, simnode.Options{Clock: clock, Outcome: func(*corev1.Pod, string) simnode.Result {
		return simnode.Result{Hangs: true}
	}})
	limit := int64(60)
	w.pod("p", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &limit })
	w.await("p", phase(corev1.PodRunning))
	require.Eventually(t, clock.HasWaiters, patience, interval)
	clock.Step(61 * time.Second)
	p := w.await("p", phase(corev1.PodFailed))
	require.Equal(t, "DeadlineExceeded", p.Status.Reason)
	require.Equal(t, "main=137", line(p))
}

func TestPods_WithoutAJobStayAndReportReadiness(t *testing.T) {
	w := newWorld(t, simnode.Options{Outcome: func(p *corev1.Pod, _ string) simnode.Result {
		return simnode.Result{Exit: 1, NotReady: p.Name == "sick"}
	}})
	for _, name := range []string{"well", "sick"} {
		w.pod(name, func(p *corev1.Pod) { p.OwnerReferences = nil })
		p := w.await(name, phase(corev1.PodRunning))
		require.Equal(t, name == "well", p.Status.ContainerStatuses[0].Ready)
	}
	w.pod("job", nil)
	w.await("job", phase(corev1.PodFailed)) // the time in which the others would have ended too
	require.Equal(t, corev1.PodRunning, w.get("well").Status.Phase)
}
