package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/review"
)

// PlanSuffix follows a Fleet's context in the status of a pull request's plan.
const PlanSuffix = "/plan"

// Review is what a reviewer has to say about the head of a pull request. Equal values give equal words.
type Review struct {
	// Context of the Fleet, without suffix.
	Context string
	// Path that the Fleet builds.
	Path string
	// Number of the pull request, and the commit that is its head.
	Number int64
	Commit string
	// Admission says whether it was looked at.
	Admission review.Admission
	// Plan of it; nil until there is one.
	Plan *preview.Plan
	// Refused is why its content cannot be built at all, beside what findings say; empty if it can.
	Refused string
	// Trouble is why it could not be planned now; empty if it could.
	Trouble string
}

// Status is that of the commit under the context with PlanSuffix.
func (r Review) Status() CommitStatus {
	state, text := r.verdict()
	return CommitStatus{Commit: r.Commit, State: state, Description: text}
}

func (r Review) verdict() (CommitState, string) {
	switch r.Admission {
	case review.NeedsLabel:
		return CommitFailure, needsLabel + ofPull(r.Number)
	case review.LabelIsOld:
		return CommitFailure, labelIsOld
	case review.ForksRefused:
		return CommitFailure, forksRefused
	case review.Planned:
	}
	switch {
	case r.Trouble != "":
		return CommitError, "could not be planned, and is tried again: " + r.Trouble
	case r.Refused != "":
		return CommitFailure, r.Refused
	case r.Plan == nil:
		return CommitPending, "planning"
	}
	return planVerdict(*r.Plan)
}

// What a pull request from a fork is told; the first two are read back from the forge. Each fits into 140 characters.
const (
	notPlanned   = "not planned"
	needsLabel   = notPlanned + ", as it is from a fork: somebody who may label it can add " + fleetv1.ForkLabel + " for this commit"
	labelIsOld   = notPlanned + ": label " + fleetv1.ForkLabel + " may be for an earlier commit; remove it, wait until this asks for it, add it again"
	forksRefused = notPlanned + ", as it is from a fork, and this Fleet plans none; push it to a branch of this repository"
)

// ofPull follows needsLabel: a commit may be the head of several pull requests, and whoever opens a second one without the label must not
// make the label of the first one good for it.
func ofPull(number int64) string { return fmt.Sprintf(" (pull request %d)", number) }

// AdmissionShown is what a status on a commit says about its admission in a pull request: whatever is no refusal was written about a plan. That
// another pull request with this commit needs the label says nothing.
func AdmissionShown(shown CommitStatus, number int64) review.Admission {
	switch text := shown.Description; {
	case text == "":
		return ""
	case text == needsLabel+ofPull(number):
		return review.NeedsLabel
	case text == labelIsOld:
		return review.LabelIsOld
	case text == forksRefused:
		return review.ForksRefused
	case strings.HasPrefix(text, notPlanned): // of another pull request, or cut
		return ""
	}
	return review.Planned
}

func planVerdict(p preview.Plan) (CommitState, string) {
	switch {
	case p.Result == preview.Errors:
		return CommitFailure, Refusal(ReasonValidationFailed, "", p.Findings).Message
	case p.Result == preview.None:
		return CommitSuccess, "no changes"
	case p.Nodes.Source == preview.NoNodes:
		return CommitSuccess, "changes " + concerns(p)
	case p.Affected.Nodes == 0:
		return CommitSuccess, "no node has anything to do; changes " + concerns(p)
	}
	return CommitSuccess, nodesWithConsequence(p.Affected)
}

// nodesWithConsequence is `12 nodes reboot, 3 restart services`.
func nodesWithConsequence(t preview.Tally) string {
	number, rest, _ := strings.Cut(consequence(t), " ")
	if number == "1" {
		return "1 node: " + rest
	}
	return number + " nodes " + rest
}

