package report

import (
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Delivery is everything that a Fleet's conditions and commit statuses are made from. Equal values give equal words.
type Delivery struct {
	// Generation of the Fleet that the report is about.
	Generation int64
	// Attempted, Applied and LastRolledOut are revisions as the status holds them; empty if there is none.
	Attempted, Applied, LastRolledOut string
	// Suspended says that nothing is fetched or applied now.
	Suspended bool
	// Working says what the pass is doing with a new revision; empty once it ended.
	Working string
	// Failure of the last attempt; nil if it did not fail.
	Failure *Failure
	// SignedBy says whose signatures on the attempted revision were verified; empty where none are demanded or nothing is known.
	SignedBy string
	// NodeWrights of the inventory.
	NodeWrights []NodeWrightView
	// Waiting says what the attempted revision waits for before it is applied (package promotion); empty if for nothing.
	Waiting string
	// ByHand says that a person let the applied revision through.
	ByHand bool
	// Open are the commits that were left without a final status, oldest first.
	Open []string
}

// Conditions are Ready, Reconciling or Stalled where they are true, and SourceVerified where signatures are demanded, without
// times. Ready comes first. Ready is True only when the revision is applied and every NodeWright is complete at it; never together
// with Reconciling or Stalled.
func (d Delivery) Conditions() []metav1.Condition {
	out := d.verdict()
	switch {
	case d.Failure != nil && slices.Contains(signatureReasons, d.Failure.Reason):
		out = append(out, d.condition(ConditionSourceVerified, metav1.ConditionFalse, d.Failure.Reason, d.Failure.Message))
	case d.SignedBy != "":
		message := ShortRevision(d.Attempted) + ": " + d.SignedBy
		out = append(out, d.condition(ConditionSourceVerified, metav1.ConditionTrue, meta.SucceededReason, message))
	}
	return out
}

func (d Delivery) verdict() []metav1.Condition {
	if d.Failure != nil {
		return d.failed(*d.Failure)
	}
	if d.Working != "" {
		return d.progressing(ReasonProgressing, d.Working)
	}
	if d.waits() && d.Applied == "" {
		return d.progressing(ReasonWaitingForPromotion, d.waiting())
	}
	if d.Applied == "" && !d.Suspended {
		return d.progressing(ReasonProgressing, "waiting for the first look at the repository")
	}
	if d.Applied == "" {
		return []metav1.Condition{d.condition(meta.ReadyCondition, metav1.ConditionUnknown, ReasonSuspended,
			"the Fleet is suspended; nothing was applied yet")}
	}
	r := d.rollout()
	switch r.state {
	case halted:
		return d.stalled(ReasonHalted, d.at(r.message))
	case failed:
		return d.stalled(ReasonRolloutFailed, d.at(r.message))
	}
	switch {
	case d.waits():
		return d.progressing(ReasonWaitingForPromotion, d.waiting()+"; "+d.at(r.message))
	case r.state == complete:
		return []metav1.Condition{d.condition(meta.ReadyCondition, metav1.ConditionTrue, ReasonSucceeded, d.at(r.message))}
	}
	return d.progressing(ReasonProgressing, d.at(r.message))
}

// waits: a Fleet that is suspended waits for nobody but the person who suspended it.
func (d Delivery) waits() bool { return d.Waiting != "" && !d.Suspended }

// waiting names the revision that waits.
func (d Delivery) waiting() string { return ShortRevision(d.Attempted) + " " + d.Waiting }

// at names the revision that a sentence is about.
func (d Delivery) at(text string) string {
	if d.ByHand {
		text += ", promoted by hand"
	}
	return ShortRevision(d.Applied) + ": " + text
}

func (d Delivery) failed(f Failure) []metav1.Condition {
	switch {
	case f.Stalled:
		return d.stalled(f.Reason, f.Message)
	case d.Suspended: // nothing is retried
		return []metav1.Condition{d.condition(meta.ReadyCondition, metav1.ConditionFalse, f.Reason, f.Message)}
	}
	return []metav1.Condition{
		d.condition(meta.ReadyCondition, metav1.ConditionFalse, f.Reason, f.Message),
		d.condition(meta.ReconcilingCondition, metav1.ConditionTrue, ReasonRetry, f.Message),
	}
}

func (d Delivery) stalled(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		d.condition(meta.ReadyCondition, metav1.ConditionFalse, reason, message),
		d.condition(meta.StalledCondition, metav1.ConditionTrue, reason, message),
	}
}

func (d Delivery) progressing(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		d.condition(meta.ReadyCondition, metav1.ConditionUnknown, reason, message),
		d.condition(meta.ReconcilingCondition, metav1.ConditionTrue, reason, message),
	}
}

func (d Delivery) condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: Cut(message, MaxMessage), ObservedGeneration: d.Generation,
	}
}

// CommitState is what a commit status says; the words are those of the forge adapter.
type CommitState string

