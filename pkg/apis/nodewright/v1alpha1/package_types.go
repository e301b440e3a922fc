package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Package is one piece of software or configuration that a NodeWright puts on its nodes. The map key is its name.
//
// +kubebuilder:validation:XValidation:rule="has(self.packageRef) || has(self.version)",message="version is required, unless packageRef takes it from the catalogue"
// +kubebuilder:validation:XValidation:rule="has(self.packageRef) || has(self.image)",message="image is required, unless packageRef takes it from the catalogue"
type Package struct {
	// Name of the package. Set by people, or left out: it can only repeat the map key.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	Name string `json:"name,omitempty"`

	// Version of the package: a semantic version (`1.4.0`, `1.4.0-rc1`; `1.4` counts as `1.4.0`), also the image's tag.
	// Set by people. Required, unless packageRef supplies it. A higher version than the installed one is an upgrade, a
	// lower one a downgrade. Build metadata (`+...`) is refused, because the version becomes part of label values.
	// +optional
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?(0|[1-9][0-9]*)([.](0|[1-9][0-9]*)([.](0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)([.](0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?)?)?$')",message="must be a semantic version without build metadata, such as 1.4.0 or 1.4.0-rc1"
	Version string `json:"version,omitempty"`

	// Image is the package's container image without tag and digest; `version` is the tag. Set by people. Required,
	// unless packageRef supplies it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^\\\\s/@]+/)*[^\\\\s/@:]+$')",message="must be an image name without tag and digest; the tag is the field version, a digest goes into containerSHA"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^\\\\s/@]+/)*[^\\\\s/@:]+$') || self.matches('^(([a-zA-Z0-9]([-.a-zA-Z0-9]*[a-zA-Z0-9])?|[[][0-9a-fA-F:]+[]])(:[0-9]+)?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*$')",message="must be [host[:port]/]path, the path in lower-case letters and digits, with . _ or - between them"
	Image string `json:"image,omitempty"`

	// ContainerSHA pins the image: `image@containerSHA` is pulled instead of `image:version`. Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	ContainerSHA string `json:"containerSHA,omitempty"`

	// AgentImageOverride is the full reference, with tag, of the agent's image for this package. Set by people.
	// Default: the reconciler's agent image.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	AgentImageOverride string `json:"agentImageOverride,omitempty"`

	// PackageRef takes image, version and everything else from a Package of the catalogue; fields of this entry
	// override, maps merge by key, env by name. Set by people. Default none. Extension.
	// +optional
	PackageRef *PackageReference `json:"packageRef,omitempty"`

	// Interrupt is what the node needs before a new or changed version takes effect. Set by people. Default none:
	// nothing is cordoned, drained or restarted.
	// +optional
	Interrupt *Interrupt `json:"interrupt,omitempty"`

	// DependsOn names packages of the same NodeWright that must be complete on a node first, with their exact versions.
	// Set by people. Default none.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) > 0)",message="each entry needs the exact version of the package that it depends on"
	DependsOn map[string]string `json:"dependsOn,omitempty"`

	// ConfigInterrupts is what the node needs after a change of a configMap key; the key is a configMap key, or a
	// pattern in which `*` stands for any run of characters. Set by people. Default none: a changed key without an entry
	// interrupts nothing.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	ConfigInterrupts map[string]Interrupt `json:"configInterrupts,omitempty"`

	// ConfigMap holds the package's configuration files by name. A change runs the config stage again. Set by people.
	// Default none.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 253 && k.matches('^[-._a-zA-Z0-9]+$'))",message="a configMap key must have 1 to 253 letters, digits, dots, hyphens or underscores"
	ConfigMap map[string]string `json:"configMap,omitempty"`

	// Env is the environment of the package's stages and checks, not of interrupts. Set by people. Default none.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Resources of each execution container. Set by people. Default none: no requests and no limits.
	// +optional
	Resources *ResourceRequirements `json:"resources,omitempty"`

	// GracefulShutdown is how long a running stage may go on after it was told to stop, in whole seconds (fractions
	// round up). Set by people. Default: Kubernetes' 30s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	GracefulShutdown *metav1.Duration `json:"gracefulShutdown,omitempty"`

	// StageTimeout bounds one stage on one node; a stage that outlasts it has failed. Set by people. Default: the
	// reconciler's --stage-timeout (1h). Zero means no bound.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +kubebuilder:validation:Type=string
	StageTimeout *metav1.Duration `json:"stageTimeout,omitempty"`

	// SkipIfSatisfied runs the package's checks first, before the node is cordoned: if they say that the wanted state is there
	// already, nothing is installed and nothing interrupted. Its checks must prove the whole state. Set by people. Default
	// false. Extension.
	// +optional
	SkipIfSatisfied *bool `json:"skipIfSatisfied,omitempty"`

	// Uninstall says whether, and when, the package's uninstall stage runs. Set by people. Default: never.
	// +optional
	Uninstall *Uninstall `json:"uninstall,omitempty"`
}

// PackageReference names a Package (fleetwright.dev) of the catalogue.
type PackageReference struct {
	// Name of the Package object. Set by people. Required.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Interrupt is what has to happen to a node before a change takes effect.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'service' || (has(self.services) && size(self.services) > 0)",message="an interrupt of type service needs at least one entry in services"
// +kubebuilder:validation:XValidation:rule="self.type == 'service' || !has(self.services) || size(self.services) == 0",message="only an interrupt of type service takes services; leave them out",fieldPath=".services"
type Interrupt struct {
	// Type of the interrupt. Set by people. Required. `service` restarts the systemd units in services,
	// `restartAllServices` all of them, `reboot` the machine, `noop` nothing (but the node is cordoned and drained).
	Type InterruptType `json:"type"`

	// Services are the names of the systemd units that an interrupt of type `service` restarts, with or without `.service`.
	// Set by people. Required for that type, refused for the others.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:Pattern=`^[a-zA-Z0-9:_.@\\][a-zA-Z0-9:_.@\\-]*$`
	Services []string `json:"services,omitempty"`
}

// ResourceRequirements of each execution container: all four, or none.
//
// +kubebuilder:validation:XValidation:rule="(has(self.cpuRequest) && has(self.cpuLimit) && has(self.memoryRequest) && has(self.memoryLimit)) || (!has(self.cpuRequest) && !has(self.cpuLimit) && !has(self.memoryRequest) && !has(self.memoryLimit))",message="set all of cpuRequest, cpuLimit, memoryRequest and memoryLimit, or none of them"
// +kubebuilder:validation:XValidation:rule="!has(self.cpuRequest) || quantity(string(self.cpuRequest)).isGreaterThan(quantity('0'))",message="must be more than zero",fieldPath=".cpuRequest"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryRequest) || quantity(string(self.memoryRequest)).isGreaterThan(quantity('0'))",message="must be more than zero",fieldPath=".memoryRequest"
// +kubebuilder:validation:XValidation:rule="!has(self.cpuRequest) || !has(self.cpuLimit) || quantity(string(self.cpuLimit)).compareTo(quantity(string(self.cpuRequest))) >= 0",message="must be at least cpuRequest",fieldPath=".cpuLimit"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryRequest) || !has(self.memoryLimit) || quantity(string(self.memoryLimit)).compareTo(quantity(string(self.memoryRequest))) >= 0",message="must be at least memoryRequest",fieldPath=".memoryLimit"
type ResourceRequirements struct {
	// CPURequest is the CPU that is reserved, in cores (`500m`). Set by people. More than zero.
	// +optional
	CPURequest resource.Quantity `json:"cpuRequest,omitzero"`
	// CPULimit is the CPU that may be used, in cores. Set by people. At least cpuRequest.
	// +optional
	CPULimit resource.Quantity `json:"cpuLimit,omitzero"`
	// MemoryRequest is the memory that is reserved, in bytes (`512Mi`). Set by people. More than zero.
	// +optional
	MemoryRequest resource.Quantity `json:"memoryRequest,omitzero"`
	// MemoryLimit is the memory that may be used, in bytes. Set by people. At least memoryRequest.
	// +optional
	MemoryLimit resource.Quantity `json:"memoryLimit,omitzero"`
}

// Uninstall says whether, and when, a package's uninstall stage runs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.apply) || !self.apply || (has(self.enabled) && self.enabled)",message="apply needs enabled: true",fieldPath=".apply"
type Uninstall struct {
	// Enabled says that the package can be uninstalled: a removal or downgrade in the manifest then runs its uninstall
	// stage with the configuration that was installed. Set by people. Default false: files stay on the host.
	// +optional
	// +kubebuilder:default=false
	Enabled bool `json:"enabled,omitempty"`

	// Apply uninstalls the package now and keeps it absent; false installs it again. Set by people. Default false.
	// +optional
	// +kubebuilder:default=false
	Apply bool `json:"apply,omitempty"`
}
