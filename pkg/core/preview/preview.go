package preview

import (
	"cmp"
	"slices"
	"strings"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Make says what a change comes to. It cannot fail, and equal inputs give equal plans.
func Make(in Input) Plan {
	out := Plan{
		Schema: Schema, Tool: in.Tool, Path: in.Path, Compared: in.Compared, Findings: orEmpty(in.Findings), Files: orEmpty(in.Files),
		Notes: orEmpty(in.Notes), Objects: len(in.Head.NodeWrights) + len(in.Head.Policies) + len(in.Head.Packages), Result: None,
		Nodes:       Nodes{Source: in.Source, Count: len(in.Nodes), PodsKnown: in.PodsKnown},
		NodeWrights: []NodeWright{}, Others: []Object{}, Rollouts: []Rollout{}, Blocks: []Block{}, Warnings: []Warning{}, Inert: []Inert{},
	}
	if finding.HasErrors(in.Findings) {
		out.Result = Errors
		return out
	}
	w := newWork(in)
	w.plan = out
	w.plan.Nodes.Assumed = w.assumed
	w.compare()
	if len(w.plan.NodeWrights)+len(w.plan.Others) > 0 {
		w.plan.Result = Changes
	}
	w.effects()
	w.predict()
	if w.plan.Result == Changes {
		w.blocks()
		w.warn()
	}
	w.inert()
	return w.plan
}

// Disturbed lists the nodes whose pods matter: those that the change interrupts. It is for who reads pods from a cluster and
// does not want to read all of them.
func Disturbed(in Input) []string {
	if finding.HasErrors(in.Findings) {
		return nil
	}
	w := newWork(in)
	w.compare()
	w.effects()
	var out []string
	for _, o := range w.after {
		if o.Interrupt != nil && w.affected[o.NodeWright][o.Node] {
			out = append(out, o.Node)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func (w *work) compare() {
	for _, name := range union(w.base.objects, w.head.objects) {
		if nw, differs := w.compareNodeWrights(name); differs {
			w.plan.NodeWrights = append(w.plan.NodeWrights, nw)
		}
	}
	w.plan.Others = append(w.plan.Others, w.compareOthers()...)
}

// inert lists what differs and has no consequence on a node.
func (w *work) inert() {
	if w.plan.Result == None && len(w.plan.Files) > 0 {
		w.plan.Inert = append(w.plan.Inert, Inert{Fields: w.plan.Files})
	}
	for _, nw := range w.plan.NodeWrights {
		if quiet := w.quietSettings(nw); nw.Change == Changed && len(quiet) > 0 {
			w.plan.Inert = append(w.plan.Inert, Inert{Kind: nwv1.KindNodeWright, Name: nw.Name, Fields: quiet})
		}
		for _, p := range nw.Packages {
			if len(p.Inert) > 0 {
				w.plan.Inert = append(w.plan.Inert, Inert{Kind: nwv1.KindNodeWright, Name: nw.Name, Package: p.Name, Fields: p.Inert})
			}
		}
	}
	for _, o := range w.plan.Others {
		if o.Kind == nwv1.KindDeploymentPolicy && o.Change == Changed {
			w.plan.Inert = append(w.plan.Inert, Inert{Kind: o.Kind, Name: o.Name, Fields: fields(o.Settings)})
		}
	}
	slices.SortStableFunc(w.plan.Inert, func(a, b Inert) int { return cmp.Compare(a.Kind, b.Kind) })
}

// quietFields start nothing, whatever they are changed to. Others do: annotations ask for things, `verifyInterval` runs checks,
// `autoTaintNewNodes` taints.
var quietFields = []string{
	"metadata.labels", "spec.priority", "spec.sequencing", "spec.serial", "spec.deploymentPolicy", "spec.deploymentPolicyOptions",
	"spec.interruptionBudget", "spec.drainConfig", "spec.podNonInterruptLabels", "spec.protectedPods", "spec.protectedPodsTimeout",
}

// selectingFields decide which nodes are targeted: they start nothing if no node has anything to do.
var selectingFields = []string{"spec.nodeSelectors", "spec.additionalTolerations"}

// quietSettings are those of a NodeWright that start nothing.
func (w *work) quietSettings(nw NodeWright) []string {
	var out []string
	idle := w.in.Source != NoNodes && len(w.affected[nw.Name]) == 0
	for _, s := range nw.Settings {
		if under(s.Field, quietFields) || idle && under(s.Field, selectingFields) {
			out = append(out, s.Field)
		}
	}
	return out
}

// under reports whether a field is one of some, or lies below one.
func under(field string, of []string) bool {
	return slices.ContainsFunc(of, func(f string) bool {
		rest, ok := strings.CutPrefix(field, f)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}
