package git

import (
	"fmt"
)

// Reason is a stable word for a kind of failure, fit for a condition and a metric's label.
type Reason string

// Reasons of an Error. Those above the blank line are cured by a change of the Fleet, its Secret or the repository; the ones
// below may be cured by time.
const (
	ReasonAuthenticationFailed Reason = "AuthenticationFailed"
	ReasonCertificateUnknown   Reason = "CertificateUnknown"
	ReasonCommitNotFound       Reason = "CommitNotFound"
	ReasonEmptyRepository      Reason = "EmptyRepository"
	ReasonFileIsLFSPointer     Reason = "FileIsLFSPointer"
	ReasonFileIsLink           Reason = "FileIsLink"
	ReasonFileIsSubmodule      Reason = "FileIsSubmodule"
	ReasonHostKeyMismatch      Reason = "HostKeyMismatch"
	ReasonHostKeyUnknown       Reason = "HostKeyUnknown"
	ReasonInsecureURL          Reason = "InsecureURL"
	ReasonInvalidRef           Reason = "InvalidRef"
	ReasonInvalidSecret        Reason = "InvalidSecret"
	ReasonInvalidTree          Reason = "InvalidTree"
	ReasonRefNotFound          Reason = "RefNotFound"
	ReasonRepositoryNotFound   Reason = "RepositoryNotFound"
	ReasonSignatureInvalid     Reason = "SignatureInvalid"
	ReasonSignatureKeyUnknown  Reason = "SignatureKeyUnknown"
	ReasonSignatureMissing     Reason = "SignatureMissing"
	ReasonSubmoduleElsewhere   Reason = "SubmoduleElsewhere"
	ReasonSubmoduleInvalid     Reason = "SubmoduleInvalid"
	ReasonTooLarge             Reason = "TooLarge"
	ReasonUnsupportedURL       Reason = "UnsupportedURL"

	ReasonCanceled         Reason = "Canceled"
	ReasonPackDamaged      Reason = "PackDamaged"
	ReasonRefMoved         Reason = "RefMoved"
	ReasonTimeout          Reason = "Timeout"
	ReasonUnexpectedAnswer Reason = "UnexpectedAnswer"
	ReasonUnreachable      Reason = "Unreachable"
)

// Error is what every function of this package returns: a reason and one sentence for a user. It never holds a credential.
type Error struct {
	Reason  Reason
	Message string
	// Err is the cause, for errors.Is; its text is not for users.
	Err error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failure(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (e *Error) because(err error) *Error {
	e.Err = err
	return e
}
