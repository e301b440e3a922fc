package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a finding stops the delivery of a commit.
type Severity string

const (
	// Error stops: nothing of the commit is applied.
	Error Severity = "error"
	// Warning is reported and stops nothing.
	Warning Severity = "warning"
)

// Finding is one problem at one place of the user's files. Everything but Code, Severity and Message is optional.
type Finding struct {
	// Code is a stable CamelCase word that documentation and filters can refer to.
	Code string `json:"code"`
	// Severity is Error or Warning.
	Severity Severity `json:"severity"`
	// File is slash-separated and relative to the root of the repository.
	File string `json:"file,omitempty"`
	// Line counts from 1; 0 means unknown.
	Line int `json:"line,omitempty"`
	// Column counts characters from 1; 0 means unknown.
	Column int `json:"column,omitempty"`
	// Kind of the object, for example NodeWright.
	Kind string `json:"kind,omitempty"`
	// Name of the object; "namespace/name" where the kind has namespaces.
	Name string `json:"name,omitempty"`
	// Field is the path as a user writes it: spec.packages.tuning.image.
	Field string `json:"field,omitempty"`
	// Message is one sentence without a full stop that says what is wrong.
	Message string `json:"message"`
	// Allowed says what may be written instead.
	Allowed string `json:"allowed,omitempty"`
}

// String is `file:line:column: Kind/name: field: problem (allowed: …)`; parts that are unknown are left out.
func (f Finding) String() string {
	var parts []string
	for _, part := range []string{f.Position(), f.Object(), f.Field} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(append(parts, f.Message), ": ")
	if f.Allowed != "" {
		text += " (allowed: " + f.Allowed + ")"
	}
	return text
}

// Position is `file:line:column`, as far as it is known.
func (f Finding) Position() string {
	switch {
	case f.File == "" || f.Line == 0:
		return f.File
	case f.Column == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// Object is `Kind/name`, or what is known of it.
func (f Finding) Object() string {
	if f.Kind == "" || f.Name == "" {
		return f.Kind + f.Name
	}
	return f.Kind + "/" + f.Name
}

// Sort orders by place, then errors before warnings, then by content, so that equal input prints equal text.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, compare)
}

// HasErrors says whether one of the findings stops the delivery.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

func compare(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(a.File, b.File),
		cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Column, b.Column),
		cmp.Compare(a.Severity, b.Severity), // "error" sorts before "warning"
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Allowed, b.Allowed),
	)
}
