package overlay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// TestDeliveryReport_KB01_ParallelBuildsShareNothing: 64 builds at once, half of them with a schema of their own, which kustomize
// would keep in a variable of the process. Those are refused before kustomize sees them; the others come out as if alone.
// `go test -race` looks for what the results do not show.
func TestDeliveryReport_KB01_ParallelBuildsShareNothing(t *testing.T) {
	variants := []tree{}
	for i := range 4 {
		variants = append(variants, overlayWith(fmt.Sprintf("namePrefix: v%d-\npatches:\n  - target: {kind: NodeWright}\n    patch: |\n"+
			"      - {op: add, path: /spec/serial, value: true}\n", i), nil))
	}
	want := []*overlay.Result{}
	for _, files := range variants {
		result, findings := overlay.Build(files, "overlays/us")
		require.Empty(t, texts(findings))
		want = append(want, result)
	}
	var wait sync.WaitGroup
	for i := range 64 {
		wait.Go(func() {
			if i%2 == 0 {
				if got, _ := overlay.Build(variants[i/2%4], "overlays/us"); got == nil || !equal(want[i/2%4], got) {
					t.Errorf("build %d: another result", i)
				}
				return
			}
			schema := fmt.Sprintf(`{"definitions": {"v%d": {}}}`, i)
			for _, field := range []string{"openapi: {path: schema.json}\n", "crds: [schema.json]\n"} {
				_, findings := overlay.Build(overlayWith(field, tree{"overlays/us/schema.json": schema}), "overlays/us")
				if len(findings) != 1 || findings[0].Code != "RefusedField" {
					t.Errorf("build %d: %v", i, texts(findings))
				}
			}
		})
	}
	wait.Wait()
}

// recording notes which files a build asks for.
type recording struct {
	tree
	mu    *sync.Mutex
	asked *[]string
}

func (r recording) ReadFile(path string) ([]byte, error) {
	r.mu.Lock()
	*r.asked = append(*r.asked, path)
	r.mu.Unlock()
	return r.tree.ReadFile(path)
}

func TestDeliveryReport_KB03_OnlyFilesOfTheRepositoryAreRead(t *testing.T) {
	const out = "../../../../etc/passwd"
	for name, kustomization := range map[string]string{
		"resources": "resources: [" + out + "]\n", "components": "components: [" + out + "]\n", "bases": "bases: [" + out + "]\n",
		"absolute": "resources: [/etc/passwd]\n", "through a directory": "resources: [nope/../../../../../etc/passwd]\n",
		"patchesStrategicMerge": "patchesStrategicMerge: [" + out + "]\n", "patches": "patches: [{path: " + out + "}]\n",
		"patchesJson6902":    "patchesJson6902: [{path: " + out + ", target: {version: v1, kind: X, name: x}}]\n",
		"replacements":       "replacements: [{path: " + out + "}]\n",
		"configMapGenerator": "configMapGenerator: [{name: x, files: [" + out + "]}]\n",
		"secretGenerator":    "secretGenerator: [{name: x, envs: [" + out + "]}]\n",
		"openapi":            "openapi: {path: " + out + "}\n", "helmGlobals": "helmGlobals: {chartHome: " + out + "}\n",
		"crds": "crds: [" + out + "]\n", "configurations": "configurations: [" + out + "]\n",
		"generators": "generators: [" + out + "]\n", "transformers": "transformers: [" + out + "]\n", "validators": "validators: [" + out + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			files := recording{overlayWith(kustomization, nil), &sync.Mutex{}, &asked}
			if strings.HasPrefix(kustomization, "resources") {
				files.tree["overlays/us/kustomization.yaml"] = kustomization
			}
			result, findings := overlay.Build(files, "overlays/us")
			require.Nil(t, result)
			require.True(t, finding.HasErrors(findings))
			i := slices.IndexFunc(findings, func(f finding.Finding) bool { return f.Severity == finding.Error })
			require.Equal(t, "overlays/us/kustomization.yaml", findings[i].File)
			require.Contains(t, []string{"PathOutside", "RefusedField"}, findings[i].Code, findings[i].String())
			for _, path := range asked {
				require.Contains(t, files.Paths(), path)
			}
		})
	}
}

