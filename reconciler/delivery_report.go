package reconciler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// report computes what the Fleet shows from what is known now, and writes what differs. It runs at the end of every pass,
// also of one that delivered nothing: the rollout may have moved.
func (r *Delivery) report(ctx context.Context, p *deliveryPass) error {
	view, err := r.observe(ctx, p)
	if err != nil {
		return err
	}
	status := &p.fleet.Status
	if p.looked {
		status.ObservedGeneration = p.fleet.Generation
		if p.requested {
			status.LastHandledReconcileAt = p.fleet.Annotations[fleetv1.RequestedAtAnnotation]
		}
	}
	if view.RolledOut() {
		status.LastRolledOutRevision = view.Applied
		view.LastRolledOut = view.Applied
	}
	status.Rollout = view.Summary()
	r.setConditions(p, view.Conditions())
	if err := r.patchStatus(ctx, p); err != nil {
		return err
	}
	r.tell(p)
	r.Metrics.fleet(p.fleet, r.Now)
	return r.reportCommits(ctx, p, view)
}

const readyCondition = "Ready"

// view is what the report is made from, without the NodeWrights.
func (r *Delivery) view(p *deliveryPass) report.Delivery {
	status := p.fleet.Status
	view := report.Delivery{
		Generation: p.fleet.Generation, Suspended: p.fleet.Spec.Suspend, Failure: p.memory.failure,
		Attempted: status.LastAttemptedRevision, Applied: status.LastAppliedRevision, LastRolledOut: status.LastRolledOutRevision,
		SignedBy: p.memory.signed.of(p.fleet),
		Open:     slices.DeleteFunc(openCommits(p.fleet), func(c string) bool { return p.memory.ended[c] }),
	}
	view.Waiting, view.ByHand = p.waitsFor(), len(report.GatesOf(p.fleet)) > 0 && report.ByHand(p.fleet, report.CommitOf(view.Applied))
	if p.waiting { // nothing is known of a newer generation
		view.Generation = max(0, status.ObservedGeneration)
		if view.Applied == "" {
			view.Working = "waiting for its turn at " + hostOf(p.fleet.Spec.Source.URL)
		}
	}
	return view
}

// observe adds the NodeWrights of the inventory as they are now.
func (r *Delivery) observe(ctx context.Context, p *deliveryPass) (report.Delivery, error) {
	view := r.view(p)
	catalogue, err := r.catalogue(ctx)
	if err != nil {
		return view, err
	}
	for _, entry := range entries(p.fleet) {
		_, name, _, kind, _ := report.ParseEntryID(entry.ID)
		if kind != nwv1.KindNodeWright {
			continue
		}
		nw := &nwv1.NodeWright{}
		err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, nw)
		if apierrors.IsNotFound(err) {
			view.NodeWrights = append(view.NodeWrights, report.NodeWrightView{Name: name})
			continue
		}
		if err != nil {
			return view, fmt.Errorf("read nodewright: %w", err)
		}
		view.NodeWrights = append(view.NodeWrights, viewOf(nw, catalogue, view.Applied))
	}
	view.NodeWrights, err = r.withLeaving(ctx, p, view.NodeWrights)
	return view, err
}

// withLeaving adds the NodeWrights that left the repository and are still being uninstalled.
func (r *Delivery) withLeaving(ctx context.Context, p *deliveryPass, views []report.NodeWrightView) ([]report.NodeWrightView, error) {
	list := &nwv1.NodeWrightList{}
	err := r.Reader.List(ctx, list, client.MatchingLabels{
		fleetv1.FleetNamespaceLabel: p.fleet.Namespace, fleetv1.FleetNameLabel: p.fleet.Name,
	})
	if err != nil {
		return views, fmt.Errorf("list nodewrights: %w", err)
	}
	for i := range list.Items {
		nw := &list.Items[i]
		known := slices.ContainsFunc(views, func(v report.NodeWrightView) bool { return v.Name == nw.Name })
		if nw.DeletionTimestamp != nil && !known {
			views = append(views, report.LeavingView(nw))
		}
	}
	return views, nil
}

// viewOf trusts a status only if it is about the content that the applied revision has.
func viewOf(nw *nwv1.NodeWright, catalogue map[string]*fleetv1.Package, applied string) report.NodeWrightView {
	set, problems := desired.Resolve(nw, catalogue)
	view := report.ViewOf(nw, set.Hash)
	view.Current = view.Current && len(problems) == 0 && nw.Annotations[fleetv1.RevisionAnnotation] == applied
	return view
}

