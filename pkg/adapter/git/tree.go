package git

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

const (
	maxLinks      = 8    // links in a row that ReadFile follows
	dirsPerFile   = 4    // directories that a tree may have for each file that it may have
	maxLFSPointer = 1024 // bytes of a Git LFS pointer file, by its specification
)

var lfsMark = []byte("version https://git-lfs.github.com/spec/")

// Tree is the immutable content of one commit, or of a directory (Worktree). It is safe for concurrent use.
type Tree struct {
	// Commit is the full SHA-1; empty for a Worktree.
	Commit string
	// Hash is the SHA-1 of the root tree: equal trees have equal files, whatever the commit. Empty for a Worktree.
	Hash string
	// RawCommit is the commit object as it is signed and hashed; nil for a Worktree.
	RawCommit []byte
	// RawTag is the annotated tag that led here, if one did.
	RawTag []byte

	signed  string
	entries map[string]entry
	dirs    map[string]string // path of a directory to its tree's hash; the root is "."
	read    func(path string, e entry) ([]byte, error)
	limits  Limits
}

type entryKind int

const (
	regular entryKind = iota
	link
	submodule
)

type entry struct {
	kind   entryKind
	size   int64
	hash   plumbing.Hash // of the blob, or of the submodule's commit
	target string        // of a link, as written
	from   *Tree         // the submodule that holds the blob; nil: the tree itself
}

// SignedBy says whose signatures were verified, of what; empty where none was demanded.
func (t *Tree) SignedBy() string { return t.signed }

