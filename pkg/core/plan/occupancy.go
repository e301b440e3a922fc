package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Occupancy says which nodes carry pods that speak against disturbing them now. It is read only when a choice depends on
// it (see Output.NeedOccupancy): there is no cache of the pods of the cluster.
type Occupancy struct {
	// Protected is a pod, `ns/name`, that matches the NodeWright's podNonInterruptLabels and has not finished, by node name.
	Protected map[string]string
	// Bound is a pod, `ns/name`, of which a PodDisruptionBudget allows no disruption now, by node name.
	Bound map[string]string
}

// OccupancyQuery asks for the Occupancy of one NodeWright.
type OccupancyQuery struct {
	NodeWright string
	// Protected selects the pods that must not be disturbed; nil protects none.
	Protected labels.Selector
}

// OccupancyOf answers a query from nodes whose pods are all listed. It knows of no PodDisruptionBudget.
func OccupancyOf(q OccupancyQuery, nodes []Node) Occupancy {
	out := Occupancy{Protected: map[string]string{}}
	if q.Protected == nil {
		return out
	}
	for i := range nodes {
		for _, pod := range nodes[i].Pods {
			name := pod.Namespace + "/" + pod.Name
			first, known := out.Protected[nodes[i].Name]
			if !finished(pod) && q.Protected.Matches(labels.Set(pod.Labels)) && (!known || name < first) {
				out.Protected[nodes[i].Name] = name
			}
		}
	}
	return out
}

// occupancyRetry is how often nodes are looked at again that are left alone because of their protected pods.
const occupancyRetry = 30 * time.Second

// occupancy is what is known of a NodeWright's nodes. If it is not known it is asked for, and known is false.
func (p *pass) occupancy(v *view) (o Occupancy, known bool) {
	if o, known = p.in.Occupancies[v.nw.Name]; !known {
		p.needOccupancy[v.nw.Name] = OccupancyQuery{NodeWright: v.nw.Name, Protected: protectedBy(v.nw)}
	}
	return o, known
}

// occupancyQueries are what was asked for, by name.
func (p *pass) occupancyQueries() []OccupancyQuery {
	return slices.SortedFunc(maps.Values(p.needOccupancy), func(a, b OccupancyQuery) int {
		return cmp.Compare(a.NodeWright, b.NodeWright)
	})
}

// has reports whether the node has pods that speak against disturbing it.
func (o Occupancy) has(node string) bool { return o.Protected[node] != "" || o.Bound[node] != "" }

// occupancy is what the choice among the waiting nodes depends on. It is asked for only if there is a choice: somebody can
// be admitted, and either not everybody, or not those with protected pods.
func (s *choice) occupancy(waiting []*member) (o Occupancy, known bool) {
	disruptive := func(m *member) bool { return s.v.workOf(m).disruptive() }
	if !s.picks(waiting) || !slices.ContainsFunc(waiting, disruptive) {
		return Occupancy{}, true
	}
	return s.p.occupancy(s.v)
}

// picks reports whether somebody can be admitted, and not simply everybody.
func (s *choice) picks(waiting []*member) bool {
	free := max(s.free, 0)
	for _, m := range waiting {
		if s.c.counts(m) {
			free++
		}
	}
	switch {
	case free <= 0:
		return false
	case s.v.yields():
		return true
	}
	return s.v.prefersIdle() && (len(waiting) > min(free, s.size) || s.p.scarce(s.disruptive(waiting)))
}

// withoutProtected leaves out the nodes with protected pods, and the groups that such a node belongs to, where they are
// to be left alone. What does not disturb the pods is done all the same, and a node that is out of service already does not
// wait for the pods of another.
func (p *pass) withoutProtected(v *view, c *compartment, waiting []*member, o Occupancy) []*member {
	if !v.yields() {
		return waiting
	}
	protected := func(m *member) bool { return o.Protected[m.node.Name] != "" && v.workOf(m).disruptive() }
	groups := map[string]*member{}
	for _, m := range waiting {
		if group := c.groupOf(m); group != "" && groups[group] == nil && protected(m) {
			groups[group] = m
		}
	}
	var out []*member
	for _, m := range waiting {
		switch other := groups[c.groupOf(m)]; {
		case protected(m):
			pod := o.Protected[m.node.Name]
			m.because(&cause{Yielding, "pod " + pod, "the node is left alone until its protected pods have finished: " + pod})
		case other != nil && !c.holders[m]:
			pod := o.Protected[other.node.Name]
			m.because(&cause{Yielding, "pod " + pod,
				"its group is left alone until the protected pods of node " + other.node.Name + " have finished: " + pod})
		default:
			out = append(out, m)
		}
	}
	if len(out) < len(waiting) {
		p.wakeAt(p.in.Now.Add(occupancyRetry))
	}
	return out
}

// yields reports whether nodes with protected pods are left alone, rather than cordoned and waited for.
func (v *view) yields() bool {
	return v.nw.Spec.ProtectedPods == nwv1.ProtectedPodsYield && protectedBy(v.nw) != nil
}

// prefersIdle: `order: Idle`, which is the default.
func (v *view) prefersIdle() bool {
	return v.nw.Policy == nil || v.nw.Policy.Order == "" || v.nw.Policy.Order == nwv1.OrderIdle
}
