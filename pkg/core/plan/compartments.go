package plan

import (
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
	// members that are assigned to it now, by name.
	members []*member
	// ceiling of this pass.
	ceiling int
}

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

// compartmentsOf builds the compartments of a NodeWright and assigns its targeted nodes.
func compartmentsOf(nw *NodeWright, members []*member) []*compartment {
	all := declared(nw)
	var targeted []*member
	for _, m := range members {
		if m.targeted {
			targeted = append(targeted, m)
		}
	}
	ranked := byCaution(all, targeted)
	fallback := all[len(all)-1]
	for _, m := range targeted {
		c := choose(ranked, fallback, m)
		m.compartment = c.name
		c.members = append(c.members, m)
	}
	for _, c := range all {
		c.ceiling = c.budget.ceiling(len(c.members))
		c.rules = c.rules.bounded(c.ceiling)
	}
	return all
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
func byCaution(all []*compartment, targeted []*member) []*compartment {
	matched := map[string]int{}
	var out []*compartment
	for _, c := range all {
		if c.selector == nil {
			continue
		}
		for _, m := range targeted {
			if c.selector.Matches(labels.Set(m.node.Labels)) {
				matched[c.name]++
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *compartment) int {
		if d := a.rules.kind.rank() - b.rules.kind.rank(); d != 0 {
			return d
		}
		if d := a.budget.ceiling(matched[a.name]) - b.budget.ceiling(matched[b.name]); d != 0 {
			return d
		}
		return compareStrings(a.name, b.name)
	})
	return out
}

func choose(ranked []*compartment, fallback *compartment, m *member) *compartment {
	for _, c := range ranked {
		if c.selector.Matches(labels.Set(m.node.Labels)) {
			return c
		}
	}
	return fallback
}
