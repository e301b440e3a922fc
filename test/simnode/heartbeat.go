package simnode

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// heartbeats renews the lease of every machine that is on, until ctx ends.
func (f *Fleet) heartbeats(ctx context.Context) {
	tick := f.options.Clock.NewTicker(f.options.Heartbeat)
	defer tick.Stop()
	for {
		for _, name := range f.running() {
			// A lost heartbeat is what the node-lifecycle controller is there for; the next tick tries again.
			_ = f.renewLease(ctx, name)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

func (f *Fleet) running() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, n := range f.nodes {
		if !n.down {
			names = append(names, name)
		}
	}
	return names
}

func (f *Fleet) renewLease(ctx context.Context, name string) error {
	leases := f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	seconds, now := int32(40), metav1.NewMicroTime(f.options.Clock.Now())
	spec := coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		l, err := leases.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
			_, err = leases.Create(ctx, l, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		l.Spec = spec
		_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("renew lease of node %s: %w", name, err)
	}
	return nil
}
