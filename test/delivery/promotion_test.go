package delivery

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

const (
	canaryContext = "fleetwright/canary"
	eastFile      = "b/nodewright.yaml"
)

// regions is a repository with two overlays: canary in a, a region in b.
func regions(version string) map[string]string {
	east := strings.ReplaceAll(nodeWrightFile, "name: gpu\n", "name: gpu-east\n")
	east = strings.ReplaceAll(east, "  deploymentPolicy: careful\n", "")
	east = strings.ReplaceAll(east, "packageRef:\n        name: tuning", "image: ghcr.io/acme/tuning\n      version: "+version)
	return good(map[string]string{
		"a/package.yaml":       strings.ReplaceAll(packageFile, "1.0.0", version),
		"b/kustomization.yaml": "resources: [nodewright.yaml]\n", eastFile: east,
	})
}

func inRegion(after ...fleetv1.PromotionGate) func(*fleetv1.Fleet) {
	return func(f *fleetv1.Fleet) {
		f.Spec.Path, f.Spec.Promotion = "./b", &fleetv1.Promotion{After: after}
	}
}

func after(context string, soak time.Duration) fleetv1.PromotionGate {
	return fleetv1.PromotionGate{Context: context, Soak: &metav1.Duration{Duration: soak}}
}

func (w *world) canary(repo string) *fleetv1.Fleet {
	return w.fleet("canary", repo, func(f *fleetv1.Fleet) { f.Spec.Checks.Context = canaryContext })
}

// says waits until the Fleet's last note on the commit reads as wanted.
func (w *world) says(repo, sha, context, want string) {
	w.t.Helper()
	var last []string
	require.Eventually(w.t, func() bool {
		last = nil
		for _, n := range w.notes(repo, sha) {
			if n.Context == context {
				last = append(last, n.State+": "+n.Description)
			}
		}
		return len(last) > 0 && last[len(last)-1] == want
	}, patience, moment, "want %q; seen: %v", want, &last)
}

// show writes a status as somebody else does.
func (w *world) show(repo, sha, context string, state forge.State) {
	w.t.Helper()
	notes := forge.NewGitNotes(forge.GitNotesConfig{URL: w.git.URL(repo)})
	require.NoError(w.t, notes.SetStatus(w.t.Context(), forge.Status{Commit: sha, Context: context, State: state, Description: "by somebody else"}))
}

func (w *world) version(nodeWright string) string {
	nw := &nwv1.NodeWright{}
	if w.admin.Get(w.t.Context(), client.ObjectKey{Name: nodeWright}, nw) != nil {
		return ""
	}
	return nw.Spec.Packages["tuning"].Version
}

// TestPromotion follows commits from the canary to a region: the soak goes on over a restart, what is applied is kept meanwhile, a
// canary that fails stops the region, and the fix goes through.
func TestPromotion(t *testing.T) {
	const soak = 4 * time.Second
	const region = "fleetwright/fleetwright/east"
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", regions("1.0.0"))
	w.canary("fleet")
	east := w.fleet("east", "fleet", inRegion(after(canaryContext, soak)))

	now := w.untilReason(east, "WaitingForPromotion")
	require.Equal(t, metav1.ConditionUnknown, ready(now).Status)
	require.True(t, has(now, "Reconciling"))
	w.untilNote("fleet", first, "pending")
	w.ask(east)
	w.says("fleet", first, region, "pending: waits for fleetwright/canary: pending")
	w.untilEvent("Fleet", "east", "WaitingForPromotion", "waits for fleetwright/canary")
	require.Empty(t, w.version("gpu-east"))

	w.play("gpu", completed)
	w.says("fleet", first, canaryContext, "success: 24/24 nodes complete")
	now = w.ask(east)
	require.NotNil(t, now.Status.Promotion, "the soak has only begun")
	since := now.Status.Promotion.Gates[0].Since
	require.NotNil(t, since)
	w.kill() // in the middle of the soak
	require.Empty(t, w.version("gpu-east"))
	w.start()
	now = w.until(east, func(now *fleetv1.Fleet) bool {
		if p := now.Status.Promotion; p != nil {
			require.Equal(t, since, p.Gates[0].Since, "the soak goes on over the restart")
		}
		return now.Status.LastAppliedRevision == "main@sha1:"+first
	})
	require.Nil(t, now.Status.Promotion)
	require.False(t, time.Now().Before(since.Add(soak)), "not before the end of the soak")
	w.untilEvent("Fleet", "east", "Promoted", "is promoted after fleetwright/canary")
	w.play("gpu-east", completed)
	w.says("fleet", first, region, "success: 24/24 nodes complete")

	second := w.commit("fleet", regions("1.1.0"))
	w.ask(east)
	w.drift("gpu-east", "9.9.9")
	w.untilVersion("gpu-east", "1.0.0") // what is applied is kept while another commit waits
	w.kill()
	w.drift("gpu-east", "9.9.9")
	w.start()
	w.untilVersion("gpu-east", "1.0.0")
	w.until(east, func(now *fleetv1.Fleet) bool { return now.Status.LastAppliedRevision == "main@sha1:"+first })
	w.play("gpu-east", completed)
	w.play("gpu", haltedAt("gpu-7"))
	w.says("fleet", second, canaryContext, "failure: halted: node gpu-7: package tuning 1.1.0, stage apply: exit code 3")
	now = w.ask(east)
	w.says("fleet", second, region, "pending: held back: fleetwright/canary is failure")
	w.untilEvent("Fleet", "east", "HeldBack", "held back: fleetwright/canary is failure")
	require.Equal(t, "main@sha1:"+second[:12]+" held back: fleetwright/canary is failure; main@sha1:"+first[:12]+": 24/24 nodes complete", ready(now).Message)
	require.Equal(t, "1.0.0", w.version("gpu-east"))

	fixed := w.commit("fleet", regions("1.1.1"))
	w.until(east, func(now *fleetv1.Fleet) bool { return strings.HasSuffix(now.Status.LastAttemptedRevision, fixed) })
	require.Eventually(t, func() bool { return w.packageVersion("tuning") == "1.1.1" }, patience, moment)
	w.play("gpu", func(s *nwv1.NodeWrightStatus) { completed(s); s.CompartmentStatuses = nil })
	w.says("fleet", fixed, canaryContext, "success: 24/24 nodes complete")
	w.ask(east)
	w.untilApplied(east, fixed)
	require.Equal(t, "1.1.1", w.version("gpu-east"))
	w.says("fleet", second, region, "error: superseded by "+fixed[:12])
}

