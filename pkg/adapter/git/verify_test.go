package git_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/fluxcd/pkg/git/signature"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// person can sign, and others can know the key.
type person struct {
	sign   func(payload []byte) []byte
	public string
	name   string // as a sentence calls the key
}

func withPGP(t *testing.T) person {
	entity, err := openpgp.NewEntity("Fleet Author", "", "author@fleet.example", nil)
	require.NoError(t, err)
	var public bytes.Buffer
	w, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	require.NoError(t, err)
	require.NoError(t, entity.Serialize(w))
	require.NoError(t, w.Close())
	signer, err := signature.NewOpenPGPSigner(entity)
	require.NoError(t, err)
	return person{signed(t, signer), public.String(), "the OpenPGP key " + entity.PrimaryKey.KeyIdString()}
}

func withSSH(t *testing.T) person {
	key, private, err := gitserver.NewKey("")
	require.NoError(t, err)
	signer, err := signature.NewSSHSigner(private, nil)
	require.NoError(t, err)
	return person{signed(t, signer), string(ssh.MarshalAuthorizedKey(key.PublicKey())), "the SSH key " + ssh.FingerprintSHA256(key.PublicKey())}
}

func signed(t *testing.T, signer signature.Signer) func([]byte) []byte {
	return func(payload []byte) []byte {
		out, err := signer.Sign(bytes.NewReader(payload))
		require.NoError(t, err)
		return append(bytes.TrimSpace(out), '\n')
	}
}

// commitText is a commit with headers that this program does not know.
func commitText(tree string) string {
	return "tree " + tree + "\nauthor A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\nencoding UTF-8\nx-review yes\n\nmessage\n"
}

// withSignature puts a signature into a commit as git does: the last header, indented.
func withSignature(commit, header, signature string) string {
	indented := strings.ReplaceAll(strings.TrimSuffix(signature, "\n"), "\n", "\n ")
	return strings.Replace(commit, "\n\n", "\n"+header+" "+indented+"\n\n", 1)
}

func tagText(commit, name string) string {
	return "object " + commit + "\ntype commit\ntag " + name + "\ntagger A <a@b> 1700000000 +0000\n\nrelease\n"
}

// vault is a server, and what is needed to put objects on it.
type vault struct {
	t      *testing.T
	server *gitserver.Server
	tree   string
}

func newVault(t *testing.T) vault {
	server, _ := repository(t, gitserver.Options{})
	tree, err := server.Git("fleet", "rev-parse", "main^{tree}")
	require.NoError(t, err)
	return vault{t, server, tree}
}

func (v vault) put(kind, text, ref string) string {
	v.t.Helper()
	sha, err := v.server.HashObject("fleet", kind, []byte(text))
	require.NoError(v.t, err)
	_, err = v.server.Git("fleet", "update-ref", ref, sha)
	require.NoError(v.t, err)
	return sha
}

func (v vault) fetch(ref git.Ref, mode git.VerifyMode, keys ...string) (*git.Tree, error) {
	v.t.Helper()
	data := map[string][]byte{}
	for i, key := range keys {
		data[fmt.Sprint("key", i)] = []byte(key)
	}
	public, err := git.PublicKeysFromSecret(data)
	require.NoError(v.t, err)
	source := git.Source{URL: v.server.URL("fleet"), Ref: ref, Verify: &git.Verify{Mode: mode, Keys: public}}
	revision, err := git.Resolve(v.t.Context(), source)
	if err != nil {
		return nil, err
	}
	return git.Fetch(v.t.Context(), source, revision)
}

