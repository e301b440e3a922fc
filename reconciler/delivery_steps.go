package reconciler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// stopIfSuspended leaves everything as it is; the report still follows the rollout that has begun, also if the Fleet was
// suspended before the last apply could be noted.
func (r *Delivery) stopIfSuspended(_ context.Context, p *deliveryPass) (verdict, error) {
	if !p.fleet.Spec.Suspend {
		return goOn, nil
	}
	if last := p.memory.applied; last != nil {
		p.noteApplied(last.revision.Name)
	}
	if p.memory.failure == nil && p.memory.next.IsZero() { // a restart: the conditions remember
		p.memory.failure = report.Remembered(p.fleet.Status)
	}
	return stop, nil
}

// stopUnlessDue lets a pass through that the interval, a retry, a request, a webhook, a changed spec or a start of the process asks for.
// A changed object needs no look at git: the last build is compared with the cluster.
func (r *Delivery) stopUnlessDue(_ context.Context, p *deliveryPass) (verdict, error) {
	changed := p.fleet.Generation != p.fleet.Status.ObservedGeneration
	if p.requested || p.pushed != "" || changed || p.isPromotedByHand() || !p.now.Before(p.memory.next) {
		p.drift = false
		return goOn, nil
	}
	last := p.memory.applied
	if p.drift && last.matches(p.fleet, p.fleet.Status.LastAppliedRevision) {
		p.revision, p.rendered = last.revision, last
		return goOn, nil
	}
	return stop, nil
}

// maxLabelValue is the longest label value in Kubernetes.
const maxLabelValue = 63

func (r *Delivery) refuseUnsupported(_ context.Context, p *deliveryPass) (verdict, error) {
	if failure := report.Unsupported(p.fleet.Spec); failure != nil {
		return stop, failure
	}
	if len(p.fleet.Name) > maxLabelValue {
		return stop, &report.Failure{
			Reason: report.ReasonUnsupported, Stalled: true,
			Message: fmt.Sprintf("the Fleet's name has %d characters (allowed: %d, because it labels its objects)", len(p.fleet.Name), maxLabelValue),
		}
	}
	return goOn, nil
}

func (r *Delivery) resolve(ctx context.Context, p *deliveryPass) (verdict, error) {
	if p.rendered != nil {
		return goOn, nil
	}
	if p.leave, p.waiting = r.enterHost(p.fleet); p.waiting {
		return stop, nil
	}
	done := r.Metrics.git("resolve", r.Now)
	revision, err := r.Source.Resolve(ctx, p.fleet)
	done(err)
	if err != nil {
		return stop, err
	}
	p.revision = revision
	if last := p.memory.rendered; !p.requested && last.stands() && last.matches(p.fleet, revision.Name) {
		p.rendered = last
	}
	return goOn, nil
}

// announce writes down that a new revision, or another spec, is being worked on, before the work.
func (r *Delivery) announce(ctx context.Context, p *deliveryPass) (verdict, error) {
	isNew := p.fleet.Status.LastAttemptedRevision != p.revision.Name
	if !isNew && p.fleet.Status.ObservedGeneration == p.fleet.Generation {
		return goOn, nil
	}
	p.fleet.Status.LastAttemptedRevision = p.revision.Name
	p.fleet.Status.ObservedGeneration = p.fleet.Generation
	if isNew {
		p.fleet.Status.Promotion = nil // it was about another one
	}
	view := r.view(p)
	view.Failure, view.Working = nil, "delivering "+report.ShortRevision(p.revision.Name)
	r.setConditions(p, view.Conditions())
	if err := r.patchStatus(ctx, p); err != nil {
		return stop, err
	}
	if isNew {
		r.event(p, happening{normal, report.EventNewRevision, report.ActionDeliver, newRevisionNote(p)})
	}
	return goOn, nil
}

func newRevisionNote(p *deliveryPass) string {
	note := p.revision.Name + " is being delivered"
	if applied := p.fleet.Status.LastAppliedRevision; applied != "" {
		note += ", after " + report.ShortRevision(applied)
	}
	return note
}

func (r *Delivery) fetch(ctx context.Context, p *deliveryPass) (verdict, error) {
	if p.rendered != nil {
		return goOn, nil
	}
	done := r.Metrics.git("fetch", r.Now)
	tree, err := r.Source.Fetch(ctx, p.fleet, p.revision)
	done(err)
	p.tree = tree
	p.leave()
	p.memory.signed = signedBy{revision: p.revision.Name, generation: p.fleet.Generation}
	if err == nil {
		p.memory.signed.text = tree.SignedBy()
	}
	return goOn, p.blame(err)
}

// blame notes that a failure is about the revision at hand.
func (p *deliveryPass) blame(err error) error {
	failure, ok := asFailure(err)
	if !ok {
		return err
	}
	blamed := *failure
	blamed.Revision = p.revision.Name
	return &blamed
}

func (r *Delivery) render(ctx context.Context, p *deliveryPass) (verdict, error) {
	if p.rendered != nil {
		return goOn, nil
	}
	built, err := r.Renderer.Render(ctx, p.fleet, p.tree)
	if err != nil {
		return stop, err
	}
	p.fresh, p.rendered = true, renderingOf(p.fleet, p.revision, built)
	return goOn, nil
}

