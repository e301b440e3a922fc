package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
)

// Compute makes the plan. It cannot fail, and equal inputs give equal plans.
func Compute(in Input) Output {
	p := newPass(in)
	for _, v := range p.views { // 1. which round each NodeWright is in, for which nodes
		p.enterRound(v)
		v.noteAbandoned()
		v.held = p.heldBack(v)
		p.readIntents(v)
		p.findHolders(v)
	}
	for _, v := range p.views { // 2. nodes that are under way go on
		p.turns(v)
	}
	p.gateNodes()
	for _, v := range p.views { // 3. verdicts, halts, and who is admitted next
		p.admissions(v)
	}
	p.tidy() // 4. records of nodes at rest that say more than is wanted
	p.resetUnreadable()
	p.verify()   // and the periodic checks of those that are complete
	p.ungate()   // 5. runtime-required taints of nodes that are ready for use
	p.sweep()    // 6. what deleted NodeWrights left
	p.finalize() // 7. NodeWrights that wait for their uninstalls, or may go
	for _, v := range p.views {
		v.markComplete()
		p.out.Statuses = append(p.out.Statuses, p.status(v))
	}
	return p.finish()
}

// pass is the working memory of one Compute.
type pass struct {
	in Input
	// nodes by name; position is where a UID is in them, once somebody asked.
	nodes    []*Node
	position map[types.UID]int
	// marked are the nodes on which a NodeWright that is gone may have left something.
	marked []*Node
	// snapshots are Input.Snapshots.
	snapshots map[string]*desired.Package
	views     []*view
	// begun marks what this very pass begins on a node, so that two NodeWrights do not get in each other's way.
	begun map[types.UID]activity
	// caps are the Fleets' budgets with the nodes that use them up.
	caps     []*clusterCap
	needPods map[string]bool
	// gating are the nodes that get the runtime-required taint, or are looked at for it, and why: nobody admits them.
	gating map[types.UID]*cause
	// asksForBoots: some NodeWright has `reapplyOnReboot`, and reboots of ours have to be told apart.
	asksForBoots bool
	// needOccupancy by NodeWright.
	needOccupancy map[string]OccupancyQuery
	out           Output
}

// activity is what runs on a node.
type activity struct{ execution, interrupt bool }

func newPass(in Input) *pass {
	in.Settings = in.Settings.withDefaults()
	p := &pass{in: in, begun: map[types.UID]activity{}, gating: map[types.UID]*cause{}, needPods: map[string]bool{}, needOccupancy: map[string]OccupancyQuery{}}
	p.wakeAt(in.Changes)
	p.readNodes()
	p.snapshots = make(map[string]*desired.Package, len(in.Snapshots))
	for hash, def := range in.Snapshots {
		p.snapshots[hash] = &def
	}
	ordered := slices.Clone(in.NodeWrights)
	slices.SortFunc(ordered, func(a, b NodeWright) int {
		return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), compareStrings(a.Name, b.Name))
	})
	for i := range ordered {
		ordered[i].leave()
		v := newView(&ordered[i], len(p.nodes))
		v.stored = stored{definitions: p.snapshots, abandoned: v.readAbandon(in.Ledger.Rollouts[v.nw.Name])}
		p.views, p.asksForBoots = append(p.views, v), p.asksForBoots || v.nw.Spec.ReapplyOnReboot
	}
	p.meetNodes()
	p.caps = p.capsOf(in.Budgets, p.nodes)
	return p
}

func (p *pass) readNodes() {
	p.nodes = make([]*Node, 0, len(p.in.Nodes))
	for i := range p.in.Nodes {
		p.nodes = append(p.nodes, &p.in.Nodes[i])
	}
	slices.SortFunc(p.nodes, func(a, b *Node) int { return compareStrings(a.Name, b.Name) })
}

