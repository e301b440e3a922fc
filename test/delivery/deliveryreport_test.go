package delivery

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// poke asks for a look without waiting for it.
func (w *world) poke(f *fleetv1.Fleet, token string) {
	w.t.Helper()
	w.edit(f, func(f *fleetv1.Fleet) {
		metav1.SetMetaDataAnnotation(&f.ObjectMeta, fleetv1.RequestedAtAnnotation, token)
	})
}

// TestDeliveryReport_DST01_PushedTwiceWhileWaiting: 20 times two commits come while the rollout of the last one is waited for, the second
// while the first is being delivered. Each time the Fleet ends at the last revision, and never stops without a next look.
func TestDeliveryReport_DST01_PushedTwiceWhileWaiting(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("twice", "fleet", slow, func(f *fleetv1.Fleet) { f.Spec.Checks = nil })
	w.untilApplied(f, sha)
	for i := range 20 {
		w.untilReason(f, "Progressing")
		w.commit("fleet", tuned(1000+i))
		w.poke(f, "a"+sha)
		sha = w.commit("fleet", tuned(2000+i))
		w.poke(f, "b"+sha)
		now := w.untilApplied(f, sha)
		require.NotContains(t, ready(now).Message, "New reconciliation")
	}
	w.play("gpu", completed)
	w.untilReason(f, "ReconciliationSucceeded")
}

// TestDeliveryReport_DST03_TheNewestFailureSpeaks: a Secret is missing, then the build fails, then the Secret is missing again: each time
// the status is about that alone, also where the older failure is not cured.
func TestDeliveryReport_DST03_TheNewestFailureSpeaks(t *testing.T) {
	w := newWorld(t, gitserver.Options{Username: "git", Password: "s3cret-pass"})
	w.repo("fleet", good(replaced(t, "a/nodewright.yaml", "deploymentPolicy", "deploymentPolcy")))
	f := w.fleet("failing", "fleet", slow, func(f *fleetv1.Fleet) { f.Spec.Source.SecretRef = &meta.LocalObjectReference{Name: "creds"} })
	requireOnly := func(now *fleetv1.Fleet, words string) {
		t.Helper()
		for _, c := range now.Status.Conditions {
			for _, other := range []string{"Secret fleetwright/creds", "deploymentPolcy", "is not YAML"} {
				require.Equal(t, other == words, strings.Contains(c.Message, other), "%s: %s", c.Type, c.Message)
			}
		}
	}
	now := w.untilReason(f, "InvalidSecret")
	requireOnly(now, "Secret fleetwright/creds")
	require.Empty(t, now.Status.Findings)

	w.secret("creds", map[string]string{"username": "git", "password": "s3cret-pass"})
	now = w.untilReason(f, "ValidationFailed")
	requireOnly(now, "deploymentPolcy")
	require.Len(t, now.Status.Findings, 1)

	w.commit("fleet", good(replaced(t, "a/nodewright.yaml", "packages:", "packages: [")))
	w.ask(f)
	requireOnly(w.untilReason(f, "BuildFailed"), "is not YAML")

	require.NoError(t, w.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "creds"}}))
	w.ask(f)
	now = w.untilReason(f, "InvalidSecret")
	requireOnly(now, "Secret fleetwright/creds")
	require.True(t, has(now, meta.ReconcilingCondition))
	require.False(t, has(now, meta.StalledCondition), "it is tried again")
}

// TestDeliveryReport_DST07_ANewFleetIsNotDone: between its creation and our first look, an object is not what a waiting tool takes for
// done: the API server itself says that nobody has looked.
func TestDeliveryReport_DST07_ANewFleetIsNotDone(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	w.repo("fleet", good())
	w.kill()
	f := w.fleet("new", "fleet")
	now := w.get(f)
	require.EqualValues(t, -1, now.Status.ObservedGeneration)
	require.EqualValues(t, 1, now.Generation)
	w.start()
	now = w.until(f, func(now *fleetv1.Fleet) bool { return len(now.Status.Conditions) > 0 })
	require.True(t, has(now, meta.ReconcilingCondition), "progress from the first write on")
	require.EqualValues(t, 1, now.Status.ObservedGeneration)
	w.untilReason(f, "Progressing")
	w.eventually("the NodeWright", func() bool { return w.exists(&nwv1.NodeWright{}, "gpu") })
	nw, err := w.nodeWright()
	require.NoError(t, err)
	require.EqualValues(t, -1, nw.Status.ObservedGeneration, "no rollout runs here: nobody has looked at it")
}

