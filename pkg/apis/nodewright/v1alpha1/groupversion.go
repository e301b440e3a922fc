package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group, and also the prefix of this API's metadata keys.
const Group = "nodewright.nvidia.com"

// Kinds of this group.
const (
	KindNodeWright       = "NodeWright"
	KindDeploymentPolicy = "DeploymentPolicy"
)

// GroupVersion identifies this version of the API.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error { return schemeBuilder.AddToScheme(s) }

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodeWright{}, &NodeWrightList{}, &DeploymentPolicy{}, &DeploymentPolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
