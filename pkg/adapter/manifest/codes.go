package manifest

import (
	"slices"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Codes of findings. They are stable: documentation and filters refer to them.
const (
	CodeUnknownKind     = "UnknownKind"
	CodeInvalidDocument = "InvalidDocument"
	CodeDuplicateObject = "DuplicateObject"
	CodeUnknownField    = "UnknownField"
	CodeMissingField    = "MissingField"
	CodeInvalidType     = "InvalidType"
	CodeInvalidValue    = "InvalidValue"
	CodeInvalidMetadata = "InvalidMetadata"
	// CodeRule is a rule across fields of one object.
	CodeRule = "RuleBroken"

	CodeUnknownPolicy     = "UnknownPolicy"
	CodeUnknownPackage    = "UnknownPackage"
	CodeUnknownDependency = "UnknownDependency"
	CodeDependencyVersion = "DependencyVersion"
	CodeDependencyCycle   = "DependencyCycle"
	CodeConfigInterrupt   = "ConfigInterruptUnmatched"
	CodeSelectorNoMatch   = "SelectorMatchesNothing"
	CodeSharedPackage     = "SharedPackage"
	CodeImageScope        = "ImageOutOfScope"
	CodeInterruptScope    = "InterruptOutOfScope"
	CodeDigestRequired    = "DigestRequired"
	CodeWindow            = "InvalidWindow"
	CodeSameSelector      = "SameSelector"
	// CodeTooLarge is an object or a package that the cluster cannot store.
	CodeTooLarge = "ObjectTooLarge"
)

// DependsOnCluster says that a finding is about what other sources bring to the cluster, so that it may come and go although
// the files stay as they are.
func DependsOnCluster(f finding.Finding) bool { return slices.Contains(clusterCodes, f.Code) }

var clusterCodes = []string{
	CodeUnknownPolicy, CodeUnknownPackage, CodeUnknownDependency, CodeDependencyVersion, CodeDependencyCycle, CodeConfigInterrupt,
	CodeImageScope, CodeInterruptScope, CodeDigestRequired,
}