// Comment is the review as one comment of at most limit bytes, with its mark; empty where there is nothing to say yet, so that an older one stays.
func (r Review) Comment(limit int) string {
	state, text := r.verdict()
	if state == CommitPending || state == CommitError {
		return ""
	}
	d := document{{heading: lineOf("Plan for ", nameOf(r.Path)), intro: []line{lineOf("**", quoteOf(text), "**")}}}
	said := text
	if r.Plan != nil && r.Admission == review.Planned && r.Refused == "" {
		d = planDocument(*r.Plan)
		said = r.digested()
	}
	d[0].heading = append(d[0].heading, lineOf(", ", nameOf(r.Context))...)
	mark := review.Mark{Context: r.Context, Part: 1, Commit: r.Commit, Admission: r.Admission, Digest: review.Digest(r.Path + "\n" + said)}.String()
	return d.within(limit-len(mark)) + mark
}

// digested is all that the plan says, but for what changes by the clock.
func (r Review) digested() string {
	data, err := json.Marshal(r.Plan.Timeless())
	if err != nil { // it has no field that could fail
		return err.Error()
	}
	return string(data)
}

// Inherited says that the branch has the very errors that the change has: they are not for this change to mend.
func Inherited(branch, change []finding.Finding) bool {
	was, is := errorsOf(branch), errorsOf(change)
	return len(is) > 0 && slices.Equal(was, is)
}

func errorsOf(all []finding.Finding) []finding.Finding {
	out := slices.DeleteFunc(slices.Clone(all), func(f finding.Finding) bool { return f.Severity != finding.Error })
	for i := range out {
		out[i].Allowed = "" // it may list what else there is
	}
	return out
}

// InheritedNote is the note on a plan that says nothing, as the branch cannot be delivered with or without the change.
func InheritedNote(branch string, all []finding.Finding) string {
	has := errorsOf(all)
	return fmt.Sprintf("what is built, as the branch %s itself has %s, with or without this change: %s", branch, plural(len(has), "error"), has[0])
}

// BothChangedNote is the note on a plan of a pull request that changes files that the branch changed, too.
func BothChangedNote(branch string, files []string) string {
	return fmt.Sprintf("what the merge comes to, as %s changed the same files since: %s; they are planned as the pull request has them, against the commit where it began. "+
		"Update the pull request to see more", branch, namesOf(files, len(files)).text())
}

// UnsignedNote is the note on a plan of a head that the Fleet would not apply as it is.
func UnsignedNote(why string) string {
	return "whether it will be applied: the Fleet demands signatures, and of the head of the pull request " + why
}

// NoMergeBaseNote is the note on a plan of a pull request of which nobody says where it began.
func NoMergeBaseNote(branch string) string {
	return fmt.Sprintf("where the pull request began: what %s changed since is shown as taken back", branch)
}

// PlansPulls says whether a Fleet wants its pull requests planned, and can have it.
func PlansPulls(spec fleetv1.FleetSpec) bool { return wantsPulls(spec) && unsupportedPulls(spec) == "" }

func wantsPulls(spec fleetv1.FleetSpec) bool {
	c := spec.Checks
	return c != nil && c.PullRequests != nil && (c.PullRequests.Plan || c.PullRequests.Comment)
}

// unsupportedPulls says why a Fleet cannot have its pull requests planned; empty if it can, or does not want it.
func unsupportedPulls(spec fleetv1.FleetSpec) string {
	switch {
	case !wantsPulls(spec):
		return ""
	case spec.Checks.Provider == fleetv1.ProviderGitNotes:
		return "spec.checks.pullRequests with spec.checks.provider gitnotes, which has no pull requests (allowed: the provider of a forge)"
	case TrackedBranch(spec) == "":
		return "spec.checks.pullRequests without a branch in spec.source.ref (allowed: branch alone, as pull requests go to branches)"
	}
	return ""
}

// TrackedBranch is the branch that a Fleet follows; empty if it follows a tag, versions or a commit.
func TrackedBranch(spec fleetv1.FleetSpec) string {
	ref := spec.Source.Ref
	switch {
	case ref == nil || *ref == (fleetv1.GitRef{}):
		return fleetv1.DefaultBranch
	case ref.Commit != "" || ref.SemVer != "" || ref.Tag != "":
		return ""
	}
	return ref.Branch
}