// chain is a repository in which each of n directories is the base of the one before it.
func chain(n int) tree {
	files := tree{fmt.Sprintf("d%d/kustomization.yaml", n): "resources: [gpu.yaml]\n", fmt.Sprintf("d%d/gpu.yaml", n): gpu}
	for i := range n {
		files[fmt.Sprintf("d%d/kustomization.yaml", i)] = fmt.Sprintf("resources: [../d%d]\n", i+1)
	}
	return files
}

func TestDeliveryReport_KB04_CyclesAndDepthEnd(t *testing.T) {
	result, findings := overlay.Build(chain(31), "d0")
	require.Empty(t, texts(findings))
	require.Len(t, result.Objects, 1)
	_, findings = overlay.Build(chain(500), "d0")
	require.Equal(t, []string{"error d31/kustomization.yaml:1:13: bases are nested deeper than 32"}, texts(findings))

	for name, tc := range map[string]struct {
		files tree
		want  string
	}{
		"a to b to a": {tree{"d0/kustomization.yaml": "resources: [../b]\n", "b/kustomization.yaml": "components: [../d0]\n"},
			"error b/kustomization.yaml:1:14: d0 leads back to a directory that is being built: d0 -> b -> d0"},
		"itself":        {tree{"d0/kustomization.yaml": "resources: [./]\n"}, "error d0/kustomization.yaml:1:13: d0 leads back to a directory that is being built: d0 -> d0"},
		"by its parent": {tree{"d0/kustomization.yaml": "resources: [../d0/.]\n"}, "error d0/kustomization.yaml:1:13: d0 leads back to a directory that is being built: d0 -> d0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := overlay.Build(tc.files, "d0")
			require.Equal(t, []string{tc.want}, texts(findings))
		})
	}
}

