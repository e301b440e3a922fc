package plan_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/window"
)

// What random histories do with windows, groups, yielding and runtime-required nodes, and what they check of it.

// looking is how the pods of the cluster are looked at.
type looking int

const (
	fresh looking = iota
	stale
	unknown
)

var theirs = corev1.Taint{Key: "theirs", Effect: corev1.TaintEffectPreferNoSchedule}

func gated(n *plan.Node) bool { return slices.Contains(n.Taints, gate) }

// targets: selected, not ignored, and no taint keeps the NodeWright away.
func (h *history) targets(nodeWright string, n *plan.Node) bool {
	if n.Labels["pool"] != "gpu" || n.Labels[nwv1.IgnoreLabel] != "" {
		return false
	}
	return !gated(n) || n.Records[nodeWright].IsOpen() || h.find(nodeWright).Spec.RuntimeRequired
}

func (h *history) find(nodeWright string) plan.NodeWright {
	i := slices.IndexFunc(h.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == nodeWright })
	if i < 0 {
		return plan.NodeWright{}
	}
	return h.in.NodeWrights[i]
}

func (h *history) drawRack() string {
	return rapid.SampledFrom([]string{"r1", "r1", "r2", ""}).Draw(h.rt, "rack")
}

func (h *history) drawTaints() []corev1.Taint {
	if rapid.IntRange(0, 3).Draw(h.rt, "gated") == 0 {
		return []corev1.Taint{gate, theirs}
	}
	return []corev1.Taint{theirs}
}

func (h *history) drawPlacement(nw *plan.NodeWright) {
	nw.Windows = nil
	if rapid.IntRange(0, 2).Draw(h.rt, "windows") == 0 {
		w, err := window.Parse("*/10 * * * *", 4*time.Minute, "")
		require.NoError(h.rt, err)
		nw.Windows = window.Set{w}
	}
	nw.Spec.RuntimeRequired = rapid.Bool().Draw(h.rt, "runtime required")
	nw.Spec.ProtectedPods = rapid.SampledFrom([]nwv1.ProtectedPodsPolicy{"", nwv1.ProtectedPodsYield}).Draw(h.rt, "protected pods")
	nw.Policy.Order = rapid.SampledFrom([]nwv1.NodeOrder{"", nwv1.OrderName, nwv1.OrderLabel}).Draw(h.rt, "order")
	nw.Policy.OrderBy = "rack"
	nw.Policy.Compartments[0].GroupBy = rapid.SampledFrom([]string{"", "rack"}).Draw(h.rt, "group by")
}

// taint is somebody who takes a node out of use, or into it.
func (h *history) taint() {
	n := h.anyNode("tainted")
	switch {
	case n == nil:
	case gated(n):
		n.Taints = []corev1.Taint{theirs}
	default:
		n.Taints = []corev1.Taint{theirs, gate}
	}
}

func (h *history) wait() {
	h.in.Now = h.in.Now.Add(time.Duration(rapid.IntRange(1, 6).Draw(h.rt, "minutes")) * time.Minute)
}

// bind lets a PodDisruptionBudget hold the pods of a node, or lets them go.
func (h *history) bind() {
	n := h.anyNode("bound")
	switch {
	case n == nil:
	case h.bound[n.Name] != "":
		h.bound = nil
	default:
		h.bound = map[string]string{n.Name: "web/front"}
	}
}

// lookAway lets the pods of the cluster be looked at in another way from now on.
func (h *history) lookAway() {
	h.look = rapid.SampledFrom([]looking{fresh, stale, unknown}).Draw(h.rt, "look")
}

func (h *history) occupancyNow(q plan.OccupancyQuery) (plan.Occupancy, bool) {
	if h.then == nil {
		h.then = map[string]plan.Occupancy{}
	}
	old, known := h.then[q.NodeWright]
	switch {
	case h.look == unknown:
		return plan.Occupancy{}, false
	case h.look == stale && known:
		return old, true
	}
	h.then[q.NodeWright] = h.occupancy(q)
	return h.then[q.NodeWright], true
}

// windowOpen counts for itself: the first four of each ten minutes.
func (h *history) windowOpen(nodeWright string) bool {
	return h.find(nodeWright).Windows == nil || h.in.Now.Minute()%10 < 4
}

func (h *history) protectedPod(n *plan.Node) bool {
	return slices.ContainsFunc(h.pods[n.Name], func(p *corev1.Pod) bool { return p.Labels["protected"] == "true" })
}

func (h *history) groupOf(nodeWright string, n *plan.Node) string {
	policy := h.find(nodeWright).Policy
	if policy == nil || policy.Compartments[0].GroupBy == "" || h.compartmentOf(nodeWright, n) != "zone-a" {
		return ""
	}
	return n.Labels["rack"]
}

func (h *history) protectedGroup(nodeWright string, n *plan.Node) bool {
	group := h.groupOf(nodeWright, n)
	for _, mate := range h.nodes {
		if (mate == n || group != "" && h.groupOf(nodeWright, mate) == group) && h.protectedPod(mate) {
			return true
		}
	}
	return false
}

