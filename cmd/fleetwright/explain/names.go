package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
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
		d := finding.Distance(name, n)
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
