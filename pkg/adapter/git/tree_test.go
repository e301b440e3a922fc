package git

import (
	"fmt"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/stretchr/testify/require"
)

func TestDeliveryReport_GF22_NamesThatGitRefuses(t *testing.T) {
	for _, name := range []string{"", ".", "..", ".git", ".GIT", "git~1", "GIT~1", "a/b", "a\x00b"} {
		require.False(t, validName(name), "%q", name)
	}
	for _, name := range []string{".gitignore", "a", "..a", "git"} {
		require.True(t, validName(name), "%q", name)
	}
}

// TestTreeThatHoldsItselfManyTimes: thirteen objects that spell 10^12 directories and not one file.
func TestTreeThatHoldsItselfManyTimes(t *testing.T) {
	store := memory.NewStorage()
	save := func(value interface {
		Encode(plumbing.EncodedObject) error
	}) plumbing.Hash {
		o := store.NewEncodedObject()
		require.NoError(t, value.Encode(o))
		hash, err := store.SetEncodedObject(o)
		require.NoError(t, err)
		return hash
	}
	tree := save(&object.Tree{})
	for range 12 {
		var entries []object.TreeEntry
		for i := range 10 {
			entries = append(entries, object.TreeEntry{Name: fmt.Sprintf("d%d", i), Mode: filemode.Dir, Hash: tree})
		}
		tree = save(&object.Tree{Entries: entries})
	}
	commit := save(&object.Commit{TreeHash: tree})
	_, err := newTree(store, commit, commit, Limits{Files: 1000}.withDefaults())
	require.EqualError(t, err, "the repository has more than 4000 directories; split it or raise the limit")
}
