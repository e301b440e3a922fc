package delivery

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/reconciler"
)

// renderer builds and validates, as the command line does, with what the cluster knows.
type renderer struct {
	validator *manifest.Validator
	reader    client.Reader
}

// Render builds the Fleet's path.
func (r renderer) Render(ctx context.Context, fleet *fleetv1.Fleet, tree reconciler.Tree) (reconciler.Rendered, error) {
	known, err := r.known(ctx, fleet)
	if err != nil {
		return reconciler.Rendered{}, err
	}
	result := render.Overlay(r.validator, tree, fleet.Spec.Path, known)
	out := reconciler.Rendered{
		Built: result.Objects != nil, Findings: result.Findings, Provisional: slices.ContainsFunc(result.Findings, manifest.DependsOnCluster),
	}
	for _, o := range result.Objects {
		object, err := decode(o)
		if err != nil {
			return out, err
		}
		out.Objects = append(out.Objects, object)
	}
	return out, nil
}

// decode makes an object as it is applied. kustomize's namespace field reaches every object, and none of the kinds of a fleet
// has a namespace: with it, the same object would stand in the inventory under another name, and be pruned under the old one.
func decode(o overlay.Object) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(o.JSON); err != nil {
		return nil, fmt.Errorf("decode %s/%s: %w", o.Kind, o.Name, err)
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[fleetv1.OriginAnnotation] = o.Origin
	object.SetAnnotations(annotations)
	object.SetNamespace("")
	for _, field := range []string{"creationTimestamp", "generation", "selfLink"} { // an export has them; the server ignores them
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return object, nil
}

// known is what validation may use of the cluster: the nodes' labels, and the objects that do not come from this Fleet.
func (r renderer) known(ctx context.Context, fleet *fleetv1.Fleet) (manifest.Options, error) {
	out := manifest.Options{Scope: fleet.Spec.Scope}
	var nodes corev1.NodeList
	var policies nwv1.DeploymentPolicyList
	var packages fleetv1.PackageList
	for _, list := range []client.ObjectList{&nodes, &policies, &packages} {
		if err := r.reader.List(ctx, list); err != nil {
			return out, fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range nodes.Items {
		out.Nodes = append(out.Nodes, nodes.Items[i].Labels)
	}
	for i := range policies.Items {
		out.Elsewhere.DeploymentPolicies = foreign(fleet, out.Elsewhere.DeploymentPolicies, &policies.Items[i])
	}
	for i := range packages.Items {
		out.Elsewhere.Packages = foreign(fleet, out.Elsewhere.Packages, &packages.Items[i])
	}
	return out, nil
}

// foreign appends an object unless it is the Fleet's own: what a commit takes away must not count as there.
func foreign[T client.Object](fleet *fleetv1.Fleet, list []T, object T) []T {
	labels := object.GetLabels()
	if labels[fleetv1.FleetNameLabel] == fleet.Name && labels[fleetv1.FleetNamespaceLabel] == fleet.Namespace {
		return list
	}
	return append(list, object)
}
