package delivery

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// replaced is one file of the good repository with a text replaced; the text must be there.
func replaced(t *testing.T, path, old, now string) map[string]string {
	t.Helper()
	text := good()[path]
	require.Contains(t, text, old)
	return map[string]string{path: strings.Replace(text, old, now, 1)}
}

// TestBadCommits: each bad commit after a good one is refused with one sentence that names the place, on the Fleet, as an
// event and on the commit, and changes nothing in the cluster.
func TestBadCommits(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	cases := []struct {
		name, reason string
		change       map[string]string
		message      []string
	}{
		{"yaml syntax", "BuildFailed", replaced(t, "a/nodewright.yaml", "packages:", "packages: ["), []string{"a/nodewright.yaml:"}},
		{"unknown field", "ValidationFailed", replaced(t, "a/nodewright.yaml", "deploymentPolicy", "deploymentPolcy"),
			[]string{"a/nodewright.yaml:6", "NodeWright/gpu", "deploymentPolcy"}},
		{"wrong type", "ValidationFailed", replaced(t, "a/policy.yaml", "count: 2", "count: two"), []string{"a/policy.yaml:8", "count"}},
		{"percent and count", "ValidationFailed", replaced(t, "a/policy.yaml", "count: 2", "count: 2\n      percent: 10"),
			[]string{"a/policy.yaml:", "DeploymentPolicy/careful", "percent"}},
		{"cycle", "ValidationFailed", map[string]string{"a/nodewright.yaml": cycle}, []string{"a/nodewright.yaml:", "NodeWright/gpu"}},
		{"unknown policy", "ValidationFailed", replaced(t, "a/nodewright.yaml", "deploymentPolicy: careful", "deploymentPolicy: carefull"),
			[]string{"a/nodewright.yaml:6", "carefull"}},
		{"tag in image", "ValidationFailed", replaced(t, "a/package.yaml", "acme/tuning", "acme/tuning:1.0.0"),
			[]string{"a/package.yaml:6", "Package/tuning", "spec.image"}},
		{"duplicate key", "BuildFailed", replaced(t, "a/package.yaml", "  version: 1.0.0", "  version: 1.0.0\n  version: 1.0.1"),
			[]string{"a/package.yaml:8", "version"}},
		{"empty overlay", "EmptyBuild", map[string]string{"a/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"},
			[]string{"a", "no object"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w := w.in(t)
			name := strings.ReplaceAll(tc.name, " ", "-")
			first := w.repo(name, good())
			f := w.fleet(name, name)
			w.untilApplied(f, first)
			before := w.versions()

			bad := w.commit(name, tc.change)
			w.ask(f)
			now := w.untilReason(f, tc.reason)
			for _, part := range tc.message {
				require.Contains(t, ready(now).Message, part)
			}
			require.NotContains(t, ready(now).Message, "\n")
			require.Equal(t, metav1.ConditionFalse, ready(now).Status)
			require.True(t, has(now, meta.StalledCondition))
			require.False(t, has(now, meta.ReconcilingCondition))
			require.Equal(t, "main@sha1:"+bad, now.Status.LastAttemptedRevision)
			require.Equal(t, "main@sha1:"+first, now.Status.LastAppliedRevision)
			require.Len(t, now.Status.Inventory.Entries, 3)
			require.NotEmpty(t, now.Status.Findings)
			require.Equal(t, before, w.versions(), "nothing changes in the cluster")
			w.untilEvent("Fleet", name, tc.reason, tc.message[0])
			require.Contains(t, w.untilNote(name, bad, "failure").Description, tc.message[0])
			w.untilNote(name, first, "pending")

			fixed := w.commit(name, good(map[string]string{"README": tc.name}))
			w.ask(f)
			now = w.untilApplied(f, fixed)
			require.False(t, has(now, meta.StalledCondition))
			require.Empty(t, now.Status.Findings)
			w.untilEvent("Fleet", name, "Recovered", tc.message[0])
			w.clean()
		})
	}
}

