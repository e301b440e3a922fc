package cluster

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Statuses reads and writes the statuses of NodeWrights. It is safe for concurrent use.
type Statuses struct {
	cached client.Reader
	writer client.Client

	mu      sync.Mutex
	written map[types.UID]*nwv1.NodeWright // newer than the cache
}

// NewStatuses returns the store; cached is a cache, writer an API client.
func NewStatuses(cached client.Reader, writer client.Client) *Statuses {
	return &Statuses{cached: cached, writer: writer, written: map[types.UID]*nwv1.NodeWright{}}
}

// List are all NodeWrights by name, each as the cache has it or as it was written last, whichever is newer.
func (s *Statuses) List(ctx context.Context) (map[string]*nwv1.NodeWright, error) {
	list := &nwv1.NodeWrightList{}
	if err := s.cached.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list nodewrights: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*nwv1.NodeWright, len(list.Items))
	kept := map[types.UID]*nwv1.NodeWright{}
	for i := range list.Items {
		nw := &list.Items[i]
		if written := s.written[nw.UID]; written != nil && older(nw.ResourceVersion, written.ResourceVersion) {
			kept[nw.UID], nw = written, written
		}
		out[nw.Name] = nw
	}
	s.written = kept
	return out, nil
}

// Finalize adds or removes our finalizer, if the object is the one that is meant. It reads the object from the API server: a
// list is replaced as a whole, and others have finalizers too.
func (s *Statuses) Finalize(ctx context.Context, change plan.FinalizerChange) (gone bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		nw := &nwv1.NodeWright{}
		err := s.writer.Get(ctx, client.ObjectKey{Name: change.NodeWright}, nw)
		if apierrors.IsNotFound(err) || err == nil && (nw.UID != change.UID || change.Wanted && nw.DeletionTimestamp != nil) {
			gone = true
			return nil
		}
		if err != nil {
			return err
		}
		before, set := nw.DeepCopy(), controllerutil.RemoveFinalizer
		if change.Wanted {
			set = controllerutil.AddFinalizer
		}
		if !set(nw, fleetv1.UninstallFinalizer) {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return client.IgnoreNotFound(s.writer.Patch(ctx, nw, patch, client.FieldOwner(fleetv1.FieldManager)))
	})
	if err != nil {
		return gone, fmt.Errorf("write finalizer of nodewright %s: %w", change.NodeWright, err)
	}
	return gone, nil
}

// Write replaces the status of the object that List returned. An object that is gone, or another one of its name, is no
// error: there is nothing to report on.
func (s *Statuses) Write(ctx context.Context, old *nwv1.NodeWright, status nwv1.NodeWrightStatus) error {
	next := old.DeepCopy()
	next.Status = status
	// The patch names the version: the API server does not compare the UID here, and an object that was made anew under the name
	// would get the status of the one before, complete perhaps.
	patch := client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
	err := s.writer.Status().Patch(ctx, next, patch, client.FieldOwner(fleetv1.FieldManager))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) && s.replaced(ctx, old) {
		return nil
	}
	if err != nil { // other conflicts too: nothing else may ever wake the loop to write it again
		return fmt.Errorf("write status of nodewright %s: %w", old.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[next.UID] = next
	return nil
}

// replaced reports whether the object is gone, with another one of its name or none.
func (s *Statuses) replaced(ctx context.Context, old *nwv1.NodeWright) bool {
	now := &nwv1.NodeWright{}
	err := s.writer.Get(ctx, client.ObjectKeyFromObject(old), now)
	return apierrors.IsNotFound(err) || err == nil && now.UID != old.UID
}