// TestDeliveryReport_DST10_ObjectThatIsDeletedInTheMiddleComesBack: a delivered object is deleted while its rollout is under way; the
// rollout is not complete without it, and goes on with it.
func TestDeliveryReport_DST10_ObjectThatIsDeletedInTheMiddleComesBack(t *testing.T) {
	out := &outage{}
	w := newWorld(t, gitserver.Options{Wrap: out.wrap})
	sha := w.repo("fleet", good())
	f := w.fleet("middle", "fleet", slow)
	w.untilApplied(f, sha)
	out.set(true)
	for _, o := range []client.Object{&nwv1.NodeWright{}, &fleetv1.Package{}, &nwv1.DeploymentPolicy{}} {
		w.play("gpu", func(s *nwv1.NodeWrightStatus) { s.Status, s.CompleteNodes = nwv1.StatusInProgress, "12/24" })
		o.SetName(map[bool]string{true: "gpu", false: "tuning"}[w.exists(o, "gpu")])
		if !w.exists(o, o.GetName()) {
			o.SetName("careful")
		}
		require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		uid := o.GetUID()
		require.NoError(t, w.admin.Delete(t.Context(), o))
		w.eventually("it comes back", func() bool {
			return w.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil && o.GetUID() != uid
		})
		require.Empty(t, w.get(f).Status.LastRolledOutRevision)
	}
	w.play("gpu", completed)
	w.untilReason(f, "ReconciliationSucceeded")
}

// TestDeliveryReport_DST13_DeletionComesFirst: a Fleet with everything in its way goes at once, with its objects: while its rollout is
// halted, while it is suspended, while its server does not answer, and while its Secret is missing.
func TestDeliveryReport_DST13_DeletionComesFirst(t *testing.T) {
	gate := &turnstile{}
	w := newWorld(t, gitserver.Options{Wrap: gate.wrap})
	for name, obstacle := range map[string]func(f *fleetv1.Fleet){
		"rolling": func(*fleetv1.Fleet) {},
		"halted": func(f *fleetv1.Fleet) {
			w.play("gpu", func(s *nwv1.NodeWrightStatus) {
				s.Status, s.CompleteNodes, s.NodesFailed = nwv1.StatusErroring, "3/24", 1
				s.CompartmentStatuses = map[string]nwv1.CompartmentStatus{"default": {Matched: 24, BatchState: &nwv1.BatchState{ShouldStop: true}}}
			})
			w.untilReason(f, "RolloutHalted")
		},
		"suspended": func(f *fleetv1.Fleet) { w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Suspend = true }) },
		"no-secret": func(f *fleetv1.Fleet) {
			w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Source.SecretRef = &meta.LocalObjectReference{Name: "none"} })
			w.untilReason(f, "InvalidSecret")
		},
		"silent-server": func(f *fleetv1.Fleet) { // the timeout of the Fleet is an hour
			reached := gate.close(func(*http.Request) bool { return true })
			w.poke(f, "now")
			<-reached
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			t.Cleanup(gate.open)
			sha := w.repo(name, good())
			f := w.fleet(name, name, slow, func(f *fleetv1.Fleet) {
				f.Spec.DeletionPolicy, f.Spec.Checks, f.Spec.Timeout.Duration = fleetv1.DeletionPrune, nil, time.Hour
			})
			w.untilApplied(f, sha)
			obstacle(f)
			require.NoError(t, w.admin.Delete(t.Context(), f))
			w.eventually("the objects and the Fleet are gone", func() bool {
				err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(f), &fleetv1.Fleet{})
				return apierrors.IsNotFound(err) && len(w.versions()) == 0
			})
		})
	}
}

