package manifest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

type verdict struct {
	Name     string   `json:"name"`
	Manifest string   `json:"manifest"`
	Findings []string `json:"findings"`
}

// newValidator is shared by the tests of this package: compiling the CEL rules takes a second.
func newValidator(t *testing.T) *manifest.Validator {
	t.Helper()
	v, err := manifest.New()
	require.NoError(t, err)
	return v
}

// object turns one YAML document into what an overlay build yields.
func object(t *testing.T, doc, file string) manifest.Object {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(doc))
	require.NoError(t, err)
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct{ Name, Namespace string }
	}
	require.NoError(t, yaml.Unmarshal(data, &head))
	return manifest.Object{
		Key: head.Kind + "/" + head.Metadata.Name, APIVersion: head.APIVersion, Kind: head.Kind,
		Namespace: head.Metadata.Namespace, Name: head.Metadata.Name, JSON: data, File: file,
	}
}

func texts(findings []finding.Finding) []string {
	out := []string{}
	for _, f := range findings {
		out = append(out, f.String())
	}
	return out
}

func TestVerdictsOnSingleManifests(t *testing.T) {
	data, err := os.ReadFile("testdata/verdicts.yaml")
	require.NoError(t, err)
	var cases []verdict
	require.NoError(t, yaml.UnmarshalStrict(data, &cases))
	v := newValidator(t)
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			findings := v.Check(object(t, tc.Manifest, ""), nil)
			require.Equal(t, strings.Join(tc.Findings, "\n"), strings.Join(texts(findings), "\n"))
		})
	}
}
