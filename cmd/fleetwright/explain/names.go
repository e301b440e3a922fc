package explain

import (
	"cmp"
	"slices"
	"strings"
)

// closestNames is how many names an error suggests.
const closestNames = 5

// closest are the names that could have been meant, the closest first: a few typing errors apart, or one a part of the
// other.
func closest(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, n := range names {
		d := distance(name, n)
		if d <= max(2, len(name)/4) || name != "" && (strings.Contains(n, name) || strings.Contains(name, n)) {
			found = append(found, candidate{n, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range found[:min(len(found), closestNames)] {
		out = append(out, c.name)
	}
	return out
}

// distance is how many letters have to be changed, added or left out (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := left
			if a[i] != b[j] {
				changed++
			}
			left, row[j+1] = row[j+1], min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
