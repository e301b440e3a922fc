package main

import (
	"reflect"
	"slices"
	"strings"
)

// Bounds for parts of the schema whose Go types belong to Kubernetes, so that no marker can be put on them. They reject
// what Kubernetes itself would reject later (a selector that does not parse, say), and keep CEL within its cost budget.
const (
	maxLabelKey     = 317 // a DNS name of 253, a slash, a name of 63
	maxRequirements = 32
	maxValues       = 64
	maxQuantity     = 32
	labelKey        = `^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	labelValue      = `^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`
)

// tighten walks the whole definition and edits the schemas it recognises by their fields.
func tighten(node any) {
	switch n := node.(type) {
	case map[string]any:
		tightenSchema(n)
		for _, child := range n {
			tighten(child)
		}
	case []any:
		for _, child := range n {
			tighten(child)
		}
	}
}

func tightenSchema(s map[string]any) {
	props, _ := s["properties"].(map[string]any)
	switch {
	case s["x-kubernetes-int-or-string"] == true && s["maxLength"] == nil:
		s["maxLength"] = int64(maxQuantity)
	case isDuration(s):
		tightenDuration(s)
	case has(props, "matchExpressions", "matchLabels"):
		tightenSelector(props)
	case has(props, "tolerationSeconds", "operator", "effect"):
		tightenToleration(props)
	}
}

func has(props map[string]any, names ...string) bool {
	for _, name := range names {
		if _, ok := props[name]; !ok {
			return false
		}
	}
	return true
}

// isDuration recognises a duration by its pattern.
func isDuration(s map[string]any) bool {
	pattern, _ := s["pattern"].(string)
	return strings.Contains(pattern, `(ns|us|µs|ms|s|m|h)`)
}

// tightenDuration keeps a duration within Go's 292 years, whatever its units: five parts of at most 11 to 31 years each fit
// into the 32 characters that a duration may have.
func tightenDuration(s map[string]any) {
	const tooLong = `[0-9]{6}[.0-9]*h|[0-9]{8}[.0-9]*m([0-9]|$)|[0-9]{10}[.0-9]*s|[0-9]{13}[.0-9]*ms|[0-9]{16}[.0-9]*(us|µs)|[0-9]{19}[.0-9]*ns`
	bound := rule("!self.matches('"+tooLong+"')", "must be at most 99999h")
	rules, _ := s["x-kubernetes-validations"].([]any)
	isBound := func(r any) bool { return reflect.DeepEqual(r, bound) }
	if !slices.ContainsFunc(rules, isBound) {
		s["x-kubernetes-validations"] = append(rules, any(bound))
	}
}

func tightenSelector(props map[string]any) {
	labels := props["matchLabels"].(map[string]any)
	labels["maxProperties"] = int64(maxRequirements)
	labels["additionalProperties"].(map[string]any)["maxLength"] = int64(63)
	labels["x-kubernetes-validations"] = []any{
		rule("self.all(k, size(k) <= 317 && k.matches('"+labelKey+"'))", "keys must be label keys, such as pool or example.com/pool"),
		rule("self.all(k, self[k].matches('"+labelValue+"'))",
			"values must be label values: at most 63 letters, digits, dots, hyphens or underscores"),
	}
	requirements := props["matchExpressions"].(map[string]any)
	requirements["maxItems"] = int64(maxRequirements)
	tightenRequirement(requirements["items"].(map[string]any))
}

func tightenRequirement(item map[string]any) {
	props := item["properties"].(map[string]any)
	key := props["key"].(map[string]any)
	key["maxLength"] = int64(maxLabelKey)
	key["x-kubernetes-validations"] = []any{
		rule("self.matches('"+labelKey+"')", "must be a label key, such as pool or example.com/pool"),
	}
	props["operator"].(map[string]any)["enum"] = []any{"In", "NotIn", "Exists", "DoesNotExist"}
	values := props["values"].(map[string]any)
	values["maxItems"] = int64(maxValues)
	// A pattern costs no CEL budget: 64 compartments with 32 requirements of 64 values each would exceed it.
	value := values["items"].(map[string]any)
	value["maxLength"] = int64(63)
	value["pattern"] = labelValue
	item["x-kubernetes-validations"] = []any{
		rule("(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
			"In and NotIn need values, Exists and DoesNotExist take none"),
	}
}

func tightenToleration(props map[string]any) {
	props["effect"].(map[string]any)["enum"] = []any{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}
	props["operator"].(map[string]any)["enum"] = []any{"", "Exists", "Equal", "Lt", "Gt"}
}

func rule(expression, message string) map[string]any {
	return map[string]any{"rule": expression, "message": message}
}