// TestDeliveryReport_DST13_OrphanEndsADeletionThatCannotPrune: who does not want to wait for the objects lets them stay.
func TestDeliveryReport_DST13_OrphanEndsADeletionThatCannotPrune(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("kept", "fleet", slow, func(f *fleetv1.Fleet) { f.Spec.DeletionPolicy = fleetv1.DeletionPrune })
	w.untilApplied(f, sha)
	lift := w.forbidDeletion()
	require.NoError(t, w.admin.Delete(t.Context(), f))
	w.untilEvent("Fleet", "kept", "PruneFailed", "keep what you have")
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.DeletionPolicy = fleetv1.DeletionOrphan })
	w.eventually("the Fleet is gone", func() bool {
		return apierrors.IsNotFound(w.admin.Get(t.Context(), client.ObjectKeyFromObject(f), &fleetv1.Fleet{}))
	})
	require.True(t, w.exists(&nwv1.NodeWright{}, "gpu"))
	lift()
	w.eventually("the rule is lifted", func() bool {
		return w.admin.Delete(t.Context(), &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, client.DryRunAll) == nil
	})
}

// TestChangeOfTheFleetEndsAWaitForASilentServer: the corrected URL does not wait for the timeout of the wrong one.
func TestChangeOfTheFleetEndsAWaitForASilentServer(t *testing.T) {
	gate := &turnstile{}
	w := newWorld(t, gitserver.Options{Wrap: gate.wrap})
	w.repo("silent", good())
	sha := w.repo("fleet", good())
	reached := gate.close(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "silent") })
	t.Cleanup(gate.open)
	f := w.fleet("corrected", "silent", slow, func(f *fleetv1.Fleet) { f.Spec.Timeout.Duration, f.Spec.Checks = time.Hour, nil })
	<-reached
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Source.URL = w.git.URL("fleet") })
	now := w.untilApplied(f, sha)
	require.NotContains(t, everything(w, now), "canceled", "nobody is told of a failure")
}

// TestDeliveryReport_DST16_NobodyLooksAtTheNodeWright: while no rollout runs, a Fleet is never Ready; a halt is told at once, with hours
// of the interval to go.
func TestDeliveryReport_DST16_NobodyLooksAtTheNodeWright(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("unseen", "fleet", slow)
	w.untilApplied(f, sha)
	for range 5 {
		now := w.ask(f)
		require.Equal(t, metav1.ConditionUnknown, ready(now).Status)
		require.Contains(t, ready(now).Message, "waiting for the first look at its nodes")
	}
	w.play("gpu", func(s *nwv1.NodeWrightStatus) {
		s.Status, s.CompleteNodes, s.NodesFailed = nwv1.StatusErroring, "3/24", 1
		s.CompartmentStatuses = map[string]nwv1.CompartmentStatus{"default": {Matched: 24, BatchState: &nwv1.BatchState{ShouldStop: true}}}
	})
	now := w.untilReason(f, "RolloutHalted")
	require.True(t, has(now, meta.StalledCondition))
	w.untilNote("fleet", sha, "failure")
}

// TestDeliveryReport_DST18_ThreeFailuresAreWrittenOnce: three NodeWrights are halted; looks without news, however many, write nothing.
func TestDeliveryReport_DST18_ThreeFailuresAreWrittenOnce(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	files := good(map[string]string{"a/kustomization.yaml": kustomization + "  - more.yaml\n",
		"a/more.yaml": strings.ReplaceAll(nodeWrightFile, "name: gpu", "name: second") + "---\n" + strings.ReplaceAll(nodeWrightFile, "name: gpu", "name: third")})
	sha := w.repo("fleet", files)
	f := w.fleet("steady", "fleet", slow)
	w.untilApplied(f, sha)
	halt := func(s *nwv1.NodeWrightStatus) {
		s.Status, s.CompleteNodes, s.NodesFailed = nwv1.StatusErroring, "3/24", 1
		s.CompartmentStatuses = map[string]nwv1.CompartmentStatus{"default": {Matched: 24, BatchState: &nwv1.BatchState{ShouldStop: true}}}
	}
	for _, name := range []string{"gpu", "second", "third"} {
		w.play(name, halt)
	}
	w.until(f, func(now *fleetv1.Fleet) bool { return now.Status.Rollout != nil && now.Status.Rollout.Failed == 3 })
	w.untilNote("fleet", sha, "failure")
	before := w.ask(f).ResourceVersion
	for i := range 30 { // each is an event that starts a pass
		w.play([]string{"third", "gpu", "second"}[i%3], func(s *nwv1.NodeWrightStatus) {
			halt(s)
			s.NodesInProgress = int32(i)
		})
	}
	time.Sleep(20 * moment) // the last pass ends
	require.Equal(t, before, w.get(f).ResourceVersion)
	require.Equal(t, 1, count(w.notes("fleet", sha), "failure"))
}

