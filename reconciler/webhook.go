package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// Hook is one request of a forge as it was read. Nothing in it is known to be true before Verify.
type Hook struct {
	// Provider is the forge whose manners the request has.
	Provider fleetv1.WebhookProvider
	// Event is what it says.
	Event wake.Event
	// Delivery identifies the request among all of its provider; empty if it cannot be told apart from another one.
	Delivery string
	// Verify says whether the request was signed with the secret. The error is a *wake.Refusal.
	Verify func(secret []byte, now time.Time) error
}

// HookReader reads a request. The error is a *wake.Refusal; the Hook's Provider is set even then, if it is known.
type HookReader interface {
	ReadHook(header http.Header, body []byte) (Hook, error)
}

// HookSecrets reads the secret that signs the requests for a Fleet, which has a spec.webhook. A *wake.Refusal says that there
// is none; any other error, that the API server did not answer.
type HookSecrets interface {
	HookSecret(ctx context.Context, fleet *fleetv1.Fleet) ([]byte, error)
}

// FleetWaker lets a Fleet look. It returns at once, and loses nothing.
type FleetWaker interface {
	Wake(fleet types.NamespacedName, look wake.Look)
}

// Webhooks answers the requests of forges. A request wakes the Fleets that name its repository, have a secret that fits its
// signature, and follow what moved; nothing else in it is used. Every process answers, whoever leads.
type Webhooks struct {
	// Fleets lists Fleets, from a cache. Required.
	Fleets client.Reader
	// Hooks, Secrets and Waker are the outside world. Required.
	Hooks   HookReader
	Secrets HookSecrets
	Waker   FleetWaker
	// Metrics counts. Required.
	Metrics *WebhookMetrics
	// Log says who was woken, and why nobody was. Required.
	Log *slog.Logger
	// Now is the clock. Required.
	Now func() time.Time

	seen  hookMemory
	said  hookMemory
	peers peerLimits
}

const (
	// hookPath is the one address of all Fleets.
	hookPath = "/webhook"
	// maxHookBody is the longest body that is read, in bytes.
	maxHookBody = 1 << 20
	// hookTimeout bounds one answer; forges wait ten seconds.
	hookTimeout = 5 * time.Second
)

// hookAnswer is what became of a request.
type hookAnswer struct {
	provider fleetv1.WebhookProvider
	result   wake.Result
	text     string
}

// ServeHTTP answers one request.
func (w *Webhooks) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case r.URL.Path != hookPath:
		http.Error(out, "not found (allowed: POST "+hookPath+")", http.StatusNotFound)
		return
	case r.Method != http.MethodPost:
		out.Header().Set("Allow", http.MethodPost)
		http.Error(out, "webhooks are POST requests", http.StatusMethodNotAllowed)
		return
	}
	w.reply(out, w.answer(out, r))
}

// reply counts an answer and writes it.
func (w *Webhooks) reply(out http.ResponseWriter, answer hookAnswer) {
	w.Metrics.count(answer)
	if answer.result == wake.Limited {
		out.Header().Set("Retry-After", "1")
	}
	out.WriteHeader(statusOfHook[answer.result])
	_, _ = io.WriteString(out, answer.text+"\n") // a sender that has gone needs no answer
}

// statusOfHook is the HTTP status of each result. What a forge cannot mend by sending the same again is no 5xx.
var statusOfHook = map[wake.Result]int{
	wake.Accepted: http.StatusAccepted, wake.Unfollowed: http.StatusAccepted, wake.Replayed: http.StatusAccepted,
	wake.Unknown: http.StatusAccepted, wake.Pinged: http.StatusOK,
	wake.Forbidden: http.StatusForbidden, wake.Unsigned: http.StatusUnauthorized, wake.Malformed: http.StatusBadRequest,
	wake.TooLarge: http.StatusRequestEntityTooLarge, wake.Encoded: http.StatusUnsupportedMediaType,
	wake.Limited: http.StatusTooManyRequests, wake.Unavailable: http.StatusServiceUnavailable,
}

func (w *Webhooks) answer(out http.ResponseWriter, r *http.Request) hookAnswer {
	if !w.peers.allow(r.RemoteAddr, w.Now()) {
		return hookAnswer{result: wake.Limited, text: "too many requests from this address"}
	}
	body, err := readHookBody(out, r)
	if err != nil {
		return w.refused(hookAnswer{}, "", err)
	}
	hook, err := w.Hooks.ReadHook(r.Header, body)
	answer := hookAnswer{provider: hook.Provider}
	if err != nil {
		return w.refused(answer, hook.Event.Name, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), hookTimeout)
	defer cancel()
	answer.result, answer.text = w.judge(ctx, hook)
	return answer
}

