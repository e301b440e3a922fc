package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// What is committed is what the generator makes of it: a second run changes nothing.
func TestCommittedFilesAreUpToDate(t *testing.T) {
	files, err := filepath.Glob("../../charts/fleetwright/crds/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		crd, err := os.ReadFile(file)
		require.NoError(t, err)
		again, err := tightenYAML(crd)
		require.NoError(t, err)
		require.True(t, bytes.Equal(crd, again), "run make generate: %s is not tightened", file)
		target, ok := writtenByPeople[filepath.Base(file)]
		if !ok {
			continue
		}
		want, err := jsonSchema(crd, target)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("..", target))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "run make generate: %s is not what the CRD says", target)
	}
}

func TestConvert(t *testing.T) {
	maximum := 5.0
	raw := func(s string) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(s)} }
	def := raw(`"a"`)
	s := &apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"must", "defaulted"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"must":      {Type: "string", Pattern: "^a$"},
			"defaulted": {Type: "string", Default: &def, Enum: []apiextensionsv1.JSON{raw(`"a"`), raw(`"b"`)}},
			"number":    {Type: "integer", Format: "int32", Maximum: &maximum},
			"large":     {Type: "integer", Format: "int32"},
			"quantity":  {XIntOrString: true, AnyOf: []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}},
			"values": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{
				Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
			"items": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
		},
	}
	got := convert(s, true)
	props := got["properties"].(map[string]any)
	require.Equal(t, []string{"must"}, got["required"], "a field with a default may be left out")
	require.Equal(t, false, got["additionalProperties"])
	require.Equal(t, map[string]any{"type": "string", "pattern": "^a$"}, props["must"])
	require.Contains(t, props["defaulted"].(map[string]any)["enum"], nil, "null is dropped by the API server")
	require.Equal(t, 5.0, props["number"].(map[string]any)["maximum"])
	require.EqualValues(t, 1<<31-1, props["large"].(map[string]any)["maximum"])
	require.Equal(t, []string{"integer", "string", "null"}, props["quantity"].(map[string]any)["type"])
	require.NotContains(t, props["quantity"], "anyOf")
	values := props["values"].(map[string]any)["additionalProperties"].(map[string]any)
	require.Equal(t, []string{"string", "null"}, values["type"], "null entries of maps are dropped, too")
	items := props["items"].(map[string]any)["items"].(map[string]any)
	require.Equal(t, "string", items["type"], "null items of lists are not")
}
