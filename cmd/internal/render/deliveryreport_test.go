package render_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
)

// onDisk writes a tree into a directory. A content that begins with -> is a link.
func onDisk(t *testing.T, files tree) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			require.NoError(t, os.Symlink(strings.ReplaceAll(target, "ROOT", dir), path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func lines(result render.Result) []string {
	var out []string
	for _, f := range result.Findings {
		out = append(out, f.String())
	}
	return out
}

// TestDeliveryReport_KB16_LinksInsideTheRepository: a link to a file works, over several links, too; any other is refused with its
// path and where it leads. Never is something left out in silence.
func TestDeliveryReport_KB16_LinksInsideTheRepository(t *testing.T) {
	v, err := manifest.New()
	require.NoError(t, err)
	const unread = "overlays/a/kustomization.yaml:1:13: "
	for name, tc := range map[string]struct {
		resources string
		link      tree
		want      string
	}{
		"link to a file":       {"link.yaml", tree{"overlays/a/link.yaml": "-> ../../bases/gpu.yaml"}, ""},
		"link to a link":       {"link.yaml", tree{"overlays/a/link.yaml": "-> ./next.yaml", "overlays/a/next.yaml": "-> ../../bases/gpu.yaml"}, ""},
		"link in a base":       {"../../bases", tree{"bases/gpu.yaml": "-> real/gpu.yaml", "bases/real/gpu.yaml": base}, ""},
		"link to a directory":  {"../../linked", tree{"linked": "-> bases"}, unread + "../../linked cannot be read: linked is a symbolic link to the directory bases; write that path instead"},
		"file below a link":    {"linked/gpu.yaml", tree{"overlays/a/linked": "-> ../../bases"}, unread + "linked/gpu.yaml cannot be read: overlays/a/linked is a symbolic link to the directory bases; write that path instead"},
		"link out":             {"link.yaml", tree{"overlays/a/link.yaml": "-> ../../../etc/passwd"}, unread + `link.yaml cannot be read: overlays/a/link.yaml is a symbolic link out of the repository (to "../../../etc/passwd"); replace it by the file`},
		"absolute link inside": {"link.yaml", tree{"overlays/a/link.yaml": "-> ROOT/bases/gpu.yaml"}, unread + "link.yaml cannot be read: overlays/a/link.yaml is a symbolic link out of the repository (to "},
		"link to nothing":      {"link.yaml", tree{"overlays/a/link.yaml": "-> nope.yaml"}, unread + "link.yaml does not exist in the repository (looked for overlays/a/link.yaml)"},
		"link to itself":       {"link.yaml", tree{"overlays/a/link.yaml": "-> link.yaml"}, unread + "link.yaml cannot be read: overlays/a/link.yaml is a symbolic link that leads over more than 8 links"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := onDisk(t, repository(func(files tree) {
				for path, content := range tc.link {
					files[path] = content
				}
				files["overlays/a/kustomization.yaml"] = "resources: [" + tc.resources + "]\n"
			}))
			files, err := git.Worktree(dir)
			require.NoError(t, err)
			result := render.Overlay(v, files, "overlays/a", manifest.Options{})
			if tc.want == "" {
				require.Empty(t, lines(result))
				require.Equal(t, 1, result.Set.Len())
				return
			}
			require.Len(t, result.Findings, 1)
			require.True(t, strings.HasPrefix(lines(result)[0], tc.want), lines(result)[0])
			require.Nil(t, result.Objects)
		})
	}
	t.Run("the overlay itself", func(t *testing.T) {
		files, err := git.Worktree(onDisk(t, repository(func(files tree) { files["overlays/eu"] = "-> a" })))
		require.NoError(t, err)
		result := render.Overlay(v, files, "overlays/eu", manifest.Options{})
		require.Equal(t, []string{"overlays/eu: the path cannot be read: overlays/eu is a symbolic link to the directory overlays/a; write that path instead"}, lines(result))
	})
}

// treeHash is a hash of names, kinds, modes, times and contents.
func treeHash(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime().UnixNano())
		if d.Type().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum.Write(content)
		}
		return nil
	}))
	return hex.EncodeToString(sum.Sum(nil))
}

