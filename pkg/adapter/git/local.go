package git

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// localRefs reads the refs of a repository on this machine. go-git reads its files; no git binary runs.
func localRefs(dir string) (refs, error) {
	repo, err := openLocal(dir)
	if err != nil {
		return refs{}, err
	}
	out := refs{objects: map[string]string{}, peeled: map[string]string{}}
	iter, err := repo.References()
	if err != nil {
		return refs{}, unreadable(dir, err)
	}
	err = iter.ForEach(func(ref *plumbing.Reference) error {
		if ref.Type() == plumbing.HashReference && ref.Name() != plumbing.HEAD {
			out.add(repo, ref)
		}
		return nil
	})
	if err != nil {
		return refs{}, unreadable(dir, err)
	}
	if len(out.objects) == 0 {
		return refs{}, failure(ReasonEmptyRepository, "repository %s has no commit yet", dir)
	}
	if head, err := repo.Head(); err == nil {
		out.head, out.headName = head.Hash().String(), strings.TrimPrefix(head.Name().String(), "HEAD")
	}
	return out, nil
}

func (r refs) add(repo *gogit.Repository, ref *plumbing.Reference) {
	name := ref.Name().String()
	r.objects[name] = ref.Hash().String()
	tag, err := repo.TagObject(ref.Hash())
	if err != nil {
		return // not an annotated tag
	}
	if commit, err := tag.Commit(); err == nil {
		r.peeled[name] = commit.Hash.String()
	}
}

func localTree(dir string, source Source, revision Revision) (*Tree, error) {
	repo, err := openLocal(dir)
	if err != nil {
		return nil, err
	}
	commit := plumbing.NewHash(revision.Commit)
	if repo.Storer.HasEncodedObject(commit) != nil {
		return nil, failure(ReasonCommitNotFound, "%s has no commit %s", dir, revision.Commit)
	}
	origin := commit
	if ref, err := repo.Reference(plumbing.ReferenceName(revision.FullName), true); err == nil {
		origin = ref.Hash()
	}
	tree, err := newTree(repo.Storer, commit, origin, source.Limits.withDefaults())
	if err != nil {
		return nil, err
	}
	tree.serialize()
	return tree, nil
}

// serialize lets one reader at a time into a store on disk, which unlike one in memory keeps open files and a cache.
func (t *Tree) serialize() {
	var one sync.Mutex
	read := t.read
	t.read = func(name string, e entry) ([]byte, error) {
		one.Lock()
		defer one.Unlock()
		return read(name, e)
	}
}

func openLocal(dir string) (*gogit.Repository, error) {
	repo, err := gogit.PlainOpenWithOptions(dir, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, gogit.ErrRepositoryNotExists) {
		return nil, failure(ReasonRepositoryNotFound, "%s is not a git repository", dir).because(err)
	}
	if err != nil {
		return nil, unreadable(dir, err)
	}
	return repo, nil
}

func unreadable(dir string, err error) error {
	return failure(ReasonUnreachable, "%s cannot be read", dir).because(err)
}

// Worktree reads the files of a directory as they are now, for the command line. Nothing outside of it is read, whatever
// links say, and every .git is skipped. Commit and Hash stay empty. Errors are *Error.
func Worktree(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failure(ReasonRepositoryNotFound, "%s is not a directory that can be read", dir).because(err)
	}
	defer func() { _ = root.Close() }() // opened for reading
	t := &Tree{entries: map[string]entry{}, dirs: map[string]string{}, limits: Limits{}.withDefaults()}
	t.read = func(name string, _ entry) ([]byte, error) { return readBelow(dir, name) }
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return t.addFile(root, name, d)
	})
	var already *Error
	if err != nil && !errors.As(err, &already) {
		return nil, unreadable(dir, err)
	}
	return t, err
}

func (t *Tree) addFile(root *os.Root, name string, d fs.DirEntry) error {
	switch {
	case d.Name() == ".git" && d.IsDir():
		return fs.SkipDir
	case d.Name() == ".git": // a worktree's or submodule's pointer
		return nil
	case d.IsDir():
		t.dirs[name] = ""
		return nil
	case d.Type()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			return err
		}
		return t.put(name, entry{kind: link, target: target})
	case !d.Type().IsRegular():
		return nil // sockets, devices, pipes
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	return t.put(name, entry{size: info.Size()})
}

func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	content, err := root.ReadFile(name)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, unreadable(path.Join(dir, name), err)
	}
	return content, nil
}
