// Package v1alpha1 holds the kinds NodeWright and DeploymentPolicy of the group nodewright.nvidia.com: field-compatible
// with NVIDIA's API, plus optional extensions that never change the meaning of a manifest without them (each says
// "Extension"). It also spells the metadata keys of that API, once. It imports nothing of this module.
//
// +kubebuilder:object:generate=true
// +groupName=nodewright.nvidia.com
package v1alpha1
