package chart_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
)

var (
	nodeWrights = schema.GroupVersionResource{Group: nvidia, Version: "v1alpha1", Resource: "nodewrights"}
	packages    = schema.GroupVersionResource{Group: ours, Version: "v1alpha1", Resource: "packages"}
)

// TestFieldReport_SE01_EachAccountHasItsOwnRights: what the API server says that each account may do, in the namespace where it may
// do most, is what is listed here; executions may do nothing that any service account may not.
func TestFieldReport_SE01_EachAccountHasItsOwnRights(t *testing.T) {
	everybody := rulesOf(t, cluster.Shared(t).ServiceAccount("team-b", "nobody"))
	for account, want := range map[string][]string{
		chart.ExecutionAccount: {},
		chart.InterruptAccount: {"get /nodes", "list /pods"},
		chart.ReconcilerAccount: {
			"get /nodes", "list /nodes", "watch /nodes", "patch /nodes", "get /pods", "list /pods", "watch /pods", "create /pods/eviction",
			"get /pods/log", "list policy/poddisruptionbudgets",
			"get nodewright.nvidia.com/nodewrights", "list nodewright.nvidia.com/nodewrights", "watch nodewright.nvidia.com/nodewrights",
			"create nodewright.nvidia.com/nodewrights", "patch nodewright.nvidia.com/nodewrights", "delete nodewright.nvidia.com/nodewrights",
			"get nodewright.nvidia.com/deploymentpolicies", "list nodewright.nvidia.com/deploymentpolicies", "watch nodewright.nvidia.com/deploymentpolicies",
			"create nodewright.nvidia.com/deploymentpolicies", "patch nodewright.nvidia.com/deploymentpolicies", "delete nodewright.nvidia.com/deploymentpolicies",
			"get nodewright.nvidia.com/nodewrights/status", "update nodewright.nvidia.com/nodewrights/status", "patch nodewright.nvidia.com/nodewrights/status",
			"get fleetwright.dev/packages", "list fleetwright.dev/packages", "watch fleetwright.dev/packages",
			"create fleetwright.dev/packages", "patch fleetwright.dev/packages", "delete fleetwright.dev/packages",
			"get fleetwright.dev/fleets", "list fleetwright.dev/fleets", "watch fleetwright.dev/fleets", "update fleetwright.dev/fleets", "patch fleetwright.dev/fleets",
			"get fleetwright.dev/fleets/status", "update fleetwright.dev/fleets/status", "patch fleetwright.dev/fleets/status",
			"get fleetwright.dev/ledgers", "list fleetwright.dev/ledgers", "watch fleetwright.dev/ledgers",
			"create fleetwright.dev/ledgers", "update fleetwright.dev/ledgers", "patch fleetwright.dev/ledgers",
			"list coordination.k8s.io/leases 3c22c1ae.nvidia.com", "list apps/deployments",
			"list admissionregistration.k8s.io/validatingwebhookconfigurations", "list admissionregistration.k8s.io/mutatingwebhookconfigurations",
			"create events.k8s.io/events", "patch events.k8s.io/events", "create /events", "patch /events",
			"get batch/jobs", "list batch/jobs", "watch batch/jobs", "create batch/jobs", "patch batch/jobs", "delete batch/jobs",
			"get /configmaps", "list /configmaps", "watch /configmaps", "create /configmaps", "patch /configmaps", "delete /configmaps",
			"create coordination.k8s.io/leases", "get coordination.k8s.io/leases fleetwright-reconciler",
			"update coordination.k8s.io/leases fleetwright-reconciler", "patch coordination.k8s.io/leases fleetwright-reconciler",
			"get /secrets", "impersonate /serviceaccounts",
		},
	} {
		var own []string
		for right := range rulesOf(t, cluster.Shared(t).ServiceAccount(namespace, account)) {
			if !everybody[right] {
				own = append(own, right)
			}
		}
		require.ElementsMatch(t, want, own, account)
	}
}

