package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

func (w *world) addPod(node, namespace, name string, lbls map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Labels: lbls,
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: new(true)}},
	}, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}}
	w.pods[node] = append(w.pods[node], p)
	return p
}

func (w *world) removePod(node string, uid types.UID) {
	for _, p := range w.pods[node] {
		require.False(w.t, p.UID == uid && p.Labels["protected"] == "true", "a protected pod was evicted")
	}
	w.pods[node] = slices.DeleteFunc(w.pods[node], func(p *corev1.Pod) bool { return p.UID == uid })
}

// refuse is the answer of the API server to a pod that was asked to leave, good for that long.
func (w *world) refuse(node string, p *corev1.Pod, kind plan.RefusalKind, message string, good time.Duration) {
	n := w.nodes[node]
	if n.Refusals == nil {
		n.Refusals = map[types.UID]plan.Refusal{}
	}
	n.Refusals[p.UID] = plan.Refusal{Kind: kind, Message: message, Again: w.in.Now.Add(good)}
}

func TestFieldReport_DR06_EachKindOfPod(t *testing.T) {
	bare := func(p *corev1.Pod) { p.OwnerReferences = nil }
	daemon := func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }
	emptyDir := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	const evict, remove, ignore = "evict", "delete", "ignore"
	for _, c := range []struct {
		name string
		pod  func(*corev1.Pod)
		cfg  nwv1.DrainConfig
		want string // or the reason why it is blocked
	}{
		{"replicated", func(*corev1.Pod) {}, nwv1.DrainConfig{}, evict},
		{"StatefulSet", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "StatefulSet" }, nwv1.DrainConfig{}, evict},
		{"Job", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }, nwv1.DrainConfig{Force: new(false)}, evict},
		{"not bound by a controller", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, nwv1.DrainConfig{Force: new(false)},
			"pod web/a may not be evicted: no controller would replace it (drainConfig.force is false)"},
		{"pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, nwv1.DrainConfig{}, evict},
		{"replicated, eviction disabled", func(*corev1.Pod) {}, nwv1.DrainConfig{DisableEviction: new(true)}, remove},
		{"bare", bare, nwv1.DrainConfig{}, evict},
		{"bare, not forced", bare, nwv1.DrainConfig{Force: new(false)},
			"pod web/a may not be evicted: no controller would replace it (drainConfig.force is false)"},
		{"emptyDir", emptyDir, nwv1.DrainConfig{}, evict},
		{"emptyDir, kept", emptyDir, nwv1.DrainConfig{DeleteEmptyDirData: new(false)},
			"pod web/a may not be evicted: it has emptyDir data (drainConfig.deleteEmptyDirData is false)"},
		{"DaemonSet", daemon, nwv1.DrainConfig{}, ignore},
		{"DaemonSet, not ignored", daemon, nwv1.DrainConfig{IgnoreDaemonSets: new(false)},
			"pod web/a may not be evicted: a DaemonSet would replace it at once (drainConfig.ignoreDaemonSets is false)"},
		{"mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, nwv1.DrainConfig{}, ignore},
		{"kube-system", func(p *corev1.Pod) { p.Namespace = "kube-system" }, nwv1.DrainConfig{}, ignore},
		{"finished", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, nwv1.DrainConfig{}, ignore},
		{"failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, nwv1.DrainConfig{}, ignore},
		{"ours", func(p *corev1.Pod) { p.Namespace, p.Labels = "fleetwright", map[string]string{nwv1.NameLabel: "tune"} }, nwv1.DrainConfig{}, ignore},
		{"ours by label only", func(p *corev1.Pod) { p.Labels = map[string]string{nwv1.NameLabel: "tune"} }, nwv1.DrainConfig{}, evict},
		{"tolerates everything", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, nwv1.DrainConfig{}, ignore},
		{"tolerates something else", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
		}, nwv1.DrainConfig{}, evict},
		{"tolerates cordons by value", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable}}
		}, nwv1.DrainConfig{}, ignore},
		{"terminating", func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 5, 9, 0, 30, 0, time.UTC)}
		}, nwv1.DrainConfig{}, "pods are leaving: web/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			rebooting(w)
			w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.DrainConfig = &c.cfg })
			w.pods = map[string][]*corev1.Pod{}
			c.pod(w.addPod("n01", "web", "a", nil))
			w.pass()
			out := w.pass()
			got := w.reason("tune", "n01").Message
			for _, d := range out.Decisions {
				if len(d.Start) > 0 {
					got = ignore
				}
				for _, e := range d.Evict {
					got = map[bool]string{false: evict, true: remove}[e.Delete]
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestDrainOverridesTheGracePeriod(t *testing.T) {
	w := newWorld(t, 1)
	rebooting(w)
	w.edit("tune", func(nw *plan.NodeWright) {
		nw.Spec.DrainConfig = &nwv1.DrainConfig{GracePeriod: &metav1.Duration{Duration: 1500 * time.Millisecond}}
	})
	w.pods = map[string][]*corev1.Pod{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.addPod("n01", "web", name, nil)
	}
	w.pass()
	out := w.pass()
	require.EqualValues(t, 2, *out.Decisions[0].Evict[0].GracePeriodSeconds, "rounded up")
	require.Equal(t, "pods are leaving: web/a, web/b, web/c and 2 more", w.reason("tune", "n01").Message)
}

// draining is a world of n nodes, all of which are admitted, and one that is not for the NodeWright, at the pass in which the
// first evictions are asked for. Pods as given are on n01.
func draining(t *testing.T, nodes int, cfg nwv1.DrainConfig, pods ...string) *world {
	w := newWorld(t, nodes)
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		budgetOnly(int32(nodes))(nw)
		nw.Spec.DrainConfig = &cfg
	}, reboot(pkg("tuning", "1.0.0")))
	w.addNode("other", nil).Labels = map[string]string{"pool": "other"}
	for _, name := range pods {
		w.addPod("n01", "web", name, nil)
	}
	w.pass()
	return w
}

