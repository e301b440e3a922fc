package git

import (
	"crypto/rsa"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/fluxcd/pkg/git/signature"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// VerifyMode is whose signature is demanded, as Flux names it.
type VerifyMode string

// Modes.
const (
	VerifyHEAD       VerifyMode = "HEAD"
	VerifyTag        VerifyMode = "Tag"
	VerifyTagAndHEAD VerifyMode = "TagAndHEAD"
)

func (m VerifyMode) head() bool { return m != VerifyTag }
func (m VerifyMode) tag() bool  { return m == VerifyTag || m == VerifyTagAndHEAD }

// Verify demands signatures of what is fetched.
type Verify struct {
	// Mode is whose; the zero value is VerifyHEAD.
	Mode VerifyMode
	// Keys are who may sign.
	Keys PublicKeys
}

// PublicKeys are trusted with signing. They come from PublicKeysFromSecret.
type PublicKeys struct {
	rings    []string // armored OpenPGP key rings
	entities openpgp.EntityList
	lines    []string // keys as in authorized_keys
	prints   []string // their fingerprints
}

const ringMark = "-----BEGIN PGP PUBLIC KEY BLOCK-----"

// minRSA is the least length of an RSA key that may sign over SSH, as in OpenSSH, in bits.
const minRSA = 2048

// PublicKeysFromSecret reads public keys from every value of a Secret's data, whatever their names: OpenPGP keys in armored form, and
// SSH keys as they stand in authorized_keys. An error is an *Error with ReasonInvalidSecret that names the key.
func PublicKeysFromSecret(data map[string][]byte) (PublicKeys, error) {
	var keys PublicKeys
	for _, name := range slices.Sorted(maps.Keys(data)) {
		value := string(data[name])
		add := keys.addSSH
		if strings.Contains(value, ringMark) {
			add = keys.addRing
		}
		if err := add(name, value); err != nil {
			return PublicKeys{}, err
		}
	}
	if len(keys.rings)+len(keys.lines) == 0 {
		return PublicKeys{}, invalidKeys("holds no public key")
	}
	return keys, nil
}

func invalidKeys(format string, args ...any) *Error {
	return failure(ReasonInvalidSecret, "the Secret of verify.secretRef "+format, args...)
}

func (k *PublicKeys) addRing(name, value string) error {
	entities, err := openpgp.ReadArmoredKeyRing(strings.NewReader(value))
	if err != nil || len(entities) == 0 {
		return invalidKeys("has a %s that is not a key in OpenPGP's armored form", name)
	}
	k.rings, k.entities = append(k.rings, value), append(k.entities, entities...)
	return nil
}

func (k *PublicKeys) addSSH(name, value string) error {
	parsed, err := signature.ParseAuthorizedKeys(value)
	if err != nil || len(parsed) == 0 {
		return invalidKeys("has a %s that holds no public key (allowed: OpenPGP in armored form; SSH as in authorized_keys)", name)
	}
	for _, key := range parsed {
		if crypto, ok := key.(ssh.CryptoPublicKey); ok {
			if public, ok := crypto.CryptoPublicKey().(*rsa.PublicKey); ok && public.N.BitLen() < minRSA {
				return invalidKeys("has a %s with an RSA key of %d bits (allowed: at least %d)", name, public.N.BitLen(), minRSA)
			}
		}
		k.prints = append(k.prints, ssh.FingerprintSHA256(key))
	}
	k.lines = append(k.lines, value)
	return nil
}

// checkVerify refuses to demand the signature of a tag where no tag is followed.
func checkVerify(source Source) error {
	v, ref := source.Verify, source.Ref
	if v == nil || !v.Mode.tag() || ref.Commit == "" && (ref.SemVer != "" || ref.Tag != "" || strings.HasPrefix(ref.Name, tagPrefix)) {
		return nil
	}
	return failure(ReasonInvalidRef, "verify.mode %s demands the signature of a tag, but the source follows %s; set ref.tag or ref.semver, or mode HEAD",
		v.Mode, ref.describe())
}

// verify holds a tree's commit, its tag or both to the demanded signatures, and notes in the tree who signed.
func (v *Verify) verify(t *Tree, revision Revision) error {
	if v == nil {
		return nil
	}
	var who []string
	if v.Mode.tag() {
		by, err := v.Keys.verifyTag(t, revision)
		if err != nil {
			return err
		}
		who = append(who, "tag "+quote(revision.Ref)+" by "+by)
	}
	if v.Mode.head() {
		by, err := v.Keys.verifyCommit(t)
		if err != nil {
			return err
		}
		who = append(who, "commit "+short(t.Commit)+" by "+by)
	}
	t.signed = strings.Join(who, ", ")
	return nil
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

func (k PublicKeys) verifyCommit(t *Tree) (string, error) {
	what := "commit " + short(t.Commit)
	s, ok := signedCommit(t.RawCommit)
	if !ok {
		return "", failure(ReasonSignatureInvalid, "%s has more than one signature", what)
	}
	return k.verify(what, s)
}

// verifyTag demands that the tag is the one that was asked for, and leads to the commit that was read: a server could present an
// older tag under a newer name, or another commit beside a good tag.
func (k PublicKeys) verifyTag(t *Tree, revision Revision) (string, error) {
	what := "tag " + quote(revision.Ref)
	if t.RawTag == nil {
		return "", failure(ReasonSignatureMissing, "%s is not annotated and so has no signature; sign it (git tag -s)", what)
	}
	header := headerOfTag(t.RawTag)
	switch {
	case header.name != revision.Ref:
		return "", failure(ReasonSignatureInvalid, "%s is an object that calls itself tag %s", what, quote(header.name))
	case header.kind != "commit" || header.object != t.Commit:
		return "", failure(ReasonSignatureInvalid, "%s is not the tag of commit %s but of the %s %s", what, short(t.Commit), header.kind, short(header.object))
	}
	return k.verify(what, signedTag(t.RawTag))
}

// verify returns the key that signed.
func (k PublicKeys) verify(what string, s signed) (string, error) {
	kind := signature.GetSignatureType(s.signature)
	switch {
	case strings.TrimSpace(s.signature) == "":
		return "", failure(ReasonSignatureMissing, "%s has no signature; sign it with a key of the Secret of verify.secretRef", what)
	case signature.IsPGPSignature(s.signature):
		return k.verifyPGP(what, s)
	case signature.IsSSHSignature(s.signature):
		return k.verifySSH(what, s)
	}
	return "", failure(ReasonSignatureInvalid, "%s has a signature of kind %s, which cannot be verified (allowed: OpenPGP, SSH)", what, kind)
}

func (k PublicKeys) verifyPGP(what string, s signed) (string, error) {
	id, by := issuer(s.signature)
	switch {
	case by == "" || !oneBlock(s.signature):
		return "", failure(ReasonSignatureInvalid, "%s has an OpenPGP signature that cannot be read", what)
	case len(k.entities.KeysById(id)) == 0:
		return "", failure(ReasonSignatureKeyUnknown, "%s is signed by the OpenPGP key %s, which is not in the Secret of verify.secretRef", what, by)
	}
	if _, err := signature.VerifyPGPSignature(s.signature, s.payload, k.rings...); err != nil {
		return "", failure(ReasonSignatureInvalid, "the signature of %s by the OpenPGP key %s does not hold: it is not of this content, or the key has expired, "+
			"is revoked or may not sign", what, by).because(err)
	}
	return "the OpenPGP key " + by, nil
}

// issuer is the key that a signature names: which it is of, is for verification to see.
func issuer(text string) (id uint64, name string) {
	block, err := armor.Decode(strings.NewReader(text))
	if err != nil {
		return 0, ""
	}
	p, err := packet.Read(block.Body)
	if sig, ok := p.(*packet.Signature); err == nil && ok && sig.IssuerKeyId != nil {
		return *sig.IssuerKeyId, fmt.Sprintf("%016X", *sig.IssuerKeyId)
	}
	return 0, ""
}

// oneBlock refuses text around the signature, which nobody signed.
func oneBlock(text string) bool {
	text = strings.TrimSpace(text)
	return strings.Count(text, "-----BEGIN ") == 1 && strings.Count(text, "-----END ") == 1 && strings.HasSuffix(text, "-----")
}

func (k PublicKeys) verifySSH(what string, s signed) (string, error) {
	parsed, err := sshsig.Unarmor([]byte(strings.TrimSpace(s.signature)))
	if err != nil || !oneBlock(s.signature) || parsed.Signature.Format == ssh.KeyAlgoRSA { // with SHA-1, which OpenSSH refuses too
		return "", failure(ReasonSignatureInvalid, "%s has an SSH signature that cannot be read", what).because(err)
	}
	by := ssh.FingerprintSHA256(parsed.PublicKey)
	if !slices.Contains(k.prints, by) {
		return "", failure(ReasonSignatureKeyUnknown, "%s is signed by the SSH key %s, which is not in the Secret of verify.secretRef", what, by)
	}
	if _, err := signature.VerifySSHSignature(s.signature, s.payload, k.lines...); err != nil {
		return "", failure(ReasonSignatureInvalid, "the signature of %s by the SSH key %s does not hold: it is not of this content, or not made for git", what, by).because(err)
	}
	return "the SSH key " + by, nil
}
