package review

import (
	"slices"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// Pull is an open pull request.
type Pull struct {
	// Number as people write it.
	Number int64
	// Head is its newest commit, HeadRef a full ref name of the base repository that leads to it.
	Head, HeadRef string
	// Fork says that it comes from another repository.
	Fork bool
	// Labels of it.
	Labels []string
}

// Admission says whether a pull request is planned, and if not, why not.
type Admission string

// Admissions. The empty one is not known.
const (
	// Planned: its content is built and planned.
	Planned Admission = "Planned"
	// NeedsLabel: it is from a fork, and nobody has said that this commit may be planned.
	NeedsLabel Admission = "NeedsLabel"
	// LabelIsOld: it has the label, but nobody can tell that it was given for this commit.
	LabelIsOld Admission = "LabelIsOld"
	// ForksRefused: it is from a fork, and none of those is planned.
	ForksRefused Admission = "ForksRefused"
)

// Admit decides on the commit that is the head now. Seen is what was said of this very commit before, and shown on it: a label counts
// for a commit that was seen without it first, so that a push after the label needs it anew, whatever happened while nobody looked.
func Admit(p Pull, policy fleetv1.ForkPolicy, seen Admission) Admission {
	switch {
	case !p.Fork, policy == fleetv1.ForksAlways:
		return Planned
	case policy == fleetv1.ForksNever:
		return ForksRefused
	case !slices.Contains(p.Labels, fleetv1.ForkLabel):
		return NeedsLabel
	case seen == NeedsLabel, seen == Planned:
		return Planned
	}
	return LabelIsOld
}

// Trusted marks as no fork those whose head is the head of a pull request from the repository itself: one commit has one status, and whoever could
// push it there is trusted with it.
func Trusted(pulls []Pull) []Pull {
	own := map[string]bool{}
	for _, p := range pulls {
		if !p.Fork {
			own[p.Head] = true
		}
	}
	out := slices.Clone(pulls)
	for i := range out {
		out[i].Fork = out[i].Fork && !own[out[i].Head]
	}
	return out
}
