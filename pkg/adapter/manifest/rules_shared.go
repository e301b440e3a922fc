package manifest

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// checkShared warns where two NodeWrights put a package of the same name on one node. Both work (each has a state and a
// configuration of its own), but they change the same files of the host.
func (r *rules) checkShared() {
	for i, later := range r.wrights {
		for _, earlier := range r.wrights[:i] {
			if !r.mayShareNodes(earlier.Spec.NodeSelectors, later.Spec.NodeSelectors) {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(later.Spec.Packages)) {
				if _, both := earlier.Spec.Packages[name]; both {
					later.add(sharedPackage(name, earlier.Name()))
				}
			}
		}
	}
}

// Name settles which of the two embedded names is meant: they are equal.
func (w wright) Name() string { return w.NodeWright.Name }

func sharedPackage(name, other string) problem {
	return problem{
		code: CodeSharedPackage, severity: finding.Warning, path: path{"spec", "packages", name},
		message: fmt.Sprintf("package %q is also in NodeWright/%s, and a node may match both: they would change the same host", name, other),
	}
}

func (r *rules) mayShareNodes(a, b metav1.LabelSelector) bool {
	if r.opts.Nodes == nil {
		return !disjoint(a, b)
	}
	both := parseSelector(a)
	requirements, _ := parseSelector(b).Requirements()
	both = both.Add(requirements...)
	return slices.ContainsFunc(r.opts.Nodes, func(node map[string]string) bool { return both.Matches(labels.Set(node)) })
}

// disjoint says that no node can match both, because they want different values of one label.
func disjoint(a, b metav1.LabelSelector) bool {
	wanted := valuesByKey(a)
	for key, values := range valuesByKey(b) {
		other, ok := wanted[key]
		if ok && !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(other, v) }) {
			return true
		}
	}
	return false
}

// valuesByKey are the values that a selector lets a label have, where it lists them.
func valuesByKey(s metav1.LabelSelector) map[string][]string {
	out := map[string][]string{}
	for key, value := range s.MatchLabels {
		out[key] = []string{value}
	}
	for _, e := range s.MatchExpressions {
		if _, already := out[e.Key]; !already && e.Operator == metav1.LabelSelectorOpIn {
			out[e.Key] = e.Values
		}
	}
	return out
}
