package overlay_test

import (
	"encoding/base64"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// tree is a repository in a map.
type tree map[string]string

func (t tree) Paths() []string { return slices.Sorted(maps.Keys(t)) }

func (t tree) ReadFile(path string) ([]byte, error) {
	content, ok := t[path]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

// with returns a copy with some files changed.
func (t tree) with(changes tree) tree {
	out := maps.Clone(t)
	maps.Copy(out, changes)
	return out
}

const gpu = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: gpu
  labels: {tier: gold}
spec:
  priority: 100
  packages:
    tuning:
      version: 1.2.3
      image: example.com/tuning
`

const policy = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: DeploymentPolicy
metadata:
  name: slow
spec:
  compartments:
    - name: a
      budget: {count: 1}
    - name: b
      budget: {count: 2}
`

var repository = tree{
	"base/kustomization.yaml":        "resources:\n  - gpu.yaml\n  - policies/slow.yaml\n",
	"base/gpu.yaml":                  gpu,
	"base/policies/slow.yaml":        policy,
	"overlays/us/kustomization.yaml": "resources:\n  - ../../base\n",
}

func overlayWith(kustomization string, more tree) tree {
	return repository.with(more).with(tree{"overlays/us/kustomization.yaml": "resources:\n  - ../../base\n" + kustomization})
}

func texts(findings []finding.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, string(f.Severity)+" "+f.String())
	}
	return out
}

func build(t *testing.T, files tree) map[string]overlay.Object {
	t.Helper()
	result, findings := overlay.Build(files, "./overlays/us")
	require.False(t, finding.HasErrors(findings), texts(findings))
	objects := map[string]overlay.Object{}
	for _, o := range result.Objects {
		objects[o.Kind+"/"+o.Name] = o
	}
	return objects
}

func TestGoodOverlays(t *testing.T) {
	cases := map[string]struct {
		files tree
		want  map[string]string // object to a part of its JSON
	}{
		"base alone": {repository, map[string]string{
			"NodeWright/gpu": `"spec":{"packages":{"tuning":{"image":"example.com/tuning","version":"1.2.3"}},"priority":100}`,
		}},
		"strategic merge": {overlayWith("patches:\n  - path: p.yaml\n", tree{"overlays/us/p.yaml": "kind: NodeWright\napiVersion: nodewright.nvidia.com/v1alpha1\nmetadata: {name: gpu}\nspec: {priority: 7}\n"}),
			map[string]string{"NodeWright/gpu": `"priority":7`}},
		"strategic merge with a target": {overlayWith("patches:\n  - target: {kind: NodeWright, labelSelector: tier=gold}\n    patch: |\n      kind: NodeWright\n      metadata: {name: any}\n      spec: {priority: 8}\n", nil),
			map[string]string{"NodeWright/gpu": `"priority":8`}},
		"JSON patch": {overlayWith("patches:\n  - target: {kind: NodeWright, name: g.*}\n    patch: |\n      - {op: replace, path: /spec/priority, value: 9}\n", nil),
			map[string]string{"NodeWright/gpu": `"priority":9`}},
		"old fields": {overlayWith("patchesStrategicMerge:\n  - p.yaml\npatchesJson6902:\n  - target: {group: nodewright.nvidia.com, version: v1alpha1, kind: DeploymentPolicy, name: slow}\n    path: j.yaml\n",
			tree{"overlays/us/p.yaml": "kind: NodeWright\napiVersion: nodewright.nvidia.com/v1alpha1\nmetadata: {name: gpu}\nspec: {priority: 7}\n",
				"overlays/us/j.yaml": "- {op: remove, path: /spec/compartments/0}\n"}),
			map[string]string{"NodeWright/gpu": `"priority":7`, "DeploymentPolicy/slow": `"compartments":[{"budget":{"count":2},"name":"b"}]`}},
		"delete": {overlayWith("patches:\n  - target: {kind: DeploymentPolicy}\n    patch: |\n      $patch: delete\n      kind: DeploymentPolicy\n      metadata: {name: slow}\n", nil),
			map[string]string{"NodeWright/gpu": "gpu"}},
		"component": {overlayWith("components:\n  - ../../components/fast\n", tree{
			"components/fast/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n  - target: {kind: NodeWright}\n    patch: |\n      - {op: add, path: /spec/serial, value: true}\n"}),
			map[string]string{"NodeWright/gpu": `"serial":true`}},
		"prefix and labels": {overlayWith("namePrefix: us-\nlabels:\n  - pairs: {region: us}\n", nil),
			map[string]string{"NodeWright/us-gpu": `"labels":{"region":"us","tier":"gold"}`}},
		"replacement": {overlayWith("replacements:\n  - source: {kind: DeploymentPolicy, name: slow, fieldPath: metadata.name}\n    targets:\n      - select: {kind: NodeWright}\n        fieldPaths: [spec.deploymentPolicy]\n        options: {create: true}\n", nil),
			map[string]string{"NodeWright/gpu": `"deploymentPolicy":"slow"`}},
		"replacement from a file": {overlayWith("replacements:\n  - path: r.yaml\n", tree{"overlays/us/r.yaml": "source: {kind: DeploymentPolicy, name: slow, fieldPath: metadata.name}\ntargets:\n  - select: {kind: NodeWright}\n    fieldPaths: [spec.deploymentPolicy]\n    options: {create: true}\n"}),
			map[string]string{"NodeWright/gpu": `"deploymentPolicy":"slow"`}},
		"several documents, anchors and CRLF": {repository.with(tree{"base/gpu.yaml": strings.ReplaceAll(gpu+"---\n# nothing\n---\n"+strings.ReplaceAll(strings.Replace(gpu, "name: gpu", "name: two", 1), "priority: 100", "priority: &p 5\n  other: *p"), "\n", "\r\n")}),
			map[string]string{"NodeWright/two": `"other":5`}},
		"large integer": {repository.with(tree{"base/gpu.yaml": gpu + "  big: 9007199254740993\n"}),
			map[string]string{"NodeWright/gpu": `"big":9007199254740993`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := build(t, tc.files)
			for object, part := range tc.want {
				require.Contains(t, string(objects[object].JSON), part, object)
				require.NotContains(t, string(objects[object].JSON), "annotations")
			}
		})
	}
}

