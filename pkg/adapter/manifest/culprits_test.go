package manifest

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/charts/fleetwright/crds"
)

// A message or pattern that is reworded in the API types must be reworded here, or findings lose their line.
func TestWordsAreThoseOfTheDefinitions(t *testing.T) {
	var all strings.Builder
	files, err := fs.Glob(crds.FS, "*.yaml")
	require.NoError(t, err)
	for _, name := range files {
		data, err := crds.FS.ReadFile(name)
		require.NoError(t, err)
		all.Write(data)
	}
	text := regexp.MustCompile(`\s+`).ReplaceAllString(all.String(), " ")
	for message := range culpritsByMessage {
		require.Contains(t, text, message)
	}
	for pattern := range wordsByPattern {
		require.Contains(t, text, pattern)
	}
}

func TestParseFieldPrefersTheKeysThatExist(t *testing.T) {
	doc := map[string]any{"spec": map[string]any{"configMap": map[string]any{"a.b": "x", "a": "y", "c[d]": "z"}, "list": []any{map[string]any{"n": 1}}}}
	cases := map[string]path{
		"spec.configMap.a.b":    {"spec", "configMap", "a.b"},
		"spec.configMap[a.b]":   {"spec", "configMap", "a.b"},
		"spec.configMap.a":      {"spec", "configMap", "a"},
		"spec.configMap.c[d]":   {"spec", "configMap", "c[d]"},
		"spec.list[0].n":        {"spec", "list", "0", "n"},
		"spec.list[0].missing":  {"spec", "list", "0", "missing"},
		"spec.absent.things[3]": {"spec", "absent", "things", "3"},
	}
	for field, want := range cases {
		require.Equal(t, want, parseField(doc, field), field)
	}
}

func TestPathSpellsPointerAndField(t *testing.T) {
	p := path{"spec", "packages", "a", "configMap", "x/y~z", "0"}
	require.Equal(t, "/spec/packages/a/configMap/x~1y~0z/0", p.pointer())
	require.Equal(t, `spec.packages.a.configMap["x/y~z"][0]`, p.field())
}