// readHookBody reads no more than the longest body, and nothing that would have to be unpacked.
func readHookBody(out http.ResponseWriter, r *http.Request) ([]byte, error) {
	if e := strings.ToLower(r.Header.Get("Content-Encoding")); e != "" && e != "identity" {
		return nil, &wake.Refusal{Result: wake.Encoded, Message: "the body is compressed (allowed: no Content-Encoding)"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(out, r.Body, maxHookBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &wake.Refusal{Result: wake.TooLarge, Message: fmt.Sprintf("the body is too long (allowed: %d bytes)", maxHookBody)}
	case err != nil:
		return nil, &wake.Refusal{Result: wake.Malformed, Message: "the body did not arrive in time and whole"}
	}
	return body, nil
}

// refused tells a request that cannot even be checked.
func (w *Webhooks) refused(answer hookAnswer, event string, err error) hookAnswer {
	answer.result, answer.text = wake.Malformed, err.Error()
	var refusal *wake.Refusal
	if errors.As(err, &refusal) {
		answer.result = refusal.Result
	}
	w.say("webhook refused", answer.text, "provider", answer.provider, "event", event)
	return answer
}

// forbidden is all that a sender without the secret learns: not even whether there is such a Fleet.
const forbidden = "no Fleet accepts this request; the log of the reconciler says why"

// judge finds the Fleets for which the request is genuine, and wakes those that it concerns.
func (w *Webhooks) judge(ctx context.Context, hook Hook) (wake.Result, string) {
	switch {
	case hook.Event.Kind == wake.Ignored:
		return wake.Unknown, fmt.Sprintf("the event %q concerns no Fleet", hook.Event.Name)
	case hook.Event.Kind == wake.Ping && len(hook.Event.Repositories) == 0:
		return wake.Pinged, "reached; the signature was not checked, because this ping names no repository"
	}
	genuine, err := w.genuine(ctx, hook)
	switch {
	case err != nil:
		w.say("webhook not answered", err.Error(), "provider", hook.Provider)
		return wake.Unavailable, "the cluster does not answer; send it again"
	case len(genuine) == 0:
		return wake.Forbidden, forbidden
	case hook.Event.Kind == wake.Ping:
		return wake.Pinged, "reached; the signature fits"
	}
	return w.wakeAll(genuine, hook)
}

// genuine are the Fleets that name the repository and whose secret fits. Without any, an error of the API server is returned:
// the request may be genuine all the same.
func (w *Webhooks) genuine(ctx context.Context, hook Hook) ([]*fleetv1.Fleet, error) {
	var list fleetv1.FleetList // read only: it is the cache's own
	if err := w.Fleets.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list fleets: %w", err)
	}
	var found []*fleetv1.Fleet
	var failed error
	named := false
	for i := range list.Items {
		fleet := &list.Items[i]
		if !wake.Names(fleet, hook.Event) {
			continue
		}
		named = true
		err := w.verify(ctx, fleet, hook)
		var refusal *wake.Refusal
		switch {
		case err == nil:
			found = append(found, fleet)
		case errors.As(err, &refusal):
			w.say("webhook not accepted", refusal.Message, "fleet", keyOf(fleet).String(), "provider", hook.Provider)
		default:
			failed = err
		}
	}
	if !named {
		w.say("webhook not accepted", "no Fleet has this repository as its source.url", "repository", first(hook.Event.Repositories))
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, failed
}

// maxHookRepository is how much of a name from outside goes into the log.
const maxHookRepository = 200

func first(all []wake.Repository) string {
	if len(all) == 0 {
		return ""
	}
	return report.Cut(all[0].Host+"/"+all[0].Path, maxHookRepository)
}

// verify says in one sentence why the request is not genuine for a Fleet.
func (w *Webhooks) verify(ctx context.Context, fleet *fleetv1.Fleet, hook Hook) error {
	if fleet.Spec.Webhook == nil {
		return &wake.Refusal{Result: wake.Forbidden, Message: "the Fleet has no spec.webhook, so nobody may wake it"}
	}
	if wanted := wake.ProviderOf(fleet.Spec); wanted != hook.Provider {
		return &wake.Refusal{Result: wake.Forbidden, Message: fmt.Sprintf(
			"the request is one of %s, the Fleet accepts those of %s: correct spec.webhook.provider, or the webhook", hook.Provider, wanted)}
	}
	secret, err := w.Secrets.HookSecret(ctx, fleet)
	if err != nil {
		return err
	}
	return hook.Verify(secret, w.Now())
}

// wakeAll wakes whom the event concerns, each once for a delivery.
func (w *Webhooks) wakeAll(genuine []*fleetv1.Fleet, hook Hook) (wake.Result, string) {
	woken, replayed := 0, 0
	for _, fleet := range genuine {
		look := wake.For(fleet, hook.Event)
		switch {
		case look == wake.Nothing:
		case hook.Delivery != "" && !w.seen.add(keyOf(fleet).String()+" "+hook.Delivery, w.Now(), hookMemoryTime):
			replayed++
		default:
			woken++
			w.Waker.Wake(keyOf(fleet), look)
			w.Log.Debug("webhook accepted", "fleet", keyOf(fleet).String(), "provider", hook.Provider, "event", hook.Event.Name, "look", look)
		}
	}
	switch {
	case woken > 0:
		return wake.Accepted, fmt.Sprintf("accepted: %d of the Fleets of this repository look", woken)
	case replayed > 0:
		return wake.Replayed, "this delivery was accepted before"
	}
	return wake.Unfollowed, "genuine, but no Fleet follows what this event is about"
}

// say logs a sentence at most once in a while: who sends a thousand wrong requests does not fill the log with them.
func (w *Webhooks) say(message, why string, about ...any) {
	if w.said.add(message+why+fmt.Sprint(about...), w.Now(), hookSilence) {
		w.Log.Warn(message, append([]any{"why", why}, about...)...)
	}
}
