package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// command runs the program in memory.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, Streams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	return code, stdout.String(), stderr.String()
}

// repository writes files below a new directory.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

const policy = "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\nmetadata: {name: p}\nspec:\n  default: {budget: {count: 1}}\n"

func twoOverlays(text string) map[string]string {
	return map[string]string{
		".git/HEAD":                     "ref: refs/heads/main\n",
		"bases/kustomization.yaml":      "resources: [p.yaml]\n",
		"bases/p.yaml":                  text,
		"overlays/a/kustomization.yaml": "resources: [../../bases]\n",
		"overlays/b/kustomization.yaml": "resources: [../../bases]\n",
	}
}

func TestValidate(t *testing.T) {
	bad := policy + "  settle: soon\n"
	const finding = "bases/p.yaml:6:11: DeploymentPolicy/p: spec.settle: must be a duration such as 90s, 30m or 1h30m, not \"soon\"\n"
	cases := map[string]struct {
		files        map[string]string
		dir          string
		args         []string
		code         int
		out, summary string
	}{
		"every overlay": {files: twoOverlays(policy), summary: "2 overlays, 2 objects: 0 errors, 0 warnings\n"},
		"a mistake in a base is told once": {files: twoOverlays(bad), code: 1, out: finding,
			summary: "2 overlays, 2 objects: 1 error, 0 warnings\n"},
		"one overlay by path": {files: twoOverlays(policy), args: []string{"--path", "overlays/b"},
			summary: "1 overlay, 1 object: 0 errors, 0 warnings\n"},
		"one overlay by directory, its base above": {files: twoOverlays(bad), dir: "overlays/a", code: 1, out: finding,
			summary: "1 overlay, 1 object: 1 error, 0 warnings\n"},
		"GitHub": {files: twoOverlays(bad), args: []string{"-o", "github"}, code: 1,
			out: "::error file=bases/p.yaml,line=6,col=11,title=InvalidValue::" +
				"DeploymentPolicy/p: spec.settle: must be a duration such as 90s, 30m or 1h30m, not \"soon\"\n",
			summary: "2 overlays, 2 objects: 1 error, 0 warnings\n"},
		"unknown format": {files: twoOverlays(policy), args: []string{"-o", "xml"}, code: 1,
			summary: "fleetwright: unknown output format \"xml\" (allowed: text, json, sarif, github)\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := repository(t, tc.files)
			code, out, errOut := command(t, append([]string{"validate", filepath.Join(dir, tc.dir)}, tc.args...)...)
			require.Equal(t, tc.summary, errOut)
			require.Equal(t, tc.out, out)
			require.Equal(t, tc.code, code)
		})
	}
}

func TestValidateWithoutADirectory(t *testing.T) {
	code, out, errOut := command(t, "validate", "there-is-none")
	require.Equal(t, "fleetwright: there-is-none is not a directory\n", errOut)
	require.Empty(t, out)
	require.Equal(t, 1, code)
}

func TestValidateTheExampleRepository(t *testing.T) {
	code, out, errOut := command(t, "validate", "../../fleet-example", "-o", "json")
	require.Equal(t, "[]\n", out)
	require.Regexp(t, `^3 overlays, \d+ objects: 0 errors, 0 warnings\n$`, errOut)
	require.Zero(t, code)
}
