package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// proof compares what the sender has shown with a secret. The error is a *wake.Refusal.
type proof func(secret []byte, now time.Time) error

const sha256Prefix = "sha256="

// hexHMAC reads a header that holds a prefix and the HMAC-SHA256 of the body in hexadecimal digits.
func hexHMAC(header, prefix string) func(http.Header, []byte) (proof, error) {
	return func(h http.Header, body []byte) (proof, error) {
		value := strings.TrimSpace(h.Get(header))
		if value == "" {
			return nil, refuse(wake.Unsigned, "no header %s: give the webhook the secret of the Fleet's spec.webhook.secretRef", header)
		}
		digits, ok := strings.CutPrefix(value, prefix)
		signature, err := hex.DecodeString(digits)
		if !ok || err != nil || len(signature) != sha256.Size {
			return nil, refuse(wake.Unsigned, "header %s is not %s and 64 hexadecimal digits: the HMAC-SHA256 of the body", header, orNothing(prefix))
		}
		return func(secret []byte, _ time.Time) error { return compareHMAC(header, signature, sign(secret, body)) }, nil
	}
}

func orNothing(prefix string) string {
	if prefix == "" {
		return "bare"
	}
	return prefix
}

func sign(secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range parts {
		mac.Write(part) // never fails
	}
	return mac.Sum(nil)
}

func compareHMAC(header string, had, want []byte) error {
	if hmac.Equal(had, want) {
		return nil
	}
	return refuse(wake.Forbidden, "header %s does not fit: another secret, or not over the body exactly as it was sent", header)
}

// tokenProof is for Azure DevOps: the secret itself, as the password of basic authentication or in a header of its own.
func tokenProof(h http.Header, _ []byte) (proof, error) {
	if token := h.Get(TokenHeader); token != "" {
		return sameToken("header "+TokenHeader, token), nil
	}
	request := http.Request{Header: h}
	if _, password, ok := request.BasicAuth(); ok && password != "" {
		return sameToken("the password", password), nil
	}
	return nil, refuse(wake.Unsigned,
		"no password: give the service hook basic authentication or the header %s, with the secret of the Fleet's spec.webhook.secretRef", TokenHeader)
}

// sameToken compares hashes, so that not even the length of the secret shows.
func sameToken(what, token string) proof {
	return func(secret []byte, _ time.Time) error {
		had, want := sha256.Sum256([]byte(token)), sha256.Sum256(secret)
		if subtle.ConstantTimeCompare(had[:], want[:]) == 1 {
			return nil
		}
		return refuse(wake.Forbidden, "%s is not the Fleet's secret", what)
	}
}

// gitLabProof takes GitLab's signature where there is one, and its plain token otherwise.
func gitLabProof(h http.Header, body []byte) (proof, error) {
	if h.Get("Webhook-Signature") != "" {
		return standardProof(h, body)
	}
	token := h.Get("X-Gitlab-Token")
	if token == "" {
		return nil, refuse(wake.Unsigned,
			"neither header webhook-signature nor X-Gitlab-Token: give the webhook the secret of the Fleet's spec.webhook.secretRef")
	}
	return sameToken("header X-Gitlab-Token", token), nil
}

// maxSkew is how far the time in a signature may be from ours: later, the request is a replay.
const maxSkew = 5 * time.Minute

// maxSignatures of one request: two while a secret is replaced.
const maxSignatures = 8

// standardProof follows the Standard Webhooks specification, as GitLab does since 19.0: HMAC-SHA256 over "id.timestamp.body",
// in base64 after "v1,"; several signatures with spaces between them, of which one must fit.
func standardProof(h http.Header, body []byte) (proof, error) {
	id, stamp := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return nil, refuse(wake.Unsigned, "header webhook-signature without webhook-id, or without the seconds of webhook-timestamp")
	}
	var signatures [][]byte
	for _, one := range strings.Fields(h.Get("Webhook-Signature")) {
		text, ok := strings.CutPrefix(one, "v1,")
		signature, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && len(signature) == sha256.Size && len(signatures) < maxSignatures {
			signatures = append(signatures, signature)
		}
	}
	if len(signatures) == 0 {
		return nil, refuse(wake.Unsigned, "header webhook-signature holds no v1, and the HMAC-SHA256 in base64")
	}
	return func(secret []byte, now time.Time) error {
		if skew := now.Sub(time.Unix(seconds, 0)); skew > maxSkew || skew < -maxSkew {
			return refuse(wake.Forbidden, "header webhook-timestamp is more than %s from now: a replay, or a clock that is wrong", maxSkew)
		}
		return oneOf(signatures, sign(standardKey(secret), []byte(id+"."+stamp+"."), body))
	}, nil
}

func oneOf(signatures [][]byte, want []byte) error {
	fits := false
	for _, s := range signatures {
		fits = hmac.Equal(s, want) || fits
	}
	if fits {
		return nil
	}
	return compareHMAC("webhook-signature", nil, want)
}

// standardKey of a signing token: the bytes whose base64 stands after whsec_, otherwise the token as it is.
func standardKey(secret []byte) []byte {
	text, ok := strings.CutPrefix(string(secret), "whsec_")
	if key, err := base64.StdEncoding.DecodeString(text); ok && err == nil && len(key) > 0 { // anybody can sign with an empty one
		return key
	}
	return secret
}
