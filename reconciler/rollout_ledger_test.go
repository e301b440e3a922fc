package reconciler

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// slowLedger answers no write, and lets the last one take effect later.
type slowLedger struct {
	*rolloutWorld
	late *fleetv1.LedgerSpec
}

func (l *slowLedger) Put(_ context.Context, spec fleetv1.LedgerSpec, _ string) (string, bool, error) {
	l.late = &spec
	return "", false, errors.New("no answer")
}

// A write of the ledger that was not answered may take effect after the ledger was read again. A leader that has nothing
// more to write would never learn of it.
func TestAnUnansweredWriteOfTheLedgerIsLookedForUntilOneIsAnswered(t *testing.T) {
	w, r := newRolloutWorld(t)
	slow := &slowLedger{rolloutWorld: w}
	r.Ledger = slow
	_, err := r.Pass(context.Background())
	require.ErrorContains(t, err, "no answer")

	w.in.NodeWrights[0].Problem = "nothing begins" // the plan writes no ledger from here on
	_, err = r.Pass(context.Background())
	require.NoError(t, err)
	require.Empty(t, r.memory.ledger.Rollouts, "read again, before the late write")

	w.version++
	w.ledger = *slow.late
	_, err = r.Pass(context.Background())
	require.NoError(t, err)
	require.Len(t, r.memory.ledger.Rollouts["tune"].Intents, 3, "read again, after it")

	r.Ledger, w.in.NodeWrights = w, nil // what is gone is dropped from the ledger
	_, err = r.Pass(context.Background())
	require.NoError(t, err)
	require.False(t, r.memory.unsure, "an answered write leaves no doubt")
}