// meetNodes lets every NodeWright see every node: node by node, so that what one says is looked at while it is at hand.
func (p *pass) meetNodes() {
	for pos, n := range p.nodes {
		records := 0
		for _, v := range p.views {
			if p.meet(v, pos) {
				records++
			}
		}
		if len(n.Requests) > 0 {
			p.out.RefusedRequests = append(p.out.RefusedRequests, p.refusedOn(n)...)
		}
		if records < len(n.Records) || len(n.CordonOwners) > 0 || len(n.Malformed) > 0 {
			p.marked = append(p.marked, n)
		}
	}
	for _, v := range p.views {
		v.divide()
	}
}

// snapshot is the stored definition of that hash; the zero definition if there is none.
func (p *pass) snapshot(hash string) desired.Package {
	if def := p.snapshots[hash]; def != nil {
		return *def
	}
	return desired.Package{}
}

// withDefaults fills in what the flags leave out.
func (s Settings) withDefaults() Settings {
	s.Attempts = max(1, or(s.Attempts, 3))
	s.RetryBackoff = orDuration(s.RetryBackoff, 10*time.Second)
	s.PullTolerance = orDuration(s.PullTolerance, time.Minute)
	s.RebootGrace = orDuration(s.RebootGrace, 2*time.Minute)
	s.DrainRetry = orDuration(s.DrainRetry, 5*time.Second)
	if s.RuntimeRequiredTaint.Key == "" {
		s.RuntimeRequiredTaint = corev1.Taint{
			Key: nwv1.RuntimeRequiredTaintKey, Value: nwv1.RuntimeRequiredTaintValue, Effect: corev1.TaintEffectNoSchedule,
		}
	}
	return s
}

func orDuration(v, def time.Duration) time.Duration {
	if v == 0 {
		return def
	}
	return v
}

// wakeAt notes an instant at which time alone changes the answer.
func (p *pass) wakeAt(t time.Time) {
	if t.After(p.in.Now) && (p.out.Next.IsZero() || t.Before(p.out.Next)) {
		p.out.Next = t
	}
}

// finish puts the output together in its fixed order.
func (p *pass) finish() Output {
	p.out.Reasons = slices.Grow(p.out.Reasons, p.countReasons())
	for _, v := range p.views {
		for _, m := range v.at {
			if m != nil && m.reason != nil {
				p.out.Reasons = append(p.out.Reasons, v.explained(m))
			}
		}
	}
	if p.in.Standby != "" {
		p.out.Decisions, p.out.Finalizers = nil, nil
		return p.out
	}
	p.out.NeedPods, p.out.NeedOccupancy = slices.Sorted(maps.Keys(p.needPods)), p.occupancyQueries()
	p.out.Ledger = p.ledger()
	for _, v := range p.views {
		for _, m := range v.at {
			if m != nil && m.decision != nil {
				p.out.Decisions = append(p.out.Decisions, *m.decision)
			}
		}
	}
	return p.out
}

func (p *pass) countReasons() int {
	n := 0
	for _, v := range p.views {
		for _, m := range v.at {
			if m != nil && m.reason != nil {
				n++
			}
		}
	}
	return n
}

// ledger is the ledger to write, nil if it says what it said. Entries of NodeWrights that are gone are dropped.
func (p *pass) ledger() *fleetv1.LedgerSpec {
	changed := false
	rollouts := map[string]fleetv1.LedgerRollout{}
	for _, v := range p.views {
		old, known := p.in.Ledger.Rollouts[v.nw.Name]
		switch {
		case v.changed:
			rollouts[v.nw.Name] = v.withoutConfirmed()
			changed = true
		case known:
			rollouts[v.nw.Name] = old
		}
	}
	if !changed && len(rollouts) == len(p.in.Ledger.Rollouts) {
		return nil
	}
	out := p.in.Ledger.DeepCopy()
	out.Rollouts = rollouts
	return out
}

// withoutConfirmed is the entry without the intents whose record was seen.
func (v *view) withoutConfirmed() fleetv1.LedgerRollout {
	l := v.ledger
	l.Intents = slices.DeleteFunc(slices.Clone(l.Intents), func(i fleetv1.LedgerIntent) bool {
		return v.confirmed[i.NodeUID]
	})
	if len(l.Intents) == 0 {
		l.Intents = nil
	}
	if len(l.Compartments) == 0 {
		l.Compartments = nil
	}
	return l
}
