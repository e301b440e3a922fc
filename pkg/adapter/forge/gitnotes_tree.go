package forge

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// maxNote bounds what is read of one note: 1 MiB, far above linesPerContext for a thousand contexts.
const maxNote = 1 << 20

// flatNotes is how many notes may stand side by side in one tree before new ones go into subdirectories of two digits, as git
// does it. Git reads flat, fanned-out and mixed trees alike, so existing notes are left where they are.
const flatNotes = 256

// notesTree is a tree of notes: a note's name is the hash of its commit, cut into directories of two digits at the front.
type notesTree struct{ objects storer.EncodedObjectStorer }

// read returns the note of a commit below the tree; nil if there is none.
func (t notesTree) read(tree plumbing.Hash, commit string) ([]byte, error) {
	entries, err := t.entries(tree)
	if err != nil {
		return nil, err
	}
	if i := findEntry(entries, commit); i >= 0 && entries[i].Mode.IsFile() {
		return t.blob(entries[i].Hash)
	}
	if i := findEntry(entries, commit[:2]); i >= 0 && entries[i].Mode == filemode.Dir && len(commit) > 2 {
		return t.read(entries[i].Hash, commit[2:])
	}
	return nil, nil
}

// write returns the tree with the note in place. An existing note is replaced where it is; a new one follows the fan-out it finds.
func (t notesTree) write(tree plumbing.Hash, commit string, note plumbing.Hash) (plumbing.Hash, error) {
	entries, err := t.entries(tree)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	leaf := findEntry(entries, commit) >= 0
	if leaf || !fansOut(entries, commit) {
		return t.store(putEntry(entries, object.TreeEntry{Name: commit, Mode: filemode.Regular, Hash: note}))
	}
	below := plumbing.ZeroHash
	if i := findEntry(entries, commit[:2]); i >= 0 {
		below = entries[i].Hash
	}
	sub, err := t.write(below, commit[2:], note)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return t.store(putEntry(entries, object.TreeEntry{Name: commit[:2], Mode: filemode.Dir, Hash: sub}))
}

// fansOut says whether a new note goes into a subdirectory: if there are some already, or too many notes side by side.
func fansOut(entries []object.TreeEntry, commit string) bool {
	if len(commit) <= 2 {
		return false
	}
	isFan := func(e object.TreeEntry) bool { return e.Mode == filemode.Dir && isHex(e.Name, 2) }
	return slices.ContainsFunc(entries, isFan) || len(entries) >= flatNotes
}

func isHex(name string, length int) bool {
	return len(name) == length && strings.Trim(name, "0123456789abcdef") == ""
}

func (t notesTree) entries(tree plumbing.Hash) ([]object.TreeEntry, error) {
	if tree.IsZero() {
		return nil, nil
	}
	obj, err := object.GetTree(t.objects, tree)
	if err != nil {
		return nil, fmt.Errorf("read notes tree: %w", err)
	}
	return slices.Clone(obj.Entries), nil
}

func findEntry(entries []object.TreeEntry, name string) int {
	return slices.IndexFunc(entries, func(e object.TreeEntry) bool { return e.Name == name })
}

func putEntry(entries []object.TreeEntry, e object.TreeEntry) []object.TreeEntry {
	if i := findEntry(entries, e.Name); i >= 0 {
		entries[i] = e
		return entries
	}
	return append(entries, e)
}

// store writes a tree in git's order, in which a directory sorts as if its name ended with a slash.
func (t notesTree) store(entries []object.TreeEntry) (plumbing.Hash, error) {
	slices.SortFunc(entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return t.save(&object.Tree{Entries: entries})
}

func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

type encoder interface {
	Encode(plumbing.EncodedObject) error
}

func (t notesTree) save(value encoder) (plumbing.Hash, error) {
	obj := t.objects.NewEncodedObject()
	if err := value.Encode(obj); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode git object: %w", err)
	}
	return t.objects.SetEncodedObject(obj)
}

func (t notesTree) blob(hash plumbing.Hash) ([]byte, error) {
	blob, err := object.GetBlob(t.objects, hash)
	if err != nil {
		return nil, fmt.Errorf("read note: %w", err)
	}
	if blob.Size > maxNote {
		return nil, fmt.Errorf("read note: %d bytes are too many (allowed: %d)", blob.Size, maxNote)
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, fmt.Errorf("read note: %w", err)
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

func (t notesTree) saveBlob(data []byte) (plumbing.Hash, error) {
	obj := t.objects.NewEncodedObject()
	obj.SetType(plumbing.BlobObject)
	w, err := obj.Writer()
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write note: %w", err)
	}
	if _, err := w.Write(data); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write note: %w", err)
	}
	if err := w.Close(); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write note: %w", err)
	}
	return t.objects.SetEncodedObject(obj)
}