func TestSignedCommits(t *testing.T) {
	v := newVault(t)
	main := git.Ref{Branch: "main"}
	for kind, make := range map[string]func(*testing.T) person{"OpenPGP": withPGP, "SSH": withSSH} {
		t.Run(kind, func(t *testing.T) {
			v := v
			v.t = t
			author, stranger := make(t), make(t)
			text := commitText(v.tree)
			good := string(author.sign([]byte(text)))
			sha := v.put("commit", withSignature(text, "gpgsig", good), "refs/heads/main")
			what := "commit " + sha[:12]
			tree, err := v.fetch(main, git.VerifyHEAD, stranger.public, author.public, withSSH(t).public, withPGP(t).public)
			require.NoError(t, err)
			require.Equal(t, what+" by "+author.name, tree.SignedBy())

			_, err = v.fetch(main, "", stranger.public)
			requireFailure(t, err, git.ReasonSignatureKeyUnknown, what+" is signed by "+author.name+", which is not in the Secret of verify.secretRef")

			v.put("commit", withSignature(withSignature(text, "gpgsig", good), "gpgsig-sha256", "other"), "refs/heads/main")
			_, err = v.fetch(main, git.VerifyHEAD, author.public)
			require.NoError(t, err, "the signature of the same commit under another hash is not signed")

			for name, forged := range map[string]string{
				"another message":      strings.Replace(text, "message", "massage", 1),
				"an unknown header":    strings.Replace(text, "x-review yes", "x-review no", 1),
				"a header that is new": strings.Replace(text, "x-review", "x-more 1\nx-review", 1),
				"more after the end":   text + "more\n",
			} {
				sha := v.put("commit", withSignature(forged, "gpgsig", good), "refs/heads/main")
				_, err = v.fetch(main, git.VerifyHEAD, author.public)
				requireReason(t, err, git.ReasonSignatureInvalid, name)
				require.Contains(t, err.Error(), "the signature of commit "+sha[:12]+" by "+author.name+" does not hold", name)
			}
			for name, odd := range map[string]string{
				"two signatures": withSignature(withSignature(text, "gpgsig", good), "gpgsig", good),
				"two blocks":     withSignature(text, "gpgsig", good+good),
				"text around it": withSignature(text, "gpgsig", good+"and more"),
				"another kind":   withSignature(text, "gpgsig", "-----BEGIN SIGNED MESSAGE-----\nx\n-----END SIGNED MESSAGE-----\n"),
				"cut off":        withSignature(text, "gpgsig", good[:len(good)/2]),
				"words":          withSignature(text, "gpgsig", "trust me"),
			} {
				v.put("commit", odd, "refs/heads/main")
				_, err = v.fetch(main, git.VerifyHEAD, author.public)
				requireReason(t, err, git.ReasonSignatureInvalid, name)
			}
			sha = v.put("commit", text, "refs/heads/main")
			_, err = v.fetch(main, git.VerifyHEAD, author.public)
			requireFailure(t, err, git.ReasonSignatureMissing,
				"commit "+sha[:12]+" has no signature; sign it with a key of the Secret of verify.secretRef")
			sha = v.put("commit", text+"\ngpgsig "+good, "refs/heads/main")
			_, err = v.fetch(main, git.VerifyHEAD, author.public)
			requireReason(t, err, git.ReasonSignatureMissing, "a signature in the message is none")
			require.NotEmpty(t, sha)
		})
	}
}

func requireReason(t *testing.T, err error, reason git.Reason, what string) {
	t.Helper()
	var failure *git.Error
	require.ErrorAs(t, err, &failure, what)
	require.Equal(t, reason, failure.Reason, "%s: %s", what, failure.Message)
}

func TestSignedTags(t *testing.T) {
	v := newVault(t)
	author, stranger := withSSH(t), withPGP(t)
	one := git.Ref{Tag: "v1.0.0"}
	plain := v.put("commit", commitText(v.tree), "refs/heads/main")
	tag := func(commit, name string, by person) string {
		text := tagText(commit, name)
		return text + string(by.sign([]byte(text)))
	}
	v.put("tag", tag(plain, "v1.0.0", author), "refs/tags/v1.0.0")
	tree, err := v.fetch(one, git.VerifyTag, author.public)
	require.NoError(t, err)
	require.Equal(t, `tag "v1.0.0" by `+author.name, tree.SignedBy())
	tree, err = v.fetch(git.Ref{SemVer: ">=1.0.0"}, git.VerifyTag, author.public)
	require.NoError(t, err)
	require.NotEmpty(t, tree.SignedBy())
	_, err = v.fetch(one, git.VerifyTagAndHEAD, author.public)
	requireReason(t, err, git.ReasonSignatureMissing, "the commit is not signed")
	_, err = v.fetch(one, git.VerifyTag, stranger.public)
	requireFailure(t, err, git.ReasonSignatureKeyUnknown,
		`tag "v1.0.0" is signed by `+author.name+`, which is not in the Secret of verify.secretRef`)

	text := commitText(v.tree)
	signed := v.put("commit", withSignature(text, "gpgsig", string(stranger.sign([]byte(text)))), "refs/heads/main")
	v.put("tag", tag(signed, "v2.0.0", author), "refs/tags/v2.0.0")
	tree, err = v.fetch(git.Ref{Tag: "v2.0.0"}, git.VerifyTagAndHEAD, author.public, stranger.public)
	require.NoError(t, err)
	require.Equal(t, `tag "v2.0.0" by `+author.name+", commit "+signed[:12]+" by "+stranger.name, tree.SignedBy())

	cases := map[string]struct {
		kind, object, reason, message string
	}{
		"lightweight":            {"commit", commitText(v.tree), "SignatureMissing", `tag "v3" is not annotated and so has no signature; sign it (git tag -s)`},
		"unsigned":               {"tag", tagText(plain, "v3"), "SignatureMissing", `tag "v3" has no signature; sign it with a key of the Secret of verify.secretRef`},
		"older under a new name": {"tag", tag(plain, "v1.0.0", author), "SignatureInvalid", `tag "v3" is an object that calls itself tag "v1.0.0"`},
		"changed": {"tag", strings.Replace(tag(plain, "v3", author), "release", "another", 1), "SignatureInvalid",
			`the signature of tag "v3" by ` + author.name + ` does not hold: it is not of this content, or not made for git`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v.put(tc.kind, tc.object, "refs/tags/v3")
			_, err := v.fetch(git.Ref{Tag: "v3"}, git.VerifyTag, author.public)
			requireFailure(t, err, git.Reason(tc.reason), tc.message)
		})
	}
	t.Run("tag of a tag", func(t *testing.T) {
		inner, err := v.server.Git("fleet", "rev-parse", "refs/tags/v1.0.0")
		require.NoError(t, err)
		text := strings.Replace(tagText(inner, "v3"), "type commit", "type tag", 1)
		v.put("tag", text+string(author.sign([]byte(text))), "refs/tags/v3")
		_, err = v.fetch(git.Ref{Tag: "v3"}, git.VerifyTag, author.public)
		requireFailure(t, err, git.ReasonSignatureInvalid, `tag "v3" is not the tag of commit `+plain[:12]+` but of the tag `+inner[:12])
	})
	for _, ref := range []git.Ref{{Branch: "main"}, {Commit: plain, Tag: "v1.0.0"}} {
		_, err = v.fetch(ref, git.VerifyTag, author.public)
		requireFailure(t, err, git.ReasonInvalidRef, "verify.mode Tag demands the signature of a tag, but the source follows "+
			map[bool]string{true: `branch "main"`, false: "commit " + plain}[ref.Commit == ""]+"; set ref.tag or ref.semver, or mode HEAD")
	}
}

