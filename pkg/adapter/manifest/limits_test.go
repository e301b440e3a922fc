package manifest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
)

// The largest objects that the bounds allow must not run out of the API server's CEL budget.
func TestTheLargestObjectsStayWithinTheCELBudget(t *testing.T) {
	v := newValidator(t)
	objects := []manifest.Object{
		marshal(t, "nodewright.nvidia.com/v1alpha1", "NodeWright", map[string]any{"packages": manyPackages()}),
		marshal(t, "nodewright.nvidia.com/v1alpha1", "DeploymentPolicy", map[string]any{
			"default": map[string]any{"budget": map[string]any{"count": 1}}, "compartments": manyCompartments(),
		}),
	}
	for _, object := range objects {
		require.Empty(t, texts(v.Check(object, nil)))
	}
}

func marshal(t *testing.T, apiVersion, kind string, spec any) manifest.Object {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "large"}, "spec": spec,
	})
	require.NoError(t, err)
	require.Less(t, len(data), 1500<<10, "etcd takes no larger object")
	return manifest.Object{APIVersion: apiVersion, Kind: kind, Name: "large", JSON: data}
}

func manyPackages() map[string]any {
	packages := map[string]any{}
	for i := range 64 {
		configMap, interrupts, dependsOn := map[string]any{}, map[string]any{}, map[string]any{}
		for k := range 100 {
			configMap[fmt.Sprintf("%s-%d.conf", strings.Repeat("k", 100), k)] = "v"
		}
		for k := range 64 {
			interrupts[fmt.Sprintf("%s-%d.conf", strings.Repeat("k", 100), k)] = map[string]any{"type": "service", "services": []string{"a"}}
		}
		for d := range min(i, 32) {
			dependsOn[packageName(d)] = "1.0.0"
		}
		packages[packageName(i)] = map[string]any{
			"name": packageName(i), "version": "1.0.0", "image": strings.Repeat("a/", 200) + "a",
			"configMap": configMap, "configInterrupts": interrupts, "dependsOn": dependsOn, "stageTimeout": "1h30m",
			"resources": map[string]any{"cpuRequest": "100m", "cpuLimit": 1, "memoryRequest": "1Gi", "memoryLimit": "1Gi"},
		}
	}
	return packages
}

func packageName(i int) string {
	return fmt.Sprintf("package-%s-%c%c", strings.Repeat("x", 20), 'a'+i/26, 'a'+i%26)
}

func manyCompartments() []any {
	var out []any
	for i := range 64 {
		labels, expressions := map[string]any{}, []any{}
		for k := range 32 {
			labels[fmt.Sprintf("example.com/label-%d", k)] = fmt.Sprintf("value-%d", i)
			expressions = append(expressions, map[string]any{"key": fmt.Sprintf("key-%d", k), "operator": "In", "values": []string{"a", "b"}})
		}
		out = append(out, map[string]any{
			"name": fmt.Sprintf("compartment-%d", i), "budget": map[string]any{"count": 1},
			"selector": map[string]any{"matchLabels": labels, "matchExpressions": expressions},
			"strategy": map[string]any{"linear": map[string]any{}},
		})
	}
	return out
}

func TestObjectsThatNoClusterStores(t *testing.T) {
	v := newValidator(t)
	large := func(kind, apiVersion string, size int) manifest.Object {
		return marshal(t, apiVersion, kind, map[string]any{
			"image": "ghcr.io/x/a", "version": "1.0.0", "configMap": map[string]any{"a": strings.Repeat("x", size)},
		})
	}
	const group = "fleetwright.dev/v1alpha1"
	_, findings := v.Validate([]manifest.Object{large("Package", group, 1_000_000)}, nil, manifest.Options{})
	require.Empty(t, texts(findings))
	_, findings = v.Validate([]manifest.Object{large("Package", group, 1_100_000)}, nil, manifest.Options{})
	require.Equal(t, []string{
		"Package/large: needs 1100280 bytes in the cluster, its field names counted twice (allowed: at most 1048576)",
	}, texts(findings))

	half := marshal(t, "nodewright.nvidia.com/v1alpha1", "NodeWright", map[string]any{"packages": map[string]any{"tuning": map[string]any{
		"packageRef": map[string]any{"name": "large"}, "configMap": map[string]any{"b": strings.Repeat("x", 500_000)},
	}}})
	_, findings = v.Validate([]manifest.Object{large("Package", group, 600_000), half}, nil, manifest.Options{})
	require.Len(t, findings, 1)
	require.Regexp(t, `^NodeWright/large: spec.packages.tuning: package "tuning" has 11\d{5} bytes of settings \(allowed: at most 1000000\)$`, texts(findings)[0])
}

func TestFieldsOfTheServerAreRefused(t *testing.T) {
	object := manifest.Object{APIVersion: "fleetwright.dev/v1alpha1", Kind: "Package", Name: "a", JSON: []byte(`{
		"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Package", "spec": {"image": "a", "version": "1.0.0"},
		"metadata": {"name": "a", "creationTimestamp": null, "generation": 2, "resourceVersion": "7",
			"uid": "0b6cb2ad-6b1f-4b0e-8f5e-0a2b6e8a2b1c", "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1", "apiVersion": "fleetwright.dev/v1alpha1"}],
			"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}]}}`)}
	_, findings := newValidator(t).Validate([]manifest.Object{object}, nil, manifest.Options{})
	const server = ": is set by the API server; remove it, as everything that an export from a cluster adds"
	require.Equal(t, []string{
		"Package/a: metadata.managedFields" + server,
		"Package/a: metadata.ownerReferences: would let the cluster delete the object together with its owner; remove it",
		"Package/a: metadata.resourceVersion" + server,
		"Package/a: metadata.uid" + server,
	}, texts(findings))
}
