package main

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// borrowed names a type of Kubernetes by the shape of its schema; "" is a type of ours.
func borrowed(schema apiextensionsv1.JSONSchemaProps) string {
	if schema.Items != nil && schema.Items.Schema != nil {
		if inner := borrowed(*schema.Items.Schema); inner != "" {
			return "list of " + inner
		}
		return ""
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := schema.Properties[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("matchLabels", "matchExpressions"):
		return "LabelSelector"
	case has("lastTransitionTime", "reason", "status", "type"):
		return "Condition"
	case has("name", "value", "valueFrom"):
		return "EnvVar"
	case has("key", "operator", "effect", "tolerationSeconds"):
		return "Toleration"
	}
	return ""
}

func typeOf(schema apiextensionsv1.JSONSchemaProps) string {
	if b := borrowed(schema); b != "" {
		return b
	}
	switch {
	case schema.XIntOrString:
		return "integer or string"
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*schema.AdditionalProperties.Schema)
	case schema.Items != nil && schema.Items.Schema != nil:
		return "list of " + typeOf(*schema.Items.Schema)
	case schema.Format != "":
		return schema.Type + " (" + schema.Format + ")"
	}
	return schema.Type
}

func defaultOf(schema apiextensionsv1.JSONSchemaProps) string {
	if schema.Default == nil {
		return ""
	}
	return "`" + cell(string(schema.Default.Raw)) + "`"
}

// allowed collects the constraints of one field.
func allowed(schema apiextensionsv1.JSONSchemaProps, required bool) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if required {
		add("required")
	}
	if len(schema.Enum) > 0 {
		values := make([]string, 0, len(schema.Enum))
		for _, v := range schema.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		slices.Sort(values)
		add("%s", strings.Join(values, ", "))
	}
	between(schema.Minimum, schema.Maximum, "", add)
	between(schema.MinLength, schema.MaxLength, " characters", add)
	between(schema.MinItems, schema.MaxItems, " entries", add)
	between(schema.MinProperties, schema.MaxProperties, " keys", add)
	if schema.Pattern != "" {
		add("pattern `%s`", cell(schema.Pattern))
	}
	return strings.Join(words, "; ")
}

// between words a lower and an upper bound, either of which may be missing.
func between[N int64 | float64](low, high *N, unit string, add func(string, ...any)) {
	switch {
	case low != nil && high != nil:
		add("%v to %v%s", *low, *high, unit)
	case low != nil:
		add("at least %v%s", *low, unit)
	case high != nil:
		add("at most %v%s", *high, unit)
	}
}

// cell makes a text fit into one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}