// waitTogether counts the nodes of a group that wait for the same thing; 1 for a node that goes alone.
func (h *history) waitTogether(r plan.Reason, out plan.Output) int {
	group, together := h.groupOf(r.NodeWright, h.nodes[r.Node]), 0
	for _, other := range out.Reasons {
		mate := other.NodeWright == r.NodeWright && other.Code == r.Code && h.groupOf(r.NodeWright, h.nodes[other.Node]) == group
		if mate && group != "" || other == r {
			together++
		}
	}
	return together
}

// checkPlacement looks at what a pass admitted, by what it saw.
func (h *history) checkPlacement(in plan.Input, out plan.Output) {
	for name, roll := range h.in.Ledger.Rollouts {
		old := in.Ledger.Rollouts[name]
		for _, i := range roll.Intents {
			at := slices.IndexFunc(in.Nodes, func(n plan.Node) bool { return n.UID == i.NodeUID })
			if at < 0 || i.Withdrawn || slices.Contains(old.Intents, i) {
				continue
			}
			h.checkAdmission(name, i, &in.Nodes[at], out)
			if i.Compartment != "" && !heldSlot(&in.Nodes[at], name) {
				h.checkWhole(name, &in.Nodes[at], roll, out)
			}
		}
	}
	for _, d := range out.Decisions {
		h.checkUntaint(d, out)
	}
}

func heldSlot(n *plan.Node, nodeWright string) bool {
	return n.Records[nodeWright].IsOpen() || slices.Contains(n.CordonOwners, nodeWright)
}

func (h *history) checkAdmission(nodeWright string, i fleetv1.LedgerIntent, n *plan.Node, out plan.Output) {
	nw, rec := h.find(nodeWright), n.Records[nodeWright]
	finished := rec.IsOpen() && rec.Started && slices.Contains(n.CordonOwners, nodeWright)
	require.True(h.rt, finished || h.windowOpen(nodeWright), "%s is admitted outside of the windows\n%v", n.Name, h.log)
	if i.Compartment == "" {
		require.True(h.rt, nw.Spec.RuntimeRequired && gated(n) && rec.Outcome != noderecord.Succeeded && len(h.pods[n.Name]) == 0,
			"%s is admitted without a slot\n%v", n.Name, h.log)
	}
	if nw.Spec.ProtectedPods != nwv1.ProtectedPodsYield || h.look == stale || !h.protectedPod(n) {
		return
	}
	for _, d := range out.Decisions {
		disturbs := d.NodeWright == nodeWright && d.NodeUID == n.UID && d.Record != nil && d.Record.Disruptive
		require.False(h.rt, disturbs, "%s is admitted beside its protected pods\n%v", n.Name, h.log)
	}
}

// checkWhole: nobody of an admitted node's group is left for want of room, unless the group is larger than that can be.
func (h *history) checkWhole(nodeWright string, n *plan.Node, roll fleetv1.LedgerRollout, out plan.Output) {
	group, size := h.groupOf(nodeWright, n), 0
	if group == "" {
		return
	}
	var left []plan.Reason
	for _, r := range out.Reasons {
		if r.NodeWright != nodeWright || h.groupOf(nodeWright, h.nodes[r.Node]) != group {
			continue
		}
		size++
		switch r.Code {
		case plan.Yielding:
			require.Fail(h.rt, "a group goes without the node that yields", "%s and %+v\n%v", n.Name, r, h.log)
		case plan.WaitingForBatch, plan.WaitingForSlot, plan.WaitingForClusterBudget:
			left = append(left, r)
		}
	}
	limit, _ := h.ceilings(nodeWright, "zone-a")
	for _, b := range h.in.Budgets {
		limit = min(limit, int(*b.Count))
	}
	require.True(h.rt, len(left) == 0 || size > limit, "%s goes without the rest of its group: %+v %+v\n%v", n.Name, left, roll, h.log)
}

// checkUntaint: the taint goes when every runtime-required NodeWright that selects the node is complete on it.
func (h *history) checkUntaint(d plan.Decision, out plan.Output) {
	if len(d.Untaint) == 0 {
		return
	}
	require.Equal(h.rt, []corev1.Taint{gate}, d.Untaint)
	for _, nw := range h.in.NodeWrights {
		if !nw.Spec.RuntimeRequired {
			continue
		}
		done := slices.ContainsFunc(out.Reasons, func(r plan.Reason) bool {
			return r.NodeWright == nw.Name && r.Node == d.Node && r.Code == plan.Complete
		})
		require.True(h.rt, done, "%s is free for use before %s is complete", d.Node, nw.Name)
		require.False(h.rt, nw.Paused || nw.Problem != "", "%s is free for use while %s is held back", d.Node, nw.Name)
	}
}

// checkTaints at rest: ours is gone where somebody prepares the node, theirs never.
func (h *history) checkTaints(n *plan.Node) {
	require.Contains(h.rt, n.Taints, theirs)
	for _, nw := range h.in.NodeWrights {
		if nw.Spec.RuntimeRequired && n.Labels["pool"] == "gpu" {
			require.False(h.rt, gated(n), "%s is complete and not free for use\n%s", n.Name, fmt.Sprint(h.log))
		}
	}
}
