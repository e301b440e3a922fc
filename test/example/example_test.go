package example

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

const repository = "../../fleet-example"

// overlays lists the directories of fleet-example/overlays, so that a new one is tested without an edit here.
func overlays(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(repository, "overlays"))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"canary", "eu-west-1", "us-east-1"}, names)
	return names
}

// nodes are the labels of a cluster like the one that the example is written for.
func nodes() []map[string]string {
	var all []map[string]string
	for i, tier := range []string{"canary", "serving", "serving", "training", "training", "batch"} {
		all = append(all, map[string]string{"pool": "gpu", "tier": tier, "rack": fmt.Sprint("r", i%2)})
	}
	return all
}

// validate builds and validates an overlay as the reconciler does.
func validate(t *testing.T, files overlay.Files, name string) (manifest.Set, []finding.Finding) {
	t.Helper()
	built, findings := overlay.Build(files, "overlays/"+name)
	if built == nil {
		return manifest.Set{}, findings
	}
	var objects []manifest.Object
	for _, o := range built.Objects {
		objects = append(objects, manifest.Object{
			Key: o.Kind + "/" + o.Name, APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, JSON: o.JSON, File: o.Origin,
		})
	}
	validator, err := manifest.New()
	require.NoError(t, err)
	set, more := validator.Validate(objects, nil, manifest.Options{Nodes: nodes()})
	return set, append(findings, more...)
}

// fleet is what an overlay holds, by name.
type fleet struct {
	packages    map[string]*fleetv1.Package
	nodeWrights map[string]*nwv1.NodeWright
	policies    map[string]*nwv1.DeploymentPolicy
}

func load(t *testing.T, name string) fleet {
	t.Helper()
	files, err := git.Worktree(repository)
	require.NoError(t, err)
	set, findings := validate(t, files, name)
	require.Empty(t, findings, "neither error nor warning")
	f := fleet{map[string]*fleetv1.Package{}, map[string]*nwv1.NodeWright{}, map[string]*nwv1.DeploymentPolicy{}}
	for _, object := range set.Packages {
		f.packages[object.Name] = object
		require.Equal(t, name, object.Labels["fleet.example.com/region"])
	}
	for _, object := range set.NodeWrights {
		f.nodeWrights[object.Name] = object
	}
	for _, object := range set.DeploymentPolicies {
		f.policies[object.Name] = object
	}
	return f
}

// edited is the example with one text replaced in one file.
type edited struct {
	overlay.Files
	path, old, new string
}

func (e edited) ReadFile(path string) ([]byte, error) {
	data, err := e.Files.ReadFile(path)
	if path != e.path || err != nil {
		return data, err
	}
	return bytes.Replace(data, []byte(e.old), []byte(e.new), 1), nil
}

// TestMistakesAreFound shows that the tests above would notice a broken example.
func TestMistakesAreFound(t *testing.T) {
	files, err := git.Worktree(repository)
	require.NoError(t, err)
	for name, c := range map[string]struct{ path, old, new, want string }{
		"a field that does not exist":  {"bases/packages/kernel-args.yaml", "stageTimeout:", "stageTimeuot:", "stageTimeuot"},
		"a policy that does not exist": {"bases/nodewrights/gpu-kernel.yaml", "Policy: by-tier", "Policy: by-teir", "by-teir"},
		"a tag in the image":           {"bases/packages/gpu-sysctl.yaml", "packages/shellscript", "packages/shellscript:1.1.2", "image"},
		"a base in another order":      {"bases/policies/by-tier.yaml", "name: serving", "name: served", "overlays/us-east-1/by-tier.yaml:3:3: the patch does not apply"},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := validate(t, edited{files, c.path, c.old, c.new}, "us-east-1")
			require.NotEmpty(t, findings)
			text, err := finding.Render(findings, "text")
			require.NoError(t, err)
			require.Contains(t, string(text), c.want)
		})
	}
}

func TestOverlaysHoldTogether(t *testing.T) {
	for _, name := range overlays(t) {
		t.Run(name, func(t *testing.T) {
			f := load(t, name)
			require.Len(t, f.packages, 3)
			require.Len(t, f.policies, 3)
			require.Len(t, f.nodeWrights, 3)
			used := map[string]bool{}
			for name, nodeWright := range f.nodeWrights {
				require.Equal(t, map[string]string{"pool": "gpu"}, nodeWright.Spec.NodeSelectors.MatchLabels, name)
				require.Contains(t, f.policies, nodeWright.Spec.DeploymentPolicy, name)
				require.NotEmpty(t, nodeWright.Spec.Packages, name)
				for key, entry := range nodeWright.Spec.Packages {
					require.NotNil(t, entry.PackageRef, "%s %s", name, key)
					require.Contains(t, f.packages, entry.PackageRef.Name, name)
					require.False(t, used[entry.PackageRef.Name], "%s is used twice", entry.PackageRef.Name)
					used[entry.PackageRef.Name] = true
				}
			}
			require.Len(t, used, len(f.packages), "every package of the catalogue is used")
		})
	}
}

func TestWhatTheOverlaysChange(t *testing.T) {
	canary, east, west := load(t, "canary"), load(t, "us-east-1"), load(t, "eu-west-1")

	scripts := func(f fleet) map[string]string {
		rest := map[string]string{}
		for key, value := range f.packages["gpu-sysctl"].Spec.ConfigMap {
			if key != "sysctl.conf" {
				rest[key] = value
			}
		}
		return rest
	}
	require.Equal(t, scripts(east), scripts(canary), "the patch of one key leaves the scripts alone")
	require.Contains(t, canary.packages["gpu-sysctl"].Spec.ConfigMap["sysctl.conf"], "net.core.rmem_max = 268435456\n")
	require.Contains(t, east.packages["gpu-sysctl"].Spec.ConfigMap["sysctl.conf"], "net.core.rmem_max = 134217728\n")

	require.Equal(t, []string{"canary", "serving", "training"}, compartments(canary))
	require.Equal(t, []string{"canary", "serving", "training"}, compartments(east), "a JSON patch keeps the list")
	require.Equal(t, []string{"canary", "serving", "training", "batch"}, compartments(west))
	require.Equal(t, "count 2", budget(east, 1))
	require.Equal(t, "percent 25", budget(west, 1))

	require.Equal(t, map[string]string{"grub.conf": "iommu=pt\n"},
		west.nodeWrights["gpu-kernel"].Spec.Packages["kernel-args"].ConfigMap)
	require.Empty(t, east.nodeWrights["gpu-kernel"].Spec.Packages["kernel-args"].ConfigMap)
}

func compartments(f fleet) []string {
	var names []string
	for _, c := range f.policies["by-tier"].Spec.Compartments {
		names = append(names, c.Name)
	}
	return names
}

func budget(f fleet, compartment int) string {
	b := f.policies["by-tier"].Spec.Compartments[compartment].Budget
	if b.Count != nil {
		return fmt.Sprintf("count %d", *b.Count)
	}
	return fmt.Sprintf("percent %d", *b.Percent)
}
