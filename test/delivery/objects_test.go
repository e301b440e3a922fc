package delivery

import (
	"context"
	"strings"
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

// nodeWright reads the one of the repository.
func (w *world) nodeWright() (*nwv1.NodeWright, error) {
	nw := &nwv1.NodeWright{}
	return nw, w.admin.Get(w.t.Context(), client.ObjectKey{Name: "gpu"}, nw)
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	require.Eventually(w.t, ok, patience, moment, what)
}

// TestDrift: a changed field, a removed label and a deleted object come back without a look at git, and are told.
func TestDrift(t *testing.T) {
	out := &outage{}
	w := newWorld(t, gitserver.Options{Wrap: out.wrap})
	sha := w.repo("fleet", good())
	f := w.fleet("drift", "fleet", func(f *fleetv1.Fleet) { f.Spec.Interval.Duration = time.Hour })
	w.untilApplied(f, sha)
	out.set(true) // git has nothing to do with it

	policy := &nwv1.DeploymentPolicy{}
	key := client.ObjectKey{Name: "careful"}
	require.NoError(t, w.admin.Get(t.Context(), key, policy))
	change := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"default":{"budget":{"count":24}}}}`))
	require.NoError(t, w.admin.Patch(t.Context(), policy, change))
	w.eventually("the budget is put back", func() bool {
		require.NoError(t, w.admin.Get(t.Context(), key, policy))
		return policy.Spec.Default.Budget.Count != nil && *policy.Spec.Default.Budget.Count == 2
	})
	const want = "DeploymentPolicy/careful was changed outside git; put back: spec.default.budget.count"
	w.untilEvent("Fleet", "drift", "DriftCorrected", want)
	w.untilEvent("DeploymentPolicy", "careful", "DriftCorrected", want)

	nw, err := w.nodeWright()
	require.NoError(t, err)
	unlabel := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`))
	require.NoError(t, w.admin.Patch(t.Context(), nw, unlabel))
	w.eventually("the labels are put back", func() bool {
		nw, err = w.nodeWright()
		return err == nil && nw.Labels[fleetv1.FleetNameLabel] == "drift"
	})

	require.NoError(t, w.admin.Delete(t.Context(), nw))
	w.eventually("the object is created again", func() bool {
		again, err := w.nodeWright()
		return err == nil && again.UID != nw.UID
	})
	w.untilEvent("Fleet", "drift", "ObjectRecreated", "NodeWright/gpu was deleted outside git and is created again")

	foreign := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/owner":"team"}},"spec":{"serial":true}}`))
	nw, err = w.nodeWright()
	require.NoError(t, err)
	require.NoError(t, w.admin.Patch(t.Context(), nw, foreign))
	out.set(false)
	w.ask(f)
	nw, err = w.nodeWright()
	require.NoError(t, err)
	require.True(t, nw.Spec.Serial, "a field that the repository does not set is not ours")
	require.Equal(t, "team", nw.Annotations["example.com/owner"])
}

// withSecond has one more NodeWright than good.
func withSecond() map[string]string {
	return good(map[string]string{
		"a/kustomization.yaml": kustomization + "  - second.yaml\n",
		"a/second.yaml":        strings.ReplaceAll(nodeWrightFile, "name: gpu", "name: second"),
	})
}

