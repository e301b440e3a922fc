package simulate

import (
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// chance decides outcomes from the seed and from what they are about, never from what came before: the outcome of a node
// is the same in whatever order, and under whatever policy, the nodes go.
type chance struct {
	seed     uint64
	failures Failures
	bad      map[string]bool
}

func newChance(seed uint64, f Failures) chance {
	c := chance{seed: seed, failures: f, bad: map[string]bool{}}
	for _, name := range f.Nodes {
		c.bad[name] = true
	}
	return c
}

// badNode reports whether a node fails under a NodeWright, in every attempt.
func (c chance) badNode(nodeWright, node string) bool {
	return c.bad[node] || c.below(c.failures.Percent, nodeWright, node)
}

// failsAt is the index of the stage in which an execution fails, and whether the node fails for good; -1 if it succeeds.
func (c chance) failsAt(node string, key plan.ExecutionKey, stages []nwv1.Stage) (index int, forGood bool) {
	if c.badNode(key.NodeWright, node) {
		for i, s := range stages {
			if c.failures.Stage == "" || s == c.failures.Stage {
				return i, true
			}
		}
	}
	what := []string{key.NodeWright, node, key.Package, string(key.Phase), string(rune('0' + key.Wave)), string(rune('0' + key.Attempt))}
	if c.below(c.failures.FlakyPercent, what...) {
		return int(c.roll(append(what, "stage")...) % uint64(len(stages))), false
	}
	return -1, false
}

// below reports whether something happens that happens in so many percent of all cases.
func (c chance) below(percent float64, what ...string) bool {
	const parts = 1 << 53
	return percent > 0 && float64(c.roll(what...)%parts) < percent/100*parts
}

// roll is a number that depends on the seed and on what it is about.
func (c chance) roll(what ...string) uint64 {
	h := splitmix(c.seed)
	for _, s := range what {
		for i := range len(s) {
			h = splitmix(h ^ uint64(s[i]))
		}
		h = splitmix(h ^ 0x100) // so that "a", "bc" and "ab", "c" differ
	}
	return h
}

// splitmix is one step of Steele, Lea and Flood's SplitMix64 (2014).
func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
