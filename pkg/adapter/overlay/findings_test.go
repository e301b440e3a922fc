package overlay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
)

const us = "error overlays/us/kustomization.yaml:"

func TestBadOverlays(t *testing.T) {
	one := func(kustomization string, more ...tree) tree {
		files := overlayWith(kustomization, nil)
		for _, m := range more {
			files = files.with(m)
		}
		return files
	}
	cases := map[string]struct {
		files tree
		want  []string
	}{
		"remote base": {one("  - https://example.com/base.yaml\n"), []string{us + `3:5: "https://example.com/base.yaml" would be fetched from elsewhere, which is not done here (allowed: a path inside the repository; copy the base into it)`}},
		"github":      {one("  - github.com/acme/fleet\n"), []string{us + `3:5: "github.com/acme/fleet" would be fetched from elsewhere, which is not done here (allowed: a path inside the repository; copy the base into it)`}},
		"absolute":    {one("  - /etc/passwd\n"), []string{us + `3:5: /etc/passwd is an absolute path (allowed: a path relative to overlays/us)`}},
		"out of the repository": {one("  - ../../../../etc/passwd\n"), []string{us +
			`3:5: ../../../../etc/passwd leads out of the repository (allowed: a path inside the repository)`}},
		"file of another directory": {one("  - ../../base/gpu.yaml\n"), []string{us +
			`3:5: ../../base/gpu.yaml is a file outside of overlays/us (allowed: files in or below overlays/us, or a directory with its own kustomization.yaml)`}},
		"missing file":      {one("  - nope.yaml\n"), []string{us + `3:5: nope.yaml does not exist in the repository (looked for overlays/us/nope.yaml)`}},
		"missing patch":     {one("patches:\n  - path: nope.yaml\n"), []string{us + `4:11: nope.yaml does not exist in the repository (looked for overlays/us/nope.yaml)`}},
		"no kustomization":  {one("  - ../../base/policies\n"), []string{us + `3:5: directory base/policies has no kustomization.yaml (allowed: a kustomization.yaml that lists its files under resources)`}},
		"kustomization":     {one("  - ../../base/kustomization.yaml\n"), []string{us + `3:5: ../../base/kustomization.yaml is a file outside of overlays/us (allowed: files in or below overlays/us, or a directory with its own kustomization.yaml)`}},
		"self":              {one("  - kustomization.yaml\n"), []string{us + `3:5: overlays/us/kustomization.yaml is a kustomization file (allowed: the directory that holds it)`}},
		"cycle":             {one("", tree{"base/kustomization.yaml": "resources: [../overlays/us]\n"}), []string{`error base/kustomization.yaml:1:13: overlays/us leads back to a directory that is being built: overlays/us -> base -> overlays/us`}},
		"parent":            {one("  - ..\n", tree{"overlays/kustomization.yaml": "resources: []\n"}), []string{us + `3:5: overlays leads back to a directory that is being built: overlays/us -> overlays`}},
		"several":           {one("", tree{"base/kustomization.yml": ""}), []string{`error base/kustomization.yml: directory base has several kustomization files: base/kustomization.yaml, base/kustomization.yml; keep one`}},
		"exec":              {one("transformers: [t.yaml]\n"), []string{us + `3:1: transformers runs code during the build, which is not done here (allowed: plain manifests under resources, and patches)`}},
		"helm":              {one("helmCharts: []\n"), []string{us + `3:1: helmCharts runs code during the build, which is not done here (allowed: plain manifests under resources, and patches)`}},
		"openapi":           {one("openapi: {path: s.json}\n"), []string{us + `3:1: openapi changes kustomize for every build of the process, which is not done here (allowed: JSON patches for lists)`}},
		"crds":              {one("crds: [c.json]\n"), []string{us + `3:1: crds changes kustomize for every build of the process, which is not done here (allowed: nothing: the kinds of a fleet are known)`}},
		"generator":         {one("configMapGenerator: [{name: x}]\n"), []string{us + `3:1: configMapGenerator makes ConfigMaps or Secrets, which a fleet does not deliver (allowed: the package's own configMap field)`}},
		"scalar for a list": {one("patches: p.yaml\n"), []string{us + `3:1: patches is not a list (allowed: lines that begin with -)`}},
		"JSON patch without target": {one("patches:\n  - patch: '[{\"op\":\"remove\",\"path\":\"/spec\"}]'\n"),
			[]string{us + `4:5: a JSON patch needs a target (allowed: target with kind and name)`}},
		"JSON patch that is not JSON": {one("patches:\n  - target: {kind: NodeWright}\n    patch: '[{op: remove, path: /spec/priority}]'\n"),
			[]string{us + `5:13: a patch that begins with [ must be JSON (allowed: JSON with quoted keys, or lines that begin with -)`}},
		"null patch":      {one("patches: [null]\n"), []string{us + `3:11: is not a patch (allowed: path or patch, and target)`}},
		"two patch forms": {one("patches:\n  - {path: a, patch: b}\n"), []string{us + `4:5: a patch needs either path or patch`}},
		"empty patch":     {one("patches:\n  - {path: p.yaml}\n", tree{"overlays/us/p.yaml": "# nothing\n"}), []string{us + `4:5: the patch is empty`}},
		"nameless patch": {one("patches:\n  - path: p.yaml\n", tree{"overlays/us/p.yaml": "spec: {priority: 1}\n"}),
			[]string{`error overlays/us/p.yaml:1:1: the patch says not which object it changes (allowed: kind and metadata.name in the patch, or a target)`}},
		"whole object": {one("patches:\n  - target: {kind: NodeWright}\n    patch: |\n      - op: replace\n        path: \"\"\n        value: {}\n"),
			[]string{us + `7:15: replaces a whole object (allowed: a path such as /spec/priority)`}},
		"merges that match nothing": {one("patches:\n  - patch: |\n\n      kind: NodeWright\n      apiVersion: nodewright.nvidia.com/v1alpha1\n      metadata: {name: nope}\n  - path: p.yaml\n",
			tree{"overlays/us/p.yaml": "---\nkind: NodeWright\napiVersion: nodewright.nvidia.com/v1alpha1\nmetadata: {name: also}\n"}), []string{
			us + `6:7: the patch matches no object: NodeWright/nope (allowed: the kind and name of an object in resources)`,
			`error overlays/us/p.yaml:2:1: the patch matches no object: NodeWright/also (allowed: the kind and name of an object in resources)`}},
		"targets that match nothing": {one("patches:\n  - target: {kind: NodeWright, name: nope}\n    patch: |\n      - {op: remove, path: /spec/priority}\n  - target: {kind: NodeWright}\n    patch: |\n      - {op: remove, path: /spec/priority}\n  - target: {labelSelector: tier=iron}\n    patch: |\n      kind: NodeWright\n      metadata: {name: x}\n"), []string{
			us + `4:5: the patch matches no object: target kind=NodeWright, name=nope (allowed: the kind and name of an object in resources)`,
			us + `10:5: the patch matches no object: target labelSelector=tier=iron (allowed: the kind and name of an object in resources)`}},
		"target that matches nothing in a base": {one("", tree{"base/kustomization.yaml": "resources: [gpu.yaml]\npatchesJson6902:\n- target: {group: nodewright.nvidia.com, version: v1alpha1, kind: NodeWright, name: nope}\n  patch: '[{\"op\": \"remove\", \"path\": \"/spec/priority\"}]'\n"}), []string{
			`warning base/kustomization.yaml:2:1: patchesJson6902 is deprecated by kustomize (allowed: patches)`,
			`error base/kustomization.yaml:3:3: the patch matches no object: target group=nodewright.nvidia.com, version=v1alpha1, kind=NodeWright, name=nope (allowed: the kind and name of an object in resources)`}},
		"operation that does not apply": {one("patches:\n  - target: {kind: NodeWright}\n    patch: |\n      - op: remove\n        path: /spec/nope\n"), []string{
			us + `6:9: the patch does not apply: error in remove for path: '/spec/nope': Unable to remove nonexistent key: nope: missing value`}},
		"declared twice": {one("  - more.yaml\n", tree{"overlays/us/more.yaml": strings.Replace(policy, "slow", "slower", 1) + "---\n" + gpu}), []string{
			`error overlays/us/more.yaml:12:1: NodeWright/gpu: is declared twice, also in base/gpu.yaml (allowed: one declaration; change it by a patch)`}},
		"duplicate key":           {repository.with(tree{"base/gpu.yaml": gpu + "  priority: 5\n"}), []string{`error base/gpu.yaml:12:3: key "priority" was already set on line 7`}},
		"keys without text":       {repository.with(tree{"base/gpu.yaml": gpu + "  x: {1: a, true: b, null: c}\n"}), []string{`error base/gpu.yaml:12:7: key "1" is not text (allowed: a key in quotes)`, `error base/gpu.yaml:12:13: key "true" is not text (allowed: a key in quotes)`, `error base/gpu.yaml:12:22: key "null" is not text (allowed: a key in quotes)`}},
		"tab":                     {repository.with(tree{"base/gpu.yaml": gpu + "\tx: 1\n"}), []string{`error base/gpu.yaml:12:2: is not YAML: found a tab character that violates indentation (allowed: YAML with spaces for indentation)`}},
		"syntax":                  {repository.with(tree{"base/gpu.yaml": gpu + "  x: [1\n"}), []string{`error base/gpu.yaml:12:3: is not YAML: did not find expected ',' or ']' (allowed: YAML with spaces for indentation)`}},
		"syntax in a block":       {one("patches:\n  - patch: |\n      kind: X\n      a: b: c\n"), []string{us + `6:7: is not YAML: mapping values are not allowed in this context (allowed: YAML with spaces for indentation)`}},
		"not an object":           {repository.with(tree{"base/gpu.yaml": "- a\n"}), []string{`error base/gpu.yaml:1:1: is not a Kubernetes object`}},
		"no kind":                 {repository.with(tree{"base/gpu.yaml": "metadata: {name: x}\n"}), []string{`error base/gpu.yaml:1:1: has no kind`}},
		"no name":                 {repository.with(tree{"base/gpu.yaml": "kind: NodeWright\nspec: {}\n"}), []string{`error base/gpu.yaml:1:1: NodeWright: has no metadata.name`}},
		"empty overlay":           {repository.with(tree{"base/kustomization.yaml": "namePrefix: x-\n"}), []string{us + `1:1: the overlay yields no object (allowed: at least one; to take everything away, set prune and delete the Fleet)`}},
		"overlay without a field": {repository.with(tree{"overlays/us/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"}), []string{us + `1:1: the overlay yields no object (allowed: at least one; to take everything away, set prune and delete the Fleet)`}},
		"kustomization list":      {repository.with(tree{"base/kustomization.yaml": "- a\n"}), []string{`error base/kustomization.yaml:1:1: is not one YAML document with fields such as resources`}},
		"0 bytes":                 {repository.with(tree{"base/kustomization.yaml": ""}), []string{`error base/kustomization.yaml:1:1: is not one YAML document with fields such as resources`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result, findings := overlay.Build(tc.files, "./overlays/us")
			require.Equal(t, tc.want, texts(findings))
			require.Nil(t, result)
		})
	}
}

