package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Package is a reusable entry of the catalogue, which NodeWrights name by packageRef. Its content must not change without
// a new version or digest.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=packages,singular=package,shortName=fwpkg,categories=fleetwright
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Interrupt",type=string,JSONPath=`.spec.interrupt.type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Package struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what people want.
	Spec PackageSpec `json:"spec"`
}

// PackageList is a list of Packages.
//
// +kubebuilder:object:root=true
type PackageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Package `json:"items"`
}

// PackageSpec has the fields of a NodeWright's package entry, with the same meaning.
type PackageSpec struct {
	// Image is the package's container image without tag and digest; `version` is the tag. Set by people. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^\\\\s/@]+/)*[^\\\\s/@:]+$')",message="must be an image name without tag and digest; the tag is the field version, a digest goes into containerSHA"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^\\\\s/@]+/)*[^\\\\s/@:]+$') || self.matches('^(([a-zA-Z0-9]([-.a-zA-Z0-9]*[a-zA-Z0-9])?|[[][0-9a-fA-F:]+[]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*$')",message="must be [host[:port]/]path, the path in lower-case letters and digits, with . _ or - between them"
	Image string `json:"image"`

	// Version is a semantic version, also the image's tag. Set by people. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?(0|[1-9][0-9]*)([.](0|[1-9][0-9]*)([.](0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)([.](0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?)?)?$')",message="must be a semantic version without build metadata, such as 1.4.0 or 1.4.0-rc1"
	Version string `json:"version"`

	// ContainerSHA pins the image: `image@containerSHA` is pulled instead of `image:version`. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	ContainerSHA string `json:"containerSHA,omitempty"`

	// Env is the environment of the package's stages and checks, not of interrupts. Set by people. Default none.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// ConfigMap holds the package's configuration files by name. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 253 && k.matches('^[-._a-zA-Z0-9]+$'))",message="a configMap key must have 1 to 253 letters, digits, dots, hyphens or underscores"
	ConfigMap map[string]string `json:"configMap,omitempty"`

	// Interrupt is what the node needs before a new or changed version takes effect. Set by people. Default none.
	// +optional
	Interrupt *nwv1.Interrupt `json:"interrupt,omitempty"`

	// ConfigInterrupts is what the node needs after a change of a configMap key; `*` in a key stands for any run of
	// characters. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	ConfigInterrupts map[string]nwv1.Interrupt `json:"configInterrupts,omitempty"`

	// DependsOn names packages of the same NodeWright that must be complete on a node first, with their exact versions.
	// Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) > 0)",message="each entry needs the exact version of the package that it depends on"
	DependsOn map[string]string `json:"dependsOn,omitempty"`

	// Resources of each execution container. Set by people. Default none: no requests and no limits.
	// +optional
	Resources *nwv1.ResourceRequirements `json:"resources,omitempty"`

	// GracefulShutdown is how long a running stage may go on after it was told to stop, in whole seconds (fractions
	// round up). Set by people. Default: Kubernetes' 30s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	GracefulShutdown *metav1.Duration `json:"gracefulShutdown,omitempty"`

	// StageTimeout bounds one stage on one node; a stage that outlasts it has failed. Set by people. Default 1h. Zero means
	// no bound.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	StageTimeout *metav1.Duration `json:"stageTimeout,omitempty"`

	// SkipIfSatisfied runs the package's checks first, before the node is cordoned: if they say that the wanted state is there
	// already, nothing is installed and nothing interrupted. Its checks must prove the whole state. Set by people. Default
	// false. Extension.
	// +optional
	SkipIfSatisfied *bool `json:"skipIfSatisfied,omitempty"`

	// Uninstall says whether the package's uninstall stage can run. Set by people. Default: it cannot.
	// +optional
	Uninstall *PackageUninstall `json:"uninstall,omitempty"`
}

// PackageUninstall says whether a package's uninstall stage can run. When it runs is up to the NodeWright.
type PackageUninstall struct {
	// Enabled says that a removal or downgrade runs the uninstall stage. Set by people. Default false: files stay.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`
}
