package delivery

import (
	"context"
	"fmt"
	"maps"
	"strings"
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
	// link is spec.checks.targetURL, ref the name under which the Fleet's commits are found.
	link, ref string
	// pulls are the pull requests that statuses are about, by their head; none for those of the Fleet's own commits.
	pulls  map[string]forge.PullRequest
	wanted []report.CommitStatus
}

func speakerOf(fleet *fleetv1.Fleet, wanted []report.CommitStatus) *speaker {
	return &speaker{
		target: forges.TargetOf(fleet), context: report.ContextOf(fleet), link: fleet.Spec.Checks.TargetURL, ref: refName(fleet), wanted: wanted,
		object: corev1.ObjectReference{
			APIVersion: fleetv1.GroupVersion.String(), Kind: fleetv1.KindFleet, Namespace: fleet.Namespace, Name: fleet.Name, UID: fleet.UID,
		},
	}
}

// refName is empty where the Fleet does not follow one ref.
func refName(fleet *fleetv1.Fleet) string {
	switch ref := refOf(fleet.Spec.Source.Ref); {
	case ref.Commit != "" || ref.SemVer != "":
		return ""
	case ref.Tag != "":
		return "refs/tags/" + ref.Tag
	default:
		return ref.Branch
	}
}

// status is what the forge shall show.
func (s *speaker) status(wanted report.CommitStatus) forge.Status {
	out := forge.Status{
		Commit: wanted.Commit, Context: s.context, State: forge.State(wanted.State), Description: wanted.Description, Ref: s.ref,
		TargetURL: strings.NewReplacer("{namespace}", s.object.Namespace, "{name}", s.object.Name, "{commit}", wanted.Commit).Replace(s.link),
	}
	if pull, about := s.pulls[wanted.Commit]; about {
		out.Pull, out.Ref = pull.Number, pull.HeadBranch
	}
	return out
}

func newStatuses(recorder events.EventRecorder, o forge.ReporterOptions) *statuses {
	return &statuses{
		recorder: recorder, options: o,
		wake: make(chan struct{}, 1), writers: map[forges.Target]*writer{}, fleets: map[types.NamespacedName]*speaker{},
	}
}

// Want hands the statuses to the writer of the Fleet's repository.
func (s *statuses) Want(ctx context.Context, fleet *fleetv1.Fleet, wanted []report.CommitStatus) (map[string]report.CommitState, error) {
	return s.wantAs(ctx, fleet, speakerOf(fleet, wanted))
}

// wantAs is Want by a speaker.
func (s *statuses) wantAs(ctx context.Context, fleet *fleetv1.Fleet, me *speaker) (map[string]report.CommitState, error) {
	w, err := s.writer(ctx, me.target)
	if err != nil {
		return nil, err
	}
	if err := s.register(client.ObjectKeyFromObject(fleet), me); err != nil {
		return nil, err
	}
	for _, status := range me.wanted {
		if err := w.reporter.Want(me.status(status)); err != nil {
			return nil, fmt.Errorf("want commit status: %w", err)
		}
	}
	return w.seen.final(me.context), nil
}

// register notes who speaks. Two Fleets under one name would overwrite each other for ever.
func (s *statuses) register(fleet types.NamespacedName, me *speaker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, has := range s.fleets {
		if other != fleet && strings.EqualFold(has.context, me.context) && forge.SameRepository(has.target.Repository, me.target.Repository) {
			return fmt.Errorf("no commit statuses: spec.checks.context %q is used by Fleet %s for this repository too; choose another", me.context, other)
		}
	}
	s.leave(s.fleets[fleet], me)
	s.fleets[fleet] = me
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
		_ = s.writers[had.target].reporter.Want(had.status(status)) // it was wanted before, so it is well-formed
	}
}

// leave is for a Fleet that speaks elsewhere from now on, or with another Secret. The caller holds the lock.
func (s *statuses) leave(had, now *speaker) {
	if had == nil || had.target == now.target && had.context == now.context || s.writers[had.target] == nil {
		return
	}
	before := had.target
	before.SecretName = now.target.SecretName
	if before == now.target && had.context == now.context { // the other writer says the same from now on; this one must not come behind it
		s.writers[had.target].reporter.Forget(had.context)
		return
	}
	s.end(had, "the Fleet reports elsewhere now, as "+now.context)
}

// pending is how many statuses are wanted and not yet known to be shown.
func (s *statuses) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, w := range s.writers {
		n += w.reporter.Pending()
	}
	return n
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
