package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/delivery"
)

// addDelivery wires the delivery half: git, overlay, manifest, apply and forges around the loop over Fleets.
func addDelivery(ctx context.Context, m manager.Manager, o options, log *slog.Logger) error {
	settings := delivery.Options{Registry: metrics.Registry, AllowInsecureHTTP: o.insecureHTTP, DefaultServiceAccount: o.defaultAccount}
	if o.webhookAddress != "" {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.webhookAddress)
		if err != nil {
			return fmt.Errorf("--webhook-address: %w", err)
		}
		log.Info("webhooks are taken", "address", listener.Addr().String())
		settings.Webhooks = listener
	}
	return delivery.Add(m, settings)
}
