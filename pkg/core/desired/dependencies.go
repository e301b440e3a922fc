package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// dependencyProblems are dependencies that are missing, that have another version, that are kept away, or that lead in a
// circle. Such a package would wait for ever.
func dependencyProblems(set Set, entries map[string]nwv1.Package) []Problem {
	var problems []Problem
	for _, p := range set.Packages {
		for _, dep := range slices.Sorted(maps.Keys(p.DependsOn)) {
			if message := unmet(set, entries, p, dep); message != "" {
				problems = append(problems, Problem{Field: "spec.packages." + p.Name + ".dependsOn." + dep, Message: message})
			}
		}
		if circle := circleThrough(set, p.Name); circle != nil && circle[0] == slices.Min(circle) {
			problems = append(problems, Problem{
				Field:   "spec.packages." + p.Name + ".dependsOn." + circle[1],
				Message: "dependency cycle: " + strings.Join(circle, " -> "),
			})
		}
	}
	return problems
}

// unmet says why a dependency can never be met; empty if it can. One whose own entry has a problem is reported there.
func unmet(set Set, entries map[string]nwv1.Package, p Package, dep string) string {
	want := p.DependsOn[dep]
	have, ok := set.ByName(dep)
	_, named := entries[dep]
	switch {
	case !named:
		return fmt.Sprintf("package %q does not exist", dep)
	case !ok:
		return ""
	case have.Absent && !p.Absent:
		return fmt.Sprintf("package %q is to be uninstalled (uninstall.apply)", dep)
	case have.Version != want:
		return fmt.Sprintf("package %q has version %s, not %s", dep, have.Version, want)
	}
	return ""
}

// circleThrough is a shortest way from a package back to itself; nil if there is none.
func circleThrough(set Set, start string) []string {
	seen := map[string]bool{}
	trails := [][]string{{start}}
	for len(trails) > 0 {
		trail := trails[0]
		trails = trails[1:]
		p, _ := set.ByName(trail[len(trail)-1])
		for _, next := range slices.Sorted(maps.Keys(p.DependsOn)) {
			longer := append(slices.Clone(trail), next)
			if next == start {
				return longer
			}
			if !seen[next] {
				seen[next] = true
				trails = append(trails, longer)
			}
		}
	}
	return nil
}
