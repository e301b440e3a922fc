package manifest

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
	// CodeNotSupported is a field that this version does not act on.
	CodeNotSupported = "NotSupported"
)
