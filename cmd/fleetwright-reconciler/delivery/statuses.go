package delivery

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/internal/forges"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// statuses has one writer for each repository that commit statuses go to, whatever the number of Fleets.
type statuses struct {
	forges   *forges.Forges
	recorder events.EventRecorder
	options  forge.ReporterOptions
	wake     chan struct{}

	mu      sync.Mutex
	writers map[forges.Target]*writer
	waiting []*writer // not running yet
	fleets  map[types.NamespacedName]*speaker
}

// speaker is a Fleet that wants statuses.
type speaker struct {
	target  forges.Target
	context string
	object  corev1.ObjectReference
	wanted  []report.CommitStatus
}

func newStatuses(f *forges.Forges, recorder events.EventRecorder, o forge.ReporterOptions) *statuses {
	return &statuses{
		forges: f, recorder: recorder, options: o,
		wake: make(chan struct{}, 1), writers: map[forges.Target]*writer{}, fleets: map[types.NamespacedName]*speaker{},
	}
}

// Want hands the statuses to the writer of the Fleet's repository.
func (s *statuses) Want(ctx context.Context, fleet *fleetv1.Fleet, wanted []report.CommitStatus) (map[string]report.CommitState, error) {
	return s.wantAs(ctx, fleet, report.ContextOf(fleet), wanted)
}

// wantAs is Want under another context.
func (s *statuses) wantAs(ctx context.Context, fleet *fleetv1.Fleet, name string, wanted []report.CommitStatus) (map[string]report.CommitState, error) {
	to := forges.TargetOf(fleet)
	w, err := s.writer(ctx, to)
	if err != nil {
		return nil, err
	}
	if err := s.register(to, name, fleet, wanted); err != nil {
		return nil, err
	}
	for _, status := range wanted {
		if err := w.reporter.Want(toForge(status, name)); err != nil {
			return nil, fmt.Errorf("want commit status: %w", err)
		}
	}
	return w.seen.final(name), nil
}

func toForge(s report.CommitStatus, name string) forge.Status {
	return forge.Status{Commit: s.Commit, Context: name, State: forge.State(s.State), Description: s.Description}
}

// register notes who speaks. Two Fleets under one name would overwrite each other for ever.
func (s *statuses) register(to forges.Target, name string, fleet *fleetv1.Fleet, wanted []report.CommitStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	me := client.ObjectKeyFromObject(fleet)
	for other, has := range s.fleets {
		if other != me && has.context == name && has.target.Repository == to.Repository {
			return fmt.Errorf("no commit statuses: spec.checks.context %q is used by Fleet %s for this repository too; choose another", name, other)
		}
	}
	s.leave(s.fleets[me], to, name)
	s.fleets[me] = &speaker{target: to, context: name, wanted: wanted, object: corev1.ObjectReference{
		APIVersion: fleetv1.GroupVersion.String(), Kind: fleetv1.KindFleet, Namespace: fleet.Namespace, Name: fleet.Name, UID: fleet.UID,
	}}
	return nil
}

// Forget ends what a Fleet left open.
func (s *statuses) Forget(fleet types.NamespacedName, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(s.fleets[fleet], why)
	delete(s.fleets, fleet)
}

// end makes final what a Fleet has open; the caller holds the lock.
func (s *statuses) end(had *speaker, why string) {
	if had == nil || s.writers[had.target] == nil {
		return
	}
	for _, status := range had.wanted {
		if status.State.Final() {
			continue
		}
		status.State, status.Description = report.CommitError, why
		_ = s.writers[had.target].reporter.Want(toForge(status, had.context)) // it was wanted before, so it is well-formed
	}
}

// leave is for a Fleet that speaks elsewhere from now on, or with another Secret. The caller holds the lock.
func (s *statuses) leave(had *speaker, to forges.Target, name string) {
	if had == nil || had.target == to && had.context == name || s.writers[had.target] == nil {
		return
	}
	before := had.target
	before.SecretName = to.SecretName
	if before == to && had.context == name { // the other writer says the same from now on; this one must not come behind it
		s.writers[had.target].reporter.Forget(name)
		return
	}
	s.end(had, "the Fleet reports elsewhere now, as "+name)
}

// observed tells the Fleet's people that a status could not be written.
func (s *statuses) observed(to forges.Target, status forge.Status, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, has := range s.fleets {
		if has.target == to && has.context == status.Context {
			s.recorder.Eventf(&has.object, nil, corev1.EventTypeWarning, report.EventStatusFailed, report.ActionCheck,
				"%s on commit %s: %s", status.State, status.Commit, report.Redact(err.Error()))
		}
	}
}

// run starts the writers as they come, and waits until all have ended.
func (s *statuses) run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		for _, w := range s.takeWaiting() {
			group.Go(func() { _ = w.reporter.Run(ctx) }) // it fails only if it runs already
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
	}
}

func (s *statuses) takeWaiting() []*writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.waiting
	s.waiting = nil
	return out
}

// seen is what the forge is known to show: what it answered to a read, and what it took.
type seen struct {
	forge.Provider
	record *record
}

type record struct {
	mu     sync.Mutex
	states map[[2]string]report.CommitState // by context and commit
}

// maxSeen bounds the memory; what is forgotten stays open a little longer.
const maxSeen = 4096

func (r *record) note(all ...forge.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.states) > maxSeen {
		clear(r.states)
	}
	for _, s := range all {
		r.states[[2]string{s.Context, s.Commit}] = report.CommitState(s.State)
	}
}

// final are the final states under one context, by commit.
func (r *record) final(name string) map[string]report.CommitState {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]report.CommitState{}
	for key, state := range maps.All(r.states) {
		if key[0] == name && state.Final() {
			out[key[1]] = state
		}
	}
	return out
}

// SetStatus notes what the forge took.
func (s seen) SetStatus(ctx context.Context, status forge.Status) error {
	err := s.Provider.SetStatus(ctx, status)
	if err == nil || forge.ClassOf(err) == forge.AlreadyThere {
		s.record.note(status)
	}
	return err
}

// Statuses notes what the forge shows.
func (s seen) Statuses(ctx context.Context, commit string) ([]forge.Status, error) {
	all, err := s.Provider.Statuses(ctx, commit)
	if err == nil {
		s.record.note(all...)
	}
	return all, err
}
