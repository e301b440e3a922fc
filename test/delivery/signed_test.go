package delivery

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/git/signature"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// signer signs the newest commit of a repository anew.
type signer struct {
	w      *world
	key    signature.Signer
	public string
	name   string
}

func newSigner(w *world) signer {
	key, private, err := gitserver.NewKey("")
	require.NoError(w.t, err)
	s, err := signature.NewSSHSigner(private, nil)
	require.NoError(w.t, err)
	return signer{w, s, string(ssh.MarshalAuthorizedKey(key.PublicKey())), ssh.FingerprintSHA256(key.PublicKey())}
}

// commit makes a signed commit.
func (s signer) commit(repo string, files map[string]string) string {
	t := s.w.t
	plain := s.w.commit(repo, files)
	text, err := s.w.git.Git(repo, "cat-file", "commit", plain)
	require.NoError(t, err)
	text += "\n"
	signed, err := s.key.Sign(bytes.NewReader([]byte(text)))
	require.NoError(t, err)
	header := "gpgsig " + strings.ReplaceAll(strings.TrimSpace(string(signed)), "\n", "\n ")
	sha, err := s.w.git.HashObject(repo, "commit", []byte(strings.Replace(text, "\n\n", "\n"+header+"\n\n", 1)))
	require.NoError(t, err)
	require.NoError(t, s.w.git.ForcePush(repo, "main", sha))
	return sha
}

func verified(f *fleetv1.Fleet) metav1.Condition {
	if c := apimeta.FindStatusCondition(f.Status.Conditions, "SourceVerified"); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// TestDeliveryReport_DST06: the verdict is a condition and the commit's status; what is not signed by a known key changes
// nothing, whatever becomes of the Secret with the keys.
func TestDeliveryReport_DST06_OnlySignedCommitsAreAppliedAndReadyIsAboutNow(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	author, stranger := newSigner(w), newSigner(w)
	w.secret("keys", map[string]string{"author.pub": author.public})
	require.NoError(t, w.git.CreateRepo("fleet"))
	first := author.commit("fleet", good())
	f := w.fleet("signed", "fleet", func(f *fleetv1.Fleet) {
		f.Spec.Source.Verify = &fleetv1.Verification{Mode: fleetv1.VerifyHEAD, SecretRef: meta.LocalObjectReference{Name: "keys"}}
	})
	now := w.untilApplied(f, first)
	require.Equal(t, "Succeeded", verified(now).Reason)
	require.Equal(t, "main@sha1:"+first[:12]+": commit "+first[:12]+" by the SSH key "+author.name, verified(now).Message)
	before := w.versions()

	unsigned := w.commit("fleet", map[string]string{"a/package.yaml": strings.Replace(packageFile, "262144", "524288", 1)})
	w.ask(f)
	now = w.untilReason(f, "SignatureMissing")
	require.True(t, has(now, "Stalled"))
	require.Equal(t, metav1.ConditionFalse, verified(now).Status)
	require.Equal(t, "main@sha1:"+unsigned, now.Status.LastAttemptedRevision)
	require.Contains(t, w.untilNote("fleet", unsigned, "failure").Description, "has no signature")

	foreign := stranger.commit("fleet", map[string]string{"README": "stranger"})
	w.ask(f)
	now = w.untilReason(f, "SignatureKeyUnknown")
	require.Contains(t, w.untilNote("fleet", foreign, "failure").Description, stranger.name)
	w.untilEvent("Fleet", "signed", "SignatureKeyUnknown", stranger.name)
	require.Equal(t, "main@sha1:"+first, now.Status.LastAppliedRevision)

	require.NoError(t, w.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}}))
	w.ask(f)
	now = w.untilReason(f, "InvalidSecret")
	require.Contains(t, ready(now).Message, "Secret fleetwright/keys does not exist")
	require.Empty(t, verified(now), "what is not known now is not said")
	require.Equal(t, before, w.versions(), "nothing changes in the cluster")

	w.secret("keys", map[string]string{"author.pub": author.public})
	third := author.commit("fleet", map[string]string{"README": "signed again"})
	w.ask(f)
	now = w.untilApplied(f, third)
	require.Equal(t, metav1.ConditionTrue, verified(now).Status)
	w.kill()
	w.start()
	now = w.ask(f)
	require.Equal(t, metav1.ConditionTrue, verified(now).Status)
}
