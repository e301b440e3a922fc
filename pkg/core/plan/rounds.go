package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// enterRound finds the round that the NodeWright is in, and begins the next one where the content changed or nodes
// joined a completed rollout.
func (p *pass) enterRound(v *view) {
	led, known := p.in.Ledger.Rollouts[v.nw.Name]
	v.ledger = cloneRollout(led)
	switch {
	case v.nw.isHeldBack(): // what cannot be resolved, or is not allowed, begins nothing
	case !known || led.UID != v.nw.UID:
		v.ledger = fleetv1.LedgerRollout{Round: v.newest}
		p.begin(v, false)
	case v.nw.Generation < led.Generation:
		v.outdated = true
	case v.newest > led.Round: // a record that could not be read when the ledger was lost
		v.ledger.Round = v.newest
		p.begin(v, false)
	case led.ContentHash != v.nw.Desired.Hash:
		p.begin(v, false)
	case v.resetsRollout():
		p.begin(v, false)
	case led.Complete && v.hasIncomplete():
		p.begin(v, !v.onlyAsked())
	case p.nextForAsked(v):
		p.begin(v, false)
	}
}

// begin starts the next round. Admissions of the last one that are not confirmed are withdrawn.
func (p *pass) begin(v *view, late bool) {
	l := &v.ledger
	l.UID, l.Generation, l.ContentHash = v.nw.UID, v.nw.Generation, v.nw.Desired.Hash
	l.Round++
	l.LateJoiners, l.Complete, l.NextOrder = late, false, 0
	l.Reset = v.token(fleetv1.VerbReset)
	l.StartedAt = metav1.NewTime(p.in.Now.UTC())
	l.Compartments = v.carriedOver(l.Compartments)
	for i := range l.Intents {
		l.Intents[i].Withdrawn = true
	}
	v.changed = true
}

// carriedOver is the batch state that a new round begins with: none, or the strategy size where the policy says so.
func (v *view) carriedOver(old map[string]fleetv1.LedgerCompartment) map[string]fleetv1.LedgerCompartment {
	out := map[string]fleetv1.LedgerCompartment{}
	if v.resetsBatchState() {
		return out
	}
	for _, c := range v.compartments {
		if led, ok := old[c.name]; ok && led.Size > 0 {
			out[c.name] = fleetv1.LedgerCompartment{Size: int32(c.rules.nextSize(led, c.ceiling))}
		}
	}
	return out
}

// resetsBatchState: the NodeWright's own option wins over the policy's; the default is true.
func (v *view) resetsBatchState() bool {
	if o := v.nw.Spec.DeploymentPolicyOptions; o != nil && o.ResetBatchStateOnCompletion != nil {
		return *o.ResetBatchStateOnCompletion
	}
	if v.nw.Policy != nil && v.nw.Policy.ResetBatchStateOnCompletion != nil {
		return *v.nw.Policy.ResetBatchStateOnCompletion
	}
	return true
}

// current reports whether the record's turn belongs to the round that the NodeWright is in.
func (v *view) current(rec noderecord.Record) bool {
	return rec.Round == v.ledger.Round && rec.NodeWright == v.nw.UID
}

// markComplete notes that every targeted node is complete, so that nodes that are not, later, form a new round.
func (v *view) markComplete() {
	if v.ledger.UID != v.nw.UID || v.ledger.Complete || v.nw.isHeldBack() || v.outdated || v.hasIncomplete() || v.open > 0 {
		return
	}
	v.ledger.Complete = true
	v.changed = true
}

func cloneRollout(l fleetv1.LedgerRollout) fleetv1.LedgerRollout { return *l.DeepCopy() }
