package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// Annotations of other tools fill a node up to the limit of the API, so that our record is refused. The node is named with
// what the API server said, and the others go on.
func TestFieldReport_D01_RecordIsRefused(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(3, nil)
	w.patchNode(nodes[1], `{"metadata":{"annotations":{"example.com/blob":"`+strings.Repeat("x", 262144-len("example.com/blob")-64)+`"}}}`)
	w.start()
	w.create(w.nodeWright("full", nil))
	nw := w.awaitStatus("full", "the others are done and the node is explained", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == "2/3" && len(nw.Status.Reasons) == 1 &&
			strings.Contains(nw.Status.Reasons[0].Message, "could not be done")
	})
	require.Equal(t, []string{nodes[1]}, nw.Status.Reasons[0].Nodes)
	require.True(t, apimeta.IsStatusConditionFalse(nw.Status.Conditions, meta.ReadyCondition))
	require.Contains(t, nw.Status.Reasons[0].Message, "node "+nodes[1]+`: Node "`+nodes[1]+`" is invalid: metadata.annotations: Too long`)
	w.patchNode(nodes[1], `{"metadata":{"annotations":{"example.com/blob":null}}}`)
	w.awaitComplete("full")
}

// The writes of one node hang. The others must not wait for it, pass after pass.
func TestAttackOneNodeHangs(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(6, nil)
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	hold := proxy.Hold(cluster.Match{Verb: "patch", Resource: "nodes", Name: nodes[0]}, cluster.Always)
	w.config = proxy.ConfigFor(w.config)
	w.startWith(func(loop *reconciler.Rollout) { loop.Timeout = 2 * time.Second })
	w.create(w.nodeWright("hangs", func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = count(3) }))
	nw := w.awaitStatus("hangs", "the others are done", func(nw *nwv1.NodeWright) bool { return nw.Status.CompleteNodes == "5/6" })
	require.Contains(t, nw.Status.Reasons[0].Message, "the API server did not answer in time")
	hold.Remove()
	w.awaitComplete("hangs")
}

// Many nodes, of which the writes of one always fail: nobody waits for it, and it is not hammered.
func TestFieldReport_AC05_OneBadNodeDelaysNobody(t *testing.T) {
	w := newWorld(t)
	const nodes = 20
	names := w.addNodes(nodes, nil)
	proxy, err := w.c.Proxy()
	require.NoError(t, err)
	w.config = proxy.ConfigFor(w.config)
	w.start()
	w.create(w.nodeWright("healthy", nil))
	w.awaitComplete("healthy")
	fault := proxy.Fail(cluster.Match{Verb: "patch", Resource: "nodes", Name: names[7]}, 500, cluster.Always)
	w.create(w.nodeWright("bad-node", func(nw *nwv1.NodeWright) {
		nw.Spec.Packages["tuning"] = nwv1.Package{Version: "1.0.0", Image: "example.com/other"}
	}))
	w.awaitStatus("bad-node", "all others are done", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == fmt.Sprintf("%d/%d", nodes-1, nodes)
	})
	passes := len(w.requests(cluster.Match{Verb: "patch", Resource: "nodewrights/status"}))
	require.Less(t, fault.Hits(), 12, "a node that fails is tried with growing pauses, not with each of %d reports", passes)
	fault.Remove()
	w.awaitComplete("bad-node")
}

// A node is deleted while its execution waits for resources, and another node gets its name. The old execution must not
// begin there.
func TestAttackNodeIsReplacedUnderAPendingExecution(t *testing.T) {
	w := newWorld(t)
	old := w.addNode(nil)
	uid := w.node(old).UID
	w.start()
	w.create(w.nodeWright("replaced", func(nw *nwv1.NodeWright) {
		p := nw.Spec.Packages["tuning"]
		p.Resources = &nwv1.ResourceRequirements{
			CPURequest: resource.MustParse("100"), CPULimit: resource.MustParse("100"),
			MemoryRequest: resource.MustParse("1Gi"), MemoryLimit: resource.MustParse("1Gi"),
		}
		nw.Spec.Packages["tuning"] = p
	}))
	w.awaitStatus("replaced", "the pod does not fit", func(nw *nwv1.NodeWright) bool {
		return len(nw.Status.Reasons) == 1 && nw.Status.Reasons[0].Reason == string(plan.InsufficientResources)
	})
	require.NoError(t, w.nodes.DeleteNode(w.ctx(), old))
	require.Eventually(t, func() bool { // faster than the reconciler is only the agent, which knows its machine
		job, err := w.kube.BatchV1().Jobs(namespace).Get(w.ctx(), w.jobs("replaced")[0], metav1.GetOptions{})
		return err == nil && job.Spec.Suspend != nil && *job.Spec.Suspend
	}, patience, 10*time.Millisecond, "the execution of a node that is gone is suspended")
	_, err := w.nodes.AddNode(w.ctx(), old, map[string]string{"test": w.prefix}, simnode.NodeOptions{Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("400"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}})
	require.NoError(t, err)
	w.awaitComplete("replaced")
	pods, err := w.kube.CoreV1().Pods(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: fleetv1.NodeUIDLabel + "=" + string(uid)})
	require.NoError(t, err)
	for _, p := range pods.Items {
		require.Empty(t, p.Spec.NodeName, "pod %s of the node that is gone runs on the new one", p.Name)
	}
}

