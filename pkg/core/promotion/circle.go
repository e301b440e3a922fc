package promotion

import (
	"fmt"
	"slices"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// Waiter is a Fleet as others wait for it.
type Waiter struct {
	// Name is `namespace/name`.
	Name string
	// Repository is the URL of its source: statuses of another repository are about other commits.
	Repository string
	// Context under which it writes statuses; empty if it writes none.
	Context string
	// After are its gates.
	After []fleetv1.PromotionGate
}

// Refusal says why a Fleet could never promote anything; empty if nothing is known that speaks against it. Others are the Fleets
// of the same cluster: a circle over several clusters is not seen.
func Refusal(self Waiter, others []Waiter) string {
	if len(self.After) == 0 {
		return ""
	}
	if self.Context == "" {
		return "spec.promotion.after needs spec.checks: without it there is nothing to read statuses from"
	}
	for i, gate := range self.After {
		if gate.Context == self.Context {
			return fmt.Sprintf("spec.promotion.after[%d].context %q is the context of this Fleet itself: it would wait for ever", i, gate.Context)
		}
	}
	circles := search{all: sameRepository(self, others), seen: map[string]bool{}}
	if circle := circles.from(self, nil); len(circle) > 0 {
		return "spec.promotion.after: Fleets wait for each other in a circle: " + strings.Join(circle, " → ")
	}
	return ""
}

// search remembers where it was: what did not lead back once does not later.
type search struct {
	all  []Waiter
	seen map[string]bool
}

// from follows the gates until they lead back to where they began.
func (s search) from(at Waiter, way []string) []string {
	way = append(slices.Clone(way), at.Name)
	s.seen[at.Name] = true
	for _, gate := range at.After {
		for _, next := range s.all {
			if next.Context == gate.Context && next.Name == way[0] {
				return append(way, next.Name)
			}
			if next.Context != gate.Context || s.seen[next.Name] {
				continue
			}
			if circle := s.from(next, way); len(circle) > 0 {
				return circle
			}
		}
	}
	return nil
}

func sameRepository(self Waiter, others []Waiter) []Waiter {
	out := []Waiter{self}
	for _, o := range others {
		if o.Name != self.Name && o.Context != "" && repository(o.Repository) == repository(self.Repository) {
			out = append(out, o)
		}
	}
	return out
}

func repository(url string) string { return strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git") }
