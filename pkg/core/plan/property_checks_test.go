package plan_test

import (
	"slices"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// crash ends the reconciler in the middle of a pass: the ledger is written, and only some of what follows is done. The next
// leader raises the epoch and remembers nothing of back-offs.
func (h *history) crash() {
	lost, done := h.lost, rapid.IntRange(0, 3).Draw(h.rt, "done before the crash")
	h.lost = func(d plan.Decision) bool {
		done--
		return done < 0 || lost != nil && lost(d)
	}
	h.pass()
	h.lost = lost
	h.in.Ledger.Epoch++
	for _, n := range h.nodes {
		n.Refusals = nil
	}
}

// unresolved makes a NodeWright refer to something that does not exist, or mends that.
func (h *history) unresolved() {
	nw := &h.in.NodeWrights[rapid.IntRange(0, len(h.in.NodeWrights)-1).Draw(h.rt, "unresolved")]
	if rapid.Bool().Draw(h.rt, "outOfScope") {
		nw.OutOfScope = map[bool]string{true: "outside of the scope of Fleet a/b"}[nw.OutOfScope == ""]
		return
	}
	nw.Problem = map[bool]string{true: "DeploymentPolicy slow does not exist"}[nw.Problem == ""]
}

// standby is NVIDIA's operator, which comes and goes.
func (h *history) standby() {
	h.in.Standby = map[bool]string{true: "another operator is active"}[h.in.Standby == ""]
}

// checkWhatIsHeldBack: what cannot be resolved, is out of scope, or yields to another operator, starts, evicts, cordons and erases nothing.
func (h *history) checkWhatIsHeldBack(out plan.Output) {
	if h.in.Standby != "" {
		require.Empty(h.rt, out.Decisions)
		require.Nil(h.rt, out.Ledger)
	}
	for _, d := range out.Decisions {
		i := slices.IndexFunc(h.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == d.NodeWright })
		if i < 0 || h.in.NodeWrights[i].Problem+h.in.NodeWrights[i].OutOfScope == "" {
			continue
		}
		require.Empty(h.rt, d.Start, "started for a NodeWright that cannot be resolved")
		require.Empty(h.rt, d.Evict, "evicted for a NodeWright that cannot be resolved")
		require.False(h.rt, d.Erase, "erased for a NodeWright that cannot be resolved")
		require.NotEqual(h.rt, plan.CordonTake, d.Cordon, "cordoned for a NodeWright that cannot be resolved")
	}
}

// checkClusterBudget: a pass cordons no node in use beyond what the Fleets allow, over all NodeWrights.
func (h *history) checkClusterBudget(in plan.Input) {
	before, more := map[types.UID]bool{}, false
	for i := range in.Nodes {
		n := &in.Nodes[i]
		freed := gated(n) && h.nodes[n.Name] != nil && !gated(h.nodes[n.Name])
		before[n.UID] = cordonedInUse(n) || holdsRoom(n) || freed && len(n.CordonOwners) > 0
	}
	cordoned := 0
	for _, n := range h.nodes {
		if cordonedInUse(n) {
			cordoned++
			more = more || !before[n.UID]
		}
	}
	for _, b := range h.in.Budgets {
		require.False(h.rt, more && cordoned > int(*b.Count), "more nodes are cordoned than Fleet %s allows\n%v", b.Name, h.log)
	}
}

// holdsRoom: a turn with an interrupt to come is open. It has its room from its admission until it ends, also while it is not
// cordoned.
func holdsRoom(n *plan.Node) bool {
	for name, r := range n.Records {
		if r.IsOpen() && r.Disruptive && !slotless(n, name) {
			return true
		}
	}
	return false
}

func cordonedInUse(n *plan.Node) bool {
	return slices.ContainsFunc(n.CordonOwners, func(owner string) bool { return !slotless(n, owner) })
}

// checkConserved: where nothing is decided any more, each node has one reason, and one that waits for room waits because
// there is none. So a free slot and an eligible node never coexist at rest.
func (h *history) checkConserved(out plan.Output) {
	seen := map[[2]string]bool{}
	for _, r := range out.Reasons {
		key := [2]string{r.NodeWright, r.Node}
		require.False(h.rt, seen[key], "two reasons of %v", key)
		seen[key] = true
	}
	if len(out.Decisions) > 0 || out.Ledger != nil || h.in.Standby != "" {
		return
	}
	for _, r := range out.Reasons {
		h.checkReason(r, out)
	}
}

