package forge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Class says what a failed call means for the next one.
type Class string

const (
	// Retry: the same call may succeed later. Its effect is unknown, so read before writing again.
	Retry Class = "retry"
	// Wait: the forge asked for a pause of [ProviderError.RetryAfter]; nothing was written.
	Wait Class = "wait"
	// UnknownCommit: the forge does not have the commit, perhaps not yet. Give up after a few tries.
	UnknownCommit Class = "unknownCommit"
	// Permanent: the same call fails again until a person changes a credential, a setting or a limit.
	Permanent Class = "permanent"
	// AlreadyThere: the forge shows this status. Not a failure.
	AlreadyThere Class = "alreadyThere"
)

// ProviderError is the error of every call of a [Provider].
type ProviderError struct {
	// Class tells the caller how to go on.
	Class Class
	// Op is what was being done: "post status".
	Op string
	// Message is what went wrong, free of credentials.
	Message string
	// RetryAfter is how long to wait; 0 unless Class is Wait.
	RetryAfter time.Duration

	cause  error  // only context.Canceled or context.DeadlineExceeded: their text holds no secret
	code   int    // of the answer; 0 if there was none
	answer string // what the forge said in it
	quiet  bool   // nobody needs to know: we pace ourselves
}

// Error is `op: message`.
func (e *ProviderError) Error() string { return e.Op + ": " + e.Message }

// Unwrap gives the end of the context, if that was the cause. Other causes stay hidden, because their text may hold a credential.
func (e *ProviderError) Unwrap() error { return e.cause }

// ClassOf is the class of an error that a [Provider] returned; Retry for errors of unknown origin.
func ClassOf(err error) Class {
	var perr *ProviderError
	if errors.As(err, &perr) {
		return perr.Class
	}
	return Retry
}

func permanent(op, message string) *ProviderError {
	return &ProviderError{Class: Permanent, Op: op, Message: message}
}

// redactor removes the given secrets and the user part of URLs from texts. Empty secrets are ignored.
type redactor []string

// text returns s without secrets, on one line and not longer than 500 characters: server answers can be whole HTML pages.
func (r redactor) text(s string) string {
	for _, secret := range r {
		if secret == "" {
			continue
		}
		s = strings.ReplaceAll(s, secret, "***")
		s = strings.ReplaceAll(s, url.QueryEscape(secret), "***")
		s = strings.ReplaceAll(s, url.PathEscape(secret), "***")
	}
	s = report.Redact(s)
	return Truncate(strings.Join(strings.Fields(s), " "), 500)
}

// fail wraps err without its secrets. A context that ended stays visible to errors.Is.
func (r redactor) fail(class Class, op string, err error) *ProviderError {
	perr := &ProviderError{Class: class, Op: op, Message: r.text(err.Error())}
	var inner *ProviderError
	if errors.As(err, &inner) { // the transport's: nothing was sent
		perr.Class, perr.RetryAfter, perr.quiet, perr.Message = inner.Class, inner.RetryAfter, inner.quiet, inner.Message
	}
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, cause) {
			perr.Class, perr.cause = Retry, cause
		}
	}
	return perr
}

// classOfHTTP maps the status code of a forge's answer. 408, 425, 429 and every 5xx can pass; other 4xx do not.
func classOfHTTP(code int) Class {
	switch {
	case code == http.StatusTooManyRequests:
		return Wait
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500:
		return Retry
	}
	return Permanent
}

// defaultWait is used where a forge says "too many requests" without saying for how long (GitHub's documented minimum).
const defaultWait = time.Minute

// retryAfter reads the header Retry-After (RFC 9110 10.2.3): seconds or a date. 0 if it is absent, past or unreadable; never more than maxSilence, as a
// number that somebody got wrong must not end all reports for years.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(0, seconds), int(maxSilence/time.Second))) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, date.Sub(now)), maxSilence)
}

// httpFailure describes an answer that is not 2xx. A 503 with Retry-After is a request to wait, as a 429 is.
func (r redactor) httpFailure(op string, resp *http.Response, now time.Time) *ProviderError {
	perr := &ProviderError{Class: classOfHTTP(resp.StatusCode), Op: op, Message: fmt.Sprintf("server answered %s", statusText(resp.StatusCode))}
	if wait := waitOf(resp.Header); wait > 0 {
		perr.Class, perr.RetryAfter = Wait, wait
		return perr
	}
	pause := retryAfter(resp.Header, now)
	if perr.Class == Retry && pause > 0 {
		perr.Class = Wait
	}
	if perr.Class != Wait {
		return perr
	}
	perr.RetryAfter = pause
	if pause == 0 {
		perr.RetryAfter = defaultWait
	}
	return perr
}

func statusText(code int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
}
