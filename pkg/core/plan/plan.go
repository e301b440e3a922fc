package plan

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Compute makes the plan. It cannot fail, and equal inputs give equal plans.
func Compute(in Input) Output {
	p := newPass(in)
	for _, v := range p.views { // 1. which round each NodeWright is in, for which nodes
		p.enterRound(v)
		p.readIntents(v)
		v.findHolders()
	}
	for _, v := range p.views { // 2. nodes that are under way go on
		p.turns(v)
	}
	for _, v := range p.views { // 3. verdicts, halts, and who is admitted next
		p.admissions(v)
	}
	p.tidy()  // 4. records of nodes at rest that say more than is wanted
	p.sweep() // 5. what deleted NodeWrights left
	for _, v := range p.views {
		v.markComplete()
		p.out.Statuses = append(p.out.Statuses, p.status(v))
	}
	return p.finish()
}

// pass is the working memory of one Compute.
type pass struct {
	in    Input
	nodes []*Node
	byUID map[types.UID]*Node
	views []*view
	// begun marks what this very pass begins on a node, so that two NodeWrights do not get in each other's way.
	begun map[types.UID]activity
	// caps are the Fleets' budgets with the nodes that use them up.
	caps     []*clusterCap
	needPods map[string]bool
	out      Output
}

// activity is what runs on a node.
type activity struct{ execution, interrupt bool }

// view is one NodeWright in this pass.
type view struct {
	nw           *NodeWright
	members      []*member
	byNode       map[*Node]*member
	compartments []*compartment
	ledger       fleetv1.LedgerRollout
	// changed says that the ledger entry must be written.
	changed bool
	// intents by node UID, unconfirmed ones only.
	intents map[types.UID]fleetv1.LedgerIntent
	// confirmed intents can be dropped with the next write.
	confirmed map[types.UID]bool
	// holders are the nodes that hold a slot, by compartment.
	holders map[string]map[types.UID]bool
	// open are the nodes with a turn under way or an intent.
	open map[types.UID]bool
	// reasons and decisions by node name.
	reasons   map[string]Reason
	decisions map[string]Decision
	// executions by key.
	executions map[ExecutionKey]Execution
	// outdated says that the NodeWright was read from an older view than the one that began its round.
	outdated bool
	// late caches firstIncomplete.
	late *string
}

func newPass(in Input) *pass {
	in.Settings = in.Settings.withDefaults()
	p := &pass{in: in, byUID: map[types.UID]*Node{}, begun: map[types.UID]activity{}, needPods: map[string]bool{}}
	for i := range in.Nodes {
		p.nodes = append(p.nodes, &in.Nodes[i])
		p.byUID[in.Nodes[i].UID] = &in.Nodes[i]
	}
	slices.SortFunc(p.nodes, func(a, b *Node) int { return compareStrings(a.Name, b.Name) })
	ordered := slices.Clone(in.NodeWrights)
	slices.SortFunc(ordered, func(a, b NodeWright) int {
		if d := a.Spec.Priority - b.Spec.Priority; d != 0 {
			return int(d)
		}
		return compareStrings(a.Name, b.Name)
	})
	for i := range ordered {
		p.views = append(p.views, p.newView(&ordered[i]))
	}
	p.caps = capsOf(in.Budgets, p.nodes)
	return p
}

func (p *pass) newView(nw *NodeWright) *view {
	v := &view{
		nw: nw, open: map[types.UID]bool{}, reasons: map[string]Reason{}, decisions: map[string]Decision{},
		executions: map[ExecutionKey]Execution{},
	}
	v.members = p.members(nw)
	v.byNode = make(map[*Node]*member, len(v.members))
	v.compartments = compartmentsOf(nw, v.members)
	for _, m := range v.members {
		v.byNode[m.node] = m
		for _, e := range m.node.Executions {
			if e.NodeWright == nw.Name {
				v.executions[e.ExecutionKey] = e
			}
		}
	}
	return v
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

// because sets the reason of a node.
func (v *view) because(node string, code Code, object, message string) {
	v.reasons[node] = Reason{NodeWright: v.nw.Name, Node: node, Code: code, Object: object, Message: message}
}

// decide sets the decision for a node; there is at most one for each NodeWright and node.
func (v *view) decide(d Decision) {
	d.NodeWright, d.NodeWrightUID = v.nw.Name, v.nw.UID
	v.decisions[d.Node] = d
}

// finish puts the output together in its fixed order.
func (p *pass) finish() Output {
	p.out.NeedPods = slices.Sorted(maps.Keys(p.needPods))
	if p.in.Standby == "" {
		p.out.Ledger = p.ledger()
	}
	for _, v := range p.views {
		for _, node := range slices.Sorted(maps.Keys(v.reasons)) {
			p.out.Reasons = append(p.out.Reasons, v.reasons[node])
		}
		if p.in.Standby != "" {
			continue
		}
		for _, node := range slices.Sorted(maps.Keys(v.decisions)) {
			p.out.Decisions = append(p.out.Decisions, v.decisions[node])
		}
	}
	if p.in.Standby != "" {
		p.out.Decisions, p.out.NeedPods = nil, nil
	}
	return p.out
}

// ledger is the ledger to write, nil if it says what it said. Entries of NodeWrights that are gone are dropped.
func (p *pass) ledger() *fleetv1.LedgerSpec {
	out := p.in.Ledger.DeepCopy()
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
