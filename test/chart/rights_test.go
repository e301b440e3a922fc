package chart_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/test/chart"
)

const (
	nvidia = "nodewright.nvidia.com"
	ours   = "fleetwright.dev"
)

// may is everything that the reconciler needs.
var may = []right{
	{"list", "", "nodes", "", ""}, {"watch", "", "nodes", "", ""}, {"patch", "", "nodes", "", "n"},
	{"list", "", "pods", "", ""}, {"list", "", "pods", "team-b", ""}, {"create", "", "pods/eviction", "team-b", "p"},
	{"list", "policy", "poddisruptionbudgets", "", ""},
	{"create", nvidia, "nodewrights", "", ""}, {"patch", nvidia, "nodewrights", "", "x"}, {"delete", nvidia, "nodewrights", "", "x"},
	{"patch", nvidia, "nodewrights/status", "", "x"},
	{"patch", nvidia, "deploymentpolicies", "", "x"}, {"delete", nvidia, "deploymentpolicies", "", "x"},
	{"patch", ours, "packages", "", "x"}, {"delete", ours, "packages", "", "x"},
	{"list", ours, "fleets", "", ""}, {"patch", ours, "fleets", "team-a", "f"}, {"patch", ours, "fleets/status", "team-a", "f"},
	{"get", ours, "ledgers", "", "cluster"}, {"create", ours, "ledgers", "", ""}, {"update", ours, "ledgers", "", "cluster"},
	{"create", "events.k8s.io", "events", "default", ""}, {"patch", "events.k8s.io", "events", "team-a", ""},
	{"create", "", "events", namespace, ""},
	{"create", "batch", "jobs", namespace, ""}, {"delete", "batch", "jobs", namespace, "j"}, {"watch", "batch", "jobs", namespace, ""},
	{"get", "", "pods/log", namespace, "p"},
	{"create", "", "configmaps", namespace, ""}, {"delete", "", "configmaps", namespace, "c"},
	{"create", "coordination.k8s.io", "leases", namespace, ""},
	{"update", "coordination.k8s.io", "leases", namespace, "fleetwright-reconciler"},
	{"list", "coordination.k8s.io", "leases", "", "3c22c1ae.nvidia.com"}, {"list", "apps", "deployments", "", ""},
	{"list", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""},
	{"list", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""},
	{"get", "", "secrets", namespace, "s"}, {"get", "", "secrets", "team-a", "s"},
	{"impersonate", "", "serviceaccounts", namespace, "a"}, {"impersonate", "", "serviceaccounts", "team-a", "a"},
}

