package review

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

const (
	waits = "somebody who may label it can add fleetwright/plan"
	old   = "may be for an earlier commit"
)

// TestDeliveryReport_PP10_ALabelOnAForkHoldsForOneCommit: nothing of a fork is planned before the label, and a push after it needs it anew, also
// if the reviewer was away meanwhile.
func TestDeliveryReport_PP10_ALabelOnAForkHoldsForOneCommit(t *testing.T) {
	w := newWorld(t)
	p := w.pull(true, gitserver.Change{Files: more()})
	f := w.fleet("us")
	require.Contains(t, w.until(f, p.Head, "failure"), waits, "the check does not hang, and says what to do")
	require.Contains(t, w.untilComment(p, "## Plan for"), waits)
	w.label(p, "bug", fleetv1.ForkLabel)
	w.look(f)
	require.Equal(t, "3 nodes reboot", w.until(f, p.Head, "success"))

	w.kill()
	next := w.push(p, gitserver.Change{Files: map[string]string{"a/x.txt": "x"}})
	w.start()
	require.Equal(t, "failure", w.untilText(f, next, old).State)
	w.label(p)
	w.look(f)
	require.Equal(t, "failure", w.untilText(f, next, waits).State)
	w.label(p, fleetv1.ForkLabel)
	w.look(f)
	require.Equal(t, "3 nodes reboot", w.until(f, next, "success"))
	require.Len(t, w.forge.Comments(p.Number), 1)
}

func TestForkPolicies(t *testing.T) {
	w := newWorld(t)
	p := w.pull(true, gitserver.Change{Files: more()})
	w.label(p, fleetv1.ForkLabel)
	never := w.fleet("never", func(f *fleetv1.Fleet) { f.Spec.Checks.PullRequests.Forks = fleetv1.ForksNever })
	always := w.fleet("always", func(f *fleetv1.Fleet) { f.Spec.Checks.PullRequests.Forks = fleetv1.ForksAlways })
	silent := w.fleet("silent", func(f *fleetv1.Fleet) { f.Spec.Checks.PullRequests.Plan = false })
	require.Contains(t, w.until(never, p.Head, "failure"), "this Fleet plans none")
	require.Equal(t, "3 nodes reboot", w.until(always, p.Head, "success"))
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(w.forge.Comments(p.Number), ""), old) }, patience, moment)
	require.Empty(t, w.status(silent, p.Head).State, "a comment alone")
}

// TestDeliveryReport_PP10_EveryEscapeFromABuildEndsAsAFailure tries, in a pull request from a fork that somebody let through, what the reports about
// builds tell of. Each ends as a failure with a place, and nobody is called.
func TestDeliveryReport_PP10_EveryEscapeFromABuildEndsAsAFailure(t *testing.T) {
	w := newWorld(t)
	var called atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	t.Cleanup(trap.Close)
	secret := t.TempDir() + "/token"
	require.NoError(t, os.WriteFile(secret, []byte("s3cret"), 0o600))
	host, _, err := net.SplitHostPort(strings.TrimPrefix(trap.URL, "http://"))
	require.NoError(t, err)
	kustomization := func(lines string) gitserver.Change {
		return gitserver.Change{Files: map[string]string{"a/kustomization.yaml": "resources:\n  - gpu.yaml\n" + lines}}
	}
	escapes := map[string]gitserver.Change{
		"remote file":         kustomization("  - " + trap.URL + "/base.yaml\n"),
		"remote base":         kustomization("  - git::http://" + host + "/acme/base\n"),
		"remote patch":        kustomization("patches:\n  - path: " + trap.URL + "/patch.yaml\n"),
		"file of the machine": kustomization("  - " + secret + "\n"),
		"out of the tree":     kustomization("  - ../../../../../../.." + secret + "\n"),
		"generator":           kustomization("configMapGenerator:\n  - name: x\n    files: [" + secret + "]\n"),
		"plugin":              kustomization("generators:\n  - gpu.yaml\n"),
		"helm":                kustomization("helmCharts:\n  - name: x\n    repo: " + trap.URL + "\n"),
		"openapi":             kustomization("openapi:\n  path: " + secret + "\n"),
		"replacements":        kustomization("replacements:\n  - path: " + secret + "\n"),
		"cycle":               {Files: map[string]string{"a/kustomization.yaml": "resources:\n  - ../b\n", "b/kustomization.yaml": "resources:\n  - ../a\n"}},
		"link":                {Links: map[string]string{"a/gpu.yaml": secret}},
		"alias bomb":          {Files: map[string]string{"a/gpu.yaml": aliasBomb()}},
		"integer keys":        {Files: map[string]string{"a/gpu.yaml": "{1: a, true: b, null: c}\n"}},
		"panic":               kustomization("patches: [null]\n"),
	}
	heads, numbers := map[string]string{}, map[string]int64{}
	for name, change := range escapes {
		p := w.pull(true, change)
		heads[name], numbers[name] = p.Head, p.Number
	}
	f := w.fleet("us", func(f *fleetv1.Fleet) { f.Spec.Checks.PullRequests.Forks = fleetv1.ForksAlways })
	for name, head := range heads {
		text := w.until(f, head, "failure")
		require.Regexp(t, `^[ab]/[a-z.]+:`, text, name)
		require.NotContains(t, text+strings.Join(w.forge.Comments(numbers[name]), ""), "s3cret", name)
	}
	require.Zero(t, called.Load(), "nobody was called")
}

// aliasBomb is small as text and large as YAML.
func aliasBomb() string {
	out := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := byte('1'); i <= '9'; i++ {
		before := "*a" + string(i-1)
		out += "a" + string(i) + ": &a" + string(i) + " [" + strings.Repeat(before+", ", 8) + before + "]\n"
	}
	return out
}

// TestDeliveryReport_PP10_AMemoryBombIsAFailureAndTheReviewerLives: a pull request that wants more memory than it may have is told so, and the others
// are planned.
func TestDeliveryReport_PP10_AMemoryBombIsAFailureAndTheReviewerLives(t *testing.T) {
	w := newWorld(t)
	w.kill()
	w.limits = sandbox.Limits{Memory: 192 << 20, CPU: 20 * time.Second}
	w.start()
	bomb := w.pull(false, gitserver.Change{Files: map[string]string{"a/gpu.yaml": "a: [" + strings.Repeat("[],", 1_300_000) + "[]]\n"}})
	fine := w.pull(false, gitserver.Change{Files: more()})
	f := w.fleet("us")
	require.Equal(t, "cannot be built: it needs more than the 192 MiB of memory that it may have", w.until(f, bomb.Head, "failure"))
	require.Contains(t, w.untilComment(bomb, "cannot be built"), "192 MiB")
	require.Equal(t, "3 nodes reboot", w.until(f, fine.Head, "success"))
}
