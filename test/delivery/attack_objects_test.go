package delivery

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// turnstile holds up requests to a git server on their way.
type turnstile struct {
	mu      sync.Mutex
	holds   func(*http.Request) bool
	opened  chan struct{}
	reached chan struct{}
	held    atomic.Int32 // requests that it has held up
}

// close holds up from now on what the function chooses; reached tells of the first.
func (g *turnstile) close(holds func(*http.Request) bool) (reached <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.opened, g.reached = holds, make(chan struct{}), make(chan struct{}, 1)
	return g.reached
}

func (g *turnstile) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holds != nil {
		g.holds = nil
		close(g.opened)
	}
}

func (g *turnstile) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		held, opened, reached := g.holds != nil && g.holds(r), g.opened, g.reached
		g.mu.Unlock()
		if held {
			g.held.Add(1)
			select {
			case reached <- struct{}{}:
			default:
			}
			select {
			case <-opened:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(rw, r)
	})
}

// isFetch tells the transfer of a commit from the look at the refs.
func isFetch(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "git-upload-pack")
}

func slow(f *fleetv1.Fleet) {
	f.Spec.Interval.Duration, f.Spec.Timeout.Duration = time.Hour, time.Minute
}

// TestNamespaceOfAnOverlayDeletesNothing: kustomize writes the namespace into every object, also of kinds that have none. The
// object is the same with and without it.
func TestNamespaceOfAnOverlayDeletesNothing(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("namespaced", "fleet", slow)
	w.untilApplied(f, first)
	before, err := w.nodeWright()
	require.NoError(t, err)

	second := w.commit("fleet", map[string]string{"a/kustomization.yaml": kustomization + "namespace: fleetwright\n"})
	w.ask(f)
	now := w.untilApplied(f, second)
	after, err := w.nodeWright()
	require.NoError(t, err, "the NodeWright is still there")
	require.Equal(t, before.UID, after.UID, "it was not deleted and created again")
	require.Len(t, w.versions(), 3)
	require.Equal(t, "_gpu_nodewright.nvidia.com_NodeWright", now.Status.Inventory.Entries[1].ID)

	w.commit("fleet", map[string]string{
		"b/kustomization.yaml": "namespace: elsewhere\nresources: [package.yaml]\n", "b/package.yaml": packageFile,
	})
	thief := w.fleet("thief", "fleet", func(f *fleetv1.Fleet) { f.Spec.Path = "./b" })
	w.untilReason(thief, "OwnedByOtherFleet")
}

// TestRecreatedFleetIsLookedAtAfresh: what the process remembers of a Fleet does not pass to another one of its name.
func TestRecreatedFleetIsLookedAtAfresh(t *testing.T) {
	gate := &turnstile{}
	w := newWorld(t, gitserver.Options{Wrap: gate.wrap})
	sha := w.repo("fleet", good(map[string]string{
		"b/kustomization.yaml": "resources: [package.yaml]\n",
		"b/package.yaml":       strings.Replace(packageFile, "name: tuning", "name: other", 1),
	}))
	f := w.fleet("again", "fleet", slow)
	w.untilApplied(f, sha)
	w.play("gpu", completed)
	w.untilReason(f, "ReconciliationSucceeded")

	reached := gate.close(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "info/refs") })
	w.edit(f, func(f *fleetv1.Fleet) {
		metav1.SetMetaDataAnnotation(&f.ObjectMeta, fleetv1.RequestedAtAnnotation, "now")
	})
	<-reached // the worker is busy with the old Fleet
	require.NoError(t, w.admin.Delete(t.Context(), f))
	again := w.fleet("again", "fleet", slow, func(f *fleetv1.Fleet) { f.Spec.Path = "./b" })
	gate.open()
	now := w.untilApplied(again, sha)
	require.Len(t, now.Status.Inventory.Entries, 1)
	require.Equal(t, "_other_fleetwright.dev_Package", now.Status.Inventory.Entries[0].ID)
}

