package main

import (
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// addDelivery wires the delivery half: git, overlay, manifest, apply and forges around the loop over Fleets.
func addDelivery(_ context.Context, _ manager.Manager, _ options, log *slog.Logger) error {
	log.Warn("this build delivers no Fleets: it rolls out NodeWrights only")
	return nil
}