// TestDeliveryReport_DST19_WhatIsGoneIsNotReady: objects are deleted while no process runs, and git is away when the next one starts with
// an empty memory. It does not repeat that all is well; when git is back, the objects are.
func TestDeliveryReport_DST19_WhatIsGoneIsNotReady(t *testing.T) {
	out := &outage{}
	w := newWorld(t, gitserver.Options{Wrap: out.wrap})
	sha := w.repo("fleet", good())
	f := w.fleet("wiped", "fleet")
	w.untilApplied(f, sha)
	w.play("gpu", completed)
	w.untilReason(f, "ReconciliationSucceeded")
	w.kill()
	nw, err := w.nodeWright()
	require.NoError(t, err)
	require.NoError(t, w.admin.Delete(t.Context(), nw))
	out.set(true)
	w.start()
	now := w.until(f, func(now *fleetv1.Fleet) bool { return ready(now).Status != metav1.ConditionTrue })
	require.Zero(t, now.Status.Rollout.Complete)
	out.set(false)
	w.untilReason(f, "Progressing")
	w.eventually("the object is back", func() bool { return w.exists(&nwv1.NodeWright{}, "gpu") })
	w.play("gpu", completed)
	w.untilReason(f, "ReconciliationSucceeded")
}

// TestDeliveryReport_SV06_TwoReasonsForTwoJudges: what is known offline and what only the server knows come under different reasons.
func TestDeliveryReport_SV06_TwoReasonsForTwoJudges(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good())
	f := w.fleet("judged", "fleet", slow)
	w.untilApplied(f, sha)
	for name, old := range map[string][2]string{
		"CEL":   {"a/policy.yaml", "count: 2|count: 2\n      percent: 10"},
		"name":  {"a/policy.yaml", "name: careful|name: Careful"},
		"label": {"a/policy.yaml", "name: careful|name: careful\n  labels: {a: " + strings.Repeat("x", 64) + "}"},
	} {
		before, now, _ := strings.Cut(old[1], "|")
		w.commit("fleet", good(replaced(t, old[0], before, now)))
		w.ask(f)
		refused := w.untilReason(f, "ValidationFailed")
		require.True(t, slices.ContainsFunc(refused.Status.Findings, func(f fleetv1.Finding) bool { return f.File == "a/policy.yaml" && f.Line > 3 }), name)
	}
	w.forbid("object.spec.?priority.orValue(200) != 77", "priority 77 is reserved")
	w.commit("fleet", good(map[string]string{"a/nodewright.yaml": nodeWrightFile + "  priority: 77\n"}))
	w.ask(f)
	require.Contains(t, ready(w.untilReason(f, "RefusedByServer")).Message, "priority 77 is reserved")
}

// TestDeliveryReport_KB15_ACommitThatCrashesTheBuildIsQuarantined: kustomize crashes on it; the process lives, other Fleets are delivered,
// the commit is not built again by itself, and the next commit is.
func TestDeliveryReport_KB15_ACommitThatCrashesTheBuildIsQuarantined(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	const crash = "replacements: [{source: {kind: NodeWright}, targets: [{select: {kind: NodeWright}, reject: [null], fieldPaths: [metadata.name]}]}]\n"
	w.repo("crash", good(map[string]string{"a/kustomization.yaml": kustomization + crash}))
	f := w.fleet("crash", "crash", slow, func(f *fleetv1.Fleet) { f.Spec.Checks = nil })
	now := w.untilReason(f, "BuildFailed")
	require.Contains(t, ready(now).Message, "a/kustomization.yaml:1:1: kustomize cannot build the overlay: kustomize crashed")
	require.True(t, has(now, meta.StalledCondition))
	fetched := fetches(w)
	seen := len(w.git.Requests())
	w.edit(f, func(f *fleetv1.Fleet) { metav1.SetMetaDataAnnotation(&f.ObjectMeta, fleetv1.PushedAtAnnotation, "1") })
	w.eventually("the server is asked for its refs", func() bool { return len(w.git.Requests()) > seen })
	time.Sleep(10 * moment)
	require.Equal(t, fetched, fetches(w), "the commit is not fetched and built again")
	sha := w.commit("crash", good(map[string]string{"a/kustomization.yaml": kustomization}))
	w.ask(f)
	w.untilApplied(f, sha)
}