// slowly lets pods take their time to leave: evictions are counted by pod, as `evict a` or `delete a`, and move nothing.
func (w *world) slowly() map[string]int {
	asked := map[string]int{}
	w.leaves = func(e plan.Eviction) bool {
		asked[map[bool]string{false: "evict ", true: "delete "}[e.Delete]+e.Name]++
		return false
	}
	return asked
}

func (w *world) pod(name string) *corev1.Pod {
	for _, pods := range w.pods {
		for _, p := range pods {
			if p.Name == name {
				return p
			}
		}
	}
	w.t.Fatalf("there is no pod %s", name)
	return nil
}

func timeout(d time.Duration, action nwv1.DrainTimeoutAction) nwv1.DrainConfig {
	return nwv1.DrainConfig{Timeout: &metav1.Duration{Duration: d}, OnTimeout: action}
}

func TestFieldReport_D07_DaemonSetPodsComeBack(t *testing.T) {
	w := draining(t, 1, nwv1.DrainConfig{}, "a")
	again := 0
	w.lost = func(d plan.Decision) bool {
		w.removePodNamed("n01", "daemon")
		again++
		p := w.addPod("n01", "web", "daemon", nil)
		p.UID = types.UID(fmt.Sprint("daemon-", again))
		p.OwnerReferences[0].Kind, p.Spec.Tolerations = "DaemonSet", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		for _, e := range d.Evict {
			require.NotEqual(t, "daemon", e.Name)
		}
		return false
	}
	for range 10 {
		w.pass()
		w.in.Now = w.in.Now.Add(time.Second)
		for _, j := range w.jobs {
			require.Equal(t, "n01", j.Node)
			return
		}
	}
	require.Fail(t, "the drain has not ended")
}

func (w *world) removePodNamed(node, name string) {
	for _, p := range w.pods[node] {
		if p.Name == name {
			w.removePod(node, p.UID)
			return
		}
	}
}

func TestFieldReport_D03_OddPods(t *testing.T) {
	w := draining(t, 1, nwv1.DrainConfig{}, "mirror", "done", "ended", "held")
	w.pod("mirror").Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x", "kubernetes.io/config.source": "file"}
	w.pod("done").Status.Phase = corev1.PodSucceeded
	leaving := &metav1.Time{Time: w.in.Now.Add(10 * time.Second)}
	w.pod("ended").Status.Phase, w.pod("ended").DeletionTimestamp, w.pod("ended").Finalizers = corev1.PodFailed, leaving, []string{"example.com/x"}
	w.pod("held").DeletionTimestamp, w.pod("held").Finalizers = leaving, []string{"example.com/x"}
	require.Empty(t, w.slowly())
	w.pass()
	require.Equal(t, "pods are leaving: web/held", w.reason("tune", "n01").Message)
	w.in.Now = w.in.Now.Add(40 * time.Second)
	w.pass()
	require.Equal(t, plan.PodStuck, w.reason("tune", "n01").Code)
	require.Equal(t, "pod web/held should have ended by 2026-01-05T09:00:10Z; its finalizers hold it: example.com/x", w.reason("tune", "n01").Message)
	w.removePodNamed("n01", "held")
	w.pass()
	require.Len(t, w.jobs, 1)
}

func (w *world) removePodByForce(node, name string) {
	for _, p := range w.pods[node] {
		if p.Name == name {
			p.Labels = nil
		}
	}
	w.removePodNamed(node, name)
}
