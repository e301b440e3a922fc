package git

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

const (
	branchPrefix = "refs/heads/"
	tagPrefix    = "refs/tags/"
	headRef      = "HEAD"
)

var fullSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Resolve asks the server which commit the source's ref names now, and transfers nothing but the list of refs. A Commit in
// the ref needs no server: whether it exists is for Fetch to see. Errors are *Error.
func Resolve(ctx context.Context, source Source) (Revision, error) {
	e, err := parseURL(source)
	if err == nil {
		err = checkVerify(source)
	}
	if err != nil {
		return Revision{}, err
	}
	if source.Ref.Commit != "" {
		return commitRevision(source.Ref)
	}
	ctx, cancel := context.WithTimeout(ctx, source.timeout())
	defer cancel()
	refs, err := listRefs(ctx, source, e)
	if err != nil {
		return Revision{}, err
	}
	return refs.resolve(source.Ref, e.name())
}

func commitRevision(ref Ref) (Revision, error) {
	if !fullSHA.MatchString(ref.Commit) {
		return Revision{}, failure(ReasonInvalidRef, "the source's commit %s is not a full SHA-1 (allowed: 40 characters 0-9 a-f)",
			quote(ref.Commit))
	}
	rev := Revision{Ref: ref.Branch, Commit: ref.Commit}
	if ref.Branch != "" {
		rev.FullName = branchPrefix + ref.Branch
	}
	return rev, nil
}

func listRefs(ctx context.Context, source Source, e endpoint) (refs, error) {
	if e.scheme == "file" {
		return localRefs(e.path)
	}
	r := newRemote(source, e)
	s, err := r.open(ctx)
	if err != nil {
		return refs{}, r.classify(ctx, err)
	}
	defer func() { _ = s.Close() }() // nothing is left to lose
	advertised, err := s.AdvertisedReferencesContext(ctx)
	if err != nil {
		return refs{}, r.classify(ctx, err)
	}
	return advertisedRefs(advertised), nil
}

// refs is what a repository offers.
type refs struct {
	// objects by full ref name: what the ref points to, a commit or an annotated tag.
	objects map[string]string
	// peeled commits of annotated tags, by full ref name.
	peeled map[string]string
	// head is the commit of HEAD, headName the ref that HEAD points to; empty where unknown.
	head, headName string
}

func advertisedRefs(a *packp.AdvRefs) refs {
	out := refs{objects: map[string]string{}, peeled: map[string]string{}}
	for name, hash := range a.References {
		out.objects[name] = hash.String()
	}
	for name, hash := range a.Peeled {
		out.peeled[name] = hash.String()
	}
	if a.Head != nil {
		out.head = a.Head.String()
		out.objects[headRef] = out.head
	}
	for _, link := range a.Capabilities.Get(capability.SymRef) {
		if name, ok := strings.CutPrefix(link, "HEAD:"); ok {
			out.headName = name
		}
	}
	return out
}

// commit that a full ref name leads to; empty where there is none.
func (r refs) commit(fullName string) string { return cmp.Or(r.peeled[fullName], r.objects[fullName]) }

func (r refs) resolve(ref Ref, repository string) (Revision, error) {
	short, full := ref.Branch, branchPrefix+ref.Branch
	switch {
	case ref.Name != "":
		short, full = shortName(ref.Name), ref.Name
	case ref.SemVer != "":
		tag, err := r.highest(ref.SemVer)
		if err != nil {
			return Revision{}, err
		}
		short, full = tag, tagPrefix+tag
	case ref.Tag != "":
		short, full = ref.Tag, tagPrefix+ref.Tag
	case ref.Branch == "":
		return r.resolveHead(repository)
	}
	commit := r.commit(full)
	if commit == "" || short == "" {
		return Revision{}, failure(ReasonRefNotFound, "%s does not exist in %s%s", ref.describe(), repository, r.hint(ref))
	}
	return Revision{Ref: short, Commit: commit, FullName: full}, nil
}

func (r refs) resolveHead(repository string) (Revision, error) {
	if r.head == "" {
		return Revision{}, failure(ReasonRefNotFound, "HEAD of %s points to nothing; name a branch in the source's ref", repository)
	}
	if r.headName == "" {
		return Revision{Ref: headRef, Commit: r.head, FullName: headRef}, nil
	}
	return Revision{Ref: shortName(r.headName), Commit: r.head, FullName: r.headName}, nil
}

func shortName(full string) string {
	for _, prefix := range []string{branchPrefix, tagPrefix} {
		if short, ok := strings.CutPrefix(full, prefix); ok {
			return short
		}
	}
	return full
}

// highest tag within a range. Equal versions (1.0.0 and v1.0.0) are told apart by name, so that the answer is stable.
func (r refs) highest(constraint string) (string, error) {
	within, err := semver.NewConstraint(constraint)
	if err != nil {
		return "", failure(ReasonInvalidRef, "the source's semver %s is not a version range (allowed: for example >=1.2.0 <2.0.0)",
			quote(constraint)).because(err)
	}
	var best *semver.Version
	var tag string
	for _, name := range r.names(tagPrefix) {
		v, err := semver.NewVersion(name)
		if err == nil && within.Check(v) && (best == nil || v.GreaterThan(best)) {
			best, tag = v, name
		}
	}
	return tag, nil
}

func (r refs) names(prefix string) []string {
	var out []string
	for full := range r.objects {
		if name, ok := strings.CutPrefix(full, prefix); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// hint lists what exists, where that is short enough to help.
func (r refs) hint(ref Ref) string {
	kind, prefix := "branches", branchPrefix
	switch {
	case ref.Name != "":
		return ""
	case ref.SemVer != "" || ref.Tag != "":
		kind, prefix = "tags", tagPrefix
	}
	names := r.names(prefix)
	switch {
	case len(names) == 0:
		return "; it has no " + kind
	case len(names) > 5:
		return ""
	}
	return "; its " + kind + ": " + strings.Join(names, ", ")
}
