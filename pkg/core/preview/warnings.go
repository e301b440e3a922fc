package preview

import (
	"strings"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// warn collects what a reviewer should look at twice, by NodeWright.
func (w *work) warn() {
	for _, nw := range w.plan.NodeWrights {
		for _, p := range nw.Packages {
			w.warnOfPackage(nw, p)
		}
		if head := w.head.byName[nw.Name]; head != nil {
			w.warnOfBudgets(nw, head)
			if head.OutOfScope != "" {
				w.add(Warning{Code: OutOfScope, NodeWright: nw.Name})
			}
			if w.in.Source != NoNodes && nw.Selected == 0 {
				w.add(Warning{Code: NothingSelected, NodeWright: nw.Name})
			}
		}
		if nw.Leaving > 0 && nw.Change != Removed {
			w.add(Warning{Code: NodesLeave, NodeWright: nw.Name, Count: nw.Leaving})
		}
	}
	for _, o := range w.plan.Others {
		for _, s := range o.Settings {
			name, isCompartment := strings.CutPrefix(s.Field, "spec.compartments[")
			if name, whole := strings.CutSuffix(name, "]"); isCompartment && whole && s.Change == Removed {
				w.add(Warning{Code: CompartmentRemoved, Policy: o.Name, Compartment: name})
			}
		}
	}
}

func (w *work) add(more Warning) { w.plan.Warnings = append(w.plan.Warnings, more) }

func (w *work) warnOfPackage(nw NodeWright, p Package) {
	about := Warning{NodeWright: nw.Name, Package: p.Name}
	warn := func(code Code, version string) {
		about.Code, about.Version = code, version
		w.add(about)
	}
	if p.New != nil && p.New.Digest == "" && (p.Old == nil || *p.Old != *p.New) {
		warn(NoDigest, p.New.Version)
	}
	switch {
	case p.Uninstall:
		version := ""
		if p.Old != nil {
			version = p.Old.Version
		}
		warn(Uninstalls, version)
	case p.Change == Removed:
		warn(RemovedWithoutUninstall, p.Old.Version)
	case p.Old != nil && p.New != nil && plan.Newer(p.Old.Version, p.New.Version):
		warn(DowngradeWithoutUninstall, p.Old.Version)
	}
	if p.Old != nil && p.New != nil && p.Old.Version == p.New.Version &&
		(*p.Old != *p.New || !p.Env.Empty() || p.EnvOrder) {
		warn(SameVersion, p.New.Version)
	}
}

// warnOfBudgets looks at the compartments of a NodeWright whose change disturbs nodes.
func (w *work) warnOfBudgets(change NodeWright, nw *plan.NodeWright) {
	disturbs := false
	for _, p := range change.Packages {
		disturbs = disturbs || p.Interrupt != ""
	}
	for _, e := range change.Effects {
		disturbs = disturbs || e.Nodes > e.NoInterrupt
	}
	if !disturbs {
		return
	}
	for _, c := range compartmentsOf(nw) {
		nodes, known := w.affectedIn(change, c.name)
		about := Warning{NodeWright: nw.Name, Compartment: c.name, Count: nodes}
		switch {
		case known && nodes == 0:
			continue
		case c.zero():
			about.Code = ZeroBudget
			w.add(about)
			continue
		case c.full() && (!known || nodes > 1):
			about.Code = FullBudget
			w.add(about)
		}
		if !c.halts {
			about.Code = NoFailureThreshold
			w.add(about)
		}
	}
}

// affectedIn counts the nodes of a compartment that are disturbed; known is false without nodes.
func (w *work) affectedIn(change NodeWright, compartment string) (n int, known bool) {
	for _, e := range change.Effects {
		if e.Compartment == compartment {
			n = e.Nodes - e.NoInterrupt
		}
	}
	return n, w.in.Source != NoNodes
}

// lane is a compartment as it is written.
type lane struct {
	name           string
	count, percent *int32
	halts          bool
}

func (l lane) zero() bool {
	return l.count != nil && *l.count == 0 || l.count == nil && l.percent != nil && *l.percent == 0
}

func (l lane) full() bool { return l.count == nil && (l.percent == nil || *l.percent >= 100) }

func compartmentsOf(nw *plan.NodeWright) []lane {
	if nw.Policy == nil {
		l := lane{name: nwv1.DefaultCompartment}
		if b := nw.Spec.InterruptionBudget; b != nil {
			l.count, l.percent = b.Count, b.Percent
		}
		return []lane{l}
	}
	var out []lane
	for _, c := range nw.Policy.Compartments {
		out = append(out, lane{c.Name, c.Budget.Count, c.Budget.Percent, halts(c.Strategy)})
	}
	d := nw.Policy.Default
	return append(out, lane{nwv1.DefaultCompartment, d.Budget.Count, d.Budget.Percent, halts(d.Strategy)})
}

func halts(s *nwv1.DeploymentStrategy) bool {
	var rules nwv1.BatchRules
	switch {
	case s == nil:
		return false
	case s.Fixed != nil:
		rules = s.Fixed.BatchRules
	case s.Linear != nil:
		rules = s.Linear.BatchRules
	case s.Exponential != nil:
		rules = s.Exponential.BatchRules
	}
	return rules.FailureThreshold != nil && *rules.FailureThreshold > 0
}