// TestDeliveryReport_KB04_LittleInputMakesNoMuch: each of these repositories is small and asks kustomize for more than a machine
// has. They are refused by arithmetic, at the place where it becomes too much.
func TestDeliveryReport_KB04_LittleInputMakesNoMuch(t *testing.T) {
	bombs := map[string]struct {
		files tree
		want  string
	}{
		"bases that double": {doubling("namePrefix: %s\n", "gpu.yaml"), "bases counted as often as they are named"},
		"bases that double, of nothing": {doubling("namePrefix: %s\n", "../none"),
			"reads more than 1000 directories, bases counted as often as they are named"},
		"components that double": {componentsThatDouble(), "reads more than 1000 directories"},
		"an object in itself": {overlayWith("patches:\n"+strings.Repeat("  - target: {kind: NodeWright}\n    patch: |\n"+
			"      - {op: copy, from: /spec, path: /spec/x}\n", 30), nil), "may come to more than"},
		"an object in itself, by one patch": {overlayWith("patches:\n  - target: {kind: NodeWright}\n    patch: |\n"+
			strings.Repeat("      - {op: copy, from: /spec, path: /spec/x}\n", 30), nil), "may come to more than"},
		"a replacement of a map in itself": {overlayWith("replacements:\n"+strings.Repeat("  - source: {kind: NodeWright, fieldPath: spec}\n"+
			"    targets: [{select: {kind: NodeWright}, fieldPaths: [spec.x], options: {create: true}}]\n", 30), nil), "may come to more than"},
		"a replacement from a file": {overlayWith("replacements: [{path: r.yaml}]\n", tree{"overlays/us/r.yaml": strings.Repeat(
			"- source: {kind: NodeWright, fieldPath: spec}\n  targets: [{select: {kind: NodeWright}, fieldPaths: [spec.x], options: {create: true}}]\n", 30)}),
			"may come to more than"},
		"text that is appended to itself": {overlayWith("replacements:\n  - source: {kind: NodeWright, fieldPath: metadata.labels.tier}\n    targets:\n"+
			strings.Repeat("      - {select: {kind: NodeWright}, fieldPaths: [metadata.labels.tier], options: {delimiter: /, index: 9}}\n", 30), nil),
			"may come to more than 64 MiB"},
		"JSON in its own text": {repository.with(tree{"base/gpu.yaml": gpu + "  text: '{\"a\": \"b\"}'\n"}).with(tree{"overlays/us/kustomization.yaml": "resources: [../../base]\nreplacements:\n" +
			strings.Repeat("  - source: {kind: NodeWright, fieldPath: spec.text}\n    targets: [{select: {kind: NodeWright}, fieldPaths: [spec.text.a]}]\n", 30)}),
			"may come to more than 64 MiB"},
		"aliases in many files": {manyAliases(), "expands to more than 200000 YAML values"},
		"a large patch for many objects": {overlayWith("  - many.yaml\npatches:\n  - target: {kind: X}\n    patch: |\n      kind: X\n      metadata: {name: x}\n      spec: ["+
			strings.Repeat("a,", 4000)+"a]\n", tree{"overlays/us/many.yaml": many(400)}), "may come to more than 400000 YAML values"},
		"many patches for many objects": {overlayWith("  - many.yaml\npatches:\n"+strings.Repeat("  - target: {kind: X}\n    patch: |\n"+
			"      - {op: add, path: /spec, value: 1}\n", 30), tree{"overlays/us/many.yaml": many(400)}),
			"applies patches to more than 10000 objects, each counted once for each patch"},
		"a List of many objects": {overlayWith("  - many.yaml\n", tree{"overlays/us/many.yaml": "kind: List\napiVersion: v1\nitems:\n" +
			strings.Repeat("  - {kind: X, apiVersion: v1, metadata: {name: x}}\n", 600)}), "has more than 500 objects"},
		"a label of many bytes": {overlayWith("  - many.yaml\ncommonAnnotations: {a: "+strings.Repeat("x", 1<<18)+"}\n", tree{"overlays/us/many.yaml": many(400)}),
			"may come to more than 64 MiB"},
	}
	for name, tc := range bombs {
		t.Run(name, func(t *testing.T) {
			_, findings := overlay.Build(tc.files, "overlays/us")
			i := slices.IndexFunc(findings, func(f finding.Finding) bool { return f.Severity == finding.Error })
			require.GreaterOrEqual(t, i, 0)
			require.Equal(t, "BuildTooLarge", findings[i].Code, findings[i].String())
			require.Contains(t, findings[i].Message, tc.want)
			require.Positive(t, findings[i].Line)
			_, err := overlay.Locate(tc.files, "overlays/us")
			require.Error(t, err)
		})
	}
}

// doubling has 28 levels of two bases that hold the same two bases of the next level; %s takes a prefix that keeps names apart.
func doubling(fields, last string) tree {
	files := repository.with(tree{"none/kustomization.yaml": "namePrefix: x\n", "end/kustomization.yaml": "resources: [" + last + "]\n", "end/gpu.yaml": gpu})
	for i := range 28 {
		next := fmt.Sprintf("../p%d, ../q%d", i+1, i+1)
		if i == 27 {
			next = "../end"
		}
		for _, side := range []string{"p", "q"} {
			files[fmt.Sprintf("%s%d/kustomization.yaml", side, i)] = fmt.Sprintf(fields, side) + "resources: [" + next + "]\n"
		}
	}
	return files.with(tree{"overlays/us/kustomization.yaml": "resources: [../../base, ../../p0]\n"})
}

func componentsThatDouble() tree {
	files := overlayWith("components: [../../c0]\n", nil)
	const head = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	for i := range 30 {
		files[fmt.Sprintf("c%d/kustomization.yaml", i)] = head + fmt.Sprintf("components: [../c%d, ../d%d]\n", i+1, i+1)
		files[fmt.Sprintf("d%d/kustomization.yaml", i+1)] = head + fmt.Sprintf("components: [../c%d]\n", i+1)
	}
	files["c30/kustomization.yaml"] = head
	return files
}

