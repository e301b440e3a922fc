package review

import "slices"

// Listing is the content of the files of a tree by path: any hash of it.
type Listing map[string]string

// Merge is what merging comes to, file by file.
type Merge struct {
	// FromHead are the files of the result that the pull request's head has, and the branch has not, or otherwise.
	FromHead map[string]bool
	// Gone are the files of the branch that the pull request removes.
	Gone map[string]bool
	// Both are the files that both sides changed, and not to the same: whether their lines can be merged is not known here. Sorted.
	Both []string
}

// MergeFiles merges the head into the branch. A file that one side changed is taken from it. Without a merge base (nil) the
// result is the head, as nobody can tell who changed what.
func MergeFiles(branch, head, mergeBase Listing) Merge {
	out := Merge{FromHead: map[string]bool{}, Gone: map[string]bool{}}
	for path := range head {
		out.add(path, [3]string{branch[path], head[path], mergeBase[path]}, mergeBase == nil)
	}
	for path := range branch {
		if _, there := head[path]; !there {
			out.add(path, [3]string{branch[path], "", mergeBase[path]}, mergeBase == nil)
		}
	}
	slices.Sort(out.Both)
	return out
}

// add decides on one file; sides are branch, head and merge base, empty where it is not there.
func (m *Merge) add(path string, sides [3]string, headWins bool) {
	branch, head, old := sides[0], sides[1], sides[2]
	switch {
	case head == branch, head == old && !headWins:
		return
	case branch != old && !headWins:
		m.Both = append(m.Both, path)
	}
	if head == "" {
		m.Gone[path] = true
		return
	}
	m.FromHead[path] = true
}

// BothOf are the files of some paths that both sides changed, sorted.
func (m Merge) BothOf(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(m.Both), func(p string) bool { return !slices.Contains(paths, p) })
}
