package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// compartment is one partition of a NodeWright's nodes with its own ceiling and strategy.
type compartment struct {
	name     string
	selector labels.Selector // nil for the default
	rules    rules
	budget   budget
	// groupBy is the label whose groups of nodes are taken whole; empty: nodes go one by one.
	groupBy string
	// selected counts the targeted nodes that its selector matches.
	selected int
	// members that are assigned to it now, by name.
	members []*member
	// busy are those members that are not quiet.
	busy []*member
	// ceiling of this pass.
	ceiling int
	// holders are the nodes that hold one of its slots.
	holders map[*member]bool
	// turns: see turnsIn.
	turns []*member
}

// ref names the compartment as the object of a reason.
func (c *compartment) ref() string { return "compartment " + c.name }

// budget is a ceiling as it is written: a count, a percentage, or neither (100 %).
type budget struct {
	count, percent   *int32
	countUnavailable bool
}

// ceiling for n nodes. A percentage is rounded down, but never below 1 for a compartment that has nodes.
func (b budget) ceiling(n int) int {
	switch {
	case b.count != nil:
		return int(*b.count)
	case b.percent == nil:
		return n
	case n == 0 || *b.percent == 0:
		return 0
	}
	return max(1, n*int(*b.percent)/100)
}

// contested is a node that several compartments select.
type contested struct {
	*member
	by []*compartment
}

// assign finds the compartment of a targeted node: the default if none selects it. If several do, the most cautious one
// gets it; how cautious a budget is depends on every node that its compartment selects, so that waits for divide.
func (v *view) assign(m *member) {
	v.matching = v.index.appendMatching(v.matching[:0], m.node.Labels)
	for _, c := range v.matching {
		c.selected++
	}
	switch len(v.matching) {
	case 0:
		m.compartment = v.compartments[len(v.compartments)-1]
	case 1:
		m.compartment = v.matching[0]
	default:
		v.several = append(v.several, contested{m, slices.Clone(v.matching)})
	}
}

// divide finishes the compartments once every node was met.
func (v *view) divide() {
	for _, m := range v.several {
		m.compartment = slices.MinFunc(m.by, byCaution)
	}
	for _, m := range v.members {
		if m.compartment == nil {
			continue
		}
		m.compartment.members = append(m.compartment.members, m)
		if m.quiet {
			continue
		}
		m.compartment.busy = append(m.compartment.busy, m)
		if v.late == "" && !m.complete() {
			v.late = m.node.Name
		}
	}
	for _, c := range v.compartments {
		c.ceiling = c.budget.ceiling(len(c.members))
		c.rules = c.rules.bounded(c.ceiling)
	}
	v.ahead = v.goesAhead()
}

// declared are the compartments as they are written, the default last.
func declared(nw *NodeWright) []*compartment {
	if nw.Policy == nil {
		b := budget{}
		if ib := nw.Spec.InterruptionBudget; ib != nil {
			b.count, b.percent = ib.Count, ib.Percent
		}
		return []*compartment{{name: nwv1.DefaultCompartment, budget: b, rules: rollingRules()}}
	}
	var out []*compartment
	for _, c := range nw.Policy.Compartments {
		out = append(out, &compartment{
			name: c.Name, selector: selectorOf(c.Selector), budget: budgetOf(c.Budget), rules: rulesOf(c.Strategy),
			groupBy: c.GroupBy,
		})
	}
	d := nw.Policy.Default
	return append(out, &compartment{name: nwv1.DefaultCompartment, budget: budgetOf(d.Budget), rules: rulesOf(d.Strategy)})
}

func budgetOf(b nwv1.DeploymentBudget) budget {
	return budget{count: b.Count, percent: b.Percent, countUnavailable: b.CountUnavailable}
}

// byCaution orders compartments from the safest: fixed, linear, exponential, none; then the smaller ceiling over every
// node that the selector matches; then the name.
func byCaution(a, b *compartment) int {
	return cmp.Or(
		a.rules.kind.rank()-b.rules.kind.rank(),
		a.budget.ceiling(a.selected)-b.budget.ceiling(b.selected),
		compareStrings(a.name, b.name),
	)
}