func many(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "---\n{kind: X, apiVersion: v1, metadata: {name: x%d}}\n", i)
	}
	return out.String()
}

// manyAliases has files that each come to 100 000 values.
func manyAliases() tree {
	bomb := "kind: X\napiVersion: v1\nmetadata: {name: x}\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i <= 'e'; i++ {
		last := "*" + string(i-1)
		bomb += string(i) + ": &" + string(i) + " [" + strings.Repeat(last+",", 9) + last + "]\n"
	}
	names, files := []string{}, tree{}
	for i := range 400 {
		name := fmt.Sprintf("f%d.yaml", i)
		names, files["overlays/us/"+name] = append(names, name), strings.Replace(bomb, "name: x", fmt.Sprintf("name: x%d", i), 1)
	}
	return overlayWith("  - "+strings.Join(names, "\n  - ")+"\n", files)
}

// What people do with bases, patches and replacements stays far below the limits.
func TestOrdinaryOverlaysStayWithinTheLimits(t *testing.T) {
	kustomization := "  - many.yaml\nnamePrefix: eu-\nlabels: [{pairs: {region: eu}}]\npatches:\n" +
		strings.Repeat("  - target: {kind: X}\n    patch: |\n      - {op: add, path: /spec, value: {a: text}}\n", 10)
	for i := range 100 {
		kustomization += fmt.Sprintf("  - target: {kind: X, name: x%d}\n    patch: |\n      - {op: add, path: /spec/b, value: text%d}\n", i, i)
	}
	kustomization += "replacements:\n  - source: {kind: NodeWright, fieldPath: spec.packages.tuning.version}\n    targets:\n" +
		strings.Repeat("      - {select: {kind: X}, fieldPaths: [spec.a, spec.b], options: {create: true}}\n", 10) +
		"  - source: {kind: NodeWright, fieldPath: metadata.labels.region}\n    targets:\n" +
		strings.Repeat("      - {select: {kind: NodeWright}, fieldPaths: [spec.packages.tuning.image], options: {delimiter: /, index: 0}}\n", 5)
	result, findings := overlay.Build(overlayWith(kustomization, tree{"overlays/us/many.yaml": many(120)}), "overlays/us")
	require.Empty(t, texts(findings))
	require.Len(t, result.Objects, 122)
	require.Equal(t, "overlays/us/many.yaml", result.Objects[121].Origin)
}

// spec builds one object with a spec, and returns the spec.
func spec(t *testing.T, kustomization, text string) map[string]any {
	t.Helper()
	object := "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: gpu}\n" + text
	files := overlayWith(kustomization, tree{"base/gpu.yaml": object})
	built := build(t, files)
	var out struct{ Spec map[string]any }
	require.NoError(t, json.Unmarshal(built["NodeWright/gpu"].JSON, &out))
	return out.Spec
}

