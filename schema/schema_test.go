package schema_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"
	gvkschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetwright/fleetwright/schema"
)

func TestEverySchemaCompilesAsDraft202012(t *testing.T) {
	for _, gvk := range schema.Kinds() {
		t.Run(gvk.Kind, func(t *testing.T) {
			data, err := schema.For(gvk)
			require.NoError(t, err)
			id := schema.BaseID + schema.FileName(gvk.Kind)
			compiler := jsonschema.NewCompiler()
			require.NoError(t, compiler.AddResource(id, bytes.NewReader(data)))
			compiled, err := compiler.Compile(id)
			require.NoError(t, err)
			require.Equal(t, jsonschema.Draft2020, compiled.Draft)
		})
	}
}

// Editors show the description of the field under the cursor, and mark fields that do not exist.
func TestEveryFieldIsDescribedAndNoOtherIsAccepted(t *testing.T) {
	for _, gvk := range schema.Kinds() {
		t.Run(gvk.Kind, func(t *testing.T) {
			data, err := schema.For(gvk)
			require.NoError(t, err)
			var doc map[string]any
			require.NoError(t, json.Unmarshal(data, &doc))
			requireDescribed(t, gvk.Kind, doc)
		})
	}
}

func requireDescribed(t *testing.T, at string, s map[string]any) {
	t.Helper()
	for key := range s {
		require.NotContains(t, key, "x-kubernetes-", at)
	}
	props, _ := s["properties"].(map[string]any)
	if props != nil {
		require.Equal(t, false, s["additionalProperties"], at)
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		prop := props[name].(map[string]any)
		require.NotEmpty(t, prop["description"], at+"."+name)
		requireDescribed(t, at+"."+name, prop)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if child, ok := s[inner].(map[string]any); ok {
			requireDescribed(t, at+"/"+inner, child)
		}
	}
}

func TestForUnknownKind(t *testing.T) {
	_, err := schema.For(gvkschema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	require.EqualError(t, err, "find JSON Schema: no kind Deployment in apps/v1")
}
