package render_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
)

// tree is a repository in memory.
type tree map[string]string

func (t tree) Paths() []string { return slices.Sorted(maps.Keys(t)) }

func (t tree) ReadFile(path string) ([]byte, error) {
	text, ok := t[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

const base = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: gpu
spec:
  priority: 10
  packages:
    tuning:
      version: 1.0.0
      image: ghcr.io/x/tuning
`

func repository(edit func(tree)) tree {
	t := tree{
		"bases/kustomization.yaml":      "resources: [gpu.yaml]\n",
		"bases/gpu.yaml":                base,
		"overlays/a/kustomization.yaml": "resources: [../../bases]\npatches: [{path: gpu.yaml}]\n",
		"overlays/a/gpu.yaml":           "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: gpu}\nspec:\n  priority: 20\n",
	}
	edit(t)
	return t
}

func TestFindingsPointIntoTheFileThatHoldsTheValue(t *testing.T) {
	cases := map[string]struct {
		edit func(tree)
		want []string
	}{
		"good": {func(tree) {}, nil},
		"the base": {func(t tree) { t["bases/gpu.yaml"] = strings.Replace(base, "1.0.0", "latest", 1) },
			[]string{"bases/gpu.yaml:9:16: NodeWright/gpu: spec.packages.tuning.version: must be a semantic version without build metadata, such as 1.4.0 or 1.4.0-rc1"}},
		"the patch": {func(t tree) { t["overlays/a/gpu.yaml"] = strings.Replace(t["overlays/a/gpu.yaml"], "20", "0", 1) },
			[]string{"overlays/a/gpu.yaml:5:13: NodeWright/gpu: spec.priority: must be at least 1, not 0"}},
		"an unknown field in the patch": {func(t tree) { t["overlays/a/gpu.yaml"] += "  prioritie: 3\n" },
			[]string{"overlays/a/gpu.yaml:6:3: NodeWright/gpu: spec.prioritie: unknown field, did you mean priority? (allowed: additionalTolerations, autoTaintNewNodes, deploymentPolicy, deploymentPolicyOptions, drainConfig, interruptionBudget, nodeSelectors, onDrift, packages, podNonInterruptLabels, priority, protectedPods, protectedPodsTimeout, reapplyOnReboot, runtimeRequired, runtimeRequiredCordonAfter, sequencing, serial, verifyInterval)"}},
		"a missing field": {func(t tree) { t["bases/gpu.yaml"] = strings.Replace(base, "      image: ghcr.io/x/tuning\n", "", 1) },
			[]string{"bases/gpu.yaml:8:5: NodeWright/gpu: spec.packages.tuning: image is required, unless packageRef takes it from the catalogue"}},
		"both files at once": {func(t tree) {
			t["bases/gpu.yaml"] = strings.Replace(base, "1.0.0", "latest", 1)
			t["overlays/a/gpu.yaml"] += "  deploymentPolicy: p\n"
		}, []string{
			"bases/gpu.yaml:9:16: NodeWright/gpu: spec.packages.tuning.version: must be a semantic version without build metadata, such as 1.4.0 or 1.4.0-rc1",
		}},
	}
	v, err := manifest.New()
	require.NoError(t, err)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := render.Overlay(v, repository(tc.edit), "overlays/a", manifest.Options{})
			var got []string
			for _, f := range result.Findings {
				got = append(got, f.String())
			}
			require.Equal(t, strings.Join(tc.want, "\n"), strings.Join(got, "\n"))
			require.Equal(t, tc.want == nil, result.Set.Len() == 1)
		})
	}
}
