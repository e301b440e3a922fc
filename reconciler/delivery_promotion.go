package reconciler

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/promotion"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// refusePromotion refuses gates that could never open. It does not look at git: a Fleet that waits for itself is wrong with every
// commit.
func (r *Delivery) refusePromotion(ctx context.Context, p *deliveryPass) (verdict, error) {
	if p.drift || len(report.GatesOf(p.fleet)) == 0 {
		return goOn, nil
	}
	var list fleetv1.FleetList
	if err := r.Reader.List(ctx, &list); err != nil {
		return stop, fmt.Errorf("list fleets: %w", err)
	}
	var others []promotion.Waiter
	for i := range list.Items {
		others = append(others, report.WaiterOf(&list.Items[i]))
	}
	if why := promotion.Refusal(report.WaiterOf(p.fleet), others); why != "" {
		return stop, &report.Failure{Reason: report.ReasonPromotionRefused, Message: why, Stalled: true}
	}
	return goOn, nil
}

// promote lets a revision pass, or holds it back. One that was applied already is not held back again, so that a gate that fails
// later takes nothing away; and while another waits, it is kept as it should be.
func (r *Delivery) promote(ctx context.Context, p *deliveryPass) (verdict, error) {
	gates := report.GatesOf(p.fleet)
	switch {
	case p.drift:
		return goOn, nil
	case len(gates) == 0 || report.CommitOf(p.fleet.Status.LastAppliedRevision) == p.revision.Commit:
		p.fleet.Status.Promotion = nil
		return goOn, nil
	case report.ByHand(p.fleet, p.revision.Commit):
		r.tellPromotedByHand(p, gates)
		p.fleet.Status.Promotion = nil // what comes now may fail, and is not tried again faster than anything else
		return goOn, nil
	}
	shown, err := r.shown(ctx, p)
	if err != nil {
		return stop, &report.Failure{Reason: report.ReasonStatusesUnreadable, Message: err.Error()}
	}
	had := p.fleet.Status.Promotion
	answer := promotion.Decide(promotion.Question{Gates: gates, Revision: p.revision.Name, Shown: shown, Had: had, Now: p.now})
	p.fleet.Status.Promotion, p.again = answer.Status, answer.Next
	if answer.Open {
		if had != nil {
			r.event(p, happening{normal, report.EventPromoted, report.ActionPromote,
				p.revision.Name + " is promoted after " + promotion.Names(gates)})
		}
		return goOn, nil
	}
	r.tellWaiting(p, had)
	return r.keepApplied(ctx, p)
}

func (r *Delivery) shown(ctx context.Context, p *deliveryPass) ([]promotion.Shown, error) {
	bounded, cancel := context.WithTimeout(ctx, timeoutOf(p.fleet))
	defer cancel()
	return r.Shown.Shown(bounded, p.fleet, p.revision.Commit)
}

// tellWaiting says for what a revision begins to wait, and when that fails.
func (r *Delivery) tellWaiting(p *deliveryPass, had *fleetv1.PromotionStatus) {
	before, now := len(promotion.HeldBack(had)), len(promotion.HeldBack(p.fleet.Status.Promotion))
	words := p.revision.Name + " " + p.waitsFor()
	switch {
	case now > before:
		r.event(p, happening{warning, report.EventHeldBack, report.ActionPromote, words})
	case had == nil:
		r.event(p, happening{normal, report.ReasonWaitingForPromotion, report.ActionPromote, words})
	}
}

func (r *Delivery) tellPromotedByHand(p *deliveryPass, gates []fleetv1.PromotionGate) {
	if p.memory.byHand == p.revision.Name {
		return // it is tried again
	}
	p.memory.byHand = p.revision.Name
	waited := p.waitsFor()
	if waited == "" {
		waited = "waits for " + promotion.Names(gates)
	}
	r.event(p, happening{warning, report.EventPromotedByHand, report.ActionPromote,
		p.revision.Name + " is promoted by hand and waits no longer (" + waited + ")"})
}

// waitsFor says what the attempted revision waits for; empty if for nothing.
func (p *deliveryPass) waitsFor() string {
	status := p.fleet.Status
	if status.Promotion == nil || status.Promotion.Revision != status.LastAttemptedRevision {
		return ""
	}
	words := promotion.Sentence(status.Promotion, report.GatesOf(p.fleet), p.now)
	if words != "" && report.ByHandInPart(p.fleet, report.CommitOf(status.Promotion.Revision)) {
		words += "; the annotation " + fleetv1.PromoteAnnotation + " has to hold the whole hash"
	}
	return words
}

// isPromotedByHand: the revision that waits is asked for by its hash.
func (p *deliveryPass) isPromotedByHand() bool {
	waiting := p.fleet.Status.Promotion
	return waiting != nil && p.waitsFor() != "" && report.ByHand(p.fleet, report.CommitOf(waiting.Revision))
}

// keepApplied goes on with the applied revision in place of the one that waits. After a restart it is read again; where the
// server does not hand it out, drift waits until something can be applied.
func (r *Delivery) keepApplied(ctx context.Context, p *deliveryPass) (verdict, error) {
	applied := p.fleet.Status.LastAppliedRevision
	last := p.memory.applied
	if applied != "" && !last.matches(p.fleet, applied) {
		var err error
		if last, err = r.renderAgain(ctx, p.fleet, applied); err != nil {
			log.FromContext(ctx).Info("drift of the applied revision is not looked at while another one waits", "revision", applied, "reason", err.Error())
			last = nil
		}
	}
	if last == nil || applied == "" {
		p.looked, p.memory.failure = true, nil
		return stop, nil
	}
	p.revision, p.rendered = last.revision, last
	return goOn, nil
}

// renderAgain builds a revision that was applied, under the Fleet as it is now.
func (r *Delivery) renderAgain(ctx context.Context, fleet *fleetv1.Fleet, name string) (*rendering, error) {
	revision := Revision{Name: name, Commit: report.CommitOf(name)}
	tree, err := r.Source.Fetch(ctx, fleet, revision)
	if err != nil {
		return nil, err
	}
	built, err := r.Renderer.Render(ctx, fleet, tree)
	if err != nil {
		return nil, err
	}
	out := renderingOf(fleet, revision, built)
	if out.failure != nil {
		return nil, out.failure
	}
	return out, nil
}