func renderingOf(fleet *fleetv1.Fleet, revision Revision, built Rendered) *rendering {
	out := &rendering{
		revision: revision, generation: fleet.Generation, objects: built.Objects, findings: built.Findings,
		failure:     report.Refusal(refusalReason(built), revision.Name, built.Findings),
		provisional: built.Provisional,
	}
	if out.failure == nil && len(built.Objects) == 0 {
		out.failure = report.EmptyBuild(fleet.Spec.Path, revision.Name, len(entries(fleet)))
	}
	return out
}

// refusalReason tells apart an overlay that yields nothing, one that does not build, and manifests with errors.
func refusalReason(built Rendered) string {
	if built.Built {
		return report.ReasonValidationFailed
	}
	for _, f := range built.Findings {
		if f.Severity == finding.Error && f.Code != report.ReasonEmptyBuild {
			return report.ReasonBuildFailed
		}
	}
	return report.ReasonEmptyBuild
}

// judge ends the pass of a revision that is refused, now or when it was first seen: only a new commit or another Fleet cures
// it.
func (r *Delivery) judge(_ context.Context, p *deliveryPass) (verdict, error) {
	if p.drift {
		return goOn, nil
	}
	p.memory.rendered = p.rendered
	p.fleet.Status.Findings = report.StatusFindings(p.rendered.findings)
	if p.rendered.failure != nil {
		return stop, p.rendered.failure
	}
	if p.fresh {
		r.warn(p, p.rendered.findings)
	}
	return goOn, nil
}

func (r *Delivery) warn(p *deliveryPass, findings []finding.Finding) {
	var warnings []string
	for _, f := range findings {
		if f.Severity == finding.Warning {
			warnings = append(warnings, f.String())
		}
	}
	if len(warnings) > 0 {
		r.event(p, happening{warning, report.EventWarning, report.ActionDeliver, strings.Join(warnings, "; ")})
	}
}

// apply first writes down which objects are about to be the Fleet's: what a crash leaves behind must be in the inventory.
func (r *Delivery) apply(ctx context.Context, p *deliveryPass) (verdict, error) {
	had := entries(p.fleet)
	setInventory(p.fleet, report.MergeInventory(had, inventoryOf(p.rendered.objects)))
	if err := r.patchStatus(ctx, p); err != nil {
		return stop, err
	}
	bounded, cancel := context.WithTimeout(ctx, timeoutOf(p.fleet))
	defer cancel()
	owner := p.fleet.DeepCopy()
	setInventory(owner, had) // what the Fleet had before: the rest was not deleted by anybody
	applied, err := r.Applier.Apply(bounded, owner, p.revision.Name, p.rendered.objects)
	r.reportChanges(p, applied.Changes)
	if failure, ok := asFailure(err); ok && failure.Reason == report.ReasonOwnedByOther {
		setInventory(p.fleet, had) // found before the first write
	}
	if err != nil {
		return stop, p.blame(err)
	}
	if failure := report.Refusal(report.ReasonRefused, p.revision.Name, applied.Findings); failure != nil {
		setInventory(p.fleet, had)
		p.fleet.Status.Findings = report.StatusFindings(append(applied.Findings, p.rendered.findings...))
		return stop, failure
	}
	p.memory.applied = p.rendered
	p.noteApplied(p.revision.Name)
	return goOn, nil
}

// noteApplied moves the applied revision. One that comes back (a force push to an earlier commit, say) is rolled out anew.
func (p *deliveryPass) noteApplied(revision string) {
	status := &p.fleet.Status
	if status.LastAppliedRevision != revision && status.LastRolledOutRevision == revision {
		status.LastRolledOutRevision = ""
	}
	status.LastAppliedRevision = revision
	if status.Promotion != nil && status.Promotion.Revision == revision {
		status.Promotion = nil
	}
}

func (r *Delivery) prune(ctx context.Context, p *deliveryPass) (verdict, error) {
	inventory := inventoryOf(p.rendered.objects)
	gone := report.WithoutEntries(entries(p.fleet), inventory)
	if p.fleet.Spec.Prune && len(gone) > 0 {
		bounded, cancel := context.WithTimeout(ctx, timeoutOf(p.fleet))
		defer cancel()
		changes, err := r.Applier.Prune(bounded, p.fleet, gone)
		r.reportChanges(p, changes)
		if err != nil {
			return stop, p.blame(err)
		}
	}
	setInventory(p.fleet, inventory)
	return goOn, nil
}

func entries(fleet *fleetv1.Fleet) []fleetv1.InventoryEntry {
	if fleet.Status.Inventory == nil {
		return nil
	}
	return slices.Clone(fleet.Status.Inventory.Entries)
}

// setInventory leaves an empty one out: the API server takes no inventory without entries.
func setInventory(fleet *fleetv1.Fleet, entries []fleetv1.InventoryEntry) {
	fleet.Status.Inventory = nil
	if len(entries) > 0 {
		fleet.Status.Inventory = &fleetv1.Inventory{Entries: entries}
	}
}

func inventoryOf(objects []*unstructured.Unstructured) []fleetv1.InventoryEntry {
	var out []fleetv1.InventoryEntry
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		out = append(out, fleetv1.InventoryEntry{
			ID: report.EntryID(o.GetNamespace(), o.GetName(), gvk.Group, gvk.Kind), Version: gvk.Version,
		})
	}
	return report.MergeInventory(nil, out)
}
