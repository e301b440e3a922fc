package main

import (
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/delivery"
)

// addDelivery wires the delivery half: git, overlay, manifest, apply and forges around the loop over Fleets.
func addDelivery(_ context.Context, m manager.Manager, o options, _ *slog.Logger) error {
	return delivery.Add(m, delivery.Options{Registry: metrics.Registry, AllowInsecureHTTP: o.insecureHTTP})
}
