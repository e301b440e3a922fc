package delivery

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// grant gives the service account of a team the verbs on the kinds that Fleets deliver.
func (w *world) grant(account string, verbs ...string) {
	w.t.Helper()
	name := "team-" + account
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{nwv1.Group}, Resources: []string{"nodewrights", "deploymentpolicies"}, Verbs: verbs},
		{APIGroups: []string{fleetv1.Group}, Resources: []string{"packages"}, Verbs: verbs},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}
	for _, o := range []client.Object{role, binding} {
		_ = w.admin.Delete(w.t.Context(), o)
		o.SetResourceVersion("")
		require.NoError(w.t, w.admin.Create(w.t.Context(), o))
		w.t.Cleanup(func() { _ = w.admin.Delete(context.Background(), o) })
	}
}

// TestFleetActsAsItsServiceAccount: objects are applied and pruned with the account's rights; a right that is missing is named; the
// report stays the reconciler's own.
func TestFleetActsAsItsServiceAccount(t *testing.T) {
	const account = "system:serviceaccount:" + namespace + ":deployer"
	w := newWorld(t, gitserver.Options{})
	require.NoError(t, client.IgnoreAlreadyExists(w.admin.Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployer"}})))
	sha := w.repo("fleet", good())
	f := w.fleet("team", "fleet", func(f *fleetv1.Fleet) { f.Spec.ServiceAccountName = "deployer" })
	now := w.untilReason(f, "ServiceAccountForbidden")
	require.Equal(t, "service account fleetwright/deployer may not patch Package/tuning: it lacks the verb patch on packages.fleetwright.dev", ready(now).Message)
	require.True(t, has(now, "Reconciling"), "it is tried again")
	require.Empty(t, w.versions())

	w.grant("deployer", "create", "patch")
	now = w.untilApplied(f, sha)
	require.Len(t, now.Status.Inventory.Entries, 3)
	w.untilNote("fleet", sha, "pending")

	second := w.commit("fleet", map[string]string{"a/kustomization.yaml": strings.ReplaceAll(kustomization, "  - policy.yaml\n", ""),
		"a/nodewright.yaml": strings.ReplaceAll(nodeWrightFile, "  deploymentPolicy: careful\n", "")})
	w.ask(f)
	now = w.untilReason(f, "ServiceAccountForbidden")
	require.Equal(t, "service account fleetwright/deployer may not delete DeploymentPolicy/careful: it lacks the verb delete on deploymentpolicies.nodewright.nvidia.com",
		ready(now).Message)
	w.grant("deployer", "create", "patch", "delete")
	w.untilReason(f, "Progressing")
	w.untilApplied(f, second)

	audit := cluster.Shared(t).Audit()
	require.NoError(t, audit.Sync(t.Context()))
	for _, verb := range []string{"patch", "delete"} {
		writes, err := audit.Events(cluster.Match{Verb: verb, User: account})
		require.NoError(t, err)
		require.NotEmpty(t, writes, verb)
		for _, e := range writes {
			require.Contains(t, []string{"nodewrights", "deploymentpolicies", "packages"}, e.Resource, "the rest is the reconciler's own")
		}
	}
	reports, err := audit.Events(cluster.Match{Verb: "patch", Resource: "fleets/status", Name: "team"})
	require.NoError(t, err)
	require.NotEmpty(t, reports)
	for _, e := range reports {
		require.Equal(t, "system:serviceaccount:"+namespace+":fleetwright-reconciler", e.User)
	}
}

// TestTwoTeams: two Fleets of one cluster keep their hands off each other's objects, whoever comes first, and each stays within its
// own scope.
func TestTwoTeams(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	b := map[string]string{
		"a/kustomization.yaml": "resources: [nodewright.yaml]\n",
		"a/nodewright.yaml": strings.NewReplacer("  deploymentPolicy: careful\n", "", "packageRef:\n        name: tuning", "image: ghcr.io/team-b/tuning\n      version: 1.0.0",
			"name: gpu\n", "name: gpu-b\n").Replace(nodeWrightFile),
	}
	first := w.repo("team-a", good())
	second := w.repo("team-b", b)
	scope := func(team string) func(*fleetv1.Fleet) {
		return func(f *fleetv1.Fleet) {
			f.Spec.Scope = &fleetv1.Scope{
				NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}, Images: []string{"ghcr.io/" + team + "/*"},
			}
		}
	}
	fa, fb := w.fleet("a", "team-a", scope("acme")), w.fleet("b", "team-b", scope("team-b"))
	w.untilApplied(fa, first)
	w.untilApplied(fb, second)

	before := w.versions()
	w.commit("team-b", map[string]string{"a/nodewright.yaml": strings.NewReplacer("name: gpu-b\n", "name: gpu\n").Replace(b["a/nodewright.yaml"])})
	w.ask(fb)
	now := w.untilReason(fb, "OwnedByOtherFleet")
	require.Equal(t, "NodeWright/gpu belongs to Fleet fleetwright/a; nothing was applied: take it out of one of the two paths", ready(now).Message)
	require.Equal(t, before, w.versions())
	w.commit("team-b", map[string]string{"a/nodewright.yaml": strings.NewReplacer("ghcr.io/team-b/", "ghcr.io/acme/").Replace(b["a/nodewright.yaml"])})
	w.ask(fb)
	now = w.untilReason(fb, "ValidationFailed")
	require.Contains(t, ready(now).Message, `image "ghcr.io/acme/tuning" is outside of the Fleet's scope`)
	require.Equal(t, before, w.versions())
}
