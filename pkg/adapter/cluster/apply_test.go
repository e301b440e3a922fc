package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCovers(t *testing.T) {
	live := map[string]any{"spec": map[string]any{"a": int64(1), "b": "x", "list": []any{int64(1)}}, "status": "y"}
	for name, tc := range map[string]struct {
		want map[string]any
		is   bool
	}{
		"a part":              {map[string]any{"spec": map[string]any{"b": "x"}}, true},
		"the same number":     {map[string]any{"spec": map[string]any{"a": 1.0}}, true},
		"another value":       {map[string]any{"spec": map[string]any{"b": "y"}}, false},
		"a field that misses": {map[string]any{"spec": map[string]any{"c": nil}}, false},
		"a longer list":       {map[string]any{"spec": map[string]any{"list": []any{int64(1), int64(2)}}}, false},
		"a map for a text":    {map[string]any{"status": map[string]any{}}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.is, covers(live, tc.want)) })
	}
}

func TestDifferencesAreWhatPeopleWrite(t *testing.T) {
	before := map[string]any{
		"metadata": map[string]any{"resourceVersion": "1", "generation": int64(1), "labels": map[string]any{"example.com/a": "x"}},
		"spec":     map[string]any{"default": map[string]any{"budget": map[string]any{"count": int64(24)}}, "same": int64(3)},
	}
	after := map[string]any{
		"metadata": map[string]any{"resourceVersion": "2", "generation": int64(2), "managedFields": []any{}},
		"spec":     map[string]any{"default": map[string]any{"budget": map[string]any{"count": int64(2)}}, "same": 3.0},
	}
	require.Equal(t, []string{"metadata.labels", "spec.default.budget.count"}, differences(before, after))
}