// What nothing uses any more is swept: marked first, then deleted; and not if it came into use again in between.
func TestAttackUnusedConfigurationsAreSwept(t *testing.T) {
	w := newWorld(t)
	w.addNode(nil)
	w.start()
	w.create(w.nodeWright("sweep", func(nw *nwv1.NodeWright) {
		p := nw.Spec.Packages["tuning"]
		p.ConfigMap = map[string]string{"settings": "1"}
		nw.Spec.Packages["tuning"] = p
	}))
	w.awaitComplete("sweep")
	before := w.ownConfigMaps()
	require.Len(t, before, 2, "one snapshot and one configuration: %v", before)
	w.stop()
	actor := w.actor()
	now := time.Now()
	used := map[string]bool{}
	require.Eventually(t, func() bool { return actor.Sweep(w.ctx(), used, now) == nil }, patience, 20*time.Millisecond, "its cache has started")
	require.Equal(t, before, w.ownConfigMaps(), "nothing is deleted at once")
	require.Eventually(t, func() bool { // the snapshot goes once its mark is seen; the configuration is mounted by a Job
		require.NoError(t, actor.Sweep(w.ctx(), used, now.Add(2*time.Hour)))
		return len(w.ownConfigMaps()) == 1
	}, patience, 50*time.Millisecond)
	require.Contains(t, w.ownConfigMaps()[0], "fw-config-")
	w.start() // the definition is wanted and kept again with the next change
	w.edit("sweep", setVersion("2.0.0"))
	w.awaitComplete("sweep")
	require.Len(t, w.ownConfigMaps(), 2)
}

// ownConfigMaps are the names of the reconciler's ConfigMaps, sorted; a test leaves none to the next (cleanUp).
func (w *world) ownConfigMaps() []string {
	w.t.Helper()
	list, err := w.kube.CoreV1().ConfigMaps(namespace).List(w.ctx(), metav1.ListOptions{
		LabelSelector: fleetv1.ManagedByLabel + "=" + fleetv1.FieldManager,
	})
	require.NoError(w.t, err)
	var out []string
	for _, cm := range list.Items {
		out = append(out, cm.Name)
	}
	return out
}

// A configuration is deleted by hand. The next execution that needs it makes it again, instead of waiting for it for ever.
func TestAttackConfigurationIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.addNodes(2, nil)
	w.start()
	gate := w.gate(func(_ *corev1.Pod, container string) bool { return strings.HasSuffix(container, "-configcheck") })
	w.create(w.nodeWright("deleted", func(nw *nwv1.NodeWright) {
		p := nw.Spec.Packages["tuning"]
		p.ConfigMap = map[string]string{"settings": "deleted"}
		nw.Spec.Packages["tuning"] = p
		nw.Spec.InterruptionBudget = count(1)
	}))
	w.awaitJob("deleted")
	for _, name := range w.ownConfigMaps() {
		require.NoError(t, w.kube.CoreV1().ConfigMaps(namespace).Delete(w.ctx(), name, metav1.DeleteOptions{}))
	}
	gate.open()
	w.awaitComplete("deleted")
	require.NotEmpty(t, w.ownConfigMaps(), "it is there again")
	kube, err := kubernetes.NewForConfig(w.c.Config())
	require.NoError(t, err)
	for _, value := range w.mounted("deleted") {
		_, err := kube.CoreV1().ConfigMaps(namespace).Get(w.ctx(), value, metav1.GetOptions{})
		require.False(t, apierrors.IsNotFound(err), "configmap %s", value)
	}
}

// mounted are the names of the ConfigMaps that the Jobs of a NodeWright mount.
func (w *world) mounted(nodeWright string) []string {
	w.t.Helper()
	list, err := w.kube.BatchV1().Jobs(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=" + nodeWright})
	require.NoError(w.t, err)
	var out []string
	for _, j := range list.Items {
		for _, v := range j.Spec.Template.Spec.Volumes {
			if v.ConfigMap != nil {
				out = append(out, v.ConfigMap.Name)
			}
		}
	}
	return out
}