// Paths of all files in order, slash-separated and relative to the root. Links count where they lead to a file of the tree.
func (t *Tree) Paths() []string {
	var paths []string
	for p := range t.entries {
		if _, _, err := t.follow(p); err == nil {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// SubtreeHash is the SHA-1 of a directory's tree ("." for the root), a cache key for what depends on that directory alone.
func (t *Tree) SubtreeHash(dir string) (string, bool) {
	hash, ok := t.dirs[path.Clean(strings.TrimPrefix(dir, "/"))]
	return hash, ok && hash != ""
}

// ReadFile returns a file's content. Links are followed to files inside the tree and nowhere else. A missing file is
// fs.ErrNotExist in an *fs.PathError; every other error is an *Error that names the path and what to do.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	file, e, err := t.follow(name)
	if err != nil {
		return nil, err
	}
	if e.size > t.limits.File {
		return nil, failure(ReasonTooLarge, "%s has %d bytes, more than the %s that one file may have", file, e.size, size(t.limits.File))
	}
	from := t
	if e.from != nil {
		from = e.from
	}
	content, err := from.read(file, e)
	if err != nil {
		return nil, err
	}
	if len(content) <= maxLFSPointer && bytes.HasPrefix(content, lfsMark) {
		return nil, failure(ReasonFileIsLFSPointer, "%s is stored with Git LFS, which is not read; commit the file itself", file)
	}
	return content, nil
}

// follow leads from a path to a regular file of the tree.
func (t *Tree) follow(name string) (string, entry, error) {
	current := path.Clean(name)
	for range maxLinks + 1 {
		e, ok := t.entries[current]
		switch {
		case !ok:
			return "", entry{}, t.missing(name, current)
		case e.kind == regular:
			return current, e, nil
		case e.kind == submodule:
			return "", entry{}, submoduleError(name, current)
		}
		next, err := t.step(current, e)
		if err != nil {
			return "", entry{}, err
		}
		current = next
	}
	return "", entry{}, failure(ReasonFileIsLink, "%s is a symbolic link that leads over more than %d links", name, maxLinks)
}

// step follows one link, and refuses what a reader of the repository would not expect.
func (t *Tree) step(name string, e entry) (string, error) {
	target := path.Join(path.Dir(name), e.target)
	_, isDir := t.dirs[target]
	switch {
	case path.IsAbs(e.target), target == "..", strings.HasPrefix(target, "../"):
		return "", failure(ReasonFileIsLink, "%s is a symbolic link out of the repository (to %s); replace it by the file", name, quote(e.target))
	case isDir:
		return "", failure(ReasonFileIsLink, "%s is a symbolic link to the directory %s; write that path instead", name, target)
	}
	return target, nil
}

func (t *Tree) missing(name, current string) error {
	for dir := path.Dir(current); dir != "." && dir != "/"; dir = path.Dir(dir) {
		e, ok := t.entries[dir]
		if !ok {
			continue
		}
		if e.kind == submodule {
			return submoduleError(name, dir)
		}
		if e.kind == link {
			if _, err := t.step(dir, e); err != nil {
				return err
			}
		}
	}
	return &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

func submoduleError(name, at string) error {
	return failure(ReasonFileIsSubmodule, "%s lies in the git submodule %s, which is not fetched; set recurseSubmodules of the source, or commit the files themselves", name, at)
}

// newTree reads the tree of a commit from a store. origin is the object that was asked for: the commit or a tag.
func newTree(store storer.EncodedObjectStorer, commit, origin plumbing.Hash, limits Limits) (*Tree, error) {
	c, err := object.GetCommit(store, commit)
	if err != nil {
		return nil, unreadableObject("commit "+commit.String(), err)
	}
	t := &Tree{
		Commit: commit.String(), Hash: c.TreeHash.String(),
		RawCommit: readObject(store, commit, plumbing.CommitObject), RawTag: readObject(store, origin, plumbing.TagObject),
		entries: map[string]entry{}, dirs: map[string]string{}, limits: limits,
	}
	t.read = func(name string, e entry) ([]byte, error) {
		blob, err := store.EncodedObject(plumbing.BlobObject, e.hash)
		if err != nil {
			return nil, unreadableObject(name, err)
		}
		return readEncoded(blob)
	}
	return t, t.add(store, ".", c.TreeHash)
}

// add walks one directory.
func (t *Tree) add(store storer.EncodedObjectStorer, dir string, hash plumbing.Hash) error {
	if err := t.room(dir); err != nil {
		return err
	}
	tree, err := object.GetTree(store, hash)
	if err != nil {
		return unreadableObject("directory "+dir, err)
	}
	t.dirs[dir] = hash.String()
	for _, e := range tree.Entries {
		if !validName(e.Name) {
			return failure(ReasonInvalidTree, "directory %s holds an entry named %q, which git does not allow", dir, e.Name)
		}
		if err := t.addEntry(store, path.Join(dir, e.Name), e); err != nil {
			return err
		}
	}
	return nil
}

// unreadableObject tells what is not there, which another fetch may bring, from what is malformed.
func unreadableObject(what string, err error) *Error {
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return failure(ReasonPackDamaged, "%s is not in what the server sent, although the commit names it; is the repository damaged (git fsck)?", what).because(err)
	}
	return failure(ReasonInvalidTree, "%s cannot be read from the commit", what).because(err)
}

// room for one more directory.
func (t *Tree) room(dir string) error {
	if strings.Count(dir, "/")+1 > t.limits.Depth {
		return failure(ReasonTooLarge, "%s is nested deeper than %d directories", dir, t.limits.Depth)
	}
	if most := dirsPerFile * t.limits.Files; len(t.dirs) >= most { // a few objects can make any number of directories
		return failure(ReasonTooLarge, "the repository has more than %d directories; split it or raise the limit", most)
	}
	return nil
}

func (t *Tree) addEntry(store storer.EncodedObjectStorer, name string, e object.TreeEntry) error {
	switch e.Mode {
	case filemode.Dir:
		return t.add(store, name, e.Hash)
	case filemode.Submodule:
		return t.put(name, entry{kind: submodule, hash: e.Hash})
	}
	if e.Mode != filemode.Symlink {
		size, err := store.EncodedObjectSize(e.Hash)
		if err != nil {
			return unreadableObject(name, err)
		}
		return t.put(name, entry{size: size, hash: e.Hash})
	}
	blob, err := store.EncodedObject(plumbing.BlobObject, e.Hash)
	if err != nil {
		return unreadableObject(name, err)
	}
	target, err := readEncoded(blob)
	if err != nil {
		return unreadableObject(name, err)
	}
	return t.put(name, entry{kind: link, target: string(target)})
}

func (t *Tree) put(name string, e entry) error {
	if len(t.entries) >= t.limits.Files {
		return failure(ReasonTooLarge, "the repository has more than %d files; split it or raise the limit", t.limits.Files)
	}
	t.entries[name] = e
	return nil
}

// validName refuses what git itself refuses in a tree, so that no later reader can be led astray.
func validName(name string) bool {
	switch strings.ToLower(name) {
	case "", ".", "..", ".git", "git~1":
		return false
	}
	return !strings.ContainsAny(name, "/\x00")
}