// TestChangeOfTheFleetDuringAPassIsNotLost: a pass that loses the race for the Fleet is run again in full, also when the
// interval is long.
func TestChangeOfTheFleetDuringAPassIsNotLost(t *testing.T) {
	gate := &turnstile{}
	w := newWorld(t, gitserver.Options{Wrap: gate.wrap})
	sha := w.repo("fleet", good(map[string]string{
		"b/kustomization.yaml": "resources: [package.yaml]\n",
		"b/package.yaml":       strings.Replace(packageFile, "name: tuning", "name: other", 1),
	}))
	f := w.fleet("changed", "fleet", slow)
	w.untilApplied(f, sha)

	reached := gate.close(isFetch)
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Path = "./b" })
	<-reached // the new generation is announced, and the commit is being fetched
	w.edit(f, func(f *fleetv1.Fleet) { metav1.SetMetaDataAnnotation(&f.ObjectMeta, "example.com/note", "hello") })
	gate.open()
	now := w.until(f, func(now *fleetv1.Fleet) bool {
		return now.Status.Inventory != nil && len(now.Status.Inventory.Entries) == 1
	})
	require.Equal(t, "_other_fleetwright.dev_Package", now.Status.Inventory.Entries[0].ID)
	w.untilReason(f, "ReconciliationSucceeded")
}

// TestOtherPathOfTheSameCommitIsNoDrift: nobody deleted what the Fleet has not delivered before.
func TestOtherPathOfTheSameCommitIsNoDrift(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good(map[string]string{
		"b/kustomization.yaml": "resources: [package.yaml]\n",
		"b/package.yaml":       strings.Replace(packageFile, "name: tuning", "name: other", 1),
	}))
	f := w.fleet("moved", "fleet", slow)
	w.untilApplied(f, sha)
	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Path = "./b" })
	w.untilReason(f, "ReconciliationSucceeded")
	w.untilEvent("Fleet", "moved", "Applied", "Package/other created")
	require.NotContains(t, everything(w, f), "deleted outside git")
}

// TestVerdictFollowsTheCluster: a commit that is refused for want of an object that another Fleet delivers is good as soon as
// the object is there; nobody has to ask.
func TestVerdictFollowsTheCluster(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	sha := w.repo("fleet", good(map[string]string{
		"a/kustomization.yaml": "resources: [nodewright.yaml]\n",
		"b/kustomization.yaml": "resources: [package.yaml, policy.yaml]\n", "b/package.yaml": packageFile, "b/policy.yaml": policyFile,
	}))
	wrights := w.fleet("wrights", "fleet")
	now := w.untilReason(wrights, "ValidationFailed")
	require.Contains(t, ready(now).Message, `there is no DeploymentPolicy "careful"`)
	w.fleet("catalogue", "fleet", func(f *fleetv1.Fleet) { f.Spec.Path = "./b" })
	w.untilApplied(wrights, sha)
}

// TestRefusedRevisionClaimsNothing: what the server refuses is not the Fleet's, and the revision before it can still succeed.
func TestRefusedRevisionClaimsNothing(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("claims", "fleet", slow)
	w.untilApplied(f, first)
	w.forbid("object.spec.?priority.orValue(200) != 77", "priority 77 is reserved")
	w.commit("fleet", map[string]string{
		"a/kustomization.yaml": kustomization + "  - second.yaml\n",
		"a/second.yaml":        strings.ReplaceAll(nodeWrightFile, "name: gpu", "name: second") + "  priority: 77\n",
	})
	w.ask(f)
	now := w.untilReason(f, "RefusedByServer")
	require.Len(t, now.Status.Inventory.Entries, 3)
	w.play("gpu", completed)
	w.untilNote("fleet", first, "success")
}