// checkReason counts for itself whether a reason to wait is true.
func (h *history) checkReason(r plan.Reason, out plan.Output) {
	n := h.nodes[r.Node]
	compartment := h.compartmentOf(r.NodeWright, n)
	together := h.waitTogether(r, out)
	switch r.Code {
	case plan.WaitingForSlot:
		ceiling, _ := h.ceilings(r.NodeWright, compartment)
		require.Greater(h.rt, h.inUse(r.NodeWright, compartment)+together, ceiling, "%s waits for a slot that is free: %+v\n%v", r.Node, r, h.log)
	case plan.BudgetIsZero:
		ceiling, _ := h.ceilings(r.NodeWright, compartment)
		require.Zero(h.rt, ceiling)
	case plan.WaitingForBatch:
		require.True(h.rt, h.anyOpen(r.NodeWright) || h.look == unknown && r.Object == "", "%s waits for a batch that has ended: %+v\n%v", r.Node, r, h.log)
	case plan.WaitingForClusterBudget:
		require.Greater(h.rt, h.interrupted()+together, int(*h.in.Budgets[0].Count), "%s waits for room that is there: %+v\n%v", r.Node, r, h.log)
	case plan.WaitingForWindow:
		require.False(h.rt, h.windowOpen(r.NodeWright), "%s waits for a window that is open", r.Node)
	case plan.Yielding:
		require.True(h.rt, h.look == stale || h.protectedGroup(r.NodeWright, n), "%s yields to nobody: %+v\n%v", r.Node, r, h.log)
	case plan.AdmissionUnconfirmed, plan.Cordoning, plan.Starting, plan.Uncordoning:
		require.Fail(h.rt, "nothing is decided, and yet it is on its way", "%+v\n%v", r, h.log)
	}
}

// inUse are the slots of a compartment that are used up.
func (h *history) inUse(nodeWright, compartment string) int {
	used := 0
	for _, n := range h.nodes {
		rec := n.Records[nodeWright]
		here := h.compartmentOf(nodeWright, n) == compartment
		failed := rec.Outcome == noderecord.Failed && !n.Ready
		slotted := (rec.Compartment == compartment || here) && !slotless(n, nodeWright)
		unavailable := h.budgets[nodeWright][compartment].CountUnavailable && here && (!n.Ready || n.Unschedulable)
		if slotted && (h.holds(nodeWright, n.UID) || failed) || unavailable {
			used++
		}
	}
	return used
}

// interrupted are the nodes that we hold out of service, or are about to.
func (h *history) interrupted() int {
	out := 0
	for _, n := range h.nodes {
		ours := cordonedInUse(n)
		for name, rec := range n.Records {
			ours = ours || (rec.Interrupt != nil || rec.IsOpen() && rec.Disruptive) && !slotless(n, name)
		}
		if ours {
			out++
		}
	}
	return out
}

func (h *history) anyOpen(nodeWright string) bool {
	for _, n := range h.nodes {
		if n.Records[nodeWright].IsOpen() {
			return true
		}
	}
	return false
}

// checkLedger holds what the ledger says after a pass against what it said before: rounds only grow, a settled verdict and a
// halt stay, and no order number is given twice in a round.
func (h *history) checkLedger(before fleetv1.LedgerSpec) {
	for name, now := range h.in.Ledger.Rollouts {
		old, known := before.Rollouts[name]
		if !known || old.UID != now.UID {
			continue
		}
		require.GreaterOrEqual(h.rt, now.Round, old.Round, "the round of %s went back", name)
		next := int32(0)
		if now.Round == old.Round {
			next = old.NextOrder
			h.checkVerdicts(old, now)
		}
		orders := map[int32]bool{}
		for _, i := range now.Intents {
			if i.Round != now.Round || slices.Contains(old.Intents, i) {
				continue
			}
			require.False(h.rt, orders[i.Order] || i.Order < next || i.Order >= now.NextOrder, "order %d of %s was given before: %+v", i.Order, i.Node, now)
			orders[i.Order] = true
		}
	}
}

// checkVerdicts of one round.
func (h *history) checkVerdicts(old, now fleetv1.LedgerRollout) {
	if old.Resumed != now.Resumed {
		return
	}
	for name, was := range old.Compartments {
		is := now.Compartments[name]
		if was.Halt != nil {
			require.Equal(h.rt, was.Halt, is.Halt, "the halt of %s changed", name)
			require.Equal(h.rt, was.Batch, is.Batch)
		}
		if was.Settled && is.Batch == was.Batch && !h.rolls(now.UID, name) {
			require.Equal(h.rt, was, is, "the settled verdict of %s changed", name)
		}
	}
}

// rolls reports whether a compartment is rolling by its policy now.
func (h *history) rolls(uid types.UID, compartment string) bool {
	for _, nw := range h.in.NodeWrights {
		if nw.UID != uid {
			continue
		}
		s := nw.Policy.Default.Strategy
		if compartment != nwv1.DefaultCompartment {
			s = nw.Policy.Compartments[0].Strategy
		}
		return s != nil && s.Fixed != nil && s.Fixed.Advance == nwv1.AdvanceRolling
	}
	return false
}
