package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/internal/forges"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/promotion"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// shown reads what commits show, with the credential that statuses are written with.
type shown struct{ forges *forges.Forges }

// Shown reads one commit's statuses from the Fleet's forge.
func (s shown) Shown(ctx context.Context, fleet *fleetv1.Fleet, commit string) ([]promotion.Shown, error) {
	provider, err := s.forges.Open(ctx, fleet)
	if err != nil {
		return nil, unreadable(commit, err)
	}
	all, err := provider.Statuses(ctx, commit)
	if err != nil {
		return nil, unreadable(commit, err)
	}
	out := make([]promotion.Shown, 0, len(all))
	for _, status := range all {
		out = append(out, promotion.Shown{Context: status.Context, State: string(status.State), At: status.At})
	}
	return out, nil
}

func unreadable(commit string, err error) error {
	return fmt.Errorf("cannot read the statuses of commit %s: %w", commit, errors.New(report.Redact(err.Error())))
}
