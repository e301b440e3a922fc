package adoption

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// legacyKind is the kind that became NodeWright.
const legacyKind = "Skyhook"

// Convert turns an object of the old group into the new one. Fields have the same names and meaning; what the new API does not
// know is an error that names it.
func Convert(old *unstructured.Unstructured) (client.Object, error) {
	var out client.Object = &nwv1.DeploymentPolicy{}
	if old.GetKind() == legacyKind {
		out = &nwv1.NodeWright{}
	}
	plain := map[string]any{"apiVersion": nwv1.GroupVersion.String(), "kind": nwv1.KindDeploymentPolicy, "spec": old.Object["spec"]}
	if old.GetKind() == legacyKind {
		plain["kind"] = nwv1.KindNodeWright
		stripTags(old)
	}
	data, err := json.Marshal(plain)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", old.GetKind(), old.GetName(), err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(out); err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", old.GetKind(), old.GetName(), err)
	}
	out.SetName(old.GetName())
	out.SetLabels(renamed(old.GetLabels()))
	out.SetAnnotations(renamed(old.GetAnnotations()))
	return out, nil
}

// renamed are labels or annotations with the old group's prefix replaced; what tools keep for themselves is left out.
func renamed(in map[string]string) map[string]string {
	var out map[string]string
	for key, value := range in {
		name, legacy := strings.CutPrefix(key, nwv1.LegacyGroup+"/")
		switch {
		case strings.HasPrefix(key, "kubectl.kubernetes.io/"), strings.HasPrefix(key, "meta.helm.sh/"), legacy && name == "version":
			continue
		case legacy:
			key = nwv1.Group + "/" + name
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

// stripTags removes a tag in a package's image that equals its version, which the old API tolerated.
func stripTags(old *unstructured.Unstructured) {
	packages, _, _ := unstructured.NestedMap(old.Object, "spec", "packages")
	for name, p := range packages {
		entry, ok := p.(map[string]any)
		if !ok {
			continue
		}
		image, _ := entry["image"].(string)
		version, _ := entry["version"].(string)
		entry["image"] = strings.TrimSuffix(image, ":"+version)
		packages[name] = entry
	}
	if len(packages) > 0 {
		_ = unstructured.SetNestedMap(old.Object, packages, "spec", "packages") // it was read from there
	}
}

// updatesOf is `status.configUpdates` of an object of either group.
func updatesOf(o *unstructured.Unstructured) map[string][]string {
	raw, _, _ := unstructured.NestedMap(o.Object, "status", "configUpdates")
	out := map[string][]string{}
	for name := range raw {
		if keys, ok, _ := unstructured.NestedStringSlice(o.Object, "status", "configUpdates", name); ok {
			out[name] = keys
		}
	}
	return out
}

// Manifest is what belongs into git of a converted object.
func Manifest(o client.Object) map[string]any {
	data, err := json.Marshal(o)
	if err != nil { // API types always marshal
		panic(fmt.Sprintf("write manifest: %v", err))
	}
	var out map[string]any
	_ = json.Unmarshal(data, &out) // it was marshalled here
	delete(out, "status")
	kind := nwv1.KindDeploymentPolicy
	if _, ok := o.(*nwv1.NodeWright); ok {
		kind = nwv1.KindNodeWright
	}
	out["apiVersion"], out["kind"] = nwv1.GroupVersion.String(), kind
	metadata := map[string]any{"name": o.GetName()}
	if len(o.GetLabels()) > 0 {
		metadata["labels"] = o.GetLabels()
	}
	if len(o.GetAnnotations()) > 0 {
		metadata["annotations"] = o.GetAnnotations()
	}
	out["metadata"] = metadata
	return out
}
