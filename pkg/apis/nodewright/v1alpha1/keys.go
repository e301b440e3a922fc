package v1alpha1

// Bounds that keep every derived metadata key and label value within Kubernetes' 63 characters.
const (
	// MaxNameLength bounds a NodeWright's name, so that `nodeState_<name>` is a valid annotation name.
	MaxNameLength = 53
	// MaxPackageNameLength bounds a package's name, as in NVIDIA's API.
	MaxPackageNameLength = 43
	// MaxPackageVersionLength bounds `<package>-<version>`, which is a label value.
	MaxPackageVersionLength = 63
)

// Annotations on a NodeWright. Only the exact value `true` counts; a change does not raise metadata.generation.
const (
	// PauseAnnotation stops the rollout, and every NodeWright behind it; running executions are suspended.
	PauseAnnotation = Group + "/pause"
	// DisableAnnotation skips the NodeWright; those behind it go on.
	DisableAnnotation = Group + "/disable"
)

// IgnoreLabel on a node, with the exact value `true`, keeps every NodeWright off it.
const IgnoreLabel = Group + "/ignore"

// TrueValue is the only value of PauseAnnotation, DisableAnnotation, IgnoreLabel and the cordon marks that counts.
const TrueValue = "true"

// Labels on execution pods, which NVIDIA's tools look for.
const (
	// NameLabel holds the NodeWright's name.
	NameLabel = Group + "/name"
	// PackageLabel holds `<package>-<version>`.
	PackageLabel = Group + "/package"
	// InterruptLabel is `True` on the pods of interrupts.
	InterruptLabel = Group + "/interrupt"
	// InterruptLabelValue is the one value of InterruptLabel.
	InterruptLabelValue = "True"
)

// The default runtime-required taint is `nodewright.nvidia.com=runtime-required:NoSchedule`.
const (
	RuntimeRequiredTaintKey   = Group
	RuntimeRequiredTaintValue = "runtime-required"
)

// RuntimeRequiredCordonAnnotation on a node marks the cordon that `runtimeRequiredCordonAfter` asks for.
const RuntimeRequiredCordonAnnotation = Group + "/runtimeRequiredCordon"

// LegacyGroup is the group, and the prefix of metadata keys, before the rename of Skyhook to NodeWright. It is read when a
// cluster is adopted and never written.
const LegacyGroup = "skyhook.nvidia.com"

// MirroredFromAnnotation on a NodeWright names the legacy object that NVIDIA's operator mirrored.
const MirroredFromAnnotation = Group + "/mirrored-from"

// Prefixes of the keys on a node that end in a NodeWright's name.
const (
	NodeStatePrefix    = Group + "/nodeState_"
	StatusPrefix       = Group + "/status_"
	VersionPrefix      = Group + "/version_"
	CordonPrefix       = Group + "/cordon_"
	DrainStartPrefix   = Group + "/drainStart_"
	DrainBlockedPrefix = Group + "/drainBlocked_"
	AutoTaintPrefix    = Group + "/autoTaint_"
)

// NodeStateKey is the annotation with the state of every package of a NodeWright on that node, as JSON.
func NodeStateKey(nodeWright string) string { return NodeStatePrefix + nodeWright }

// StatusKey is the annotation and the label with a NodeWright's Status on that node.
func StatusKey(nodeWright string) string { return StatusPrefix + nodeWright }

// VersionKey is the annotation with the version of the program that wrote the state.
func VersionKey(nodeWright string) string { return VersionPrefix + nodeWright }

// CordonKey is the annotation that says `true` while the NodeWright owns a cordon of that node.
func CordonKey(nodeWright string) string { return CordonPrefix + nodeWright }

// DrainStartKey is the annotation with the time (RFC 3339) since when the node is being drained.
func DrainStartKey(nodeWright string) string { return DrainStartPrefix + nodeWright }

// DrainBlockedKey is NVIDIA's annotation with the pods that block a drain. It is read and removed, never written: with
// a NodeWright's longest name it would not be a valid key.
func DrainBlockedKey(nodeWright string) string { return DrainBlockedPrefix + nodeWright }

// AutoTaintKey is the annotation that says that the node was tainted because it was new.
func AutoTaintKey(taintKey string) string { return AutoTaintPrefix + taintKey }

// NotReadyCondition is the type of NVIDIA's node condition that is True until the node is complete.
func NotReadyCondition(nodeWright string) string { return Group + "/" + nodeWright + "/NotReady" }

// ErroringCondition is the type of NVIDIA's node condition that is True while a package fails.
func ErroringCondition(nodeWright string) string { return Group + "/" + nodeWright + "/Erroring" }

// NodeStateEntry is the key of one package in the JSON of NodeStateKey.
func NodeStateEntry(name, version string) string { return name + "|" + version }

// PackageLabelValue is the value of PackageLabel.
func PackageLabelValue(name, version string) string { return name + "-" + version }
