package manifest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/window"
)

// rules are checked between objects, and between an object and what is known about the cluster.
type rules struct {
	opts      Options
	wrights   []wright
	policies  []*document
	policy    map[string]bool // every name that a reference may use, also of documents in error
	catalogue map[string]*fleetv1.Package
	packages  map[string]*document // of the catalogue's entries in this build
}

// wright is a NodeWright that is good by itself, with its packages resolved.
type wright struct {
	*document
	*nwv1.NodeWright
	resolved desired.Set
	unknown  map[string]bool // packages whose packageRef cannot be resolved
}

func newRules(docs []*document, set Set, opts Options) *rules {
	r := &rules{
		opts: opts, policy: map[string]bool{},
		catalogue: map[string]*fleetv1.Package{}, packages: map[string]*document{},
	}
	for _, p := range slices.Concat(opts.Elsewhere.Packages, set.Packages) {
		r.catalogue[p.Name] = p
	}
	for _, p := range opts.Elsewhere.DeploymentPolicies {
		r.policy[p.Name] = true
	}
	for _, d := range docs {
		r.learn(d)
	}
	for _, d := range docs {
		if nw, ok := d.typed.(*nwv1.NodeWright); ok {
			r.wrights = append(r.wrights, r.resolve(d, nw))
		}
	}
	return r
}

func (r *rules) learn(d *document) {
	switch d.Kind {
	case nwv1.KindDeploymentPolicy:
		r.policy[d.Name] = true
		if d.typed != nil {
			r.policies = append(r.policies, d)
		}
	case fleetv1.KindPackage:
		r.packages[d.Name] = d
	}
}

func (r *rules) resolve(d *document, nw *nwv1.NodeWright) wright {
	w := wright{document: d, NodeWright: nw, unknown: map[string]bool{}}
	w.resolved, _ = desired.Resolve(nw, r.catalogue)
	for name := range nw.Spec.Packages {
		if _, ok := w.resolved.ByName(name); !ok {
			w.unknown[name] = true
		}
	}
	return w
}

// check adds what it finds to the documents.
func (r *rules) check() {
	for _, w := range r.wrights {
		r.checkReferences(w)
		r.checkSelector(w)
		checkDependencies(w)
		for _, p := range w.resolved.Packages {
			checkConfigInterrupts(w, p)
			r.checkVersion(w, p)
			r.checkScope(w, p)
			checkPackageSize(w, p)
		}
	}
	r.checkShared()
	for _, d := range r.policies {
		policy := d.typed.(*nwv1.DeploymentPolicy)
		checkPolicy(d, policy)
	}
	r.checkCatalogueScope()
}

func (r *rules) checkReferences(w wright) {
	if name := w.Spec.DeploymentPolicy; name != "" && !r.policy[name] {
		w.add(problem{
			code: CodeUnknownPolicy, path: path{"spec", "deploymentPolicy"},
			message: fmt.Sprintf("there is no DeploymentPolicy %q", name), allowed: list(slices.Sorted(maps.Keys(r.policy))),
		})
	}
	known := maps.Clone(r.catalogue)
	for name := range r.packages {
		known[name] = nil // an entry in error is known all the same: its own findings say what is wrong
	}
	for _, name := range slices.Sorted(maps.Keys(w.unknown)) {
		ref := w.Spec.Packages[name].PackageRef
		if _, ok := known[ref.Name]; ok {
			continue
		}
		w.add(problem{
			code: CodeUnknownPackage, path: path{"spec", "packages", name, "packageRef", "name"},
			message: fmt.Sprintf("there is no Package %q", ref.Name), allowed: list(slices.Sorted(maps.Keys(known))),
		})
	}
}

// checkSelector warns: nodes that match may join later.
func (r *rules) checkSelector(w wright) {
	if r.opts.Nodes == nil {
		return
	}
	selector := and(w.Spec.NodeSelectors, r.opts.Scope)
	if !slices.ContainsFunc(r.opts.Nodes, func(node map[string]string) bool { return selector.Matches(labels.Set(node)) }) {
		w.add(problem{
			code: CodeSelectorNoMatch, severity: finding.Warning, path: path{"spec", "nodeSelectors"},
			message: fmt.Sprintf("matches none of the %d nodes", len(r.opts.Nodes)),
		})
	}
}

// and combines a NodeWright's selector with its Fleet's scope.
func and(own metav1.LabelSelector, scope *fleetv1.Scope) labels.Selector {
	selector := parseSelector(own)
	if scope == nil || scope.NodeSelector == nil {
		return selector
	}
	requirements, _ := parseSelector(*scope.NodeSelector).Requirements()
	return selector.Add(requirements...)
}

// parseSelector cannot fail on a selector that passed the CRD's rules; one that does matches nothing.
func parseSelector(s metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// checkVersion repeats, for a version that comes from the catalogue, what the CRD says about one in the entry.
func (r *rules) checkVersion(w wright, p desired.Package) {
	if w.Spec.Packages[p.Name].Version != "" || len(p.Name)+1+len(p.Version) <= nwv1.MaxPackageVersionLength {
		return
	}
	w.add(problem{
		code: CodeRule, path: path{"spec", "packages", p.Name},
		message: fmt.Sprintf("%s-%s must be at most %d characters, because it becomes a label value",
			p.Name, p.Version, nwv1.MaxPackageVersionLength),
	})
}

// checkPolicy checks what a DeploymentPolicy's schema cannot say.
func checkPolicy(d *document, policy *nwv1.DeploymentPolicy) {
	for i, w := range policy.Spec.Windows {
		at := path{"spec", "windows", strconv.Itoa(i)}
		if _, err := window.Parse(w.Cron, time.Hour, ""); err != nil {
			d.add(problem{code: CodeWindow, path: at.child("cron"), message: err.Error(),
				allowed: "minute, hour, day of month, month, day of week, such as 0 2 * * 6"})
		}
		if _, err := window.Parse("0 0 * * *", time.Hour, w.TimeZone); err != nil {
			d.add(problem{code: CodeWindow, path: at.child("timeZone"), message: err.Error(), allowed: "UTC, Europe/Berlin, America/New_York, …"})
		}
		if w.Duration.Duration <= 0 {
			d.add(problem{code: CodeWindow, path: at.child("duration"), message: "must be more than zero"})
		}
	}
	checkSameSelectors(d, policy.Spec.Compartments)
}

func checkSameSelectors(d *document, compartments []nwv1.Compartment) {
	for i, later := range compartments {
		for _, earlier := range compartments[:i] {
			if reflect.DeepEqual(later.Selector, earlier.Selector) {
				d.add(problem{
					code: CodeSameSelector, path: path{"spec", "compartments", strconv.Itoa(i), "selector"},
					message: fmt.Sprintf("is the selector of compartment %q, too: no node would ever belong to one of them", earlier.Name),
				})
			}
		}
	}
}