// rulesOf are the rights of whoever has the configuration in the release namespace, one by one.
func rulesOf(t *testing.T, cfg *rest.Config) map[string]bool {
	t.Helper()
	installed(t)
	review, err := clientOf(t, cfg).AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	out := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					names := rule.ResourceNames
					if len(names) == 0 {
						out[verb+" "+group+"/"+resource] = true
					}
					for _, name := range names {
						out[verb+" "+group+"/"+resource+" "+name] = true
					}
				}
			}
		}
	}
	return out
}

// TestFieldReport_SE02_NothingInOtherNamespaces does what the reconciler does in its own namespace in another one.
func TestFieldReport_SE02_NothingInOtherNamespaces(t *testing.T) {
	ctx, client := t.Context(), clientOf(t, asReconciler(t))
	meta := metav1.ObjectMeta{Name: "intruder"}
	_, job := client.BatchV1().Jobs("team-b").Create(ctx, &batchv1.Job{ObjectMeta: meta}, metav1.CreateOptions{})
	_, secret := client.CoreV1().Secrets("team-b").Get(ctx, "intruder", metav1.GetOptions{})
	_, log := client.CoreV1().Pods("team-b").GetLogs("intruder", &corev1.PodLogOptions{}).DoRaw(ctx)
	_, configMap := client.CoreV1().ConfigMaps("team-b").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	_, all := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	account := rest.CopyConfig(asReconciler(t))
	account.Impersonate.UserName = "system:serviceaccount:team-b:default"
	_, impersonation := clientOf(t, account).CoreV1().Pods("team-b").List(ctx, metav1.ListOptions{})
	for what, err := range map[string]error{"a Job": job, "a Secret": secret, "a log": log, "a ConfigMap": configMap, "all Secrets": all, "an account": impersonation} {
		require.True(t, apierrors.IsForbidden(err), "%s in another namespace: %v", what, err)
	}
}

// editor is a user with the chart's role for people who edit rollout objects.
func editor(t *testing.T) dynamic.Interface {
	t.Helper()
	client := clientOf(t, installed(t))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fleetwright-editor"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}},
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	cfg, err := cluster.Shared(t).User("editor")
	require.NoError(t, err)
	return dynamicOf(t, cfg)
}

func nodeWright(name string, entry map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": nvidia + "/v1alpha1", "kind": "NodeWright", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"nodeSelectors": map[string]any{"matchLabels": map[string]any{"test": "nobody"}}, "packages": map[string]any{"tuning": entry},
		},
	}}
}

func catalogueEntry(name, image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ours + "/v1alpha1", "kind": "Package", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"image": image, "version": "1.0.0"},
	}}
}

