package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge/webhook"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
	"github.com/fleetwright/fleetwright/reconciler"
)

// addWebhooks puts the receiver of webhooks into the manager, if there is an address for it.
func addWebhooks(m manager.Manager, credentials secrets, o Options) error {
	if o.Webhooks == nil {
		return nil
	}
	log := slog.New(logr.ToSlogHandler(m.GetLogger())).With("loop", "webhook")
	waker := &reconciler.HookWaker{Client: m.GetClient(), Log: log, Now: time.Now}
	hooks := &reconciler.Webhooks{
		Fleets: m.GetClient(), Hooks: hookReader{}, Waker: waker,
		Secrets: &reconciler.RememberedSecrets{Secrets: hookSecrets{credentials}, Now: time.Now},
		Metrics: reconciler.NewWebhookMetrics(o.Registry), Log: log, Now: time.Now,
	}
	if err := m.Add(&reconciler.HookServer{Listener: o.Webhooks, Webhooks: hooks, Waker: waker}); err != nil {
		return fmt.Errorf("add webhook receiver: %w", err)
	}
	return nil
}

// hookReader is the adapter as the reconciler wants it.
type hookReader struct{}

// ReadHook implements reconciler.HookReader.
func (hookReader) ReadHook(header http.Header, body []byte) (reconciler.Hook, error) {
	h, err := webhook.Read(header, body)
	return reconciler.Hook{Provider: h.Provider, Event: h.Event, Delivery: h.Delivery, Verify: h.Verify}, err
}

// hookSecrets reads the key token of the Secret that a Fleet names.
type hookSecrets struct{ secrets secrets }

// hookSecretKey holds the secret, as in Secrets of forges.
const hookSecretKey = "token"

// HookSecret implements reconciler.HookSecrets.
func (s hookSecrets) HookSecret(ctx context.Context, fleet *fleetv1.Fleet) ([]byte, error) {
	name := fleet.Spec.Webhook.SecretRef.Name
	data, err := s.secrets.read(ctx, fleet.Namespace, name)
	var failure *report.Failure
	switch {
	case errors.As(err, &failure):
		return nil, &wake.Refusal{Result: wake.Forbidden, Message: failure.Message}
	case err != nil:
		return nil, err
	}
	secret := bytes.TrimSpace(data[hookSecretKey])
	if len(secret) == 0 {
		return nil, &wake.Refusal{Result: wake.Forbidden, Message: fmt.Sprintf("Secret %s/%s has no key %s", fleet.Namespace, name, hookSecretKey)}
	}
	return secret, nil
}