// Commit states.
const (
	CommitPending CommitState = "pending"
	CommitSuccess CommitState = "success"
	CommitFailure CommitState = "failure"
	CommitError   CommitState = "error"
)

// Final says that no further work is expected.
func (s CommitState) Final() bool { return s != CommitPending }

// CommitStatus is what one commit shall show.
type CommitStatus struct {
	// Commit is the full hash.
	Commit string
	State  CommitState
	// Description is one sentence; forges cut it.
	Description string
}

// CommitStatuses are the wanted statuses: of the applied commit its rollout, of a newer attempted one its delivery, and of
// every commit that was left open the end that it came to. They are wanted as a whole and again and again, so that a forge
// that was away shows the same in the end.
func (d Delivery) CommitStatuses() []CommitStatus {
	applied, attempted := CommitOf(d.Applied), CommitOf(d.Attempted)
	newest := attempted
	if newest == "" {
		newest = applied
	}
	var out []CommitStatus
	for _, commit := range d.Open {
		if commit != applied && commit != attempted && newest != "" {
			out = append(out, CommitStatus{commit, CommitError, "superseded by " + shortCommit(newest)})
		}
	}
	if applied != "" && applied != attempted {
		out = append(out, d.appliedStatus(applied))
	}
	if attempted != "" && !d.withoutVerdict(applied, attempted) {
		out = append(out, d.attemptedStatus(applied, attempted))
	}
	return out
}

// withoutVerdict says that the last look ended before the attempted commit was judged again, as the server could not be reached, say:
// what the commit shows stays. A failure must not become pending with the next outage.
func (d Delivery) withoutVerdict(applied, attempted string) bool {
	return applied != attempted && d.Failure != nil && d.Failure.Revision != d.Attempted && d.Waiting == ""
}

func (d Delivery) attemptedStatus(applied, attempted string) CommitStatus {
	switch {
	case d.Failure != nil && d.Failure.Revision == d.Attempted && d.Failure.Stalled:
		return CommitStatus{attempted, CommitFailure, d.Failure.Message}
	case d.Failure != nil && d.Failure.Revision == d.Attempted:
		return CommitStatus{attempted, CommitError, d.Failure.Message}
	case applied == attempted:
		return d.appliedStatus(applied)
	case d.Suspended:
		return CommitStatus{attempted, CommitPending, "suspended before it was applied"}
	case d.Waiting != "":
		return CommitStatus{attempted, CommitPending, d.Waiting}
	}
	return CommitStatus{attempted, CommitPending, "validating"}
}

// appliedStatus stays success once it was: a node that joins later is the Fleet's business, not the commit's.
func (d Delivery) appliedStatus(commit string) CommitStatus {
	r := d.rollout()
	switch {
	case r.state == complete:
		return CommitStatus{commit, CommitSuccess, r.message}
	case d.LastRolledOut == d.Applied:
		return CommitStatus{commit, CommitSuccess, "all nodes were complete"}
	case r.state == halted || r.state == failed:
		return CommitStatus{commit, CommitFailure, r.message}
	}
	return CommitStatus{commit, CommitPending, r.message}
}

// StillOpen are the commits to remember as not final: what is pending, and what was open and is not yet known to be shown
// as final. Shown are the final states that the forge is known to show; nil: not asked yet. At most ten, the newest last.
func StillOpen(open []string, wanted []CommitStatus, shown map[string]CommitState) []string {
	var out []string
	for _, commit := range open {
		i := slices.IndexFunc(wanted, func(w CommitStatus) bool { return w.Commit == commit })
		ended := i < 0 && shown[commit] != ""
		if i >= 0 {
			ended = wanted[i].State.Final() && shown[commit] == wanted[i].State
		}
		if !ended {
			out = append(out, commit)
		}
	}
	for _, w := range wanted {
		if (!w.State.Final() || unseen(w, shown)) && !slices.Contains(out, w.Commit) {
			out = append(out, w.Commit)
		}
	}
	return out[max(0, len(out)-maxOpen):]
}

// unseen says that a commit failed and the forge is not known to show it: if this process dies and a newer commit comes, only
// the note tells that it needs an end. A success can be worked out again while its commit is the newest.
func unseen(w CommitStatus, shown map[string]CommitState) bool {
	return shown != nil && w.State.Final() && w.State != CommitSuccess && shown[w.Commit] != w.State
}

const maxOpen = 10

// CommitOf is the hash in a Flux-style revision such as main@sha1:<hash>; empty for an empty one.
func CommitOf(revision string) string {
	return revision[strings.LastIndex(revision, ":")+1:]
}

// ShortRevision cuts the hash of a revision to twelve digits.
func ShortRevision(revision string) string {
	commit := CommitOf(revision)
	return strings.TrimSuffix(revision, commit) + shortCommit(commit)
}

func shortCommit(commit string) string { return commit[:min(len(commit), 12)] }
