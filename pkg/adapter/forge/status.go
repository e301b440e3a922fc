package forge

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// State is what a commit status says. Each provider maps it to its own words.
type State string

const (
	// Pending means the work on this commit has not ended.
	Pending State = "pending"
	// Success means that every targeted node is complete at this commit.
	Success State = "success"
	// Failure means that the commit itself or its rollout failed: only a new commit or a person cures it.
	Failure State = "failure"
	// Error means that the outcome is unknown: something could not be reached, or the commit was superseded.
	Error State = "error"
)

// Final reports whether no further work is expected at this state.
func (s State) Final() bool { return s != Pending }

// Status is what one commit shows under one context.
type Status struct {
	// Commit is the full hexadecimal hash. Required: without it nothing is sent.
	Commit string
	// Context names who speaks, for example fleetwright/us-east-1. Required; contexts of two clusters must differ.
	Context string
	// State is one of Pending, Success, Failure, Error. Required.
	State State
	// Description is one line of text. It is cut to [Capabilities.DescriptionLimit] before it is sent.
	Description string
	// TargetURL is where a reader finds more. Optional. One that is longer than the forge takes is left out.
	TargetURL string
	// Ref is the name of the branch or tag through which the commit was found, or of the ref of a pull request. Some forges
	// keep statuses by commit and ref. Optional; it is not shown, and not read back.
	Ref string
	// Pull is the pull request that the status is about; 0: none. Forges that keep statuses of pull requests use it.
	Pull int64
	// At is when the forge took it; the zero time where it does not say. It is read only.
	At time.Time
}

// Same says whether two statuses show a reader the same.
func (s Status) Same(other Status) bool { return s.shown() == other.shown() }

func (s Status) shown() Status {
	s.Ref, s.Pull, s.At = "", 0, time.Time{}
	return s
}

// Provider reads and writes commit statuses of one repository. Calls may block on the network and end with their context.
// Errors are of type [*ProviderError] and contain no credential.
type Provider interface {
	// SetStatus makes the status the newest of its context on its commit. Repeating it is harmless but may add a row on the
	// forge, so callers compare first.
	SetStatus(ctx context.Context, s Status) error
	// Statuses returns the newest status of each context on the commit, whoever wrote it, ordered by context. A commit without
	// any is no error.
	Statuses(ctx context.Context, commit string) ([]Status, error)
	// Capabilities are constant for a provider.
	Capabilities() Capabilities
}

// Capabilities are the limits of a forge that callers must respect.
type Capabilities struct {
	// DescriptionLimit is the longest description in characters; 0 means no limit.
	DescriptionLimit int
	// ContextLimit is the longest context in characters; 0 means no limit.
	ContextLimit int
	// URLLimit is the longest target URL in bytes; 0 means no limit.
	URLLimit int
	// LiveText says whether the text of a status can change while its state stays.
	LiveText bool
}

// DefaultDescriptionLimit is GitHub's limit, the smallest of the known forges. A description of that length fits everywhere.
const DefaultDescriptionLimit = 140

var commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Validate says in one sentence what is missing or wrong. Its error is a permanent [*ProviderError].
func (s Status) Validate() error {
	switch {
	case s.Commit == "":
		return permanent("check status", "no commit: the revision is not known yet")
	case !commitPattern.MatchString(s.Commit):
		return permanent("check status", fmt.Sprintf("commit %q is not a full hash (allowed: 40 or 64 hexadecimal digits)", s.Commit))
	case strings.TrimSpace(s.Context) == "":
		return permanent("check status", "no context (allowed: a name such as fleetwright/us-east-1)")
	}
	switch s.State {
	case Pending, Success, Failure, Error:
		return nil
	}
	return permanent("check status", fmt.Sprintf("unknown state %q (allowed: pending, success, failure, error)", s.State))
}

// Fit returns the status as the provider can show it: one line, and not longer than the limit.
func (c Capabilities) Fit(s Status) Status {
	s.Description = Truncate(strings.Join(strings.Fields(s.Description), " "), c.DescriptionLimit)
	if c.URLLimit > 0 && len(s.TargetURL) > c.URLLimit {
		s.TargetURL = ""
	}
	return s
}

// Truncate cuts text to at most limit characters (not bytes) and marks the cut with an ellipsis, which counts as one of them.
// A limit of 0 or less means no limit. Invalid UTF-8 becomes U+FFFD, because forges refuse it.
func Truncate(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	runes := []rune(text)
	if limit <= 0 || len(runes) <= limit {
		return text
	}
	return strings.TrimRight(string(runes[:limit-1]), " ") + "…"
}
