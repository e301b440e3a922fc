package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

const (
	// wakePause is how far apart two wakes of one Fleet are at least.
	wakePause = 2 * time.Second
	// wakeTimeout bounds the write of one.
	wakeTimeout = 10 * time.Second
	// wakeDrain bounds what is still written when the process stops.
	wakeDrain = 5 * time.Second
)

// HookWaker writes an annotation on the Fleets that are to look, so that it does not matter which process got the request and
// which one leads. A Fleet is woken at once, and then at most once in two seconds; the last wish of a burst is never lost.
type HookWaker struct {
	// Client patches Fleets. Required.
	Client client.Client
	// Log tells what could not be written. Required.
	Log *slog.Logger
	// Now is the clock. Required.
	Now func() time.Time

	once   sync.Once
	signal chan struct{}
	queue  wakeQueue
}

// Wake notes that a Fleet is to look, and returns.
func (w *HookWaker) Wake(fleet types.NamespacedName, look wake.Look) {
	w.queue.add(fleet, look)
	select {
	case w.signaller() <- struct{}{}:
	default:
	}
}

func (w *HookWaker) signaller() chan struct{} {
	w.once.Do(func() { w.signal = make(chan struct{}, 1) })
	return w.signal
}

// Run writes until ctx ends, and then what is left.
func (w *HookWaker) Run(ctx context.Context) {
	for ctx.Err() == nil {
		w.pass(ctx)
		timer := time.NewTimer(w.queue.wait(w.Now()))
		select {
		case <-ctx.Done():
		case <-w.signaller():
		case <-timer.C:
		}
		timer.Stop()
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeDrain)
	defer cancel()
	w.queue.hurry()
	w.pass(drain)
}

// pass writes what is due.
func (w *HookWaker) pass(ctx context.Context) {
	for _, due := range w.queue.take(w.Now()) {
		err := w.write(ctx, due)
		switch {
		case err == nil:
			w.Log.Info("webhook wakes fleet", "fleet", due.fleet.String(), "looks", due.looks)
		case apierrors.IsNotFound(err):
		default:
			w.Log.Warn("cannot wake fleet yet", "fleet", due.fleet.String(), "error", err)
			for _, look := range due.looks {
				w.queue.add(due.fleet, look)
			}
		}
	}
}

// annotationOfLook is what each part of the reconciler watches.
var annotationOfLook = map[wake.Look]string{
	wake.Revision: fleetv1.PushedAtAnnotation, wake.Reviews: fleetv1.ReviewRequestedAtAnnotation,
}

func (w *HookWaker) write(ctx context.Context, due dueWake) error {
	token, annotations := w.Now().UTC().Format(time.RFC3339Nano), map[string]string{}
	for _, look := range due.looks {
		annotations[annotationOfLook[look]] = token
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("word patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	fleet := &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: due.fleet.Namespace, Name: due.fleet.Name}}
	if err := w.Client.Patch(ctx, fleet, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate fleet: %w", err)
	}
	return nil
}

// wakeQueue holds who is to be woken, and who was woken a moment ago. It has an entry for each such Fleet and no others.
type wakeQueue struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]*waitingWake
}

type waitingWake struct {
	looks     []wake.Look
	notBefore time.Time
}

type dueWake struct {
	fleet types.NamespacedName
	looks []wake.Look
}

func (q *wakeQueue) add(fleet types.NamespacedName, look wake.Look) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = map[types.NamespacedName]*waitingWake{}
	}
	if q.waiting[fleet] == nil {
		q.waiting[fleet] = &waitingWake{}
	}
	if one := q.waiting[fleet]; !slices.Contains(one.looks, look) {
		one.looks = append(one.looks, look)
	}
}

// take removes what is due, by name, and keeps those Fleets from being due again for a while.
func (q *wakeQueue) take(now time.Time) []dueWake {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []dueWake
	for fleet, one := range q.waiting {
		switch {
		case now.Before(one.notBefore):
		case len(one.looks) == 0:
			delete(q.waiting, fleet)
		default:
			due = append(due, dueWake{fleet, one.looks})
			q.waiting[fleet] = &waitingWake{notBefore: now.Add(wakePause)}
		}
	}
	slices.SortFunc(due, func(a, b dueWake) int { return strings.Compare(a.fleet.String(), b.fleet.String()) })
	return due
}

// wait is how long nothing is due.
func (q *wakeQueue) wait(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := time.Minute // also sweeps
	for _, one := range q.waiting {
		if len(one.looks) > 0 {
			wait = min(wait, max(one.notBefore.Sub(now), 0))
		}
	}
	return wait
}

// hurry makes everything due.
func (q *wakeQueue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.waiting {
		one.notBefore = time.Time{}
	}
}