func TestOriginsAndOrder(t *testing.T) {
	result, findings := overlay.Build(repository, "overlays/us")
	require.Empty(t, findings)
	require.Equal(t, []string{"base/gpu.yaml", "base/kustomization.yaml", "base/policies/slow.yaml", "overlays/us/kustomization.yaml"}, result.Files)
	require.Len(t, result.Objects, 2)
	require.Equal(t, overlay.ObjectKey{Kind: "DeploymentPolicy", Name: "slow"}, result.Objects[0].Key())
	require.Equal(t, "base/policies/slow.yaml", result.Objects[0].Origin)
	require.Equal(t, "nodewright.nvidia.com/v1alpha1", result.Objects[1].APIVersion)
	require.Equal(t, "base/gpu.yaml", result.Objects[1].Origin)
}

func TestAnnotationsOfTheUserStay(t *testing.T) {
	objects := build(t, overlayWith("commonAnnotations: {note: kept}\n", nil))
	require.Contains(t, string(objects["NodeWright/gpu"].JSON), `"annotations":{"note":"kept"}`)
}

func TestDeliveryReport_KB09_BuildsAreDeterministic(t *testing.T) {
	files := overlayWith("namePrefix: us-\npatches:\n  - target: {kind: NodeWright}\n    patch: |\n      - {op: add, path: /spec/serial, value: true}\n", nil)
	want, findings := overlay.Build(files, "overlays/us")
	require.Empty(t, findings)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 4 {
				if got, _ := overlay.Build(files, "./overlays/us/"); !equal(want, got) {
					t.Errorf("another result: %v", got)
				}
			}
		})
	}
	wait.Wait()
}

func equal(a, b *overlay.Result) bool {
	return slices.EqualFunc(a.Objects, b.Objects, func(x, y overlay.Object) bool {
		return string(x.JSON) == string(y.JSON) && x.Origin == y.Origin
	})
}

func TestDeliveryReport_KB22_NothingIsFetched(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(gpu))
	}))
	t.Cleanup(server.Close)
	url := server.URL + "/gpu.yaml"
	for name, kustomization := range map[string]string{
		"resources": "resources: [" + url + "]\n", "bases": "bases: [" + url + "]\n", "components": "components: [" + url + "]\n",
		"patch path": "patches:\n  - path: " + url + "\n", "patchesStrategicMerge": "patchesStrategicMerge: [\"" + url + "\"]\n",
		"patchesJson6902": "patchesJson6902:\n  - {path: \"" + url + "\", target: {kind: X, name: x, version: v1}}\n",
		"replacements":    "replacements:\n  - path: " + url + "\n",
		"crds":            "crds: [" + url + "]\n", "configurations": "configurations: [" + url + "]\n", "openapi": "openapi: {path: \"" + url + "\"}\n",
		"generators": "generators: [" + url + "]\n", "transformers": "transformers: [" + url + "]\n", "validators": "validators: [" + url + "]\n",
		"helm":                     "helmCharts:\n  - {name: x, repo: \"" + url + "\"}\n",
		"replacements in capitals": "replacements:\n  - {Path: \"" + url + "\"}\n",
		"patch in capitals":        "patches:\n  - {Path: \"" + url + "\", patch: \"kind: X\"}\n",
		"merge key":                "metadata: {annotations: &x {path: \"" + url + "\"}}\nreplacements:\n  - <<: *x\n",
		"resources in capitals":    "Resources: [" + url + "]\n",
		"encoded":                  "resources: [!!binary " + base64.StdEncoding.EncodeToString([]byte(url)) + "]\n",
		"git":                      "resources: [\"git::" + server.URL + "/x//y?ref=main\"]\n", "github": "resources: [github.com/acme/fleet]\n",
		"scp": "resources: [\"git@127.0.0.1:acme/fleet\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, files := range []tree{
				{"overlays/us/kustomization.yaml": kustomization, "overlays/us/" + base64.StdEncoding.EncodeToString([]byte(url)): gpu},
				{"overlays/us/kustomization.yaml": "resources: [../../base]\n", "base/kustomization.yaml": kustomization},
			} {
				result, findings := overlay.Build(files, "overlays/us")
				require.Nil(t, result)
				require.True(t, finding.HasErrors(findings))
				codes := map[string]bool{}
				for _, f := range findings {
					codes[f.Code] = true
				}
				require.True(t, codes["RemoteBase"] || codes["RefusedField"] || codes["UnknownField"] || codes["InvalidField"], texts(findings))
				_, err := overlay.Locate(files, "overlays/us")
				require.Error(t, err)
			}
		})
	}
	require.Zero(t, requests.Load())
}

func BenchmarkSmallOverlay(b *testing.B) {
	files := overlayWith("namePrefix: us-\npatches:\n  - target: {kind: NodeWright}\n    patch: |\n      - {op: add, path: /spec/serial, value: true}\n", nil)
	for b.Loop() {
		if result, _ := overlay.Build(files, "overlays/us"); result == nil {
			b.Fatal("no result")
		}
	}
}