// allowImages puts the policy of the chart's value admission.images in place for the test, and waits until it takes effect.
func allowImages(t *testing.T, user dynamic.Interface, patterns ...any) {
	t.Helper()
	objects, err := chart.Render(t.Context(), nil, namespace, map[string]any{"admission": map[string]any{"images": patterns}})
	require.NoError(t, err)
	admin := dynamicOf(t, installed(t))
	var placed []func() error
	for _, o := range objects {
		if o.GetName() != "fleetwright-images" {
			continue
		}
		resource := map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings"}[o.GetKind()]
		at := admin.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
		_, err := at.Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
		placed = append(placed, func() error { return at.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
	}
	require.Len(t, placed, 2)
	refused := func() bool {
		_, err := user.Resource(packages).Create(context.Background(), catalogueEntry("probe", "evil.example.com/x"), metav1.CreateOptions{DryRun: []string{"All"}})
		return err != nil
	}
	require.Eventually(t, refused, patience, interval)
	t.Cleanup(func() {
		for _, remove := range placed {
			require.NoError(t, remove())
		}
		require.Eventually(t, func() bool { return !refused() }, patience, interval)
	})
}

// TestFieldReport_SE05_OnlyListedImages: a user who may edit rollout objects cannot bring in an image that is not listed: neither with
// a new object, nor by an update, nor by way of the catalogue or of what overrides it.
func TestFieldReport_SE05_OnlyListedImages(t *testing.T) {
	ctx, user := t.Context(), editor(t)
	wrights, catalogue := user.Resource(nodeWrights), user.Resource(packages)
	clean := func() {
		for _, name := range []string{"se05", "se05-ref", "se05-old"} {
			_ = wrights.Delete(context.Background(), name, metav1.DeleteOptions{})
		}
		_ = catalogue.Delete(context.Background(), "se05", metav1.DeleteOptions{})
	}
	t.Cleanup(clean)
	const good, evil = "ghcr.io/nvidia/nodewright-packages/tuning", "evil.example.com/rootkit"
	entry := func(image string) map[string]any { return map[string]any{"version": "1.0.0", "image": image} }
	_, err := wrights.Create(ctx, nodeWright("se05-old", entry("old.example.com/tool")), metav1.CreateOptions{}) // before there was a list
	require.NoError(t, err)
	allowImages(t, user, "ghcr.io/nvidia/**", "registry.example.com:5000/tools/*")

	denied := func(what, image string, err error) {
		require.True(t, apierrors.IsInvalid(err), "%s: %v", what, err)
		require.ErrorContains(t, err, `image "`+image+`" is not allowed in this cluster (allowed: ghcr.io/nvidia/**, registry.example.com:5000/tools/*)`)
	}
	patch := func(at dynamic.ResourceInterface, name, body string) error {
		_, err := at.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	_, err = wrights.Create(ctx, nodeWright("se05", entry(evil)), metav1.CreateOptions{})
	denied("a new NodeWright", evil, err)
	_, err = catalogue.Create(ctx, catalogueEntry("se05", evil), metav1.CreateOptions{})
	denied("a new Package", evil, err)

	_, err = wrights.Create(ctx, nodeWright("se05", entry(good)), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = catalogue.Create(ctx, catalogueEntry("se05", "registry.example.com:5000/tools/sysctl"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = wrights.Create(ctx, nodeWright("se05-ref", map[string]any{"packageRef": map[string]any{"name": "se05"}}), metav1.CreateOptions{})
	require.NoError(t, err)

	denied("an update", evil, patch(wrights, "se05", `{"spec":{"packages":{"tuning":{"image":"`+evil+`"}}}}`))
	denied("one more package", evil, patch(wrights, "se05", `{"spec":{"packages":{"more":{"version":"1.0.0","image":"`+evil+`"}}}}`))
	denied("an agent of somebody's own", evil+":1", patch(wrights, "se05", `{"spec":{"packages":{"tuning":{"agentImageOverride":"`+evil+`:1"}}}}`))
	denied("the catalogue", evil, patch(catalogue, "se05", `{"spec":{"image":"`+evil+`"}}`))
	denied("what overrides the catalogue", evil, patch(wrights, "se05-ref", `{"spec":{"packages":{"tuning":{"image":"`+evil+`"}}}}`))
	denied("a look-alike", "ghcr.io/nvidia-evil/x", patch(wrights, "se05", `{"spec":{"packages":{"tuning":{"image":"ghcr.io/nvidia-evil/x"}}}}`))
	denied("a deeper path", "registry.example.com:5000/tools/a/b", patch(catalogue, "se05", `{"spec":{"image":"registry.example.com:5000/tools/a/b"}}`))
	denied("an image under another name", "old.example.com/tool",
		patch(wrights, "se05-old", `{"spec":{"packages":{"other":{"version":"1.0.0","image":"old.example.com/tool"}}}}`))
	_, err = dynamicOf(t, asReconciler(t)).Resource(nodeWrights).Create(ctx, nodeWright("se05-by-git", entry(evil)), metav1.CreateOptions{})
	denied("the reconciler", evil, err)

	require.NoError(t, patch(wrights, "se05", `{"spec":{"packages":{"tuning":{"image":"ghcr.io/nvidia/other","env":[{"name":"IMAGE","value":"`+evil+`"}],"configMap":{"image":"`+evil+`"}}}}}`),
		"neither environment nor configuration can change what runs")
	require.NoError(t, patch(wrights, "se05-old", `{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/x"]}}`), "what was there before stays editable")
	require.NoError(t, patch(wrights, "se05-old", `{"metadata":{"finalizers":null}}`))
	clean()
	_, err = wrights.Get(ctx, "se05-old", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "and can go")
}

// TestOnlyTheReconcilerSaysWhoseAnObjectIs: the labels that bring an object under the scope of its Fleet stay.
func TestOnlyTheReconcilerSaysWhoseAnObjectIs(t *testing.T) {
	ctx := t.Context()
	user := dynamicOf(t, somebody(t)).Resource(nodeWrights)
	admin := clientOf(t, installed(t))
	const refusal = "only the reconciler writes the labels fleetwright.dev/fleet-name and fleetwright.dev/fleet-namespace"
	owned := func(name, space string) *unstructured.Unstructured {
		o := nodeWright(name, map[string]any{"version": "1.0.0", "image": "ghcr.io/acme/tuning"})
		o.SetLabels(map[string]string{"fleetwright.dev/fleet-name": "f", "fleetwright.dev/fleet-namespace": space})
		return o
	}
	create := func(cfg *rest.Config, o *unstructured.Unstructured) error {
		_, err := dynamicOf(t, cfg).Resource(nodeWrights).Create(ctx, o, metav1.CreateOptions{})
		return err
	}
	patch := func(body string) error {
		_, err := user.Patch(ctx, "owned", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	require.Eventually(t, func() bool {
		_, err := user.Create(ctx, owned("forged", "team-a"), metav1.CreateOptions{DryRun: []string{"All"}})
		return err != nil
	}, patience, interval)
	require.ErrorContains(t, create(somebody(t), owned("forged", "team-a")), refusal)
	require.NoError(t, create(asReconciler(t), owned("owned", "team-a")))
	require.ErrorContains(t, patch(`{"metadata":{"labels":null}}`), refusal)
	require.ErrorContains(t, patch(`{"metadata":{"labels":{"fleetwright.dev/fleet-name":"other"}}}`), refusal)
	require.ErrorContains(t, patch(`{"metadata":{"labels":{"fleetwright.dev/fleet-namespace":"team-b"}}}`), refusal)
	require.NoError(t, patch(`{"metadata":{"labels":{"mine":"x"}},"spec":{"packages":{"tuning":{"version":"2.0.0"}}}}`), "the rest stays with those who may write it")

	// A Fleet's account: only by way of the reconciler, and only for its own namespace.
	for _, space := range []string{"team-a", "team-b"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}
		_, err := admin.CoreV1().ServiceAccounts(space).Create(ctx, account, metav1.CreateOptions{})
		require.NoError(t, err)
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "deployer-" + space}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fleetwright-editor"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: space, Name: "deployer"}},
		}
		_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	deployer := rest.CopyConfig(asReconciler(t))
	deployer.Impersonate.UserName = "system:serviceaccount:team-a:deployer"
	require.Eventually(t, func() bool { return create(deployer, owned("by-account", "team-a")) == nil }, patience, interval)
	require.ErrorContains(t, create(deployer, owned("for-others", "team-b")), refusal)
	token, err := cluster.Shared(t).ServiceAccountToken(ctx, "team-a", "deployer")
	require.NoError(t, err)
	require.ErrorContains(t, create(token, owned("by-token", "team-a")), refusal)
	for _, name := range []string{"owned", "by-account"} {
		require.NoError(t, user.Delete(ctx, name, metav1.DeleteOptions{}), "a deletion is nobody's label")
	}
}
