package manifest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// document is one Object on its way: decoded, judged, typed.
type document struct {
	Object
	value    map[string]any
	typed    runtime.Object // nil while something is wrong with the document itself
	problems []problem
}

// problem is a finding before it has a place in a file.
type problem struct {
	code     string
	severity finding.Severity // empty means Error
	path     path
	place    path // where to look for it, if not at path
	message  string
	allowed  string
}

func (d *document) add(p ...problem) { d.problems = append(d.problems, p...) }

// read decodes a document of one of the allowed kinds and judges it on its own.
func (v *Validator) read(object Object, allowed []schema.GroupVersionKind) *document {
	d := &document{Object: object}
	gvk := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind)
	if !slices.Contains(allowed, gvk) {
		d.add(unknownKind(object, allowed))
		return d
	}
	k := v.kinds[gvk]
	if err := json.Unmarshal(object.JSON, &d.value); err != nil {
		d.add(problem{code: CodeInvalidDocument, message: "is not a JSON object: " + err.Error()})
		return d
	}
	judged := k.judge(d.value)
	d.add(judged.problems...)
	if len(judged.problems) > 0 {
		return d
	}
	d.decode(judged.defaulted)
	return d
}

// decode fills the Go type. What still fails here passed the API server's schema but fits no Go type (a duration of more
// than 290 years, say).
func (d *document) decode(defaulted map[string]any) {
	typed := newTyped(d.Kind)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(defaulted, typed); err != nil {
		d.add(problem{code: CodeInvalidValue, message: "cannot be read: " + err.Error()})
		return
	}
	d.typed = typed
}

func newTyped(kind string) runtime.Object {
	switch kind {
	case nwv1.KindNodeWright:
		return &nwv1.NodeWright{}
	case nwv1.KindDeploymentPolicy:
		return &nwv1.DeploymentPolicy{}
	case fleetv1.KindFleet:
		return &fleetv1.Fleet{}
	}
	return &fleetv1.Package{}
}

func unknownKind(object Object, kinds []schema.GroupVersionKind) problem {
	allowed := make([]string, 0, len(kinds))
	for _, gvk := range kinds {
		allowed = append(allowed, gvk.GroupVersion().String()+" "+gvk.Kind)
	}
	what := strings.TrimSpace(object.APIVersion + " " + object.Kind)
	if what == "" {
		what = "a document without apiVersion and kind"
	}
	return problem{
		code: CodeUnknownKind, path: path{"kind"},
		message: what + " cannot be delivered to a fleet",
		allowed: strings.Join(allowed, ", "),
	}
}

// deliverable kinds may stand in a repository. A Fleet may not: it says what a repository may do, so a repository must
// not be able to change it.
func deliverable() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		nwv1.GroupVersion.WithKind(nwv1.KindNodeWright),
		nwv1.GroupVersion.WithKind(nwv1.KindDeploymentPolicy),
		fleetv1.GroupVersion.WithKind(fleetv1.KindPackage),
	}
}

// reportDuplicates adds a problem to each document whose kind and name an earlier one has.
func reportDuplicates(docs []*document) {
	first := map[string]*document{}
	for _, d := range docs {
		id := d.APIVersion + " " + d.Kind + " " + d.Name
		if earlier, ok := first[id]; ok {
			d.typed = nil
			d.add(problem{
				code: CodeDuplicateObject, path: path{"metadata", "name"},
				message: fmt.Sprintf("%s/%s is declared twice, also in %s", d.Kind, d.Name, orUnknown(earlier.File)),
			})
			continue
		}
		first[id] = d
	}
}

func orUnknown(file string) string {
	if file == "" {
		return "another document"
	}
	return file
}

// findings gives every problem its place.
func (d *document) findings(locate Locator) []finding.Finding {
	var out []finding.Finding
	for _, p := range d.problems {
		at := d.position(locate, p)
		out = append(out, finding.Finding{
			Code: p.code, Severity: severityOf(p), File: at.File, Line: at.Line, Column: at.Column,
			Kind: d.Kind, Name: d.Name, Field: p.path.field(), Message: p.message + caveat(at), Allowed: p.allowed,
		})
	}
	return out
}

func caveat(at Position) string {
	if !at.Approximate {
		return ""
	}
	return "; the line is that of the object's own file, a patch may have changed the value"
}

func severityOf(p problem) finding.Severity {
	if p.severity == "" {
		return finding.Error
	}
	return p.severity
}

// position is where the value is written, or at least the file.
func (d *document) position(locate Locator, p problem) Position {
	if locate == nil {
		return Position{File: d.File}
	}
	find := locate.At
	if p.code == CodeUnknownField {
		find = locate.AtKey
	}
	place := p.path
	if p.place != nil {
		place = p.place
	}
	if found, ok := find(d.Key, place.pointer()); ok {
		return found
	}
	return Position{File: d.File}
}
