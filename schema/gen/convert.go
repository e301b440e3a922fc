package main

import (
	"encoding/json"
	"math"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// convertCRD turns the one served version of a CRD into a JSON Schema that editors and validators understand.
func convertCRD(crd *apiextensionsv1.CustomResourceDefinition, file string) map[string]any {
	version := crd.Spec.Versions[0]
	root := version.Schema.OpenAPIV3Schema
	doc := convert(root, true)
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["$id"] = "https://fleetwright.dev/schemas/" + file
	doc["title"] = crd.Spec.Names.Kind
	doc["required"] = withRequired(root.Required, "apiVersion", "kind", "metadata")
	props := doc["properties"].(map[string]any)
	props["apiVersion"] = map[string]any{"const": crd.Spec.Group + "/" + version.Name, "description": "The API group and version."}
	props["kind"] = map[string]any{"const": crd.Spec.Names.Kind, "description": "The kind of the object."}
	props["metadata"] = metadata()
	return doc
}

// convert one schema. The API server drops nulls of optional fields, so these accept null.
func convert(s *apiextensionsv1.JSONSchemaProps, required bool) map[string]any {
	out := map[string]any{}
	setType(out, s, required && !s.Nullable)
	setWords(out, s, required && !s.Nullable)
	setBounds(out, s)
	if s.Items != nil && s.Items.Schema != nil {
		out["items"] = convert(s.Items.Schema, true)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out["additionalProperties"] = convert(s.AdditionalProperties.Schema, false)
	}
	if len(s.Properties) > 0 {
		setProperties(out, s)
	}
	return out
}

func setProperties(out map[string]any, s *apiextensionsv1.JSONSchemaProps) {
	props := map[string]any{}
	for name, prop := range s.Properties {
		// A field with a default may be left out or null even where the schema requires it.
		required := slices.Contains(s.Required, name) && prop.Default == nil
		props[name] = convert(&prop, required)
	}
	out["properties"] = props
	out["additionalProperties"] = false
	if required := withRequired(s.Required); len(required) > 0 {
		required = slices.DeleteFunc(required, func(name string) bool { return s.Properties[name].Default != nil })
		out["required"] = required
	}
	if required, ok := out["required"].([]string); ok && len(required) == 0 {
		delete(out, "required")
	}
}

func setType(out map[string]any, s *apiextensionsv1.JSONSchemaProps, required bool) {
	var types []string
	switch {
	case s.XIntOrString:
		types = []string{"integer", "string"}
	case s.Type != "":
		types = []string{s.Type}
	default:
		return
	}
	if !required {
		types = append(types, "null")
	}
	if len(types) == 1 {
		out["type"] = types[0]
		return
	}
	out["type"] = types
}

func setWords(out map[string]any, s *apiextensionsv1.JSONSchemaProps, required bool) {
	if s.Description != "" {
		out["description"] = s.Description
	}
	if s.Default != nil {
		out["default"] = json.RawMessage(s.Default.Raw)
	}
	if len(s.Enum) == 0 {
		return
	}
	var enum []any
	for _, v := range s.Enum {
		enum = append(enum, json.RawMessage(v.Raw))
	}
	if !required {
		enum = append(enum, nil)
	}
	out["enum"] = enum
}

func setBounds(out map[string]any, s *apiextensionsv1.JSONSchemaProps) {
	set(out, "minimum", s.Minimum)
	set(out, "maximum", s.Maximum)
	set(out, "minLength", s.MinLength)
	set(out, "maxLength", s.MaxLength)
	set(out, "minItems", s.MinItems)
	set(out, "maxItems", s.MaxItems)
	set(out, "minProperties", s.MinProperties)
	set(out, "maxProperties", s.MaxProperties)
	if s.Pattern != "" {
		out["pattern"] = s.Pattern
	}
	if s.Format == "int32" && s.Maximum == nil {
		out["maximum"] = math.MaxInt32
	}
}

func set[T any](out map[string]any, key string, value *T) {
	if value != nil {
		out[key] = *value
	}
}

func withRequired(lists []string, more ...string) []string {
	all := append(slices.Clone(lists), more...)
	slices.Sort(all)
	return slices.Compact(all)
}
