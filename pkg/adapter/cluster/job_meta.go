package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// metadataFiles are what a package finds below node-metadata (NVIDIA's names), and the annotation of the pod that each
// comes from: no ConfigMap per node is written.
var metadataFiles = []struct{ name, annotation string }{
	{"annotations.json", nodeAnnotationsAnnotation},
	{"labels.json", nodeLabelsAnnotation},
	{"packages.json", packagesAnnotation},
}

// maxNodeAnnotations bounds the copy of a node's annotations: all annotations of a pod together may have 256 KiB.
const maxNodeAnnotations = 64 << 10

func podAnnotations(spec plan.ExecutionSpec, node *corev1.Node, meta metav1.ObjectMeta) map[string]string {
	out := maps.Clone(meta.Annotations)
	if spec.Phase == plan.PhaseInterrupt {
		return out // no package reads it
	}
	out[nodeLabelsAnnotation] = toJSON(node.Labels)
	out[nodeAnnotationsAnnotation] = toJSON(foreignAnnotations(node.Annotations))
	out[packagesAnnotation] = toJSON(packagesFile(spec.Definition))
	return out
}

// foreignAnnotations are the node's own without ours, which change with every step; too many are left out entirely.
func foreignAnnotations(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	size := 0
	for k, v := range in {
		if !ownKey(k) {
			out[k] = v
			size += len(k) + len(v)
		}
	}
	if size > maxNodeAnnotations {
		return map[string]string{}
	}
	return out
}

// packagesFile names the package that is being run.
func packagesFile(p desired.Package) any {
	type entry struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Image   string `json:"image"`
	}
	return map[string]any{"packages": map[string]entry{p.Name: {p.Name, p.Version, p.Image}}}
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("write node metadata: %v", err))
	}
	if string(data) == "null" {
		return "{}"
	}
	return string(data)
}

// configMapName names the immutable ConfigMap with a package's configuration: one for each NodeWright (by UID), package
// and content, so that two NodeWrights with a package of the same name share nothing. The one of a deletion is another one, as
// the one before it has an owner and may be deleted at any moment.
func configMapName(spec plan.ExecutionSpec) string {
	parts := []string{string(spec.NodeWrightUID), spec.Definition.Name, spec.Definition.ConfigHash}
	if spec.Unowned {
		parts = append(parts, "unowned")
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return "fw-config-" + hex.EncodeToString(sum[:])[:24]
}

// buildConfigMap is that ConfigMap.
func buildConfigMap(spec plan.ExecutionSpec, namespace string) *corev1.ConfigMap {
	immutable := true
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: configMapName(spec), Namespace: namespace,
			Labels: map[string]string{
				fleetv1.ManagedByLabel: fleetv1.FieldManager, configMapLabel: spec.Definition.ConfigHash,
				fleetv1.PackageNameLabel: spec.Definition.Name,
			},
			OwnerReferences: ownersOf(spec),
		},
		Immutable: &immutable, Data: spec.Definition.ConfigMap,
	}
}

// buildSnapshot is the immutable copy of what was installed, which an uninstall or a downgrade reads later. It has no
// owner: it outlives the NodeWright while a record names it.
func buildSnapshot(p desired.Package, namespace string) *corev1.ConfigMap {
	immutable := true
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: fleetv1.SnapshotPrefix + p.SnapshotHash, Namespace: namespace,
			Labels: map[string]string{
				fleetv1.ManagedByLabel: fleetv1.FieldManager, fleetv1.SnapshotLabel: p.SnapshotHash,
			},
		},
		Immutable: &immutable, Data: map[string]string{snapshotKey: toJSON(p)},
	}
}
