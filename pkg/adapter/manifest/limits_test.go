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
	_, findings := v.Validate(objects, nil, manifest.Options{})
	require.Empty(t, texts(findings))
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