// mayNot is what an attacker, or a defect, would want next.
var mayNot = []right{
	{"delete", "", "nodes", "", "n"}, {"create", "", "nodes", "", ""}, {"update", "", "nodes", "", "n"}, {"patch", "", "nodes/status", "", "n"},
	{"get", "", "nodes/proxy", "", "n"},
	{"create", "", "pods", "team-b", ""}, {"create", "", "pods", namespace, ""}, {"delete", "", "pods", "team-b", "p"},
	{"patch", "", "pods", "team-b", "p"}, {"create", "", "pods/exec", namespace, "p"}, {"create", "", "pods/binding", "team-b", "p"},
	{"get", "", "pods/log", "team-b", "p"},
	{"get", "", "secrets", "team-b", "s"}, {"get", "", "secrets", "kube-system", "s"}, {"list", "", "secrets", "", ""},
	{"list", "", "secrets", namespace, ""}, {"watch", "", "secrets", "team-a", ""}, {"create", "", "secrets", namespace, ""},
	{"create", "batch", "jobs", "team-a", ""}, {"create", "batch", "jobs", "kube-system", ""}, {"create", "apps", "daemonsets", namespace, ""},
	{"create", "", "configmaps", "team-a", ""}, {"get", "", "configmaps", "kube-system", "c"},
	{"update", "coordination.k8s.io", "leases", namespace, "another"},
	{"update", "coordination.k8s.io", "leases", "kube-node-lease", "n"}, {"update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"},
	{"create", "", "serviceaccounts/token", namespace, chart.ReconcilerAccount}, {"impersonate", "", "users", "", "admin"},
	{"impersonate", "", "serviceaccounts", "team-b", "a"}, {"impersonate", "", "serviceaccounts", "kube-system", "a"}, {"impersonate", "", "groups", "", "system:masters"},
	{"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""}, {"escalate", "rbac.authorization.k8s.io", "clusterroles", "", ""},
	{"patch", "apiextensions.k8s.io", "customresourcedefinitions", "", "x"}, {"delete", "policy", "poddisruptionbudgets", "team-b", "x"},
	{"get", "policy", "poddisruptionbudgets", "team-b", "x"}, {"watch", "policy", "poddisruptionbudgets", "", ""},
	{"create", "policy", "poddisruptionbudgets", "team-b", ""}, {"patch", "policy", "poddisruptionbudgets", "team-b", "x"},
	{"patch", "policy", "poddisruptionbudgets/status", "team-b", "x"},
	{"list", "coordination.k8s.io", "leases", "", ""}, {"list", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"},
	{"delete", "coordination.k8s.io", "leases", "nodewright", "3c22c1ae.nvidia.com"},
	{"patch", "apps", "deployments", "nodewright", "x"}, {"delete", "apps", "deployments", "nodewright", "x"},
	{"patch", "apps", "deployments/scale", "nodewright", "x"},
	{"patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "x"},
	{"delete", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "x"},
	{"patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "fleetwright-state"},
	{"create", ours, "fleets", "team-a", ""}, {"delete", ours, "fleets", "team-a", "f"}, {"delete", ours, "ledgers", "", "cluster"},
	{"patch", "", "namespaces", "", namespace},
}

func TestReconcilerMay(t *testing.T) {
	client := clientOf(t, installed(t))
	for _, r := range may {
		require.True(t, allowed(t, client, chart.ReconcilerAccount, r), "should be allowed: %s", r)
	}
}

func TestReconcilerMayNot(t *testing.T) {
	client := clientOf(t, installed(t))
	for _, r := range mayNot {
		require.False(t, allowed(t, client, chart.ReconcilerAccount, r), "should be refused: %s", r)
	}
}

func TestExecutionMayNothing(t *testing.T) {
	client := clientOf(t, installed(t))
	for _, r := range append(append([]right{}, may...), mayNot...) {
		require.False(t, allowed(t, client, chart.ExecutionAccount, r), "should be refused: %s", r)
	}
}

// TestReviewerMayOnlyRead: of all that the reconciler may, the account of the reviewer keeps what changes nothing, and gets nothing more.
func TestReviewerMayOnlyRead(t *testing.T) {
	client := clientOf(t, installed(t))
	reads := []right{
		{"list", "", "nodes", "", ""}, {"watch", "", "nodes", "", ""}, {"list", "", "pods", "", ""}, {"list", "policy", "poddisruptionbudgets", "", ""},
		{"list", nvidia, "nodewrights", "", ""}, {"watch", nvidia, "deploymentpolicies", "", ""}, {"list", ours, "packages", "", ""},
		{"watch", ours, "fleets", "", ""}, {"get", ours, "ledgers", "", "cluster"}, {"list", "batch", "jobs", namespace, ""}, {"watch", "", "configmaps", namespace, ""},
		{"get", "apps", "deployments", namespace, "fleetwright-reconciler"}, {"get", "", "secrets", namespace, "s"}, {"get", "", "secrets", "team-a", "s"},
		{"create", "events.k8s.io", "events", "team-a", ""}, {"update", "coordination.k8s.io", "leases", namespace, "fleetwright-reviewer"},
	}
	for _, r := range reads {
		require.True(t, allowed(t, client, chart.ReviewerAccount, r), "should be allowed: %s", r)
	}
	for _, r := range mayNot {
		require.False(t, allowed(t, client, chart.ReviewerAccount, r), "should be refused: %s", r)
	}
	for _, r := range may {
		changes := r.verb != "get" && r.verb != "list" && r.verb != "watch"
		harmless := r.resource == "events" || r.resource == "leases" && r.verb == "create"
		if changes && !harmless {
			require.False(t, allowed(t, client, chart.ReviewerAccount, r), "should be refused: %s", r)
		}
	}
	require.False(t, allowed(t, client, chart.ReconcilerAccount, right{"update", "coordination.k8s.io", "leases", namespace, "fleetwright-reviewer"}))
}

// TestInterruptMayLook: the account of interrupts reads nodes and lists pods, and nothing else.
func TestInterruptMayLook(t *testing.T) {
	client := clientOf(t, installed(t))
	look := []right{{"get", "", "nodes", "", "n"}, {"list", "", "pods", "", ""}, {"list", "", "pods", "team-b", ""}}
	for _, r := range look {
		require.True(t, allowed(t, client, chart.InterruptAccount, r), "should be allowed: %s", r)
	}
	for _, r := range append(append([]right{{"watch", "", "pods", "", ""}, {"get", "", "pods", "team-b", "p"}}, may...), mayNot...) {
		if !slices.Contains(look, r) {
			require.False(t, allowed(t, client, chart.InterruptAccount, r), "should be refused: %s", r)
		}
	}
}

// TestViewersMayExplain: whoever has the cluster role view over the whole cluster needs no other right for what the page
// about fleetwright explain lists. The controller that adds the chart's role to view does not run here; both are bound.
func TestViewersMayExplain(t *testing.T) {
	client := clientOf(t, installed(t))
	for _, role := range []string{"system:aggregate-to-view", "fleetwright-viewer"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "viewer-" + strings.ReplaceAll(role, ":", "-")},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: "viewer"}},
		}
		_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = client.RbacV1().ClusterRoleBindings().Delete(context.WithoutCancel(t.Context()), binding.Name, metav1.DeleteOptions{})
		})
	}
	page, err := os.ReadFile("../../docs/explain.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindSubmatch(page)
	require.NotNil(t, block)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(block[1], role))
	var lacking []string
	require.Eventually(t, func() bool { // the authorizer sees a new binding a moment after it is made
		lacking = missing(t, client, role)
		return len(lacking) == 0
	}, 20*time.Second, 100*time.Millisecond, "the viewer lacks %v", &lacking)
}

