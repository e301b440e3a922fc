package webhook

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// Hook is one request as it was read. Nothing in it is known to be true before Verify.
type Hook struct {
	// Provider is the forge whose manners the request has.
	Provider fleetv1.WebhookProvider
	// Event is what it says.
	Event wake.Event
	// Delivery identifies this request among all of its provider; empty where the provider gives it no number. It stands for
	// the number and the body together: a number alone may be used for several events.
	Delivery string

	proof proof
}

// Verify says whether the request was signed with the secret, at about this time where the signature holds one. The error is
// a *wake.Refusal.
func (h Hook) Verify(secret []byte, now time.Time) error {
	if len(secret) == 0 {
		return refuse(wake.Forbidden, "the secret is empty")
	}
	return h.proof(secret, now)
}

// sender is one kind of server: how its requests are recognised, read and proven.
type sender struct {
	provider fleetv1.WebhookProvider
	// event is the header whose presence identifies the sender, and which names the event.
	event string
	// deliveries are the headers that may hold the number of the delivery; the first that is there counts.
	deliveries []string
	// numbered says that the body holds the number.
	numbered bool
	// prove reads the signature. Its error is a *wake.Refusal.
	prove func(http.Header, []byte) (proof, error)
	// read reads the event of that name.
	read func(name string, body []byte) (wake.Event, error)
}

// Providers as Fleets name them.
const (
	github    = fleetv1.WebhookProvider(fleetv1.ProviderGitHub)
	gitLab    = fleetv1.WebhookProvider(fleetv1.ProviderGitLab)
	gitea     = fleetv1.WebhookProvider(fleetv1.ProviderGitea)
	bitbucket = fleetv1.WebhookProvider(fleetv1.ProviderBitbucket)
	azure     = fleetv1.WebhookProvider(fleetv1.ProviderAzureDevOps)
	generic   = fleetv1.WebhookGeneric
)

// senders in the order in which they are looked for: Gitea and its relatives send GitHub's headers too.
var senders = []sender{
	{gitea, "X-Forgejo-Event", []string{"X-Forgejo-Delivery"}, false, hexHMAC("X-Forgejo-Signature", ""), readGitea},
	{gitea, "X-Gitea-Event", []string{"X-Gitea-Delivery"}, false, hexHMAC("X-Gitea-Signature", ""), readGitea},
	{gitea, "X-Gogs-Event", []string{"X-Gogs-Delivery"}, false, hexHMAC("X-Gogs-Signature", ""), readGitea},
	{github, "X-GitHub-Event", []string{"X-GitHub-Delivery"}, false, hexHMAC("X-Hub-Signature-256", sha256Prefix), readGitHub},
	{gitLab, "X-Gitlab-Event", []string{"Webhook-Id", "Idempotency-Key", "X-Gitlab-Event-UUID"}, false, gitLabProof, readGitLab},
	{bitbucket, "X-Event-Key", []string{"X-Request-UUID", "X-Request-Id"}, false, hexHMAC("X-Hub-Signature", sha256Prefix), readBitbucket},
	{generic, GenericSignature, []string{"X-Fleetwright-Delivery"}, false, hexHMAC(GenericSignature, sha256Prefix), readGeneric},
}

// azureDevOps names its events in the body and has no signature.
var azureDevOps = sender{azure, "", nil, true, tokenProof, readAzureDevOps}

// Headers of our own.
const (
	// GenericSignature holds `sha256=` and the HMAC-SHA256 of the body in hexadecimal digits, for senders that are no forge.
	GenericSignature = "X-Fleetwright-Signature-256"
	// TokenHeader holds the secret itself, for Azure DevOps where basic authentication is not wanted.
	TokenHeader = "X-Fleetwright-Token"
)

// Read finds out who sent a request, and reads it. The error is a *wake.Refusal; Hook.Provider is set even then, if it is known.
func Read(header http.Header, body []byte) (Hook, error) {
	s := senderOf(header, body)
	hook := Hook{Provider: s.provider, Delivery: delivery(s, header, body)}
	payload, err := payloadOf(header, body)
	if err != nil {
		return hook, err
	}
	if hook.Event, err = s.read(short(header.Get(s.event)), payload); err != nil {
		return hook, err
	}
	if hook.Event.Kind == wake.Ignored {
		return hook, nil
	}
	if err := complete(hook.Event); err != nil {
		return hook, err
	}
	hook.proof, err = s.prove(header, body)
	return hook, err
}

func senderOf(header http.Header, body []byte) sender {
	for _, s := range senders {
		if _, ok := header[http.CanonicalHeaderKey(s.event)]; ok {
			return s
		}
	}
	if header.Get("Authorization") != "" || header.Get(TokenHeader) != "" || looksLikeAzureDevOps(body) {
		return azureDevOps
	}
	return senders[len(senders)-1] // and then its signature is missing
}

// complete says what a request lacks to be of use.
func complete(e wake.Event) error {
	switch {
	case e.Kind == wake.Ping:
		return nil
	case len(e.Repositories) == 0:
		return refuse(wake.Malformed, "the body of the event %q names no repository", e.Name)
	case e.Kind == wake.Push && len(e.Refs) == 0:
		return refuse(wake.Malformed, "the body of the event %q names no branch and no tag", e.Name)
	case e.Kind == wake.PullRequest && len(e.Bases) == 0:
		return refuse(wake.Malformed, "the body of the event %q names no base branch", e.Name)
	}
	return nil
}

func delivery(s sender, header http.Header, body []byte) string {
	var id string
	for _, name := range s.deliveries {
		id = cmp.Or(id, header.Get(name))
	}
	if id == "" && !s.numbered {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s\x00%s", s.provider, id, body) // never fails
	return hex.EncodeToString(sum.Sum(nil))
}

func refuse(result wake.Result, format string, args ...any) error {
	return &wake.Refusal{Result: result, Message: fmt.Sprintf(format, args...)}
}

// maxName is the longest name of an event that is shown.
const maxName = 64

// short makes a name from outside fit for a log.
func short(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), maxName)]
}
