package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/schema"
)

// openByContract are the objects that take unknown fields. A package may be made for a newer agent: an unknown field is a warning of
// the agent and of `package lint`; every field that counts is required, so that a typing error in its name is missed as the field.
var openByContract = map[string][]string{
	schema.PackageConfigFile: {"", "/$defs/step", "/$defs/step/if", "/$defs/step/then", "/$defs/steps/items/allOf/1"},
}

// maps of packages, labels and the like, and numbers whose names people choose, have no properties; everything else is found here.
func objects(at string, node any, found map[string]map[string]any) {
	switch n := node.(type) {
	case map[string]any:
		if _, ok := n["properties"].(map[string]any); ok && !strings.HasSuffix(at, "/properties") {
			found[at] = n
		}
		for key, child := range n {
			objects(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), child, found)
		}
	case []any:
		for i, child := range n {
			objects(at+"/"+string(rune('0'+i)), child, found)
		}
	}
}

// TestDeliveryReport_SV07_EveryPublishedSchemaRejectsATypingError: for each file, and each object in it, a field that does not exist
// is rejected by that very object. A schema that loses additionalProperties: false somewhere fails here.
func TestDeliveryReport_SV07_EveryPublishedSchemaRejectsATypingError(t *testing.T) {
	files, err := fs.Glob(schema.FS, "*.json")
	require.NoError(t, err)
	require.Len(t, files, 6)
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := schema.FS.ReadFile(file)
			require.NoError(t, err)
			var doc map[string]any
			require.NoError(t, json.Unmarshal(data, &doc))
			found := map[string]map[string]any{}
			objects("", doc, found)
			require.NotEmpty(t, found)
			compiler := jsonschema.NewCompiler()
			require.NoError(t, compiler.AddResource(schema.BaseID+file, bytes.NewReader(data)))
			for _, at := range slices.Sorted(maps.Keys(found)) {
				if slices.Contains(openByContract[file], at) {
					require.NotEqual(t, false, found[at]["additionalProperties"], "%s is no longer open: take it off the list", at)
					continue
				}
				compiled, err := compiler.Compile(schema.BaseID + file + "#" + at)
				require.NoError(t, err, at)
				requireRejected(t, at, compiled.Validate(map[string]any{"vesrion": "1.2"}))
			}
		})
	}
	t.Run("fields of a step", func(t *testing.T) {
		data, err := schema.FS.ReadFile(schema.PackageConfigFile)
		require.NoError(t, err)
		compiler := jsonschema.NewCompiler()
		require.NoError(t, compiler.AddResource("x", bytes.NewReader(data)))
		compiled, err := compiler.Compile("x#/$defs/step")
		require.NoError(t, err)
		good := map[string]any{"name": "a", "path": "a.sh", "arguments": []any{}, "returncodes": []any{0}, "on_host": true, "idempotence": true, "upgrade_step": false}
		require.NoError(t, compiled.Validate(good))
		for field, value := range good {
			typo := maps.Clone(good)
			delete(typo, field)
			typo[field+"x"] = value
			require.ErrorContains(t, compiled.Validate(typo), "missing properties: '"+field+"'")
		}
	})
}

func requireRejected(t *testing.T, at string, err error) {
	t.Helper()
	var invalid *jsonschema.ValidationError
	require.True(t, errors.As(err, &invalid), "%s accepts vesrion", at)
	text := invalid.GoString()
	require.Contains(t, text, "additionalProperties 'vesrion' not allowed", at)
}

// TestDeliveryReport_SV03_NoSchemaHidesAReasonInAlternatives: `oneOf failed` tells nobody anything. What is one of several is said
// by rules with words of their own, so no published schema has alternatives.
func TestDeliveryReport_SV03_NoSchemaHidesAReasonInAlternatives(t *testing.T) {
	files, err := fs.Glob(schema.FS, "*.json")
	require.NoError(t, err)
	for _, file := range files {
		data, err := schema.FS.ReadFile(file)
		require.NoError(t, err)
		for _, keyword := range []string{`"oneOf"`, `"anyOf"`} {
			require.NotContains(t, string(data), keyword, file)
		}
	}
}