func TestDeliveryReport_KB25_TooManyObjects(t *testing.T) {
	many := ""
	for i := range 501 {
		many += fmt.Sprintf("---\nkind: X\napiVersion: v1\nmetadata: {name: x%d}\n", i)
	}
	_, findings := overlay.Build(overlayWith("  - many.yaml\n", tree{"overlays/us/many.yaml": many}), "overlays/us")
	require.Equal(t, []string{us + "3:5: the overlay has more than 500 objects"}, texts(findings))
}

// Each patch that matches nothing costs a build: a base that was renamed must not cost as many as there are patches.
func TestManyPatchesThatMatchNothing(t *testing.T) {
	patches := "patches:\n"
	for i := range 200 {
		patches += fmt.Sprintf("  - patch: |\n      {kind: NodeWright, apiVersion: nodewright.nvidia.com/v1alpha1, metadata: {name: gone-%d}}\n", i)
	}
	_, findings := overlay.Build(overlayWith(patches, nil), "overlays/us")
	require.Len(t, findings, 10)
	require.Contains(t, findings[9].String(), "the patch matches no object: NodeWright/gone-9 ")

	for i := range 900 {
		patches += fmt.Sprintf("  - patch: |\n      {kind: NodeWright, apiVersion: nodewright.nvidia.com/v1alpha1, metadata: {name: more-%d}}\n", i)
	}
	_, findings = overlay.Build(overlayWith(patches, nil), "overlays/us")
	require.Equal(t, []string{us + "3:1: the overlay has more than 1000 patches"}, texts(findings))
}

