package plan

import (
	"maps"
	"slices"

	"github.com/fleetwright/fleetwright/pkg/core/desired"
)

// ready are the items whose dependencies are all done, with a package to be removed waiting for those that depend on
// it. The second result maps each other item to the package that it waits for.
func (w work) ready() (ready work, waits map[string]string) {
	ready, waits = make(work, 0, len(w)), map[string]string{}
	for _, it := range w {
		if blocker := w.blockerOf(it); blocker != "" {
			waits[it.name] = blocker
			continue
		}
		ready = append(ready, it)
	}
	return ready, waits
}

func (w work) blockerOf(it item) string {
	if it.removal {
		return w.dependentBeingRemoved(it)
	}
	for _, dep := range slices.Sorted(maps.Keys(it.def.DependsOn)) {
		if w.has(dep) {
			return dep
		}
	}
	return ""
}

// dependentBeingRemoved is a package that depends on it and has to be taken off first. What is on the host was installed at
// different times, when different packages depended on each other: of those that go in a circle the first by name is taken off
// first.
func (w work) dependentBeingRemoved(it item) string {
	for _, other := range w {
		if !other.removal || other.name == it.name {
			continue
		}
		if _, depends := other.def.DependsOn[it.name]; depends && !(it.name < other.name && w.removalNeeds(it, other.name)) {
			return other.name
		}
	}
	return ""
}

// removalNeeds reports whether a package that has to go depends, directly or not, on another one, over packages that have to go.
func (w work) removalNeeds(it item, name string) bool {
	seen := map[string]bool{it.name: true}
	for queue := []item{it}; len(queue) > 0; queue = queue[1:] {
		for _, next := range w {
			if _, depends := queue[0].def.DependsOn[next.name]; !depends || !next.removal || seen[next.name] {
				continue
			}
			if next.name == name {
				return true
			}
			seen[next.name] = true
			queue = append(queue, next)
		}
	}
	return false
}

func (w work) has(name string) bool {
	return slices.ContainsFunc(w, func(it item) bool { return it.name == name })
}

// inOrder returns the packages in an order in which dependencies come first; ties go by name. It is used where one
// package has to run before another for no other reason than `serial`.
func inOrder(w work, set desired.Set) work {
	depth := map[string]int{}
	for range set.Packages { // as many rounds as the longest chain can have
		for _, p := range set.Packages {
			for dep := range p.DependsOn {
				depth[p.Name] = max(depth[p.Name], depth[dep]+1)
			}
		}
	}
	out := slices.Clone(w)
	slices.SortStableFunc(out, func(a, b item) int {
		if d := depth[a.name] - depth[b.name]; d != 0 {
			return d
		}
		return compareStrings(a.name, b.name)
	})
	return out
}