func (w *world) exists(o client.Object, name string) bool {
	w.t.Helper()
	err := w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, o)
	require.NoError(w.t, client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

// TestPrune: what left the repository goes, unless the Fleet, the object or a foreign owner says otherwise.
func TestPrune(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	for name, tc := range map[string]struct {
		prune bool
		edit  string
		gone  bool
	}{
		"pruned":        {prune: true, edit: `{}`, gone: true},
		"kept-by-fleet": {prune: false, edit: `{}`},
		"kept-by-mark":  {prune: true, edit: `{"metadata":{"annotations":{"fleetwright.dev/prune":"disabled"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			first := w.repo(name, withSecond())
			f := w.fleet(name, name, func(f *fleetv1.Fleet) { f.Spec.Prune = tc.prune })
			w.untilApplied(f, first)
			second := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "second"}}
			require.NoError(t, w.admin.Patch(t.Context(), second, client.RawPatch("application/merge-patch+json", []byte(tc.edit))))
			next := w.commit(name, good(map[string]string{"a/kustomization.yaml": kustomization}))
			w.ask(f)
			now := w.untilApplied(f, next)
			require.Len(t, now.Status.Inventory.Entries, 3)
			require.Equal(t, !tc.gone, w.exists(second, "second"))
			require.True(t, w.exists(&nwv1.NodeWright{}, "gpu"))
			if tc.gone {
				w.untilEvent("Fleet", name, "Pruned", "NodeWright/second left the repository and is deleted")
			}
			w.clean()
		})
	}
}

// TestDeletion: by default a Fleet leaves its objects; with Prune they go with it, also when git is away.
func TestDeletion(t *testing.T) {
	out := &outage{}
	w := newWorld(t, gitserver.Options{Wrap: out.wrap})
	sha := w.repo("fleet", good())
	orphan := w.fleet("orphan", "fleet")
	w.untilApplied(orphan, sha)
	require.Empty(t, w.get(orphan).Finalizers)
	require.NoError(t, w.admin.Delete(t.Context(), orphan))
	w.untilNote("fleet", sha, "error")
	require.Len(t, w.versions(), 3)

	pruner := w.fleet("pruner", "fleet", func(f *fleetv1.Fleet) { f.Spec.DeletionPolicy = fleetv1.DeletionPrune })
	w.untilApplied(pruner, sha)
	out.set(true)
	require.NoError(t, w.admin.Delete(t.Context(), pruner))
	w.eventually("the objects and the Fleet are gone", func() bool {
		err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(pruner), &fleetv1.Fleet{})
		return apierrors.IsNotFound(err) && len(w.versions()) == 0
	})
}

// TestTwoFleets: one repository, two paths, two Fleets; an object that one owns is refused to the other by name.
func TestTwoFleets(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	files := good(map[string]string{
		"b/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [package.yaml]\n",
		"b/package.yaml":       strings.Replace(packageFile, "name: tuning", "name: other", 1),
	})
	sha := w.repo("fleet", files)
	one := w.fleet("one", "fleet")
	two := w.fleet("two", "fleet", func(f *fleetv1.Fleet) { f.Spec.Path = "./b" })
	w.untilApplied(one, sha)
	w.untilApplied(two, sha)
	w.untilReason(two, "ReconciliationSucceeded") // it has no NodeWright

	theft := w.commit("fleet", map[string]string{"b/package.yaml": strings.Replace(packageFile, "1.0.0", "9.9.9", 1)})
	w.ask(two)
	now := w.untilReason(two, "OwnedByOtherFleet")
	require.Contains(t, ready(now).Message, "Package/tuning belongs to Fleet fleetwright/one")
	p := &fleetv1.Package{}
	require.True(t, w.exists(p, "tuning"))
	require.Equal(t, "1.0.0", p.Spec.Version)
	require.True(t, w.exists(p, "other"), "nothing is pruned after a refusal")
	w.ask(one)
	w.untilApplied(one, theft)
}

// TestSuspend: nothing is fetched or applied, the rollout is still followed, and a resumed Fleet catches up.
func TestSuspend(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("suspend", "fleet")
	w.untilApplied(f, first)
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Suspend = true })
	second := w.commit("fleet", map[string]string{"a/package.yaml": strings.Replace(packageFile, "1.0.0", "1.0.1", 1)})
	w.play("gpu", completed)
	w.untilNote("fleet", first, "success")
	require.Equal(t, "main@sha1:"+first, w.get(f).Status.LastAttemptedRevision)
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Suspend = false })
	w.untilApplied(f, second)
}

// TestDeliveryReport_GF04_ForcePush: history that was rewritten is followed, and a commit that comes back is rolled out anew.
func TestDeliveryReport_GF04_ForcePush(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("force", "fleet")
	w.untilApplied(f, first)
	w.play("gpu", completed)
	w.untilNote("fleet", first, "success")
	second := w.commit("fleet", map[string]string{"a/package.yaml": strings.Replace(packageFile, "1.0.0", "1.0.1", 1)})
	w.ask(f)
	w.untilApplied(f, second)
	w.untilNote("fleet", second, "pending")
	w.play("gpu", func(s *nwv1.NodeWrightStatus) { s.Status, s.CompleteNodes = nwv1.StatusInProgress, "2/24" })

	require.NoError(t, w.git.ForcePush("fleet", "main", first))
	w.ask(f)
	now := w.untilApplied(f, first)
	require.Empty(t, now.Status.LastRolledOutRevision, "nodes may be half at the second commit")
	w.untilNote("fleet", second, "error")
	w.untilNote("fleet", first, "pending")
	w.play("gpu", completed)
	w.untilNote("fleet", first, "success")
}

// TestRestart: a new process knows what the last one knew, and changes nothing.
func TestRestart(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("restart", "fleet")
	w.untilApplied(f, sha)
	w.play("gpu", completed)
	w.untilNote("fleet", sha, "success")
	w.untilReason(f, "ReconciliationSucceeded")
	before := w.versions()
	w.kill()
	w.start()
	w.ask(f)
	require.Equal(t, before, w.versions())
	require.Equal(t, metav1.ConditionTrue, ready(w.get(f)).Status)
	require.Equal(t, 1, count(w.notes("fleet", sha), "success"))
}

// TestServerRefuses: objects that the server refuses are found before anything is written.
func TestServerRefuses(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("refused", "fleet")
	w.untilApplied(f, first)
	w.play("gpu", completed)
	before := w.versions()
	w.forbid("object.spec.?priority.orValue(200) != 77", "priority 77 is reserved")
	bad := w.commit("fleet", good(map[string]string{
		"a/package.yaml":    strings.Replace(packageFile, "1.0.0", "1.0.1", 1),
		"a/nodewright.yaml": nodeWrightFile + "  priority: 77\n",
	}))
	w.ask(f)
	now := w.until(f, func(now *fleetv1.Fleet) bool { return ready(now).Status == metav1.ConditionFalse })
	require.Equal(t, "RefusedByServer", ready(now).Reason)
	require.True(t, strings.HasPrefix(ready(now).Message, "a/nodewright.yaml: NodeWright/gpu: the API server refuses it: "), ready(now).Message)
	require.Contains(t, ready(now).Message, "priority 77 is reserved")
	require.Equal(t, before, w.versions(), "the good half is not applied either")
	w.untilNote("fleet", bad, "failure")
}

// forbid makes the API server refuse NodeWrights by a rule that no file of ours knows.
func (w *world) forbid(rule, message string) {
	w.t.Helper()
	invalid := metav1.StatusReasonInvalid
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "site-rule"}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{nwv1.Group}, APIVersions: []string{"*"}, Resources: []string{"nodewrights"}},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: rule, Message: message, Reason: &invalid}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "site-rule"}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = "site-rule", []admissionv1.ValidationAction{admissionv1.Deny}
	for _, o := range []client.Object{policy, binding} {
		require.NoError(w.t, w.admin.Create(w.t.Context(), o))
		w.t.Cleanup(func() { _ = w.admin.Delete(context.Background(), o) })
	}
	probe := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
	probe.Spec.Priority = 77
	w.eventually("the rule is in force", func() bool {
		return apierrors.IsInvalid(w.admin.Create(w.t.Context(), probe.DeepCopy(), client.DryRunAll))
	})
}
