package wake

import (
	"slices"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// Look is what an event lets a Fleet look at.
type Look string

// Looks.
const (
	Nothing  Look = ""
	Revision Look = "revision"
	Reviews  Look = "pull requests"
)

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
	head     = "HEAD"
)

// Names says that the event is about the Fleet's repository.
func Names(fleet *fleetv1.Fleet, e Event) bool {
	own, ok := RepositoryOf(fleet.Spec.Source.URL)
	return ok && slices.ContainsFunc(e.Repositories, func(r Repository) bool {
		return r == own || r.Host == "" && r.Path == own.Path
	})
}

// For is what the event lets the Fleet look at: its revision, if a push moved what it follows; its pull requests, if it
// reviews those of the branch.
func For(fleet *fleetv1.Fleet, e Event) Look {
	if fleet.Spec.Suspend {
		return Nothing
	}
	ref := Followed(fleet.Spec.Source.Ref)
	switch e.Kind {
	case Push:
		if slices.ContainsFunc(e.Refs, func(moved string) bool { return ref.movedBy(moved, e.DefaultBranch) }) {
			return Revision
		}
	case PullRequest:
		mine := func(base string) bool { return ref.isBranch(base, e.DefaultBranch) }
		if reviews(fleet) && (e.Retargeted || slices.ContainsFunc(e.Bases, mine)) {
			return Reviews
		}
	case Ping, Ignored:
	}
	return Nothing
}

func reviews(fleet *fleetv1.Fleet) bool {
	checks := fleet.Spec.Checks
	return checks != nil && checks.PullRequests != nil && (checks.PullRequests.Plan || checks.PullRequests.Comment)
}

// Follow is what a Fleet follows, in one spelling. The zero value follows nothing: a commit does not move.
type Follow struct {
	// Branch is a short name, or HEAD for the repository's default branch.
	Branch string
	// Tag is a short name.
	Tag string
	// Tags follows every tag: a range of versions may choose any of them.
	Tags bool
}

// Followed reads a Fleet's ref, in the order in which its fields count.
func Followed(ref *fleetv1.GitRef) Follow {
	switch {
	case ref == nil:
		return Follow{Branch: fleetv1.DefaultBranch}
	case ref.Commit != "":
		return Follow{}
	case ref.SemVer != "":
		return Follow{Tags: true}
	case ref.Tag != "":
		return Follow{Tag: strings.TrimPrefix(ref.Tag, tags)}
	case ref.Branch != "":
		return Follow{Branch: strings.TrimPrefix(ref.Branch, branches)}
	}
	return Follow{Branch: fleetv1.DefaultBranch}
}

// movedBy says that a ref which moved is, or may be, what is followed.
func (f Follow) movedBy(ref, defaultBranch string) bool {
	if branch, ok := strings.CutPrefix(ref, branches); ok {
		return f.isBranch(branch, defaultBranch)
	}
	if tag, ok := strings.CutPrefix(ref, tags); ok {
		return f.isTag(tag)
	}
	if strings.HasPrefix(ref, "refs/") {
		return false
	}
	return f.isBranch(ref, defaultBranch) || f.isTag(ref)
}

func (f Follow) isTag(name string) bool { return name != "" && (f.Tags || f.Tag == name) }

// isBranch takes any branch for the default one where nobody knows which that is.
func (f Follow) isBranch(name, defaultBranch string) bool {
	name = strings.TrimPrefix(name, branches)
	if f.Branch == "" || name == "" {
		return false
	}
	if f.Branch == head {
		return defaultBranch == "" || name == head || name == strings.TrimPrefix(defaultBranch, branches)
	}
	return f.Branch == name || name == head && f.Branch == strings.TrimPrefix(defaultBranch, branches)
}
