package delivery

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// ends are the last states of a commit by context.
func (w *world) ends(repo, sha string) map[string]string {
	out := map[string]string{}
	for _, n := range w.notes(repo, sha) {
		out[n.Context] = n.State + " " + n.Description
	}
	return out
}

// TestStatusesComeToAnEndUnderEveryName: a Fleet that changes its context, or stops to report, leaves nothing pending behind.
func TestStatusesComeToAnEndUnderEveryName(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("named", "fleet", slow)
	w.untilNote("fleet", sha, "pending")
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Checks.Context = "fleetwright/new" })
	w.eventually("the old name is ended, the new one goes on", func() bool {
		ends := w.ends("fleet", sha)
		return ends["fleetwright/fleetwright/named"] == "error the Fleet reports elsewhere now, as fleetwright/new" &&
			len(ends["fleetwright/new"]) > 7 && ends["fleetwright/new"][:7] == "pending"
	})
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Checks = nil })
	w.eventually("the new name is ended", func() bool {
		return w.ends("fleet", sha)["fleetwright/new"] == "error the Fleet writes no commit statuses any more"
	})
	require.Empty(t, w.get(f).Annotations["fleetwright.dev/open-commits"])
	w.play("gpu", completed)
	w.untilReason(f, "ReconciliationSucceeded")
	require.Equal(t, 0, count(w.notes("fleet", sha), "success"))
}

// TestOutageOfTheForgeHeals: what was decided while nothing could be written is written later, also by another process, and only
// the last word of each commit.
func TestOutageOfTheForgeHeals(t *testing.T) {
	out := &outage{}
	w := newWorld(t, gitserver.Options{Wrap: out.wrap})
	first := w.repo("fleet", good())
	f := w.fleet("offline", "fleet", func(f *fleetv1.Fleet) { f.Spec.Interval.Duration = 10 * time.Second })
	w.untilNote("fleet", first, "pending")
	out.set(true)
	w.play("gpu", completed)
	w.until(f, func(now *fleetv1.Fleet) bool { return now.Status.LastRolledOutRevision == "main@sha1:"+first })
	w.kill()
	w.start()
	out.set(false)
	w.untilNote("fleet", first, "success")
	require.Equal(t, 1, count(w.notes("fleet", first), "success"))
}

// TestObjectMovesBetweenFleetsWithoutBeingDeleted: with prune disabled in the commit before, the new Fleet takes over the very
// object.
func TestObjectMovesBetweenFleetsWithoutBeingDeleted(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	const only = "resources: [policy.yaml]\n"
	keep := map[string]string{"b/kustomization.yaml": only, "b/policy.yaml": policyFile + "---\n" + packageFile}
	keep["a/policy.yaml"] = "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\nmetadata:\n  name: careful\n" +
		"  annotations: {fleetwright.dev/prune: disabled}\nspec: {default: {budget: {count: 2}, strategy: {fixed: {initialBatch: 2}}}}\n"
	keep["a/kustomization.yaml"] = only
	first := w.repo("fleet", keep)
	a := w.fleet("from", "fleet", slow)
	w.untilApplied(a, first)
	before := &nwv1.DeploymentPolicy{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: "careful"}, before))

	b := w.fleet("to", "fleet", func(f *fleetv1.Fleet) { f.Spec.Path = "./b" })
	now := w.untilReason(b, "OwnedByOtherFleet")
	require.Nil(t, now.Status.Inventory, "what belongs to another is not claimed")
	require.Len(t, w.versions(), 1, "nothing else of the commit is applied")

	second := w.commit("fleet", map[string]string{"a/policy.yaml": packageFile, "b/policy.yaml": policyFile})
	w.ask(a)
	w.untilApplied(a, second)
	w.untilApplied(b, second)
	after := &nwv1.DeploymentPolicy{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: "careful"}, after))
	require.Equal(t, before.UID, after.UID)
	require.Equal(t, "to", after.Labels[fleetv1.FleetNameLabel])
	require.Empty(t, after.Annotations[fleetv1.PruneAnnotation], "the mark went with the old manifest")
}

// TestDeletedFleetThatCannotPruneSaysWhy: its objects stay, and so does it, until it can.
func TestDeletedFleetThatCannotPruneSaysWhy(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("held", "fleet", slow, func(f *fleetv1.Fleet) { f.Spec.DeletionPolicy, f.Spec.Suspend = fleetv1.DeletionPrune, false })
	w.untilApplied(f, sha)
	lift := w.forbidDeletion()
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Suspend = true })
	require.NoError(t, w.admin.Delete(t.Context(), f))
	w.untilEvent("Fleet", "held", "PruneFailed", "keep what you have")
	require.True(t, w.exists(&nwv1.NodeWright{}, "gpu"))
	lift()
	w.eventually("the objects and the Fleet are gone", func() bool {
		err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(f), &fleetv1.Fleet{})
		return apierrors.IsNotFound(err) && len(w.versions()) == 0
	})
}

// forbidDeletion makes the API server keep NodeWrights until the rule is lifted.
func (w *world) forbidDeletion() (lift func()) {
	w.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-deletion"}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Delete},
			Rule:       admissionv1.Rule{APIGroups: []string{nwv1.Group}, APIVersions: []string{"*"}, Resources: []string{"nodewrights"}},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "false", Message: "keep what you have"}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "no-deletion"}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = "no-deletion", []admissionv1.ValidationAction{admissionv1.Deny}
	lift = func() {
		for _, o := range []client.Object{binding, policy} {
			_ = w.admin.Delete(context.Background(), o)
		}
	}
	w.t.Cleanup(lift)
	require.NoError(w.t, w.admin.Create(w.t.Context(), policy))
	require.NoError(w.t, w.admin.Create(w.t.Context(), binding))
	w.eventually("the rule is in force", func() bool {
		return apierrors.IsInvalid(w.admin.Delete(w.t.Context(), &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, client.DryRunAll))
	})
	return lift
}
