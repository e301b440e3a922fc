package finding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

func TestString(t *testing.T) {
	full := finding.Finding{
		File: "base/gpu.yaml", Line: 7, Column: 5, Kind: "NodeWright", Name: "gpu", Field: "spec.priority",
		Message: `"high" is not an integer`, Allowed: "1 or more",
	}
	cases := map[string]struct {
		edit func(*finding.Finding)
		want string
	}{
		"everything": {func(*finding.Finding) {},
			`base/gpu.yaml:7:5: NodeWright/gpu: spec.priority: "high" is not an integer (allowed: 1 or more)`},
		"no column": {func(f *finding.Finding) { f.Column = 0 },
			`base/gpu.yaml:7: NodeWright/gpu: spec.priority: "high" is not an integer (allowed: 1 or more)`},
		"no line": {func(f *finding.Finding) { f.Line = 0 },
			`base/gpu.yaml: NodeWright/gpu: spec.priority: "high" is not an integer (allowed: 1 or more)`},
		"no object": {func(f *finding.Finding) { f.Kind, f.Name, f.Field, f.Allowed = "", "", "", "" },
			`base/gpu.yaml:7:5: "high" is not an integer`},
		"kind only": {func(f *finding.Finding) { f.Name, f.Allowed = "", "" },
			`base/gpu.yaml:7:5: NodeWright: spec.priority: "high" is not an integer`},
		"message only": {func(f *finding.Finding) { *f = finding.Finding{Message: "empty"} }, "empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := full
			tc.edit(&f)
			require.Equal(t, tc.want, f.String())
		})
	}
}

func TestSortIsByPlaceThenSeverity(t *testing.T) {
	a := finding.Finding{File: "a.yaml", Line: 2, Severity: finding.Error, Message: "x"}
	b := finding.Finding{File: "a.yaml", Line: 2, Severity: finding.Warning, Message: "a"}
	c := finding.Finding{File: "a.yaml", Line: 10, Severity: finding.Error, Message: "x"}
	d := finding.Finding{File: "b.yaml", Line: 1, Severity: finding.Error, Message: "x"}
	got := []finding.Finding{d, c, b, a}
	finding.Sort(got)
	require.Equal(t, []finding.Finding{a, b, c, d}, got)
}

func TestHasErrors(t *testing.T) {
	require.False(t, finding.HasErrors(nil))
	require.False(t, finding.HasErrors([]finding.Finding{{Severity: finding.Warning}}))
	require.True(t, finding.HasErrors([]finding.Finding{{Severity: finding.Warning}, {Severity: finding.Error}}))
}
