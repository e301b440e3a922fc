package finding_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

var sample = []finding.Finding{
	{Code: "InvalidValue", Severity: finding.Error, File: "a,b.yaml", Line: 3, Column: 5, Kind: "NodeWright", Name: "gpu",
		Field: "spec.priority", Message: "must be at least 1,\nnot 0%"},
	{Code: "SharedPackage", Severity: finding.Warning, Message: "no place is known"},
}

func TestRender(t *testing.T) {
	cases := map[finding.Format]string{
		finding.Text: "a,b.yaml:3:5: NodeWright/gpu: spec.priority: must be at least 1,\nnot 0%\nwarning: no place is known\n",
		finding.GitHub: "::error file=a%2Cb.yaml,line=3,col=5,title=InvalidValue::NodeWright/gpu: spec.priority: must be at least 1,%0Anot 0%25\n" +
			"::warning title=SharedPackage::no place is known\n",
		finding.JSON: `[
  {
    "code": "InvalidValue",
    "severity": "error",
    "file": "a,b.yaml",
    "line": 3,
    "column": 5,
    "kind": "NodeWright",
    "name": "gpu",
    "field": "spec.priority",
    "message": "must be at least 1,\nnot 0%"
  },
  {
    "code": "SharedPackage",
    "severity": "warning",
    "message": "no place is known"
  }
]
`,
	}
	for format, want := range cases {
		t.Run(string(format), func(t *testing.T) {
			got, err := finding.Render(sample, format)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		})
	}
}

func TestRenderSARIF(t *testing.T) {
	got, err := finding.Render(sample, finding.SARIF)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": [{
			"tool": {"driver": {"name": "fleetwright", "rules": [{"id": "InvalidValue"}, {"id": "SharedPackage"}]}},
			"results": [
				{"ruleId": "InvalidValue", "level": "error", "message": {"text": "NodeWright/gpu: spec.priority: must be at least 1,\nnot 0%"},
				 "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a,b.yaml"}, "region": {"startLine": 3, "startColumn": 5}}}]},
				{"ruleId": "SharedPackage", "level": "warning", "message": {"text": "no place is known"}}
			]}]}`, string(got))
}

func TestRenderNothing(t *testing.T) {
	for _, format := range []finding.Format{finding.JSON, finding.SARIF} {
		got, err := finding.Render(nil, format)
		require.NoError(t, err)
		require.True(t, json.Valid(got))
		require.NotContains(t, string(got), "null")
	}
	got, err := finding.Render(nil, finding.Text)
	require.NoError(t, err)
	require.Empty(t, string(got))
}

func TestRenderUnknownFormat(t *testing.T) {
	_, err := finding.Render(nil, "xml")
	require.EqualError(t, err, `unknown format "xml" (allowed: text, json, sarif, github)`)
}
