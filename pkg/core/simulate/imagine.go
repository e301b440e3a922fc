package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// groupSize is how many imagined nodes share the value of a `groupBy` label.
const groupSize = 8

// Sizes says how many nodes to imagine.
type Sizes struct {
	// Total nodes, spread evenly over all compartments; the default counts as one.
	Total int
	// ByCompartment, where it is not nil, says instead how many nodes each compartment gets.
	ByCompartment map[string]int
}

// Imagine makes up Ready nodes that the NodeWrights select, with labels that are derived from their selectors: what
// matchLabels and `In` (its first value) ask for, "true" for `Exists`. Each compartment of their policies gets nodes that
// match its selector. NodeWrights whose selectors contradict each other get nodes of their own. The error says which
// selector no node can match, or which compartment does not exist.
func Imagine(nodeWrights []plan.NodeWright, sizes Sizes) ([]plan.Node, []Group, error) {
	kinds, err := kindsOf(nodeWrights)
	if err != nil {
		return nil, nil, err
	}
	counts, err := sizes.of(kinds)
	if err != nil {
		return nil, nil, err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	var nodes []plan.Node
	var groups []Group
	for i, k := range kinds {
		if counts[i] == 0 {
			continue
		}
		first := len(nodes)
		for j := range counts[i] {
			nodes = append(nodes, k.node(nodeName(first+j, total), j))
		}
		groups = append(groups, Group{
			Count: counts[i], First: nodes[first].Name, Last: nodes[len(nodes)-1].Name, Labels: k.labels, Compartment: k.compartment,
		})
	}
	return nodes, groups, nil
}

func nodeName(i, total int) string {
	return fmt.Sprintf("node-%0*d", max(2, len(fmt.Sprint(total))), i+1)
}

// kind is a kind of imagined nodes.
type kind struct {
	labels map[string]string
	// compartment that the labels were made for; empty for the default.
	compartment string
	// groupBy are the label keys by which batches are grouped.
	groupBy []string
}

func (k kind) node(name string, i int) plan.Node {
	all := maps.Clone(k.labels)
	for _, key := range k.groupBy {
		if _, fixed := all[key]; !fixed {
			all[key] = fmt.Sprintf("group-%d", i/groupSize+1)
		}
	}
	return plan.Node{Name: name, UID: types.UID("imagined-node-" + name), Labels: all, Ready: true, BootID: "boot-0"}
}

// of are the numbers of nodes of each kind.
func (s Sizes) of(kinds []kind) ([]int, error) {
	counts := make([]int, len(kinds))
	if s.ByCompartment == nil {
		for i := range kinds {
			counts[i] = s.Total / len(kinds)
			if i < s.Total%len(kinds) {
				counts[i]++
			}
		}
		return counts, nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.ByCompartment)) {
		i := slices.IndexFunc(kinds, func(k kind) bool { return cmp.Or(k.compartment, nwv1.DefaultCompartment) == name })
		if i < 0 {
			return nil, fmt.Errorf("compartment %q does not exist (allowed: %s)", name, strings.Join(compartmentNames(kinds), ", "))
		}
		counts[i] += s.ByCompartment[name]
	}
	return counts, nil
}

func compartmentNames(kinds []kind) []string {
	var out []string
	for _, k := range kinds {
		out = append(out, cmp.Or(k.compartment, nwv1.DefaultCompartment))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// kindsOf finds the kinds of nodes: for each set of NodeWrights that can share a node one kind for each compartment of
// their policies, and one that is made for no compartment.
func kindsOf(nodeWrights []plan.NodeWright) ([]kind, error) {
	var out []kind
	for _, p := range profilesOf(nodeWrights) {
		if p.err != nil {
			return nil, p.err
		}
		groupBy := p.groupBy()
		for _, c := range p.compartments() {
			if both, err := matching(c.Selector, p.labels); err == nil && !known(out, both) {
				out = append(out, kind{both, c.Name, groupBy})
			}
		}
		if !known(out, p.labels) {
			out = append(out, kind{p.labels, "", groupBy})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no NodeWright to imagine nodes for")
	}
	return out, nil
}

func known(kinds []kind, l map[string]string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return maps.Equal(k.labels, l) })
}

// profile is a set of labels that all its NodeWrights select.
type profile struct {
	labels      map[string]string
	nodeWrights []plan.NodeWright
	err         error
}

// profilesOf puts each NodeWright, by name, to the first profile whose labels its selector can be added to.
func profilesOf(nodeWrights []plan.NodeWright) []*profile {
	sorted := slices.Clone(nodeWrights)
	slices.SortFunc(sorted, func(a, b plan.NodeWright) int { return cmp.Compare(a.Name, b.Name) })
	var out []*profile
	for _, nw := range sorted {
		if !slices.ContainsFunc(out, func(p *profile) bool { return p.add(nw) }) {
			alone, err := matching(nw.Spec.NodeSelectors, nil)
			if err != nil {
				err = fmt.Errorf("nodewright %s: spec.nodeSelectors: %w", nw.Name, err)
			}
			out = append(out, &profile{labels: alone, nodeWrights: []plan.NodeWright{nw}, err: err})
		}
	}
	return out
}

// add makes the profile one for another NodeWright, too, if its labels can still be selected by all.
func (p *profile) add(nw plan.NodeWright) bool {
	both, err := matching(nw.Spec.NodeSelectors, p.labels)
	if err != nil {
		return false
	}
	for _, have := range p.nodeWrights {
		selector, err := metav1.LabelSelectorAsSelector(&have.Spec.NodeSelectors)
		if err != nil || !selector.Matches(labels.Set(both)) {
			return false
		}
	}
	p.labels, p.nodeWrights = both, append(p.nodeWrights, nw)
	return true
}

// compartments of the profile's policies, each policy's in its order.
func (p *profile) compartments() []nwv1.Compartment {
	var out []nwv1.Compartment
	for _, nw := range p.nodeWrights {
		if nw.Policy != nil {
			out = append(out, nw.Policy.Compartments...)
		}
	}
	return out
}

func (p *profile) groupBy() []string {
	var out []string
	for _, c := range p.compartments() {
		if c.GroupBy != "" {
			out = append(out, c.GroupBy)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// matching returns labels that match the selector, beginning with base.
func matching(s metav1.LabelSelector, base map[string]string) (map[string]string, error) {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if _, fixed := out[key]; !fixed {
			out[key] = s.MatchLabels[key]
		}
	}
	for _, e := range s.MatchExpressions {
		if _, fixed := out[e.Key]; fixed {
			continue
		}
		switch {
		case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
			out[e.Key] = e.Values[0]
		case e.Operator == metav1.LabelSelectorOpExists:
			out[e.Key] = nwv1.TrueValue
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return nil, err
	}
	if !selector.Matches(labels.Set(out)) {
		return nil, fmt.Errorf("no labels were found that match %q", selector)
	}
	return out, nil
}