func TestDeliveryReport_KB24_ListThatShrinksIsAWarning(t *testing.T) {
	const three = "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\nmetadata: {name: three}\nspec:\n" +
		"  compartments: [{name: a}, {name: b}, {name: c}]\n  windows: [{cron: x}]\n"
	patched := func(patch string) []string {
		_, findings := overlay.Build(overlayWith("  - three.yaml\npatches:\n  - patch: |\n"+patch,
			tree{"overlays/us/three.yaml": three}), "overlays/us")
		return texts(findings)
	}
	const head = "      apiVersion: nodewright.nvidia.com/v1alpha1\n      kind: DeploymentPolicy\n      metadata: {name: three}\n      spec:\n"
	require.Equal(t, []string{strings.Replace(us, "error", "warning", 1) + "10:23: DeploymentPolicy/three: spec.compartments: the patch replaces the whole list: 3 entries (a, b, c) " +
		"become 1 entry (b) (allowed: a JSON patch to change one entry)"},
		patched(head+"        compartments: [{name: b, budget: {count: 1}}]\n"))
	require.Len(t, patched(head+"        compartments: [{name: b}]\n    target: {kind: DeploymentPolicy, name: th.*}\n"), 1)
	require.Empty(t, patched(head+"        compartments: [{name: a}, {name: b}, {name: x}]\n        windows: [{cron: z}]\n"))
	require.Empty(t, patched("      - {op: remove, path: /spec/compartments/1}\n    target: {kind: DeploymentPolicy, name: three}\n"))
}