func TestDeliveryReport_KB06_ExplicitValuesWinOverMergeKeys(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"before":         {"spec:\n  a: &a {x: 1, y: 2}\n  b:\n    <<: *a\n    x: 3\n", `{"a":{"x":1,"y":2},"b":{"x":3,"y":2}}`},
		"after":          {"spec:\n  a: &a {x: 1, y: 2}\n  b:\n    x: 3\n    <<: *a\n", `{"a":{"x":1,"y":2},"b":{"x":3,"y":2}}`},
		"the first wins": {"spec:\n  a: &a {x: 1}\n  b: &b {x: 2, z: 3}\n  c: {<<: [*a, *b], y: 9}\n", `{"a":{"x":1},"b":{"x":2,"z":3},"c":{"x":1,"y":9,"z":3}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(spec(t, "", tc.text))
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got))
		})
	}
}

func TestDeliveryReport_KB07_AliasesAreCopies(t *testing.T) {
	const text = "spec:\n  a: &a {x: 1, l: [1]}\n  b: *a\n  c: {<<: *a}\n"
	const head = "{apiVersion: nodewright.nvidia.com/v1alpha1, kind: NodeWright, metadata: {name: gpu}, "
	for name, kustomization := range map[string]string{
		"strategic merge": "patches:\n  - patch: '" + head + "spec: {a: {x: 5}}}'\n",
		"JSON patch":      "patches:\n  - target: {kind: NodeWright}\n    patch: |\n      - {op: replace, path: /spec/a/x, value: 5}\n",
		"replacement":     "replacements:\n  - sourceValue: \"5\"\n    targets: [{select: {kind: NodeWright}, fieldPaths: [spec.a.x]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(spec(t, kustomization, text))
			require.NoError(t, err)
			require.JSONEq(t, `{"a":{"x":5,"l":[1]},"b":{"x":1,"l":[1]},"c":{"x":1,"l":[1]}}`, string(got))
		})
	}
}

// TestDeliveryReport_KB10_FirstLinesAreShort: what is wrong, and where, fits into a line, also through three levels of bases and
// where kustomize wraps its words around its words.
func TestDeliveryReport_KB10_FirstLinesAreShort(t *testing.T) {
	files := chain(3)
	files["d3/kustomization.yaml"] = "resources: [gpu.yaml, missing.yaml]\n"
	_, findings := overlay.Build(files, "d0")
	require.Equal(t, []string{"error d3/kustomization.yaml:1:23: missing.yaml does not exist in the repository (looked for d3/missing.yaml)"}, texts(findings))

	long := strings.Repeat("very-long-name-", 40)
	for name, kustomization := range map[string]string{
		"replacement without a source": "replacements:\n  - source: {kind: Nope, name: " + long + "}\n    targets: [{select: {kind: NodeWright}, fieldPaths: [spec.x]}]\n",
		"replacement of no field":      "replacements:\n  - source: {kind: NodeWright}\n    targets: [{select: {kind: NodeWright}, fieldPaths: [spec." + long + "]}]\n",
		"replicas of nothing":          "replicas: [{name: " + long + ", count: 1}]\n",
		"expression":                   "patches:\n  - target: {kind: NodeWright, name: '(" + long + "'}\n    patch: |\n      - {op: add, path: /spec/x, value: 1}\n",
		"operation that fails":         "patches:\n  - target: {kind: NodeWright}\n    patch: |\n      - {op: remove, path: /spec/" + long + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := overlay.Build(overlayWith(kustomization, nil), "overlays/us")
			require.NotEmpty(t, findings)
			first := findings[0].String()
			require.True(t, strings.HasPrefix(first, "overlays/us/kustomization.yaml:"), first)
			require.LessOrEqual(t, len([]rune(first)), 200, first)
			require.NotContains(t, first, "\n")
			require.NotContains(t, first, "/repository")
		})
	}
}

func TestDeliveryReport_KB12_TextStaysText(t *testing.T) {
	odd := []string{"01234", "0x10", "1e3", "1.10", "1_000", "2024-01-01", "yes", "null", "~", "true"}
	pairs, want := []string{}, map[string]any{}
	for i, text := range odd {
		pairs = append(pairs, fmt.Sprintf("k%d: %q", i, text))
		want[fmt.Sprintf("k%d", i)] = text
	}
	built := build(t, repository.with(tree{"overlays/us/kustomization.yaml": "namespace: \"01234\"\nnamePrefix: \"0644-\"\nnameSuffix: \"-1e3\"\n" +
		"labels: [{pairs: {" + strings.Join(pairs, ", ") + "}}]\ncommonAnnotations: {" + strings.Join(pairs, ", ") + "}\nresources: [../../base]\n"}))
	var object struct{ Metadata map[string]any }
	require.NoError(t, json.Unmarshal(built["NodeWright/0644-gpu-1e3"].JSON, &object))
	require.Equal(t, "01234", object.Metadata["namespace"])
	require.Equal(t, want, object.Metadata["annotations"])
	want["tier"] = "gold"
	require.Equal(t, want, object.Metadata["labels"])

	for field, text := range map[string]string{
		"namespace: 01234\n": "01234 of namespace", "namePrefix: 0x10\n": "0x10 of namePrefix", "nameSuffix: 1e3\n": "1e3 of nameSuffix",
		"labels: [{pairs: {a: 1.10}}]\n": "1.10 of labels", "commonAnnotations: {a: 2024-01-01}\n": "2024-01-01 of commonAnnotations",
	} {
		_, findings := overlay.Build(overlayWith(field, nil), "overlays/us")
		require.Len(t, findings, 1)
		value, _, _ := strings.Cut(text, " ")
		require.Equal(t, fmt.Sprintf(`overlays/us/kustomization.yaml:3:%d: %s is not text (allowed: quotes, "%s")`, strings.Index(field, value)+1, text, value),
			findings[0].String())
	}
}

func TestDeliveryReport_KB13_KeysAreText(t *testing.T) {
	const bad = "{1: a, true: b, null: c}"
	for name, tc := range map[string]struct {
		files tree
		place string
	}{
		"object": {repository.with(tree{"base/gpu.yaml": gpu + "      configMap: " + bad + "\n"}), "base/gpu.yaml:12:19"},
		"strategic merge": {overlayWith("patches: [{path: p.yaml}]\n", tree{"overlays/us/p.yaml": "{apiVersion: nodewright.nvidia.com/v1alpha1, kind: NodeWright, metadata: {name: gpu},\nspec: " + bad + "}\n"}),
			"overlays/us/p.yaml:2:8"},
		"JSON patch": {overlayWith("patches:\n  - target: {kind: NodeWright}\n    patch: |\n      - op: add\n        path: /spec/x\n        value: "+bad+"\n", nil),
			"overlays/us/kustomization.yaml:8:17"},
		"kustomization": {overlayWith("commonLabels: "+bad+"\n", nil), "overlays/us/kustomization.yaml:3:16"},
		"complex key":   {repository.with(tree{"base/gpu.yaml": gpu + "  x:\n    ? [a, b]\n    : c\n"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			result, findings := overlay.Build(tc.files, "overlays/us")
			require.Nil(t, result)
			if tc.place == "" {
				require.Equal(t, []string{"error base/gpu.yaml:13:7: key of several values is not text (allowed: a key in quotes)"}, texts(findings))
				return
			}
			require.Len(t, findings, 3)
			require.Equal(t, tc.place+`: key "1" is not text (allowed: a key in quotes)`, findings[0].String())
			require.Contains(t, findings[1].String(), `key "true" is not text`)
			require.Contains(t, findings[2].String(), `key "null" is not text`)
		})
	}
}

type panicking struct{ tree }

func (panicking) ReadFile(string) ([]byte, error) { panic("boom") }

// TestDeliveryReport_KB15_ACrashIsAFinding: whatever kustomize does with odd input, the process lives, and the next build is as
// good as the one before.
func TestDeliveryReport_KB15_ACrashIsAFinding(t *testing.T) {
	crashes := "replacements: [{source: {kind: NodeWright}, targets: [{select: {kind: NodeWright}, reject: [null], fieldPaths: [metadata.name]}]}]\n"
	for name, tc := range map[string]struct {
		files overlay.Files
		want  string
	}{
		"kustomize crashes": {overlayWith(crashes, nil), "overlays/us/kustomization.yaml:1:1: kustomize cannot build the overlay: kustomize crashed: "},
		"the files crash":   {panicking{repository}, "overlays/us: the build crashed: boom"},
		"null patch":        {overlayWith("patches: [null]\n", nil), "overlays/us/kustomization.yaml:3:11: is not a patch"},
		"null resource":     {overlayWith("  - null\n", nil), "overlays/us/kustomization.yaml:3:5: is not a path"},
		"null target":       {overlayWith("patches: [{target: null, patch: '[{}]'}]\n", nil), "overlays/us/kustomization.yaml:3:11: a JSON patch needs a target"},
		"list":              {repository.with(tree{"base/gpu.yaml": "- a\n"}), "base/gpu.yaml:1:1: is not a Kubernetes object"},
		"only comments":     {repository.with(tree{"overlays/us/kustomization.yaml": "# nothing\n"}), "overlays/us/kustomization.yaml:1:1: is not one YAML document"},
		"0 bytes":           {repository.with(tree{"overlays/us/kustomization.yaml": ""}), "overlays/us/kustomization.yaml:1:1: is not one YAML document"},
		"null metadata":     {repository.with(tree{"base/gpu.yaml": "kind: X\napiVersion: v1\nmetadata: null\n"}), "base/gpu.yaml:1:1: X: has no metadata.name"},
		"null items":        {repository.with(tree{"base/gpu.yaml": "kind: List\napiVersion: v1\nitems: [null, 1, [a]]\n"}), "base/gpu.yaml:3:9: is not a Kubernetes object"},
		"null targets":      {overlayWith("replacements: [{source: {kind: NodeWright}, targets: [null]}]\n", nil), "overlays/us/kustomization.yaml:3:55: is not a map"},
	} {
		t.Run(name, func(t *testing.T) {
			result, findings := overlay.Build(tc.files, "overlays/us")
			require.Nil(t, result)
			require.NotEmpty(t, findings)
			require.True(t, strings.HasPrefix(findings[0].String(), tc.want), findings[0].String())
			_, err := overlay.Locate(tc.files, "overlays/us")
			require.Error(t, err)
		})
	}
	empty, findings := overlay.Build(overlayWith("patches: [{target: {}, patch: '{}'}]\n", nil), "overlays/us")
	require.Empty(t, texts(findings), "an empty target fits everything")
	require.Len(t, empty.Objects, 2)
	build(t, repository)
}

// scripts hold what template languages would replace.
var scripts = []string{
	"${X}", "$$", "$1", "${arr[@]}", "${X:-default}", "$(date)", "{\"$ref\": \"#/definitions/x\"}", "{{ .Values.x }}", "%{x}", "a ${var} b",
	"#!/bin/sh\nfor i in \"${a[@]}\"; do\n\techo \"$i $$\" '$1' \\$2\ndone\n", "  indented ${first}\n line\n", "trailing spaces  \n\n", "tab\tand é ☃ ${x}\r\n",
}

// TestDeliveryReport_KB18_NothingIsSubstituted: there is no templating, in no place, so that scripts arrive byte for byte.
func TestDeliveryReport_KB18_NothingIsSubstituted(t *testing.T) {
	configMap, env := map[string]any{}, []any{}
	for i, script := range scripts {
		configMap[fmt.Sprintf("f%d", i)] = script
		env = append(env, map[string]any{"name": fmt.Sprintf("E%d", i), "value": script})
	}
	text, err := json.Marshal(map[string]any{"packages": map[string]any{"tuning": map[string]any{"configMap": configMap, "env": env}}})
	require.NoError(t, err)
	want := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &want))
	require.Equal(t, want, spec(t, "", "spec: "+string(text)+"\n"))
	patch, err := json.Marshal(map[string]any{"apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright",
		"metadata": map[string]any{"name": "gpu"}, "spec": want})
	require.NoError(t, err)
	inline, err := json.Marshal(string(patch))
	require.NoError(t, err)
	require.Equal(t, want, spec(t, "patches: [{patch: "+string(inline)+"}]\n", "spec: {}\n"), "through a patch")

	block := "spec:\n  script: |\n    #!/bin/sh\n    echo \"${arr[@]}\" $$ $1 ${X}\n  folded: >-\n    ${a}\n    $$\n  plain: ${X} $1\n"
	require.Equal(t, map[string]any{"script": "#!/bin/sh\necho \"${arr[@]}\" $$ $1 ${X}\n", "folded": "${a} $$", "plain": "${X} $1"}, spec(t, "", block))
}

// TestDeliveryReport_KB19_TextThatLooksLikeAVariableIsNoFinding: nothing is said about it either, in descriptions, names of
// files or labels.
func TestDeliveryReport_KB19_TextThatLooksLikeAVariableIsNoFinding(t *testing.T) {
	files := overlayWith("commonAnnotations: {description: \"the ${var} of $(cluster)\"}\n", tree{
		"base/gpu.yaml": strings.Replace(gpu, "labels:", "annotations: {note: \"${var}\"}\n  labels:", 1),
	})
	result, findings := overlay.Build(files, "overlays/us")
	require.Empty(t, texts(findings))
	require.Contains(t, string(result.Objects[1].JSON), `{"description":"the ${var} of $(cluster)","note":"${var}"}`)
}

// TestDeliveryReport_SV04_DuplicateKeysAreAlwaysErrors: in every file and every text of YAML that a build reads.
func TestDeliveryReport_SV04_DuplicateKeysAreAlwaysErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		files tree
		want  string
	}{
		"object":        {repository.with(tree{"base/gpu.yaml": gpu + "      version: 1.2.4\n"}), `base/gpu.yaml:12:7: key "version" was already set on line 10`},
		"in quotes":     {repository.with(tree{"base/gpu.yaml": gpu + "      \"version\": 1.2.4\n"}), `base/gpu.yaml:12:7: key "version" was already set on line 10`},
		"JSON":          {repository.with(tree{"base/gpu.yaml": `{"kind": "X", "apiVersion": "v1", "metadata": {"name": "a", "name": "b"}}`}), `base/gpu.yaml:1:61: key "name" was already set on line 1`},
		"second object": {repository.with(tree{"base/gpu.yaml": gpu + "---\n" + gpu + "kind: X\n"}), `base/gpu.yaml:24:1: key "kind" was already set on line 14`},
		"item of a List": {repository.with(tree{"base/gpu.yaml": "kind: List\napiVersion: v1\nitems:\n  - {kind: X, kind: Y, metadata: {name: a}}\n"}),
			`base/gpu.yaml:4:15: key "kind" was already set on line 4`},
		"kustomization": {overlayWith("namePrefix: a\nnamePrefix: b\n", nil), `overlays/us/kustomization.yaml:4:1: key "namePrefix" was already set on line 3`},
		"patch in place": {overlayWith("patches:\n  - target: {kind: NodeWright}\n    patch: |\n      spec: {a: 1, a: 2}\n", nil),
			`overlays/us/kustomization.yaml:6:20: key "a" was already set on line 6`},
		"patch in a file": {overlayWith("patches: [{path: p.yaml}]\n", tree{"overlays/us/p.yaml": "kind: NodeWright\nkind: X\n"}), `overlays/us/p.yaml:2:1: key "kind" was already set on line 1`},
		"JSON patch": {overlayWith("patches:\n  - target: {kind: NodeWright}\n    patch: |\n      - {op: add, op: remove, path: /spec/x}\n", nil),
			`overlays/us/kustomization.yaml:6:19: key "op" was already set on line 6`},
		"replacement": {overlayWith("replacements: [{path: r.yaml}]\n", tree{"overlays/us/r.yaml": "source: {kind: X}\nsource: {kind: Y}\n"}), `overlays/us/r.yaml:2:1: key "source" was already set on line 1`},
	} {
		t.Run(name, func(t *testing.T) {
			result, findings := overlay.Build(tc.files, "overlays/us")
			require.Nil(t, result)
			require.Equal(t, []string{"error " + tc.want}, texts(findings))
			require.Equal(t, "DuplicateKey", findings[0].Code)
		})
	}
}
