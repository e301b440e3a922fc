package plan

import (
	"cmp"
	"fmt"
	"slices"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// unit is what is admitted as a whole: a node, or, with groupBy, the waiting nodes of one group.
type unit struct {
	// group is the label's value; empty for a single node.
	group   string
	members []*member
	// holds says that one holds a slot; care is the greatest that one needs, see view.care; urgency is that of the most urgent
	// node, label the smallest value of `orderBy`; busy says that one has pods which speak against disturbing it.
	holds   bool
	care    int
	urgency int
	label   string
	busy    bool
}

// groupOf is the group that a node is taken with; empty: it goes alone.
func (c *compartment) groupOf(m *member) string {
	if c.groupBy == "" {
		return ""
	}
	return m.node.Labels[c.groupBy]
}

// unitsOf are the waiting nodes of a compartment as they are admitted, in order: those that hold a slot already; before the
// nodes that need care those that failed, then by the policy's order.
func (p *pass) unitsOf(v *view, c *compartment, waiting []*member, o Occupancy) []unit {
	out := make([]unit, 0, len(waiting))
	place := map[string]int{}
	for i, m := range waiting {
		group := c.groupOf(m)
		at, known := place[group]
		if group == "" || !known {
			at = len(out)
			// a single node's list is the place that it has in waiting: nothing is allocated for it
			out = append(out, unit{group: group, members: waiting[i : i : i+1], urgency: c.urgency(m), label: v.orderLabel(m)})
			if group != "" {
				place[group] = at
			}
		}
		u := &out[at]
		u.members = append(u.members, m)
		u.holds, u.care = u.holds || c.holders[m], max(u.care, v.care(m, p.in.Own.Node))
		u.urgency, u.label = min(u.urgency, c.urgency(m)), min(u.label, v.orderLabel(m))
		u.busy = u.busy || v.prefersIdle() && o.has(m.node.Name) && v.workOf(m).disruptive()
	}
	slices.SortStableFunc(out, compareUnits)
	return out
}

// compareUnits is the order of admission. Groups go by their names; equal single nodes keep the order of theirs.
func compareUnits(a, b unit) int {
	return cmp.Or(compareBools(!a.holds, !b.holds), a.care-b.care, a.urgency-b.urgency, compareBools(a.busy, b.busy), compareStrings(a.label, b.label), compareStrings(a.group, b.group))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// orderLabel is the value that `order: Label` goes by; empty for other orders.
func (v *view) orderLabel(m *member) string {
	if policy := v.nw.Policy; policy != nil && policy.Order == nwv1.OrderLabel {
		return m.node.Labels[policy.OrderBy]
	}
	return ""
}

// care puts the nodes last on which most depends: that of the reconciler itself, which has to move, and before it control
// planes. It counts only where something is interrupted.
func (v *view) care(m *member, own string) int {
	care := 0
	for _, role := range controlPlaneLabels {
		if _, is := m.node.Labels[role]; is {
			care = 1
		}
	}
	if own != "" && own == m.node.Name {
		care = 2
	}
	if care == 0 || !v.workOf(m).disruptive() {
		return 0
	}
	return care
}

var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

func (c *compartment) urgency(m *member) int {
	switch {
	case c.holders[m]:
		return 0
	case m.rec.Outcome == noderecord.Failed:
		return 1
	}
	return 2
}

// choice fills the next batch of a compartment.
type choice struct {
	p *pass
	v *view
	c *compartment
	// size is how many nodes the batch wants.
	size int
	// free are the slots that are left; taken those that nodes got here.
	free, taken int
	admitted    []*member
	// left counts the nodes that the batch or the slots had no room for. Where they would have filled the batch, and do not
	// fit as whole groups, it grows all the same.
	left int
	// nextBatch and noSlot are worded once for all nodes that wait for the same thing.
	nextBatch, noSlot *cause
}

// take goes through the units in their order. A group is taken whole, and rounds the batch up if it comes first. Only one
// that could never be taken whole, as it is larger than a ceiling, is split.
func (s *choice) take(units []unit) {
	for _, u := range units {
		limit := s.limit(u.members)
		if len(u.members) <= max(limit, 1) {
			s.offer(u.members, u.group)
			continue
		}
		size := s.size
		if len(s.admitted) == 0 {
			s.size = max(size, limit)
		}
		for i := range u.members {
			s.offer(u.members[i:i+1], "")
		}
		s.size = size
	}
}

// limit is how many nodes of a group could ever be out of service at once.
func (s *choice) limit(members []*member) int {
	limit := s.c.ceiling
	if len(members) == 1 {
		return limit
	}
	for _, c := range s.p.caps {
		if slices.ContainsFunc(members, func(m *member) bool { return c.covers(m.node) && s.v.workOf(m).disruptive() }) {
			limit = min(limit, c.max)
		}
	}
	return limit
}

// offer admits the nodes together, or tells each why not. Those of a group that are out of service already do not wait for
// the rest of it.
func (s *choice) offer(members []*member, group string) {
	why := s.refuse(members, group)
	if why == nil {
		s.free -= s.need(members)
		s.taken += s.without(members)
		s.admitted = append(s.admitted, members...)
		return
	}
	for i, m := range members {
		if len(members) > 1 && s.c.holders[m] {
			s.offer(members[i:i+1], "")
			continue
		}
		m.because(why)
		if !why.is(WaitingForClusterBudget) {
			s.left++
		}
	}
}

// refuse is why the batch, the slots or the cluster's budgets have no room for all of the nodes. Nodes that hold a slot
// already need no other, however many are in use.
func (s *choice) refuse(members []*member, group string) *cause {
	need, without := s.need(members), s.without(members)
	// what is unavailable anyway may be more than the ceiling; to work on one of them takes nothing more out of service
	counted := need == 0 && len(s.c.holders)+s.taken+without <= s.c.ceiling
	switch n := len(s.admitted); {
	case n >= s.size:
		return s.full()
	case n > 0 && n+len(members) > s.size:
		return &cause{WaitingForBatch, s.c.ref(),
			fmt.Sprintf("group %s has %d nodes, and the next batch of compartment %s has room for %d", group, len(members), s.c.name, s.size-n)}
	case without > 0 && s.free < need && !counted:
		return s.used(need, group)
	}
	return s.p.clusterRoom(s.disruptive(members)...)
}

// need is how many slots the nodes take. One that holds a slot, or that the budget counts anyway, takes none.
func (s *choice) need(members []*member) int {
	need := 0
	for _, m := range members {
		if !s.c.counts(m) {
			need++
		}
	}
	return need
}

// without counts the nodes that hold no slot yet.
func (s *choice) without(members []*member) int {
	n := 0
	for _, m := range members {
		if !s.c.holders[m] {
			n++
		}
	}
	return n
}

// disruptive are the nodes that the cluster's budgets count once they are admitted.
func (s *choice) disruptive(members []*member) []*Node {
	var out []*Node
	if len(s.p.caps) == 0 {
		return nil
	}
	for _, m := range members {
		if m.ownsCordon() || s.v.workOf(m).disruptive() {
			out = append(out, m.node)
		}
	}
	return out
}

func (s *choice) full() *cause {
	if s.nextBatch == nil {
		s.nextBatch = &cause{WaitingForBatch, s.c.ref(), "the next batch of compartment " + s.c.name + " is full"}
	}
	return s.nextBatch
}

func (s *choice) used(need int, group string) *cause {
	if s.noSlot == nil {
		s.noSlot = &cause{WaitingForSlot, s.c.ref(), fmt.Sprintf("%d of the %d slots of compartment %s are in use%s",
			s.c.ceiling-min(s.free, s.c.ceiling), s.c.ceiling, s.c.name, s.v.holdersOf(s.c, len(s.admitted)))}
	}
	if group == "" {
		return s.noSlot
	}
	return &cause{WaitingForSlot, s.c.ref(), fmt.Sprintf("group %s needs %d slots; %s", group, need, s.noSlot.message)}
}
