package manifest

import (
	"fmt"
	"maps"
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/scope"
)

// checkScope holds a resolved package against what its repository may do. What the catalogue supplies from this very build
// is reported there, once.
func (r *rules) checkScope(w wright, p desired.Package) {
	limits := r.opts.Scope
	if limits == nil {
		return
	}
	entry := w.Spec.Packages[p.Name]
	inBuild := entry.PackageRef != nil && r.packages[entry.PackageRef.Name] != nil
	at := func(field ...string) path { return entryField(w, p.Name, field...) }
	if entry.Image != "" || !inBuild {
		w.add(imageProblems(limits, p.Image, at("image"))...)
	}
	if p.AgentImage != "" {
		w.add(imageProblems(limits, p.AgentImage, at("agentImageOverride"))...)
	}
	if entry.Interrupt != nil || !inBuild {
		w.add(interruptProblems(limits, p.Interrupt, at("interrupt", "type"))...)
	}
	for _, key := range slices.Sorted(maps.Keys(p.ConfigInterrupts)) {
		if _, own := entry.ConfigInterrupts[key]; own || !inBuild {
			interrupt := p.ConfigInterrupts[key]
			w.add(interruptProblems(limits, &interrupt, at("configInterrupts", key, "type"))...)
		}
	}
	if limits.RequireDigest && p.Digest == "" {
		w.add(problem{code: CodeDigestRequired, path: at("image"),
			message: fmt.Sprintf("package %q needs containerSHA, because the Fleet's scope requires digests", p.Name)})
	}
}

// checkCatalogueScope checks the Packages of this build, referenced or not.
func (r *rules) checkCatalogueScope() {
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		d := r.packages[name]
		p, ok := d.typed.(*fleetv1.Package)
		if !ok || r.opts.Scope == nil {
			continue
		}
		d.add(imageProblems(r.opts.Scope, p.Spec.Image, path{"spec", "image"})...)
		d.add(interruptProblems(r.opts.Scope, p.Spec.Interrupt, path{"spec", "interrupt", "type"})...)
		for _, key := range slices.Sorted(maps.Keys(p.Spec.ConfigInterrupts)) {
			interrupt := p.Spec.ConfigInterrupts[key]
			d.add(interruptProblems(r.opts.Scope, &interrupt, path{"spec", "configInterrupts", key, "type"})...)
		}
	}
}

func imageProblems(s *fleetv1.Scope, image string, at path) []problem {
	if scope.AllowsImage(s, image) {
		return nil
	}
	return []problem{{
		code: CodeImageScope, path: at, message: fmt.Sprintf("image %q is outside of the Fleet's scope", image), allowed: scope.Images(s),
	}}
}

func interruptProblems(s *fleetv1.Scope, interrupt *nwv1.Interrupt, at path) []problem {
	if scope.AllowsInterrupt(s, interrupt) {
		return nil
	}
	return []problem{{
		code: CodeInterruptScope, path: at, message: fmt.Sprintf("interrupt %q is outside of the Fleet's scope", interrupt.Type),
		allowed: scope.Interrupts(s),
	}}
}