// TestHugeWordsFitIntoTheStatus: a finding about a key of many kilobytes is cut, and still written.
func TestHugeWordsFitIntoTheStatus(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	var huge strings.Builder
	huge.WriteString(nodeWrightFile)
	for i := range 30 {
		huge.WriteString("  ? " + string(rune('a'+i%26)) + strings.Repeat("é", 40_000+i) + "\n  : 1\n")
	}
	sha := w.repo("fleet", good(map[string]string{"a/nodewright.yaml": huge.String()}))
	f := w.fleet("huge", "fleet", slow)
	now := w.untilReason(f, "ValidationFailed")
	require.Contains(t, ready(now).Message, "a/nodewright.yaml:")
	require.Less(t, len(ready(now).Message), 4000)
	require.Len(t, now.Status.Findings, 20)
	w.untilNote("fleet", sha, "failure")
}

// TestObjectThatOnlyStorageRefuses: a dry run does not store, so the limit of the storage has to be known before the first
// write.
func TestObjectThatOnlyStorageRefuses(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("large", "fleet", slow)
	w.untilApplied(f, first)
	before := w.versions()
	var large strings.Builder
	large.WriteString(strings.Replace(policyFile, "name: careful", "name: fresh", 1) + "---\n" + packageFile)
	for i := range 20 {
		large.WriteString("    file" + string(rune('a'+i)) + ": " + strings.Repeat("x", 100_000) + "\n")
	}
	bad := w.commit("fleet", map[string]string{"a/package.yaml": large.String()})
	w.ask(f)
	now := w.until(f, func(now *fleetv1.Fleet) bool { return ready(now).Status == metav1.ConditionFalse })
	require.Equal(t, "ValidationFailed", ready(now).Reason, ready(now).Message)
	require.Contains(t, ready(now).Message, "bytes")
	require.Equal(t, before, w.versions(), "nothing is half applied")
	w.untilNote("fleet", bad, "failure")
}

// TestManifestThatWasExportedFromACluster: fields that belong to the server are refused with their place.
func TestManifestThatWasExportedFromACluster(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	exported := strings.Replace(policyFile, "  name: careful\n", "  name: careful\n  creationTimestamp: \"2026-01-01T00:00:00Z\"\n"+
		"  generation: 3\n  resourceVersion: \"1234\"\n  uid: 0b6cb2ad-6b1f-4b0e-8f5e-0a2b6e8a2b1c\n", 1)
	w.repo("fleet", good(map[string]string{"a/policy.yaml": exported}))
	f := w.fleet("exported", "fleet", slow)
	now := w.until(f, func(now *fleetv1.Fleet) bool { return ready(now).Status == metav1.ConditionFalse })
	require.Equal(t, "ValidationFailed", ready(now).Reason, ready(now).Message)
	require.Contains(t, ready(now).Message, "a/policy.yaml:")
	require.Empty(t, w.versions())
}

// TestHungServersDelayNobody: more Fleets than there are workers wait for a server that never answers.
func TestHungServersDelayNobody(t *testing.T) {
	gate := &turnstile{}
	w := newWorld(t, gitserver.Options{Wrap: gate.wrap})
	w.repo("hung", good())
	silent, err := gitserver.New(t.TempDir(), gitserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	gate.close(func(*http.Request) bool { return true })
	t.Cleanup(gate.open)
	for i := range 12 {
		w.fleet("hung-"+string(rune('a'+i)), "hung", func(f *fleetv1.Fleet) { f.Spec.Timeout.Duration = time.Hour })
	}
	require.Eventually(t, func() bool { return gate.held.Load() == 3 }, patience, 20*time.Millisecond, "as many hang as may ask one host")
	require.NoError(t, silent.CreateRepo("fleet"))
	sha, err := silent.Commit("fleet", good(), "change")
	require.NoError(t, err)
	f := w.fleet("lively", "fleet", func(f *fleetv1.Fleet) { f.Spec.Source.URL, f.Spec.Checks = silent.URL("fleet"), nil })
	w.untilApplied(f, sha)
}