const cycle = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: gpu
spec:
  deploymentPolicy: careful
  packages:
    aa: {image: ghcr.io/acme/a, version: 1.0.0, dependsOn: {bb: 1.0.0}}
    bb: {image: ghcr.io/acme/b, version: 1.0.0, dependsOn: {aa: 1.0.0}}
`

// TestBadSources: what is wrong with the source is one sentence and an event; it is tried again, and heals by itself.
func TestBadSources(t *testing.T) {
	signer, identity, err := gitserver.NewKey("")
	require.NoError(t, err)
	out := &outage{}
	w := newWorld(t, gitserver.Options{Username: "git", Password: "s3cret-pass", AuthorizedKeys: authorized(signer), Wrap: out.wrap})
	foreign, _, err := gitserver.NewKey("")
	require.NoError(t, err)
	w.secret("right", map[string]string{"username": "git", "password": "s3cret-pass"})
	w.secret("wrong", map[string]string{"username": "git", "password": "wr0ng-pass"})
	w.secret("ssh", map[string]string{"identity": string(identity), "known_hosts": knownHosts(w.git, w.git.HostKeys()[0])})
	w.secret("ssh-stranger", map[string]string{"identity": string(identity), "known_hosts": knownHosts(w.git, foreign.PublicKey())})

	w.secret("public", map[string]string{"author.pub": string(ssh.MarshalAuthorizedKey(foreign.PublicKey()))})

	good1 := w.repo("fleet", good())
	cases := []struct {
		name, reason, message string
		stalled               bool
		edit                  func(*fleetv1.Fleet)
	}{
		{"missing-path", "BuildFailed", "b", true, func(f *fleetv1.Fleet) { f.Spec.Path = "./b" }},
		{"missing-branch", "RefNotFound", `branch "nope"`, false, func(f *fleetv1.Fleet) { f.Spec.Source.Ref = &fleetv1.GitRef{Branch: "nope"} }},
		{"wrong-credentials", "AuthenticationFailed", "", false, func(f *fleetv1.Fleet) { f.Spec.Source.SecretRef.Name = "wrong" }},
		{"no-secret", "InvalidSecret", "Secret fleetwright/none does not exist", false, func(f *fleetv1.Fleet) { f.Spec.Source.SecretRef.Name = "none" }},
		{"host-key", "HostKey", "", false, func(f *fleetv1.Fleet) {
			f.Spec.Source.URL, f.Spec.Source.SecretRef.Name = w.git.SSHURL("fleet"), "ssh-stranger"
		}},
		{"unreachable", "Unreachable", "", false, func(f *fleetv1.Fleet) { f.Spec.Source.URL = "http://127.0.0.1:1/fleet.git" }},
		{"promotion", "PromotionRefused", "spec.promotion", true, func(f *fleetv1.Fleet) {
			f.Spec.Promotion = &fleetv1.Promotion{After: []fleetv1.PromotionGate{{Context: "fleetwright/fleetwright/promotion"}}} // its own
		}},
		{"verify-no-secret", "InvalidSecret", "Secret fleetwright/keys does not exist", false, func(f *fleetv1.Fleet) {
			f.Spec.Source.Verify = &fleetv1.Verification{Mode: fleetv1.VerifyHEAD, SecretRef: meta.LocalObjectReference{Name: "keys"}}
		}},
		{"verify-tag-of-branch", "InvalidRef", `but the source follows branch "main"`, true, func(f *fleetv1.Fleet) {
			f.Spec.Source.Verify = &fleetv1.Verification{Mode: fleetv1.VerifyTag, SecretRef: meta.LocalObjectReference{Name: "public"}}
		}},
		{"pull-requests", "UnsupportedSpec", "spec.checks.pullRequests", true, func(f *fleetv1.Fleet) {
			f.Spec.Checks.PullRequests = &fleetv1.PullRequestChecks{Plan: true}
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			w := w.in(t)
			right := func(f *fleetv1.Fleet) { f.Spec.Source.SecretRef = &meta.LocalObjectReference{Name: "right"} }
			f := w.fleet(tc.name, "fleet", right)
			w.untilApplied(f, good1)
			before, original := w.versions(), w.get(f).Spec

			w.edit(f, tc.edit)
			now := w.until(f, func(now *fleetv1.Fleet) bool {
				return strings.HasPrefix(ready(now).Reason, tc.reason) && ready(now).ObservedGeneration == now.Generation
			})
			require.Contains(t, ready(now).Message, tc.message)
			require.NotContains(t, ready(now).Message, "\n")
			require.Equal(t, metav1.ConditionFalse, ready(now).Status)
			require.Equal(t, tc.stalled, has(now, meta.StalledCondition))
			require.Equal(t, !tc.stalled, has(now, meta.ReconcilingCondition))
			require.Equal(t, before, w.versions(), "nothing changes in the cluster")
			w.untilEvent("Fleet", tc.name, ready(now).Reason, tc.message)
			for _, secret := range []string{"s3cret-pass", "wr0ng-pass"} {
				require.NotContains(t, everything(w, now), secret)
			}

			w.edit(f, func(f *fleetv1.Fleet) { f.Spec = original })
			w.untilReason(f, "Progressing")
			w.clean()
		})
	}
	t.Run("ssh", func(t *testing.T) {
		w := w.in(t)
		f := w.fleet("ssh", "fleet", func(f *fleetv1.Fleet) {
			f.Spec.Source.URL, f.Spec.Source.SecretRef = w.git.SSHURL("fleet"), &meta.LocalObjectReference{Name: "ssh"}
		})
		w.untilApplied(f, good1)
		require.Eventually(t, func() bool { return speaks(w.notes("fleet", good1), "fleetwright/fleetwright/ssh") }, patience, moment)
		w.clean()
	})
	t.Run("deleted branch", func(t *testing.T) {
		w := w.in(t)
		w.repo("gone", good())
		f := w.fleet("deleted-branch", "gone", func(f *fleetv1.Fleet) { f.Spec.Source.SecretRef = &meta.LocalObjectReference{Name: "right"} })
		w.until(f, func(now *fleetv1.Fleet) bool { return now.Status.LastAppliedRevision != "" })
		before := w.versions()
		require.NoError(t, w.git.DeleteBranch("gone", "main"))
		w.ask(f)
		now := w.until(f, func(now *fleetv1.Fleet) bool { return ready(now).Status == metav1.ConditionFalse })
		require.Contains(t, []string{"RefNotFound", "EmptyRepository"}, ready(now).Reason)
		require.Equal(t, before, w.versions())
		w.clean()
	})
	t.Run("server down", func(t *testing.T) {
		w := w.in(t)
		f := w.fleet("down", "fleet", func(f *fleetv1.Fleet) { f.Spec.Source.SecretRef = &meta.LocalObjectReference{Name: "right"} })
		w.untilApplied(f, good1)
		before := w.versions()
		out.set(true)
		w.ask(f)
		now := w.until(f, func(now *fleetv1.Fleet) bool { return ready(now).Status == metav1.ConditionFalse })
		require.True(t, has(now, meta.ReconcilingCondition), "it is tried again")
		require.Equal(t, before, w.versions(), "a git outage never touches the cluster")
		w.play("gpu", completed)
		w.until(f, func(now *fleetv1.Fleet) bool { return now.Status.LastRolledOutRevision == "main@sha1:"+good1 })
		out.set(false)
		w.untilReason(f, "ReconciliationSucceeded")
		w.untilNote("fleet", good1, "success")
		w.untilEvent("Fleet", "down", "Recovered", "")
	})
}

// TestScope: what the cluster does not allow this repository is refused with the place.
func TestScope(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	w.repo("fleet", good())
	f := w.fleet("scope", "fleet", func(f *fleetv1.Fleet) { f.Spec.Scope = &fleetv1.Scope{Images: []string{"ghcr.io/other/*"}} })
	now := w.untilReason(f, "ValidationFailed")
	require.Contains(t, ready(now).Message, "a/package.yaml:6")
	require.Empty(t, w.versions())
}
