package overlay

import (
	"regexp"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// ambiguity is a plain scalar that readers of YAML take for different things, or that loses characters on the way.
type ambiguity struct {
	pattern *regexp.Regexp
	tag     string // the scalar's type here; empty: any
	message string
}

var ambiguities = []ambiguity{
	{regexp.MustCompile(`^(?i:yes|no|on|off|y|n)$`), "", "%s is text here and a boolean to other readers"},
	{regexp.MustCompile(`^[-+]?[0-9]+\.[0-9]*0$`), "!!float", "%s is a number here and loses its last zero"},
	{regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`), "!!timestamp", "%s is a time here and is written out differently"},
	{regexp.MustCompile(`^0o?[0-7]+$`), "!!int", "%s is an octal number here"},
	{regexp.MustCompile(`^[0-9]+(_[0-9]+)+$`), "!!int", "%s is a number here and loses its underscores"},
}

// lint warns of ambiguous plain scalars below the given node.
func lint(file string, node *yaml.Node) []finding.Finding {
	if node.Kind == yaml.ScalarNode && node.Style == 0 {
		return lintScalar(file, node)
	}
	var out []finding.Finding
	for i, child := range node.Content {
		if node.Kind != yaml.MappingNode || i%2 == 1 {
			out = append(out, lint(file, child)...)
		}
	}
	return out
}

func lintScalar(file string, node *yaml.Node) []finding.Finding {
	for _, a := range ambiguities {
		if a.pattern.MatchString(node.Value) && (a.tag == "" || a.tag == node.ShortTag()) {
			f := allowing(problem(codeAmbiguousValue, at(file, node), a.message, node.Value), `quotes, "`+node.Value+`", where text is meant`)
			f.Severity = finding.Warning
			return []finding.Finding{f}
		}
	}
	return nil
}
