package example

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
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

// build builds an overlay from memory with the restrictions that the reconciler builds under.
func build(t *testing.T, overlay string) resmap.ResMap {
	t.Helper()
	memory := filesys.MakeFsInMemory()
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		return memory.WriteFile("/"+filepath.ToSlash(inside), data)
	})
	require.NoError(t, err)
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly
	built, err := krusty.MakeKustomizer(options).Run(memory, "/overlays/"+overlay)
	require.NoError(t, err)
	return built
}

// fleet is what an overlay holds, strictly decoded: an unknown field is an error.
type fleet struct {
	packages    map[string]fleetv1.Package
	nodeWrights map[string]nwv1.NodeWright
	policies    map[string]nwv1.DeploymentPolicy
}

func load(t *testing.T, overlay string) fleet {
	t.Helper()
	f := fleet{map[string]fleetv1.Package{}, map[string]nwv1.NodeWright{}, map[string]nwv1.DeploymentPolicy{}}
	for _, resource := range build(t, overlay).Resources() {
		document, err := resource.AsYAML()
		require.NoError(t, err)
		id := resource.GetKind() + " " + resource.GetName()
		require.Equal(t, overlay, resource.GetLabels()["fleet.example.com/region"], id)
		switch resource.GetApiVersion() + " " + resource.GetKind() {
		case "fleetwright.dev/v1alpha1 Package":
			var object fleetv1.Package
			require.NoError(t, yaml.UnmarshalStrict(document, &object), id)
			f.packages[object.Name] = object
		case "nodewright.nvidia.com/v1alpha1 NodeWright":
			var object nwv1.NodeWright
			require.NoError(t, yaml.UnmarshalStrict(document, &object), id)
			f.nodeWrights[object.Name] = object
		case "nodewright.nvidia.com/v1alpha1 DeploymentPolicy":
			var object nwv1.DeploymentPolicy
			require.NoError(t, yaml.UnmarshalStrict(document, &object), id)
			f.policies[object.Name] = object
		default:
			t.Errorf("%s: %s is not a kind that a fleet repository may hold", id, resource.GetApiVersion())
		}
	}
	return f
}

func TestOverlaysHoldTogether(t *testing.T) {
	for _, overlay := range overlays(t) {
		t.Run(overlay, func(t *testing.T) {
			f := load(t, overlay)
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
