package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// Ledger reads and writes the one Ledger object with compare-and-swap.
type Ledger struct {
	reader client.Reader // live: a quorum read, no cache
	writer client.Client
}

// NewLedger returns the store. reader must not be a cache.
func NewLedger(reader client.Reader, writer client.Client) *Ledger {
	return &Ledger{reader: reader, writer: writer}
}

// Get reads the ledger and the version that a later Put compares with, creating an empty one if there is none.
func (l *Ledger) Get(ctx context.Context) (fleetv1.LedgerSpec, string, error) {
	ledger := &fleetv1.Ledger{}
	err := l.reader.Get(ctx, client.ObjectKey{Name: fleetv1.LedgerName}, ledger)
	if apierrors.IsNotFound(err) {
		ledger = &fleetv1.Ledger{ObjectMeta: metav1.ObjectMeta{Name: fleetv1.LedgerName}}
		err = l.writer.Create(ctx, ledger, client.FieldOwner(fleetv1.FieldManager))
	}
	if err != nil {
		return fleetv1.LedgerSpec{}, "", fmt.Errorf("get ledger: %w", err)
	}
	return ledger.Spec, ledger.ResourceVersion, nil
}

// Put replaces the ledger if it still has that version, and returns its new version. swapped is false, without an error,
// if somebody else has written it or it is gone. After an error the write may have happened or not: read it again.
func (l *Ledger) Put(ctx context.Context, spec fleetv1.LedgerSpec, version string) (next string, swapped bool, err error) {
	ledger := &fleetv1.Ledger{
		ObjectMeta: metav1.ObjectMeta{Name: fleetv1.LedgerName, ResourceVersion: version}, Spec: spec,
	}
	err = l.writer.Update(ctx, ledger, client.FieldOwner(fleetv1.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("write ledger: %w", err)
	}
	return ledger.ResourceVersion, true, nil
}
