package manifest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/desired"
)

// checkDependencies finds dependencies that cannot be met.
func checkDependencies(w wright) {
	for _, p := range w.resolved.Packages {
		for _, name := range slices.Sorted(maps.Keys(p.DependsOn)) {
			checkDependency(w, p, name)
		}
	}
	for _, cycle := range cycles(w.resolved) {
		w.add(problem{
			code: CodeDependencyCycle, path: entryField(w, cycle[0], "dependsOn", cycle[1]),
			message: "dependency cycle: " + strings.Join(cycle, " -> "),
		})
	}
}

func checkDependency(w wright, p desired.Package, name string) {
	at, wanted := entryField(w, p.Name, "dependsOn", name), p.DependsOn[name]
	other, ok := w.resolved.ByName(name)
	switch {
	case w.unknown[name]:
		return // its packageRef is already reported
	case !ok:
		w.add(problem{
			code: CodeUnknownDependency, path: at, message: fmt.Sprintf("there is no package %q in this NodeWright", name),
			allowed: list(slices.Sorted(maps.Keys(w.Spec.Packages))),
		})
	case other.Version != wanted:
		w.add(problem{
			code: CodeDependencyVersion, path: at,
			message: fmt.Sprintf("needs %s %s, but this NodeWright has %s %s", name, wanted, name, other.Version), allowed: other.Version,
		})
	}
}

// entryField is a field of a package entry, or the entry itself where the catalogue supplies the field.
func entryField(w wright, name string, field ...string) path {
	at := path{"spec", "packages", name}
	if full := at.child(field...); full.in(w.value) != nil {
		return full
	}
	return at
}

// cycles returns each dependency cycle once, spelled from its first name in the alphabet: a -> b -> a. A package that
// depends on itself in its own entry is left to the CRD's rule.
func cycles(set desired.Set) [][]string {
	var found [][]string
	done := map[string]bool{}
	var visit func(trail []string)
	visit = func(trail []string) {
		current := trail[len(trail)-1]
		p, _ := set.ByName(current)
		for _, next := range slices.Sorted(maps.Keys(p.DependsOn)) {
			if at := slices.Index(trail, next); at >= 0 {
				found = append(found, rotate(trail[at:]))
			} else if _, exists := set.ByName(next); exists && !done[next] {
				visit(append(slices.Clone(trail), next))
			}
		}
		done[current] = true
	}
	for _, p := range set.Packages {
		if !done[p.Name] {
			visit([]string{p.Name})
		}
	}
	slices.SortFunc(found, slices.Compare)
	return slices.CompactFunc(found, slices.Equal)
}

func rotate(cycle []string) []string {
	start := slices.Index(cycle, slices.Min(cycle))
	turned := slices.Concat(cycle[start:], cycle[:start])
	return append(turned, turned[0])
}

// checkConfigInterrupts: an entry that no configMap key can trigger is a typing error (NVIDIA's API refuses it, too).
func checkConfigInterrupts(w wright, p desired.Package) {
	keys := slices.Sorted(maps.Keys(p.ConfigMap))
	for _, pattern := range slices.Sorted(maps.Keys(p.ConfigInterrupts)) {
		matches := func(key string) bool { ok, err := filepath.Match(pattern, key); return err == nil && ok }
		if slices.Contains(keys, pattern) || slices.ContainsFunc(keys, matches) {
			continue
		}
		w.add(problem{
			code: CodeConfigInterrupt, path: entryField(w, p.Name, "configInterrupts", pattern),
			message: fmt.Sprintf("%q matches no key of configMap", pattern), allowed: list(keys),
		})
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ")
}
