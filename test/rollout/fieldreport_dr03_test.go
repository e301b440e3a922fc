package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// TestFieldReport_DR03_AdmissionRewritesTolerations runs a rollout with an interrupt while the API server's admission
// replaces the tolerations of every created pod by one wildcard, so that nothing can be told from tolerations any more.
// On the API server's log, whoever asked: no pod of the rollout is evicted or deleted, each phase of each node has one pod.
func TestFieldReport_DR03_AdmissionRewritesTolerations(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.podsOn(nodes, 1) // from before the rewriting: the drains have something to evict
	w.rewriteTolerations()
	// It tolerates cordons by now, as everything does: a drain leaves it alone, and does not wait for it either.
	bystander := w.addPod(w.prefix+"-debug", nodes[0], nil)
	w.start()
	w.create(w.nodeWright("dr03w", func(nw *nwv1.NodeWright) { withInterrupt(nw, nwv1.InterruptService) }))
	require.Equal(t, "2/2", w.awaitComplete("dr03w").Status.CompleteNodes)

	pods, err := w.kube.CoreV1().Pods(namespace).List(w.ctx(), metav1.ListOptions{LabelSelector: nwv1.NameLabel + "=dr03w"})
	require.NoError(t, err)
	phases := map[string]int{}
	for _, p := range pods.Items {
		require.Equal(t, wildcard, p.Spec.Tolerations, "admission rewrote pod %s", p.Name)
		phases[p.Spec.NodeName+" "+p.Labels[fleetv1.PhaseLabel]]++
	}
	want := map[string]int{}
	for _, n := range nodes {
		for _, phase := range []plan.Phase{plan.PhaseInstall, plan.PhaseInterrupt, plan.PhasePost} {
			want[n+" "+string(phase)] = 1
		}
	}
	require.Equal(t, want, phases, "one pod for each phase of each node is there at the end")
	created, removed := w.podRequests("dr03w")
	require.Equal(t, len(want), created, "and no other was ever created")
	require.Empty(t, removed, "nothing of the rollout was evicted or deleted")
	for i := range nodes {
		require.Len(t, w.evictions(fmt.Sprintf("%s-%d-", w.prefix, i)), 1, "node %d was drained", i)
	}
	require.NoError(t, w.admin.Get(w.ctx(), client.ObjectKeyFromObject(bystander), bystander))
	require.Nil(t, bystander.DeletionTimestamp, "a pod that tolerates everything is left alone")
}

// podRequests reads the log of this test, of all users: how many pods of the NodeWright were created in our namespace,
// and which evictions and deletions of pods there were.
func (w *world) podRequests(nodeWright string) (created int, removed []string) {
	w.t.Helper()
	require.NoError(w.t, w.c.Audit().Sync(w.ctx()))
	events, err := w.c.Audit().Events(cluster.Match{Resource: "pods/*", Namespace: namespace})
	require.NoError(w.t, err)
	for _, e := range events {
		var pod metav1.PartialObjectMetadata
		switch {
		case e.Received.Before(w.began):
		case e.Verb == "delete" || e.Verb == "deletecollection" || e.Subresource == "eviction":
			removed = append(removed, strings.Join([]string{e.User, e.Verb, e.Subresource, e.Name}, " "))
		case e.Verb == "create" && e.Subresource == "" && e.Code == 201:
			require.NoError(w.t, json.Unmarshal(e.Request, &pod))
			if pod.Labels[nwv1.NameLabel] == nodeWright {
				created++
			}
		}
	}
	return created, removed
}

// wildcard is what admission makes of every pod's tolerations.
var wildcard = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}

// rewriteTolerations has the API server itself rewrite every pod that is created, until the test ends.
func (w *world) rewriteTolerations() {
	w.t.Helper()
	admission := w.kube.AdmissionregistrationV1()
	name := w.prefix + ".example.com"
	fail := admissionv1.Fail
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &fail, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{
					Expression: `[JSONPatch{op: "add", path: "/spec/tolerations", value: [{"operator": "Exists"}]}]`,
				},
			}},
		},
	}
	_, err := admission.MutatingAdmissionPolicies().Create(w.ctx(), policy, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = admission.MutatingAdmissionPolicyBindings().Create(w.ctx(), &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.awaitRewriting(true)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(w.t, admission.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}))
		require.NoError(w.t, admission.MutatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}))
		w.awaitRewriting(false) // the next test finds the API server as it was
	})
}

// awaitRewriting asks by dry run what would become of a pod: the API server takes a policy in, and drops it, in its own time.
func (w *world) awaitRewriting(want bool) {
	w.t.Helper()
	var last error
	require.Eventually(w.t, func() bool {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "dry-run-", Namespace: metav1.NamespaceDefault},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
		}
		got, err := w.kube.CoreV1().Pods(pod.Namespace).Create(w.ctx(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		last = err
		return err == nil && slices.Equal(got.Spec.Tolerations, wildcard) == want
	}, patience, 50*time.Millisecond, "admission rewrites tolerations: %v; last answer: %v", want, lazy(func() any { return last }))
}