func TestUnknownFieldOfAKustomization(t *testing.T) {
	_, findings := overlay.Build(overlayWith("resource: [a]\n", nil), "overlays/us")
	require.Len(t, findings, 1)
	require.Contains(t, findings[0].String(), "overlays/us/kustomization.yaml:3:1: unknown field resource (allowed: apiVersion, bases, ")
}

func TestPathsOfTheOverlay(t *testing.T) {
	cases := map[string]string{
		"nope":              "error nope: the path nope does not exist in the repository (allowed: base, overlays)",
		"./overlays/mars":   "error overlays/mars: the path ./overlays/mars does not exist in the repository (allowed: overlays/us)",
		"../x":              "error ../x: the path leads out of the repository",
		"base/gpu.yaml":     "error base/gpu.yaml: the path is a file (allowed: the directory that holds kustomization.yaml)",
		"base/policies":     "error base/policies/kustomization.yaml: directory base/policies has no kustomization.yaml (allowed: a kustomization.yaml that lists its files under resources)",
		"/overlays/nope/..": "error overlays/kustomization.yaml: directory overlays has no kustomization.yaml (allowed: a kustomization.yaml that lists its files under resources)",
	}
	for path, want := range cases {
		t.Run(path, func(t *testing.T) {
			result, findings := overlay.Build(repository, path)
			require.Equal(t, []string{want}, texts(findings))
			require.Nil(t, result)
		})
	}
	result, findings := overlay.Build(tree{"kustomization.yaml": "resources: [gpu.yaml]\n", "gpu.yaml": gpu}, "./")
	require.Empty(t, findings)
	require.Equal(t, "gpu.yaml", result.Objects[0].Origin)
}

type linked struct{ tree }

func (l linked) ReadFile(path string) ([]byte, error) {
	if strings.HasPrefix(path, "overlays/us/link") {
		return nil, errors.New("overlays/us/link is a symbolic link out of the repository")
	}
	return l.tree.ReadFile(path)
}

func TestReasonsOfTheRepositoryAreShown(t *testing.T) {
	_, findings := overlay.Build(linked{overlayWith("  - link\n", nil)}, "overlays/us")
	require.Equal(t, []string{us + "3:5: link cannot be read: overlays/us/link is a symbolic link out of the repository"}, texts(findings))
	_, findings = overlay.Build(linked{repository}, "overlays/us/link")
	require.Equal(t, []string{"error overlays/us/link: the path cannot be read: overlays/us/link is a symbolic link out of the repository"}, texts(findings))
}

func TestDeliveryReport_KB04_AliasesDoNotExplode(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i <= 'i'; i++ {
		last := "*" + string(i-1)
		bomb += string(i) + ": &" + string(i) + " [" + strings.Repeat(last+",", 9) + last + "]\n"
	}
	_, findings := overlay.Build(repository.with(tree{"base/gpu.yaml": gpu + "---\n" + bomb}), "overlays/us")
	require.Equal(t, []string{"error base/gpu.yaml:1:1: up to here, the overlay expands to more than 200000 YAML values"}, texts(findings))
}

func TestAmbiguousValuesAreWarnings(t *testing.T) {
	files := repository.with(tree{"base/gpu.yaml": gpu + `  a: yes
  b: 1.10
  c: 0644
  d: 2024-01-01
  e: 1_000
  f: "yes"
  g: 1.5
  h: true
  yes: 0
`})
	result, findings := overlay.Build(files, "overlays/us")
	require.NotNil(t, result)
	require.Equal(t, []string{
		`warning base/gpu.yaml:12:6: yes is text here and a boolean to other readers (allowed: quotes, "yes", where text is meant)`,
		`warning base/gpu.yaml:13:6: 1.10 is a number here and loses its last zero (allowed: quotes, "1.10", where text is meant)`,
		`warning base/gpu.yaml:14:6: 0644 is an octal number here (allowed: quotes, "0644", where text is meant)`,
		`warning base/gpu.yaml:15:6: 2024-01-01 is a time here and is written out differently (allowed: quotes, "2024-01-01", where text is meant)`,
		`warning base/gpu.yaml:16:6: 1_000 is a number here and loses its underscores (allowed: quotes, "1_000", where text is meant)`,
	}, texts(findings))
}
