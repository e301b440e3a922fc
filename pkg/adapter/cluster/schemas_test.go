package cluster

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFieldsThatAnOlderSchemaDrops(t *testing.T) {
	const want = `{"properties":{"spec":{"properties":{
		"list":{"items":{"properties":{"a":{},"b":{}}}},
		"map":{"additionalProperties":{"properties":{"a":{},"b":{}}}},
		"words":{"additionalProperties":true},
		"one":{"properties":{"deep":{}}}}}}}`
	for name, c := range map[string]struct {
		have string
		want []string
	}{
		"the same":             {want, nil},
		"newer":                {want[:len(want)-2] + `,"status":{}}}`, nil},
		"nothing":              {`{}`, []string{"spec"}},
		"nothing below":        {`{"properties":{"spec":{}}}`, []string{"spec.list", "spec.map", "spec.one", "spec.words"}},
		"everything is kept":   {`{"properties":{"spec":{"x-kubernetes-preserve-unknown-fields":true}}}`, nil},
		"in lists and in maps": {`{"properties":{"spec":{"properties":{"list":{"items":{"properties":{"a":{}}}},"map":{"additionalProperties":{"properties":{"b":{}}}},"words":{},"one":{}}}}}`, []string{"spec.list[].b", "spec.map.*.a", "spec.one.deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			var have, wanted kindSchema
			require.NoError(t, json.Unmarshal([]byte(want), &wanted))
			require.NoError(t, json.Unmarshal([]byte(c.have), &have))
			require.Equal(t, c.want, missingIn("", have, wanted))
		})
	}
	require.Equal(t, "a, b", firstOf([]string{"a", "b"}, 2))
	require.Equal(t, "a, b and 1 more", firstOf([]string{"a", "b", "c"}, 2))
}
