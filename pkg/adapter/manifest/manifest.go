package manifest

import (
	"cmp"
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	kinds "github.com/fleetwright/fleetwright/schema"
)

// Object is one document of a build.
type Object struct {
	// Key identifies the document towards the Locator; Validate does not read it.
	Key string
	// APIVersion, Kind, Namespace and Name as the document says.
	APIVersion, Kind, Namespace, Name string
	// JSON is the whole document.
	JSON []byte
	// File is the origin, relative to the repository's root; used where the Locator knows no line.
	File string
}

// Position is a place in a source file. Line and Column count from 1; 0 means unknown.
type Position struct {
	File         string
	Line, Column int
	// Approximate: a patch may have changed the value, and the place is that of the object's own file.
	Approximate bool
}

// Locator finds where a document's values are written. Validate asks only when there is something to report.
type Locator interface {
	// At finds the value at a JSON pointer, or its nearest parent; false where nothing is known.
	At(key, pointer string) (Position, bool)
	// AtKey finds the name of the field instead of its value.
	AtKey(key, pointer string) (Position, bool)
}

// Options say what is known about the cluster, and what the repository may do there. The zero value knows nothing.
type Options struct {
	// Nodes are the labels of the cluster's nodes. Nil: not known, and no rule speaks about them.
	Nodes []map[string]string
	// Scope is the Fleet's; nil allows everything.
	Scope *fleetv1.Scope
	// Elsewhere holds objects that the cluster has from other sources; references to them are good.
	Elsewhere Set
}

// Set is what a build declares, typed, with all defaults filled in, each list sorted by name.
type Set struct {
	NodeWrights        []*nwv1.NodeWright
	DeploymentPolicies []*nwv1.DeploymentPolicy
	Packages           []*fleetv1.Package
}

// Len counts the objects.
func (s Set) Len() int { return len(s.NodeWrights) + len(s.DeploymentPolicies) + len(s.Packages) }

// Validate returns the objects and every finding, sorted by place; locate may be nil. While one of the findings is an error, the set lacks
// the objects in error and must not be applied.
func (v *Validator) Validate(objects []Object, locate Locator, opts Options) (Set, []finding.Finding) {
	var docs []*document
	for _, object := range objects {
		d := v.read(object, deliverable())
		checkServer(d)
		docs = append(docs, d)
	}
	reportDuplicates(docs)
	set := collect(docs)
	newRules(docs, set, opts).check()

	return set, report(docs, locate)
}

// Check judges one document of any of our kinds by itself, a Fleet, too: what the API server would say about it, not
// whether its references exist.
func (v *Validator) Check(object Object, locate Locator) []finding.Finding {
	return report([]*document{v.read(object, kinds.Kinds())}, locate)
}

func report(docs []*document, locate Locator) []finding.Finding {
	findings := []finding.Finding{}
	for _, d := range docs {
		findings = append(findings, d.findings(locate)...)
	}
	finding.Sort(findings)
	return slices.Compact(findings)
}

// collect sorts the typed objects of good documents into a Set.
func collect(docs []*document) Set {
	var set Set
	for _, d := range docs {
		switch typed := d.typed.(type) {
		case *nwv1.NodeWright:
			set.NodeWrights = append(set.NodeWrights, typed)
		case *nwv1.DeploymentPolicy:
			set.DeploymentPolicies = append(set.DeploymentPolicies, typed)
		case *fleetv1.Package:
			set.Packages = append(set.Packages, typed)
		}
	}
	slices.SortFunc(set.NodeWrights, func(a, b *nwv1.NodeWright) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(set.DeploymentPolicies, func(a, b *nwv1.DeploymentPolicy) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(set.Packages, func(a, b *fleetv1.Package) int { return cmp.Compare(a.Name, b.Name) })
	return set
}