// TestDeliveryReport_KB26_BuildsWriteNothing: 20 sibling overlays are built at once from a tree that nobody may write to, half of
// them without a kustomization.yaml. None is made up, none disturbs another, and not one byte of the tree changes.
func TestDeliveryReport_KB26_BuildsWriteNothing(t *testing.T) {
	dir := onDisk(t, repository(func(files tree) {
		for i := range 20 {
			if i%2 == 0 {
				files[fmt.Sprintf("overlays/s%d/kustomization.yaml", i)] = fmt.Sprintf("namePrefix: s%d-\nresources: [../../bases]\n", i)
			}
			files[fmt.Sprintf("overlays/s%d/gpu.yaml", i)] = base
		}
	}))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o555)
		}
		return os.Chmod(path, 0o444)
	}))
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error { return os.Chmod(path, 0o755) })
	})
	before := treeHash(t, dir)
	v, err := manifest.New()
	require.NoError(t, err)
	files, err := git.Worktree(dir)
	require.NoError(t, err)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			result := render.Overlay(v, files, fmt.Sprintf("overlays/s%d", i), manifest.Options{})
			switch {
			case i%2 == 0 && (len(result.Objects) != 1 || result.Objects[0].Name != fmt.Sprintf("s%d-gpu", i) || len(result.Findings) > 0):
				t.Errorf("overlay %d: %v %v", i, result.Objects, lines(result))
			case i%2 == 1 && (len(result.Findings) != 1 || result.Findings[0].Code != "NoKustomization" || result.Objects != nil):
				t.Errorf("overlay %d: %v", i, lines(result))
			}
		})
	}
	wait.Wait()
	require.Equal(t, before, treeHash(t, dir))
}

const head = "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata: {name: gpu}\n"

// TestDeliveryReport_SV10_ValidationSeesWhatPatchesTakeAway: what counts is what comes out of the build; a field that a patch takes
// away is reported at the patch that does.
func TestDeliveryReport_SV10_ValidationSeesWhatPatchesTakeAway(t *testing.T) {
	v, err := manifest.New()
	require.NoError(t, err)
	for name, tc := range map[string]struct{ patch, want string }{
		"null":         {head + "spec:\n  packages:\n    tuning:\n      version: null\n", "overlays/a/gpu.yaml:7:7: "},
		"tilde":        {head + "spec:\n  packages:\n    tuning:\n      version: ~\n", "overlays/a/gpu.yaml:7:7: "},
		"nothing":      {head + "spec:\n  packages:\n    tuning:\n      version:\n", "overlays/a/gpu.yaml:7:7: "},
		"delete above": {head + "spec:\n  packages:\n    tuning: {$patch: delete}\n", ""},
		"empty text":   {head + "spec:\n  packages:\n    tuning:\n      version: \"\"\n", "overlays/a/gpu.yaml:7:16: "},
	} {
		t.Run(name, func(t *testing.T) {
			result := render.Overlay(v, repository(func(files tree) { files["overlays/a/gpu.yaml"] = tc.patch }), "overlays/a", manifest.Options{})
			if tc.want == "" {
				require.Empty(t, lines(result))
				return
			}
			require.Len(t, result.Findings, 1, lines(result))
			require.Contains(t, lines(result)[0], "version")
			require.True(t, strings.HasPrefix(lines(result)[0], tc.want), lines(result)[0])
		})
	}
	remove := "resources: [../../bases]\npatches:\n  - target: {kind: NodeWright}\n    patch: |\n      - op: remove\n        path: /spec/packages/tuning/image\n"
	result := render.Overlay(v, repository(func(files tree) { files["overlays/a/kustomization.yaml"] = remove }), "overlays/a", manifest.Options{})
	require.Equal(t, []string{"overlays/a/kustomization.yaml:5:9: NodeWright/gpu: spec.packages.tuning: image is required, unless packageRef takes it from the catalogue"}, lines(result))

	policy := func(patch string) render.Result {
		return render.Overlay(v, tree{
			"base/kustomization.yaml": "resources: [p.yaml]\n",
			"base/p.yaml": "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\nmetadata: {name: p}\nspec:\n" +
				"  default: {budget: {count: 1}}\n  compartments: [{name: a, selector: {matchLabels: {a: b}}, budget: {count: 1}}]\n",
			"o/kustomization.yaml": "resources: [../base]\npatches: [{path: p.yaml}]\n",
			"o/p.yaml":             "apiVersion: nodewright.nvidia.com/v1alpha1\nkind: DeploymentPolicy\nmetadata: {name: p}\nspec:\n" + patch,
		}, "o", manifest.Options{})
	}
	require.Equal(t, []string{"o/p.yaml:5:3: DeploymentPolicy/p: spec.default: is required"}, lines(policy("  default: null\n")))
	absent := policy("  compartments: null\n")
	require.Empty(t, lines(absent))
	require.Nil(t, absent.Set.DeploymentPolicies[0].Spec.Compartments)
	require.NotContains(t, string(absent.Objects[0].JSON), "compartments", "null takes the list away")
	empty := policy("  compartments: []\n")
	require.Contains(t, string(empty.Objects[0].JSON), `"compartments":[]`, "an empty list is a value")
}
