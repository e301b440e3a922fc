package plan_test

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// checkAdmissions looks at the admissions of a ledger that is about to be written: none after a halt, and none that
// raises a compartment above its ceiling.
func (w *world) checkAdmissions(next fleetv1.LedgerSpec) {
	for name, roll := range next.Rollouts {
		old := w.in.Ledger.Rollouts[name]
		fresh := map[string]int{}
		for _, i := range roll.Intents {
			if !i.Withdrawn && !slices.Contains(old.Intents, i) && !w.holds(name, i.NodeUID) {
				fresh[i.Compartment]++
			}
			if i.Round == old.Round && !slices.Contains(old.Intents, i) && old.Resumed == roll.Resumed {
				require.Nil(w.t, old.Compartments[w.placeOf(name, i)].Halt, "an admission after a halt: %v", i)
			}
		}
		for c := range fresh {
			if ceiling, known := w.ceilingOf(name, c); known {
				require.LessOrEqual(w.t, len(w.slots(name, c, roll)), ceiling, "compartment %s of %s: %v\n%v", c, name, roll, w.log)
			}
		}
	}
}

// ceilingOf counts for itself what a compartment allows.
func (w *world) ceilingOf(nodeWright, compartment string) (int, bool) {
	if w.ceilings == nil {
		return 0, false
	}
	return w.ceilings(nodeWright, compartment)
}

// slots are the nodes that hold a slot of a compartment once the ledger's admissions are carried out.
func (w *world) slots(nodeWright, compartment string, roll fleetv1.LedgerRollout) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, n := range w.nodes {
		in := n.Records[nodeWright].Compartment == compartment || w.compartmentOf != nil && w.compartmentOf(nodeWright, n) == compartment
		if in && w.holds(nodeWright, n.UID) && !slotless(n, nodeWright) {
			out[n.UID] = true
		}
	}
	for _, i := range roll.Intents {
		if i.Compartment == compartment && w.exists(i.NodeUID) {
			out[i.NodeUID] = true
		}
	}
	return out
}

// placeOf is the compartment of an admission; of one without a slot that of its node.
func (w *world) placeOf(nodeWright string, i fleetv1.LedgerIntent) string {
	n := w.nodes[i.Node]
	if i.Compartment != "" || n == nil || n.UID != i.NodeUID || w.compartmentOf == nil {
		return i.Compartment
	}
	return w.compartmentOf(nodeWright, n)
}

// slotless: the node was admitted without a slot, and still carries the runtime-required taint.
func slotless(n *plan.Node, nodeWright string) bool {
	r := n.Records[nodeWright]
	return r.Batch > 0 && r.Compartment == "" && slices.Contains(n.Taints, gate)
}

func (w *world) exists(uid types.UID) bool {
	for _, n := range w.nodes {
		if n.UID == uid {
			return true
		}
	}
	return false
}

// holds reports whether a node is at work or out of service because of a NodeWright.
func (w *world) holds(nodeWright string, uid types.UID) bool {
	for _, n := range w.nodes {
		r := n.Records[nodeWright]
		if n.UID == uid && (r.IsOpen() || slices.Contains(n.CordonOwners, nodeWright)) {
			return true
		}
	}
	return false
}

// compute plans, and reads what the plan depends on, as the reconciler does.
func (w *world) compute(in plan.Input) plan.Output {
	out := plan.Compute(in)
	for range 3 {
		if len(out.NeedPods)+len(out.NeedOccupancy) == 0 {
			break
		}
		for i := range in.Nodes {
			if slices.Contains(out.NeedPods, in.Nodes[i].Name) {
				in.Nodes[i].Pods, in.Nodes[i].PodsListed = w.pods[in.Nodes[i].Name], true
			}
		}
		occupancies := maps.Clone(in.Occupancies)
		if occupancies == nil {
			occupancies = map[string]plan.Occupancy{}
		}
		for _, q := range out.NeedOccupancy {
			if answer, known := w.answer(q); known {
				occupancies[q.NodeWright] = answer
			}
		}
		in.Occupancies = occupancies
		out = plan.Compute(in)
	}
	return out
}

func (w *world) answer(q plan.OccupancyQuery) (plan.Occupancy, bool) {
	if w.occupancyOf != nil {
		return w.occupancyOf(q)
	}
	return w.occupancy(q), true
}

// occupancy looks at all pods of the world.
func (w *world) occupancy(q plan.OccupancyQuery) plan.Occupancy {
	out := plan.Occupancy{Protected: map[string]string{}, Bound: w.bound}
	for _, node := range sortedKeys(w.pods) {
		for _, p := range w.pods[node] {
			if q.Protected != nil && q.Protected.Matches(labels.Set(p.Labels)) && out.Protected[node] == "" {
				out.Protected[node] = p.Namespace + "/" + p.Name
			}
		}
	}
	return out
}

// checkMayStart: nothing starts for a NodeWright that is not there in this very object, is held, or must not touch the node. The
// API server deletes what has an owner that is not there.
func (w *world) checkMayStart(n *plan.Node, s plan.ExecutionSpec) {
	if w.stale {
		return
	}
	i := slices.IndexFunc(w.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == s.NodeWright })
	require.GreaterOrEqual(w.t, i, 0, "NodeWright %s is not there", s.NodeWright)
	nw := w.in.NodeWrights[i]
	require.True(w.t, s.Unowned || s.NodeWrightUID == nw.UID, "%s of %s starts for an object that is not there\n%v", s.Phase, s.NodeWright, w.log)
	require.False(w.t, nw.Paused || nw.Disabled || (nw.Problem != "" || nw.OutOfScope != "") && !nw.Deleting || w.in.Standby != "", "%s starts while NodeWright %s is held", s.Phase, nw.Name)
	require.NotEqual(w.t, nwv1.TrueValue, n.Labels[nwv1.IgnoreLabel], "%s of %s starts on an ignored node", s.Phase, nw.Name)
}