func TestPublicKeysFromSecretRefuses(t *testing.T) {
	cases := map[string]map[string]string{
		"holds no public key": nil,
		"has a author.asc that is not a key in OpenPGP's armored form":                                            {"author.asc": "-----BEGIN PGP PUBLIC KEY BLOCK-----\ns3cret"},
		"has a author.pub that holds no public key (allowed: OpenPGP in armored form; SSH as in authorized_keys)": {"author.pub": "s3cret"},
	}
	for problem, data := range cases {
		raw := map[string][]byte{}
		for k, v := range data {
			raw[k] = []byte(v)
		}
		_, err := git.PublicKeysFromSecret(raw)
		requireFailure(t, err, git.ReasonInvalidSecret, "the Secret of verify.secretRef "+problem)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

// TestSignaturesThatGitMakes: with ssh-keygen and gpg behind git itself.
func TestSignaturesThatGitMakes(t *testing.T) {
	v := newVault(t)
	sign := func(t *testing.T, public string, config ...string) {
		args := append(config, "commit-tree", "-S", "-m", "signed by git", v.tree)
		commit, err := v.server.Git("fleet", args...)
		require.NoError(t, err)
		require.NoError(t, v.server.ForcePush("fleet", "main", commit))
		v := v
		v.t = t
		tree, err := v.fetch(git.Ref{Branch: "main"}, git.VerifyHEAD, public)
		require.NoError(t, err)
		require.NotEmpty(t, tree.SignedBy())
		_, err = v.server.Git("fleet", append(config, "tag", "-f", "-s", "-m", "signed by git", "v1", commit)...)
		require.NoError(t, err)
		_, err = v.fetch(git.Ref{Tag: "v1"}, git.VerifyTagAndHEAD, public)
		require.NoError(t, err)
	}
	t.Run("ssh", func(t *testing.T) {
		if _, err := exec.LookPath("ssh-keygen"); err != nil {
			t.Skip("no ssh-keygen on this machine")
		}
		key, private, err := gitserver.NewKey("")
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "key")
		require.NoError(t, os.WriteFile(path, private, 0o600))
		require.NoError(t, os.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(key.PublicKey()), 0o600))
		sign(t, string(ssh.MarshalAuthorizedKey(key.PublicKey())), "-c", "gpg.format=ssh", "-c", "user.signingkey="+path)
	})
	t.Run("gpg", func(t *testing.T) {
		if _, err := exec.LookPath("gpg"); err != nil {
			t.Skip("no gpg on this machine")
		}
		home, err := os.MkdirTemp("", "g") // short: the agent's socket is in it
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
		gpg := func(args ...string) string {
			cmd := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet"}, args...)...)
			out, err := cmd.Output()
			require.NoError(t, err)
			return string(out)
		}
		t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
		gpg("--passphrase", "", "--quick-generate-key", "author@fleet.example", "ed25519", "sign", "1d")
		wrapper := filepath.Join(home, "gpg")
		require.NoError(t, os.WriteFile(wrapper, []byte("#!/bin/sh\nexec gpg --homedir "+home+" \"$@\"\n"), 0o700))
		sign(t, gpg("--armor", "--export", "author@fleet.example"), "-c", "gpg.program="+wrapper, "-c", "user.signingkey=author@fleet.example")
	})
}
