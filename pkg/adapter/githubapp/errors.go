package githubapp

import "fmt"

// Reason is a stable word for a kind of failure; the words are those of the git adapter.
type Reason string

// Reasons of an Error.
const (
	ReasonAuthenticationFailed Reason = "AuthenticationFailed"
	ReasonInsecureURL          Reason = "InsecureURL"
	ReasonInvalidSecret        Reason = "InvalidSecret"
	ReasonUnreachable          Reason = "Unreachable"
	ReasonUnexpectedAnswer     Reason = "UnexpectedAnswer"
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

// invalid drops the causes on purpose: parsers like to quote what they read.
func invalid(format string, args ...any) *Error {
	return failure(ReasonInvalidSecret, "the Secret "+format, args...)
}
