package overlay_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
)

func locate(t *testing.T, files tree) func(kind, name, pointer string) string {
	t.Helper()
	_, findings := overlay.Build(files, "overlays/us")
	require.Empty(t, texts(findings))
	l, err := overlay.Locate(files, "overlays/us")
	require.NoError(t, err)
	return func(kind, name, pointer string) string {
		p, ok := l.At(overlay.ObjectKey{Kind: kind, Name: name}, pointer)
		if !ok {
			return "nowhere"
		}
		text := fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		if p.Approximate {
			text += " approximately"
		}
		return text
	}
}

// patched has one value from each kind of place.
var patched = overlayWith(`namePrefix: us-
patches:
  - path: merge.yaml
  - target: {kind: NodeWright, name: gpu}
    patch: |
      - op: add
        path: /spec/packages/extra
        value:
          image: example.com/extra
          version: 2
      - {op: replace, path: /spec/packages/tuning/image, value: json}
  - target: {kind: NodeWright, name: gpu}
    patch: '[{"op":"add","path":"/spec/serial","value":true}]'
  - target: {kind: DeploymentPolicy}
    path: json.yaml
`, tree{
	"overlays/us/merge.yaml": "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: gpu}\nspec:\n  packages:\n    tuning:\n      version: 9.9.9\n      env:\n        - {name: A, value: b}\n  priority: null\n",
	"overlays/us/json.yaml":  "- op: replace\n  path: /spec/compartments/1/budget/count\n  value: 77\n- op: test\n  path: /spec/compartments/0/name\n  value: a\n",
})

func TestPositionsThroughBasesAndPatches(t *testing.T) {
	at := locate(t, patched)
	cases := []struct{ kind, name, pointer, want string }{
		{"NodeWright", "us-gpu", "/spec/packages/tuning/version", "overlays/us/merge.yaml:7:16"},
		{"NodeWright", "us-gpu", "/spec/packages/tuning/env/0/value", "overlays/us/merge.yaml:9:28"},
		{"NodeWright", "us-gpu", "/spec/packages/tuning/env", "overlays/us/merge.yaml:9:11"},
		{"NodeWright", "us-gpu", "/spec/packages/extra/version", "overlays/us/kustomization.yaml:12:20"},
		{"NodeWright", "us-gpu", "/spec/packages/extra/missing", "overlays/us/kustomization.yaml:11:11"},
		{"NodeWright", "us-gpu", "/spec/packages/tuning/image", "overlays/us/kustomization.yaml:13:65"},
		{"NodeWright", "us-gpu", "/spec/serial", "overlays/us/kustomization.yaml:15:56"},
		{"NodeWright", "us-gpu", "/spec/packages/tuning", "base/gpu.yaml:9:5"},
		{"NodeWright", "us-gpu", "/spec/packages/tuning/missing/deep", "base/gpu.yaml:9:5"},
		{"NodeWright", "us-gpu", "/spec/priority", "overlays/us/merge.yaml:10:3"},
		{"NodeWright", "us-gpu", "/spec", "base/gpu.yaml:6:1"},
		{"NodeWright", "us-gpu", "/metadata/name", "base/gpu.yaml:4:9"},
		{"NodeWright", "us-gpu", "/metadata/labels/tier", "base/gpu.yaml:5:18"},
		{"NodeWright", "us-gpu", "/kind", "base/gpu.yaml:2:7"},
		{"NodeWright", "us-gpu", "", "base/gpu.yaml:1:1"},
		{"DeploymentPolicy", "us-slow", "/spec/compartments/1/budget/count", "overlays/us/json.yaml:3:10"},
		{"DeploymentPolicy", "us-slow", "/spec/compartments/0/budget/count", "base/policies/slow.yaml:8:23"},
		{"DeploymentPolicy", "us-slow", "/spec/compartments/5", "base/policies/slow.yaml:7:7"},
		{"NodeWright", "gpu", "/spec", "nowhere"},
	}
	for _, tc := range cases {
		require.Equal(t, tc.want, at(tc.kind, tc.name, tc.pointer), tc.pointer)
	}
}

func TestPositionsOfKeys(t *testing.T) {
	l, err := overlay.Locate(patched, "overlays/us")
	require.NoError(t, err)
	key := overlay.ObjectKey{Kind: "NodeWright", Name: "us-gpu"}
	p, ok := l.AtKey(key, "/spec/packages/tuning/version")
	require.True(t, ok)
	require.Equal(t, overlay.Position{File: "overlays/us/merge.yaml", Line: 7, Column: 7}, p)
	p, ok = l.AtKey(key, "/metadata/labels/tier")
	require.True(t, ok)
	require.Equal(t, overlay.Position{File: "base/gpu.yaml", Line: 5, Column: 12}, p)
}

func TestPositionsInManyDocumentsAndAnchors(t *testing.T) {
	at := locate(t, repository.with(tree{"base/gpu.yaml": gpu + "---\nkind: NodeWright\napiVersion: v1\nmetadata: &m\n  name: two\n  annotations: {a: b}\nspec:\n  x: &x {y: 1}\n  z: *x\n  \"a/b~c\": 2\n"}))
	require.Equal(t, "base/gpu.yaml:16:9", at("NodeWright", "two", "/metadata/name"))
	require.Equal(t, "base/gpu.yaml:19:13", at("NodeWright", "two", "/spec/z/y"), "where the anchor is")
	require.Equal(t, "base/gpu.yaml:21:12", at("NodeWright", "two", "/spec/a~1b~0c"))
	require.Equal(t, "base/gpu.yaml:7:13", at("NodeWright", "gpu", "/spec/priority"))
}

func TestReplacementPointsToItsSource(t *testing.T) {
	at := locate(t, overlayWith("replacements:\n  - source: {kind: NodeWright, name: gpu, fieldPath: spec.packages.tuning.image, options: {delimiter: /, index: 0}}\n    targets:\n      - select: {kind: DeploymentPolicy}\n        fieldPaths: [spec.from]\n        options: {create: true}\n", nil))
	require.Equal(t, "base/gpu.yaml:11:14", at("DeploymentPolicy", "slow", "/spec/from"))
}

func TestWildcardsOfReplacements(t *testing.T) {
	at := locate(t, overlayWith("replacements:\n  - source: {kind: NodeWright, name: gpu, fieldPath: spec.priority}\n    targets:\n      - select: {kind: DeploymentPolicy}\n        fieldPaths: [\"spec.compartments.*.budget.count\"]\n", nil))
	require.Equal(t, "base/gpu.yaml:7:13", at("DeploymentPolicy", "slow", "/spec/compartments/1/budget/count"))
	require.Equal(t, "base/policies/slow.yaml:7:13", at("DeploymentPolicy", "slow", "/spec/compartments/0/name"))
}

func TestPositionsAreApproximateWhereMarksBreakTheBuild(t *testing.T) {
	at := locate(t, overlayWith("replacements:\n  - source: {kind: NodeWright, name: gpu, fieldPath: spec.packages.tuning.image, options: {delimiter: /, index: 1}}\n    targets:\n      - select: {kind: DeploymentPolicy}\n        fieldPaths: [spec.from]\n        options: {create: true}\n", nil))
	require.Equal(t, "base/gpu.yaml:7:13 approximately", at("NodeWright", "gpu", "/spec/priority"))
	require.Equal(t, "base/policies/slow.yaml:5:1 approximately", at("DeploymentPolicy", "slow", "/spec/from"))
}