func haltedAt(node string) func(*nwv1.NodeWrightStatus) {
	return func(s *nwv1.NodeWrightStatus) {
		s.Status, s.CompleteNodes, s.NodesFailed = nwv1.StatusErroring, "3/24", 1
		s.CompartmentStatuses = map[string]nwv1.CompartmentStatus{
			"default": {Matched: 24, Completed: 3, Failed: 1, BatchState: &nwv1.BatchState{CurrentBatch: 2, ShouldStop: true}},
		}
		s.Reasons = []nwv1.ReasonCount{{
			Reason: "PackageFailed", Count: 1, Nodes: []string{node}, Message: "package tuning 1.1.0, stage apply: exit code 3",
		}}
	}
}

// drift changes an object as somebody with kubectl does.
func (w *world) drift(nodeWright, version string) {
	w.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"packages":{"tuning":{"version":"`+version+`"}}}}`))
	require.NoError(w.t, w.admin.Patch(w.t.Context(), &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: nodeWright}}, patch))
}

func (w *world) untilVersion(nodeWright, version string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.version(nodeWright) == version }, patience, moment)
}

func (w *world) packageVersion(name string) string {
	p := &fleetv1.Package{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, p))
	return p.Spec.Version
}

// TestPromotionByOthers: a status of any writer counts; a gate that fails later takes nothing away; a force push is gated like any
// commit; a person lets one commit through.
func TestPromotionByOthers(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", regions("1.0.0"))
	east := w.fleet("east", "fleet", inRegion(after("ci/soak-test", 0), after("security", 0)))
	w.untilReason(east, "WaitingForPromotion")
	w.show("fleet", first, "ci/soak-test", forge.Success)
	w.ask(east)
	w.says("fleet", first, "fleetwright/fleetwright/east", "pending: waits for security: no status yet")
	w.show("fleet", first, "security", forge.Success)
	w.ask(east)
	w.untilApplied(east, first)

	w.show("fleet", first, "security", forge.Failure)
	w.drift("gpu-east", "9.9.9")
	w.untilVersion("gpu-east", "1.0.0")
	now := w.ask(east)
	require.Nil(t, now.Status.Promotion, "what is applied is not held back again")
	require.Equal(t, "Progressing", ready(now).Reason)

	second := w.commit("fleet", regions("1.1.0"))
	w.ask(east)
	w.says("fleet", second, "fleetwright/fleetwright/east", "pending: waits for ci/soak-test: no status yet; security: no status yet")
	_, err := w.git.Git("fleet", "update-ref", "refs/heads/main", first)
	require.NoError(t, err)
	third := w.commit("fleet", regions("1.2.0"))
	w.show("fleet", second, "ci/soak-test", forge.Success)
	w.show("fleet", second, "security", forge.Success)
	w.ask(east)
	w.says("fleet", second, "fleetwright/fleetwright/east", "error: superseded by "+third[:12])
	require.Equal(t, "1.0.0", w.version("gpu-east"), "the statuses of the commit that was pushed away count for nothing")
	require.Equal(t, "WaitingForPromotion", ready(w.get(east)).Reason)

	promote := func(commit string) {
		w.edit(east, func(f *fleetv1.Fleet) { metav1.SetMetaDataAnnotation(&f.ObjectMeta, fleetv1.PromoteAnnotation, commit) })
	}
	promote(second)
	w.ask(east)
	require.Equal(t, "1.0.0", w.version("gpu-east"), "another commit was let through")
	promote(third[:10])
	w.says("fleet", third, "fleetwright/fleetwright/east", "pending: waits for ci/soak-test: no status yet; security: no status yet; "+
		"the annotation fleetwright.dev/promote has to hold the whole hash")
	promote(third)
	now = w.untilApplied(east, third)
	require.Equal(t, "1.2.0", w.version("gpu-east"))
	require.Contains(t, ready(now).Message, ", promoted by hand")
	w.untilEvent("Fleet", "east", "PromotedByHand", third+" is promoted by hand and waits no longer (waits for ci/soak-test: no status yet")

	fourth := w.commit("fleet", regions("1.3.0"))
	now = w.ask(east)
	require.Equal(t, "main@sha1:"+fourth, now.Status.Promotion.Revision, "that one commit was let through, and no other")
	w.edit(east, func(f *fleetv1.Fleet) { f.Spec.Suspend = true })
	w.show("fleet", fourth, "ci/soak-test", forge.Success)
	w.show("fleet", fourth, "security", forge.Success)
	w.says("fleet", fourth, "fleetwright/fleetwright/east", "pending: suspended before it was applied")
	require.Equal(t, "1.2.0", w.version("gpu-east"))
	w.edit(east, func(f *fleetv1.Fleet) { f.Spec.Suspend = false })
	w.untilApplied(east, fourth)
}

// TestPromotionThatCannotBe is refused, or waits for what can be mended.
func TestPromotionThatCannotBe(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	w.repo("fleet", regions("1.0.0"))
	refused := func(name, want string, edit ...func(*fleetv1.Fleet)) *fleetv1.Fleet {
		f := w.fleet(name, "fleet", edit...)
		now := w.untilReason(f, "PromotionRefused")
		require.Equal(t, want, ready(now).Message)
		require.True(t, has(now, "Stalled"))
		require.Empty(t, now.Status.LastAttemptedRevision)
		return f
	}
	refused("mute", "spec.promotion.after needs spec.checks: without it there is nothing to read statuses from",
		inRegion(after("canary", 0)), func(f *fleetv1.Fleet) { f.Spec.Checks = nil })
	refused("self", `spec.promotion.after[0].context "fleetwright/fleetwright/self" is the context of this Fleet itself: it would wait for ever`,
		inRegion(after("fleetwright/fleetwright/self", 0)))
	west := w.fleet("west", "fleet", inRegion(after("fleetwright/fleetwright/east", 0)))
	east := refused("east", "spec.promotion.after: Fleets wait for each other in a circle: fleetwright/east → fleetwright/west → fleetwright/east",
		inRegion(after("fleetwright/fleetwright/west", 0)))
	w.ask(west)
	require.Equal(t, "PromotionRefused", ready(w.get(west)).Reason)
	w.edit(west, func(f *fleetv1.Fleet) { f.Spec.Promotion = nil })
	w.ask(east)
	require.Equal(t, "WaitingForPromotion", ready(w.get(east)).Reason, "the circle was opened")

	locked := w.fleet("locked", "fleet", inRegion(after("canary", 0)), func(f *fleetv1.Fleet) {
		f.Spec.Checks.SecretRef = &fluxmeta.LocalObjectReference{Name: "not-there-yet"}
	})
	now := w.untilReason(locked, "StatusesUnreadable")
	require.Contains(t, ready(now).Message, "Secret fleetwright/not-there-yet does not exist")
	require.True(t, has(now, "Reconciling"), "it is tried again")
	w.secret("not-there-yet", map[string]string{"username": "u", "password": "p"})
	w.untilReason(locked, "WaitingForPromotion")
}

// TestCommandsOfThePromotionPage runs what docs/promotion.md shows.
func TestCommandsOfThePromotionPage(t *testing.T) {
	data, err := os.ReadFile("../../docs/promotion.md")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindStringSubmatch(string(data))[1]), "\n")
	require.Len(t, lines, 2)
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", regions("1.0.0"))
	f := w.fleet("us-east-1", "fleet", inRegion(after(canaryContext, time.Hour)))
	w.untilReason(f, "WaitingForPromotion")

	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "fleetwright"), "../../cmd/fleetwright").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, cluster.WriteKubeconfig(filepath.Join(dir, "kubeconfig"), cluster.Shared(t).Config()))
	shell := func(line string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(line, "COMMIT", sha[:9]))
		cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	require.Equal(t, "Fleet fleetwright/us-east-1: fleetwright.dev/promote: \""+sha+"\" would be set\ncommit "+sha+
		" is applied without waiting any longer (waits for fleetwright/canary: no status yet)\n", shell(lines[0]))
	require.Empty(t, w.get(f).Annotations[fleetv1.PromoteAnnotation])
	shell(lines[1])
	w.untilApplied(f, sha)
}