func (r *Delivery) catalogue(ctx context.Context) (map[string]*fleetv1.Package, error) {
	var list fleetv1.PackageList
	if err := r.Reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	out := map[string]*fleetv1.Package{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// setConditions replaces the conditions; one that keeps its status keeps its time.
func (r *Delivery) setConditions(p *deliveryPass, wanted []metav1.Condition) {
	var out []metav1.Condition
	for _, c := range wanted {
		c.LastTransitionTime = metav1.NewTime(p.now)
		if had := meta.FindStatusCondition(p.fleet.Status.Conditions, c.Type); had != nil && had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
		out = append(out, c)
	}
	p.fleet.Status.Conditions = out
}

// patchStatus writes the status if it changed. The version that was read is a precondition: a Fleet that someone changed
// meanwhile is looked at anew.
func (r *Delivery) patchStatus(ctx context.Context, p *deliveryPass) error {
	if equality.Semantic.DeepEqual(p.before.Status, p.fleet.Status) {
		return nil
	}
	written := p.fleet.DeepCopy()
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, written, patch); err != nil {
		return fmt.Errorf("write fleet status: %w", raced(err))
	}
	p.fleet, p.before = written, written.DeepCopy()
	return nil
}

// reportCommits notes which commits are about to show something that is not final, then hands all statuses over.
func (r *Delivery) reportCommits(ctx context.Context, p *deliveryPass, view report.Delivery) error {
	if p.fleet.Spec.Checks == nil || !report.CanWrite(p.fleet.Spec.Checks.Provider) {
		r.Statuses.Forget(keyOf(p.fleet), "the Fleet writes no commit statuses any more")
		return r.writeOpen(ctx, p, nil)
	}
	wanted := view.CommitStatuses()
	if err := r.writeOpen(ctx, p, report.StillOpen(openCommits(p.fleet), wanted, nil)); err != nil {
		return err
	}
	shown, err := r.Statuses.Want(ctx, p.fleet, wanted)
	if err != nil {
		log.FromContext(ctx).Error(err, "commit statuses cannot be written")
		r.event(p, happening{warning, report.EventStatusFailed, report.ActionCheck, err.Error()})
		return nil
	}
	p.memory.noteEnds(wanted)
	return r.writeOpen(ctx, p, report.StillOpen(openCommits(p.fleet), wanted, shown))
}

func openCommits(fleet *fleetv1.Fleet) []string {
	return strings.FieldsFunc(fleet.Annotations[fleetv1.OpenCommitsAnnotation], func(c rune) bool { return c == ',' })
}

func (r *Delivery) writeOpen(ctx context.Context, p *deliveryPass, open []string) error {
	if slices.Equal(open, openCommits(p.fleet)) {
		return nil
	}
	written := p.fleet.DeepCopy()
	annotations := maps.Clone(written.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[fleetv1.OpenCommitsAnnotation] = strings.Join(open, ",")
	if len(open) == 0 {
		delete(annotations, fleetv1.OpenCommitsAnnotation)
	}
	written.Annotations = annotations
	if err := r.Client.Patch(ctx, written, client.MergeFrom(p.fleet)); err != nil {
		return fmt.Errorf("note open commits: %w", raced(err))
	}
	p.fleet, p.before = written, written.DeepCopy()
	return nil
}

// Types of events.
const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

// tell says what changed for people since the last report: a failure that is new, one that is gone, an end that was reached.
func (r *Delivery) tell(p *deliveryPass) {
	ready := meta.FindStatusCondition(p.fleet.Status.Conditions, readyCondition)
	was, before, now := p.was, p.wasReady, p.memory.failure
	if now == nil && was != nil {
		r.event(p, happening{normal, report.EventRecovered, report.ActionDeliver, "no longer: " + was.Message})
	}
	switch {
	case now != nil:
		if was == nil || was.Reason != now.Reason || was.Revision != now.Revision || (now.Stalled && was.Message != now.Message) {
			r.event(p, happening{warning, now.Reason, report.ActionDeliver, now.Message})
		}
	case before != nil && before.Status == ready.Status && before.Reason == ready.Reason && before.Message == ready.Message:
	case ready.Status == metav1.ConditionTrue:
		r.event(p, happening{normal, ready.Reason, report.ActionRollout, ready.Message})
	case ready.Status == metav1.ConditionFalse:
		r.event(p, happening{warning, ready.Reason, report.ActionRollout, ready.Message})
	}
}

// reportChanges counts and tells what was written. Drift is told on the object as well: its owner looks there.
func (r *Delivery) reportChanges(p *deliveryPass, changes []report.Change) {
	var written []report.Change
	for _, c := range changes {
		r.Metrics.change(c.Action)
		switch {
		case c.Drift():
			r.tellDrift(p, c)
		case c.Action == report.ObjectPruned:
			r.event(p, happening{normal, report.EventPruned, report.ActionPrune, c.String()})
		case c.Action == report.ObjectKept:
			r.event(p, happening{warning, report.EventPruneSkipped, report.ActionPrune, c.String()})
		default:
			written = append(written, c)
		}
	}
	if len(written) > 0 {
		note := fmt.Sprintf("%s: %s", report.ShortRevision(p.revision.Name), changeList(written))
		r.event(p, happening{normal, report.EventApplied, report.ActionApply, note})
	}
}

// tellDrift names the object in the Fleet's event too: events that differ in nothing but their words are counted as one.
func (r *Delivery) tellDrift(p *deliveryPass, c report.Change) {
	h := happening{warning, report.EventDriftCorrected, report.ActionApply, c.String()}
	if c.Action == report.ObjectRecreated {
		h.reason = report.EventRecreated
	}
	object := &corev1.ObjectReference{APIVersion: c.Group + "/" + c.Version, Kind: c.Kind, Name: c.Name}
	r.eventOn(p.fleet, object, h)
	r.eventOn(object, p.fleet, h)
}

func changeList(changes []report.Change) string {
	var words []string
	for _, c := range changes {
		words = append(words, c.String())
	}
	return strings.Join(words, ", ")
}

// happening is what an event says.
type happening struct {
	kind, reason, action, note string
}

// event tells people about the Fleet.
func (r *Delivery) event(p *deliveryPass, h happening) { r.eventOn(p.fleet, nil, h) }

func (r *Delivery) eventOn(object, related runtime.Object, h happening) {
	r.Events.Eventf(object, related, h.kind, h.reason, h.action, "%s", report.Cut(h.note, maxNote))
}

// maxNote is the longest note of an event that the API server takes, in bytes.
const maxNote = 1024

func keyOf(fleet *fleetv1.Fleet) types.NamespacedName { return client.ObjectKeyFromObject(fleet) }
