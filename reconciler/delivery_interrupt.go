package reconciler

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// errInterrupted ends a pass that works for a Fleet as it is no longer.
var errInterrupted = errors.New("the fleet was changed or deleted")

// underWay is a pass that can be interrupted.
type underWay struct {
	uid        types.UID
	generation int64
	cancel     context.CancelCauseFunc
}

// interruptible is the context of a pass. It ends when people change the Fleet's spec or delete it: what the pass waits for, a server
// that does not answer, is of no interest any more, and the new spec may be its cure. done must be called at the end.
func (m *deliveryMemory) interruptible(ctx context.Context, fleet *fleetv1.Fleet) (bounded context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	key, pass := keyOf(fleet), &underWay{uid: fleet.UID, generation: fleet.Generation, cancel: cancel}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.passes == nil {
		m.passes = map[types.NamespacedName]*underWay{}
	}
	m.passes[key] = pass
	return ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.passes[key] == pass {
			delete(m.passes, key)
		}
		cancel(nil)
	}
}

// interrupt ends the pass that is under way for an older Fleet than this one. Gone says that the Fleet is not there any more.
func (m *deliveryMemory) interrupt(fleet client.Object, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pass := m.passes[client.ObjectKeyFromObject(fleet)]
	if pass == nil || pass.uid == fleet.GetUID() && !gone && fleet.GetDeletionTimestamp().IsZero() && pass.generation >= fleet.GetGeneration() {
		return
	}
	pass.cancel(errInterrupted)
}

// orInterrupted turns the error of a pass that was interrupted into a race that was lost.
func orInterrupted(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return &lostRace{errInterrupted}
	}
	return err
}
