package scope

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
)

// AllowsImage says whether an image may be used: it matches one of the patterns, or there are none. In a pattern `*` is any run of
// characters but the slash, `**` any run at all.
func AllowsImage(s *fleetv1.Scope, image string) bool {
	if s == nil || len(s.Images) == 0 {
		return true
	}
	return slices.ContainsFunc(s.Images, func(pattern string) bool { return imagePattern(pattern).MatchString(image) })
}

func imagePattern(pattern string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.ReplaceAll(quoted, `\*\*`, `.*`)
	return regexp.MustCompile(`^` + strings.ReplaceAll(quoted, `\*`, `[^/]*`) + `$`)
}

// AllowsInterrupt says whether an interrupt may be asked for; none always may.
func AllowsInterrupt(s *fleetv1.Scope, interrupt *nwv1.Interrupt) bool {
	return s == nil || interrupt == nil || len(s.Interrupts) == 0 || slices.Contains(s.Interrupts, interrupt.Type)
}

// Images are the allowed patterns for people.
func Images(s *fleetv1.Scope) string { return strings.Join(s.Images, ", ") }

// Interrupts are the allowed types for people.
func Interrupts(s *fleetv1.Scope) string {
	var out []string
	for _, t := range s.Interrupts {
		out = append(out, string(t))
	}
	return strings.Join(out, ", ")
}

// Violations are what a package set does that the scope does not allow, one sentence for each, in the order of the packages.
func Violations(s *fleetv1.Scope, set desired.Set) []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, p := range set.Packages {
		for _, v := range violations(s, p) {
			out = append(out, fmt.Sprintf("package %q: %s", p.Name, v))
		}
	}
	return out
}

func violations(s *fleetv1.Scope, p desired.Package) []string {
	var out []string
	if !AllowsImage(s, p.Image) {
		out = append(out, fmt.Sprintf("image %q is not allowed (allowed: %s)", p.Image, Images(s)))
	}
	if p.AgentImage != "" && !AllowsImage(s, p.AgentImage) {
		out = append(out, fmt.Sprintf("agentImageOverride %q is not allowed (allowed: %s)", p.AgentImage, Images(s)))
	}
	if !AllowsInterrupt(s, p.Interrupt) {
		out = append(out, fmt.Sprintf("interrupt %q is not allowed (allowed: %s)", p.Interrupt.Type, Interrupts(s)))
	}
	for _, key := range slices.Sorted(maps.Keys(p.ConfigInterrupts)) {
		if i := p.ConfigInterrupts[key]; !AllowsInterrupt(s, &i) {
			out = append(out, fmt.Sprintf("interrupt %q for the key %s is not allowed (allowed: %s)", i.Type, key, Interrupts(s)))
		}
	}
	if s.RequireDigest && p.Digest == "" {
		out = append(out, "containerSHA is missing, and digests are required")
	}
	return out
}