// missing are the first rights of each rule that the viewer does not have.
func missing(t *testing.T, client kubernetes.Interface, role *rbacv1.ClusterRole) (lacking []string) {
	t.Helper()
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "viewer", ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Namespace: namespace,
				},
			}}
			if resource == "nodes" {
				asked.Spec.ResourceAttributes.Namespace = ""
			}
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), asked, metav1.CreateOptions{})
			require.NoError(t, err)
			if !answer.Status.Allowed {
				lacking = append(lacking, rule.Verbs[0]+" "+resource)
			}
		}
	}
	return lacking
}

// TestReconcilerWorks does under the shipped roles what the reconciler does, so that a verb that is missing in the table above
// is noticed too.
func TestReconcilerWorks(t *testing.T) {
	ctx, admin, cfg := t.Context(), clientOf(t, installed(t)), asReconciler(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "works"}}
	_, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	require.NoError(t, err)
	client, objects := clientOf(t, cfg), dynamicOf(t, cfg)

	patch := []byte(`{"spec":{"unschedulable":true},"metadata":{"annotations":{"fleetwright.dev/record_x":"{}"}}}`)
	_, err = client.CoreV1().Nodes().Patch(ctx, "works", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)

	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "fleetwright-reconciler"}}
	_, err = client.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) { // the process of another test
		require.NoError(t, err)
	}
	lease, err = client.CoordinationV1().Leases(namespace).Get(ctx, lease.Name, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = client.CoordinationV1().Leases(namespace).Update(ctx, lease, metav1.UpdateOptions{})
	require.NoError(t, err)

	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "works-", Namespace: "default"}, EventTime: metav1.NowMicro(),
		ReportingController: "fleetwright", ReportingInstance: "test", Action: "Cordon", Reason: "Cordoned", Type: "Normal",
		Regarding: corev1.ObjectReference{Kind: "Node", Name: "works"},
	}
	_, err = client.EventsV1().Events("default").Create(ctx, event, metav1.CreateOptions{})
	require.NoError(t, err, "events about nodes land in the namespace default")

	for _, object := range []map[string]any{
		{"apiVersion": ours + "/v1alpha1", "kind": "Package", "metadata": map[string]any{"name": "works"},
			"spec": map[string]any{"image": "ghcr.io/nvidia/nodewright-packages/shellscript", "version": "1.1.2"}},
		{"apiVersion": nvidia + "/v1alpha1", "kind": "NodeWright", "metadata": map[string]any{"name": "works"},
			"spec": map[string]any{}},
		{"apiVersion": nvidia + "/v1alpha1", "kind": "DeploymentPolicy", "metadata": map[string]any{"name": "works"},
			"spec": map[string]any{"default": map[string]any{
				"budget": map[string]any{"count": int64(1)}, "strategy": map[string]any{"fixed": map[string]any{}}}}},
	} {
		u := &unstructured.Unstructured{Object: object}
		resource := map[string]string{
			"Package": "packages", "NodeWright": "nodewrights", "DeploymentPolicy": "deploymentpolicies",
		}[u.GetKind()]
		of := objects.Resource(schema.GroupVersionResource{Group: u.GroupVersionKind().Group, Version: "v1alpha1", Resource: resource})
		_, err := of.Apply(ctx, "works", u, metav1.ApplyOptions{FieldManager: "fleetwright", Force: true})
		require.NoError(t, err, u.GetKind())
		require.NoError(t, of.Delete(ctx, "works", metav1.DeleteOptions{}), u.GetKind())
	}

	_, err = client.CoreV1().Secrets("team-a").Get(ctx, "none", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "may read: %v", err)
	_, err = client.CoreV1().Secrets("team-b").Get(ctx, "none", metav1.GetOptions{})
	require.True(t, apierrors.IsForbidden(err), "may not read: %v", err)
	err = client.CoreV1().Nodes().Delete(ctx, "works", metav1.DeleteOptions{})
	require.True(t, apierrors.IsForbidden(err), "may not delete a node: %v", err)
}
