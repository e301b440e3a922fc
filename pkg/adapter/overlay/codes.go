package overlay

// Codes of the findings.
const (
	codeAmbiguousValue  = "AmbiguousValue"
	codeBuildFailed     = "BuildFailed"
	codeCycle           = "KustomizationCycle"
	codeDeprecatedField = "DeprecatedField"
	codeDuplicateKey    = "DuplicateKey"
	codeDuplicateObject = "DuplicateObject"
	codeEmptyBuild      = "EmptyBuild"
	codeInvalidDocument = "InvalidDocument"
	codeInvalidField    = "InvalidField"
	codeInvalidKey      = "InvalidKey"
	codeInvalidYAML     = "InvalidYAML"
	codeListShrinks     = "ListShrinks"
	codeManyFiles       = "SeveralKustomizations"
	codeNoKustomization = "NoKustomization"
	codeOutside         = "PathOutside"
	codePatchNoMatch    = "PatchMatchesNothing"
	codePatchFailed     = "PatchFailed"
	codePathNotFound    = "PathNotFound"
	codeRefusedField    = "RefusedField"
	codeRemoteBase      = "RemoteBase"
	codeTooLarge        = "BuildTooLarge"
	codeUnknownField    = "UnknownField"
	codeUnreadableFile  = "UnreadableFile"
)
