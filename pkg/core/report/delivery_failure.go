package report

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Failure is why the last attempt to deliver a revision did not end well. It is an error, so that a step can return it.
type Failure struct {
	// Reason is a stable word, one of this package's or of the git adapter's.
	Reason string
	// Message is one sentence for a user, without credentials.
	Message string
	// Stalled says that only a new commit or another Fleet cures it. Otherwise it is tried again.
	Stalled bool
	// Revision that failed; empty if the failure says nothing about a commit, as when the server cannot be reached.
	Revision string
}

// Error is the message.
func (f *Failure) Error() string { return f.Message }

// commitReasons are the reasons that speak about the attempted revision itself.
var commitReasons = []string{
	ReasonBuildFailed, ReasonValidationFailed, ReasonEmptyBuild, ReasonRefused, ReasonOwnedByOther, ReasonApplyFailed, ReasonAccountForbidden, ReasonPruneFailed,
	ReasonSignatureMissing, ReasonSignatureKeyUnknown, ReasonSignatureInvalid,
}

// rolloutReasons are reasons of Ready that are derived anew from the NodeWrights.
var rolloutReasons = []string{ReasonSucceeded, ReasonProgressing, ReasonHalted, ReasonRolloutFailed, ReasonSuspended, ReasonWaitingForPromotion}

// Remembered reads the last attempt's failure back from the conditions that were written for it; nil if it did not fail.
func Remembered(status fleetv1.FleetStatus) *Failure {
	ready := condition(status.Conditions, "Ready")
	if ready == nil || ready.Status != metav1.ConditionFalse || slices.Contains(rolloutReasons, ready.Reason) {
		return nil
	}
	f := &Failure{Reason: ready.Reason, Message: ready.Message, Stalled: condition(status.Conditions, "Stalled") != nil}
	if slices.Contains(commitReasons, f.Reason) {
		f.Revision = status.LastAttemptedRevision
	}
	return f
}

// RememberedSignatures reads back what SourceVerified says about the attempted revision; empty where it is about something else.
func RememberedSignatures(fleet *fleetv1.Fleet) string {
	c := condition(fleet.Status.Conditions, ConditionSourceVerified)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != fleet.Generation {
		return ""
	}
	text, ok := strings.CutPrefix(c.Message, ShortRevision(fleet.Status.LastAttemptedRevision)+": ")
	if !ok {
		return ""
	}
	return text
}

func condition(conditions []metav1.Condition, kind string) *metav1.Condition {
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// Refusal is the failure that findings cause; nil if none of them is an error.
func Refusal(reason, revision string, findings []finding.Finding) *Failure {
	var first string
	errors := 0
	for _, f := range findings {
		if f.Severity != finding.Error {
			continue
		}
		if errors++; errors == 1 {
			first = f.String()
		}
	}
	more := ""
	switch errors {
	case 0:
		return nil
	case 1:
	default:
		more = fmt.Sprintf(" (and %d more)", errors-1)
	}
	return &Failure{Reason: reason, Message: Cut(Redact(first), MaxMessage-len(more)) + more, Stalled: true, Revision: revision}
}

// EmptyBuild is the failure of a path that yields no objects. What is in the cluster stays: an empty build is more often a
// mistake than a wish.
func EmptyBuild(path, revision string, owned int) *Failure {
	message := fmt.Sprintf("path %q yields no objects", path)
	if owned > 0 {
		message += fmt.Sprintf("; the %d objects of this Fleet are kept: delete the Fleet with deletionPolicy Prune to remove them", owned)
	}
	return &Failure{Reason: ReasonEmptyBuild, Message: message, Stalled: true, Revision: revision}
}

// StatusFindings are the first findings as a status shows them, errors before warnings.
func StatusFindings(findings []finding.Finding) []fleetv1.Finding {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b finding.Finding) int {
		return rank(a.Severity) - rank(b.Severity)
	})
	var out []fleetv1.Finding
	for _, f := range sorted[:min(len(sorted), fleetv1.MaxStatusFindings)] {
		out = append(out, statusFinding(f))
	}
	return out
}

func rank(s finding.Severity) int {
	if s == finding.Error {
		return 0
	}
	return 1
}

func statusFinding(f finding.Finding) fleetv1.Finding {
	message := f.Message
	if f.Field != "" {
		message = f.Field + ": " + message
	}
	if f.Allowed != "" {
		message += " (allowed: " + f.Allowed + ")"
	}
	return fleetv1.Finding{
		Code: f.Code, Message: Cut(Redact(message), MaxMessage), File: Cut(f.File, maxPlace), Line: int32(f.Line),
		Object: Cut(f.Object(), maxPlace),
	}
}

// MaxMessage is the longest sentence of a condition and of a finding in a status, in bytes. People choose the names in
// them: without a limit one long name would make a status that the API server refuses (32768 for a condition, about 1.5 MiB
// for the object).
const MaxMessage = 2048

// maxPlace is the longest file or object name of a finding in a status, in bytes.
const maxPlace = 512

// Cut shortens a text to at most limit bytes, at the border of a character, and marks the cut with an ellipsis.
func Cut(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, limit-len(mark))], "") + mark
}

// Unsupported says which fields of a Fleet this release cannot honour. Such a Fleet is refused as a whole: to apply a commit
// although a promise about it cannot be kept would be worse than to do nothing.
func Unsupported(spec fleetv1.FleetSpec) *Failure {
	var fields []string
	if c := spec.Checks; c != nil {
		if pulls := unsupportedPulls(spec); pulls != "" {
			fields = append(fields, pulls)
		}
		if !CanWrite(c.Provider) {
			fields = append(fields, fmt.Sprintf("spec.checks.provider %s (allowed: %s)", c.Provider, Providers()))
		}
		if strings.HasSuffix(c.Context, PlanSuffix) { // another Fleet's plans may be written under it
			fields = append(fields, fmt.Sprintf("spec.checks.context %q (it must not end in %s, as the contexts of plans do)", c.Context, PlanSuffix))
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return &Failure{
		Reason: ReasonUnsupported, Stalled: true,
		Message: "this release does not support " + strings.Join(fields, ", ") + "; nothing is fetched or applied until it is removed",
	}
}

// CanWrite says whether this release writes commit statuses to servers of that kind.
func CanWrite(provider fleetv1.ForgeProvider) bool { return slices.Contains(providers, provider) }

// Providers are the names of those kinds, as people read them.
func Providers() string {
	var names []string
	for _, p := range providers {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

var providers = []fleetv1.ForgeProvider{
	fleetv1.ProviderGitHub, fleetv1.ProviderGitLab, fleetv1.ProviderGitea, fleetv1.ProviderBitbucket, fleetv1.ProviderAzureDevOps, fleetv1.ProviderGitNotes,
}
