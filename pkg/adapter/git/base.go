package git

import (
	"errors"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Base is what the work tree of a repository is compared with.
type Base struct {
	// Head is the commit that the work tree stands on; empty before the first one.
	Head string
	// Commit to compare with; empty: there is none, as the history has not begun.
	Commit string
	// Name is Commit in words: `main`, `v1.2.0`, `HEAD`.
	Name string
	// Tip is the newest commit of the branch that Commit was found on, where that has gone on since; empty otherwise.
	Tip string
	// Parent of Head. It is set where Commit is Head itself, so that a work tree without changes can be compared with what was
	// there before; empty: Head is the first commit.
	Parent string
}

// defaultBranches are the names of the branch that changes are merged into, in the order in which they are looked for.
var defaultBranches = []string{
	"refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master",
}

// FindBase finds what the work tree of a local repository is to be compared with. Of a branch it is the commit at which the
// history of HEAD left it, so that what others have merged since does not look as if it were taken back; everything else that
// git can name (a tag, a commit, HEAD~2) is meant exactly. Without a name it is the branch that changes are merged into. Errors
// are *Error.
func FindBase(dir, against string) (Base, error) {
	repo, err := openLocal(dir)
	if err != nil {
		return Base{}, err
	}
	ref, err := repo.Head()
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return Base{}, nil // no commit yet
	}
	if err != nil {
		return Base{}, unreadable(dir, err)
	}
	head, err := repo.CommitObject(ref.Hash())
	if err != nil {
		return Base{}, cutOff(err)
	}
	name, tip, branch := resolveName(repo, against)
	switch {
	case against != "" && tip.IsZero():
		return Base{}, failure(ReasonRefNotFound, "%s is not a branch, tag or commit of this repository (in a clone of CI, fetch it first)", quote(against))
	case tip.IsZero(), tip == head.Hash && branch:
		return onHead(head)
	case !branch:
		return Base{Head: head.Hash.String(), Commit: tip.String(), Name: name}, nil
	}
	return mergeBase(repo, head, name, tip)
}

// resolveName is the commit that a name stands for, and whether the name is a branch's. Without a name the default branches
// are tried; none of them may be there.
func resolveName(repo *gogit.Repository, against string) (name string, commit plumbing.Hash, branch bool) {
	candidates := defaultBranches
	if against != "" {
		candidates = []string{against, "refs/heads/" + against, "refs/remotes/" + against}
	}
	for _, full := range candidates {
		if !strings.HasPrefix(full, "refs/heads/") && !strings.HasPrefix(full, "refs/remotes/") {
			continue
		}
		if ref, err := repo.Reference(plumbing.ReferenceName(full), true); err == nil {
			short := strings.TrimPrefix(strings.TrimPrefix(ref.Name().String(), "refs/heads/"), "refs/remotes/")
			return short, ref.Hash(), true
		}
	}
	if against == "" {
		return "", plumbing.ZeroHash, false
	}
	hash, err := repo.ResolveRevision(plumbing.Revision(against))
	if err != nil {
		return "", plumbing.ZeroHash, false
	}
	return against, *hash, false
}

// onHead compares with HEAD; its parent is there for a work tree that does not differ from it.
func onHead(head *object.Commit) (Base, error) {
	out := Base{Head: head.Hash.String(), Commit: head.Hash.String(), Name: "HEAD"}
	if len(head.ParentHashes) > 0 {
		out.Parent = head.ParentHashes[0].String()
	}
	return out, nil
}

func mergeBase(repo *gogit.Repository, head *object.Commit, name string, tip plumbing.Hash) (Base, error) {
	other, err := repo.CommitObject(tip)
	if err != nil {
		return Base{}, cutOff(err)
	}
	bases, err := head.MergeBase(other)
	switch {
	case err != nil:
		return Base{}, cutOff(err)
	case len(bases) == 0:
		return Base{}, failure(ReasonCommitNotFound, "HEAD and %s have no commit in common; name another revision", quote(name))
	}
	slices.SortFunc(bases, func(a, b *object.Commit) int { return strings.Compare(a.Hash.String(), b.Hash.String()) })
	if bases[0].Hash == head.Hash { // HEAD has nothing of its own
		out, err := onHead(head)
		out.Tip = tip.String()
		return out, err
	}
	out := Base{Head: head.Hash.String(), Commit: bases[0].Hash.String(), Name: name}
	if bases[0].Hash != tip {
		out.Tip = tip.String()
	}
	return out, nil
}

// cutOff says what to do about a clone that has not the whole history.
func cutOff(err error) *Error {
	return failure(ReasonCommitNotFound, "the history of this clone is cut off before the commit to compare with; fetch more of it (git fetch --unshallow), or name a commit that is there").because(err)
}

// CommitTree reads a commit of a repository on this machine. Errors are *Error.
func CommitTree(dir, commit string) (*Tree, error) {
	tree, err := localTree(dir, Source{}, Revision{Commit: commit})
	var missing *Error
	if errors.As(err, &missing) && missing.Reason == ReasonCommitNotFound {
		return nil, cutOff(err)
	}
	return tree, err
}
