package reconciler

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// subject is what failed Jobs are counted for: a package of a NodeWright on a node, or that NodeWright's interrupts there.
type subject struct {
	nodeWright, node types.UID
	pkg              string
}

func subjectOf(e plan.Execution) subject { return subject{e.NodeWrightUID, e.NodeUID, e.Package} }

// kept are the Jobs that stay of one subject, all of its newest round that failed: the first and the last that failed by
// the package itself, because the later failures are often consequences of the first; and the newest, which may be one that
// spent no attempt and so tells nothing of the package.
type kept struct{ first, last, newest *plan.Execution }

// superfluous are the names of failed Jobs that go at once, whatever their age: all but those that are kept. A later attempt
// is there for each of them, so its end is on the record and no verdict is made from it.
func superfluous(executions []plan.Execution) map[string]bool {
	subjects := map[subject]kept{}
	for i := range executions {
		if e := &executions[i]; e.State == plan.ExecutionFailed {
			subjects[subjectOf(*e)] = subjects[subjectOf(*e)].with(e)
		}
	}
	out := map[string]bool{}
	for _, e := range executions {
		if e.State == plan.ExecutionFailed && !subjects[subjectOf(e)].has(e.Name) {
			out[e.Name] = true
		}
	}
	return out
}

func (k kept) with(e *plan.Execution) kept {
	if k.newest != nil && e.Round != k.newest.Round {
		if e.Round < k.newest.Round {
			return k
		}
		k = kept{}
	}
	if k.newest == nil || later(e, k.newest) {
		k.newest = e
	}
	if !e.Counts() {
		return k
	}
	if k.first == nil || later(k.first, e) {
		k.first = e
	}
	if k.last == nil || later(e, k.last) {
		k.last = e
	}
	return k
}

func (k kept) has(name string) bool {
	for _, e := range []*plan.Execution{k.first, k.last, k.newest} {
		if e != nil && e.Name == name {
			return true
		}
	}
	return false
}

// later compares attempts of one round.
func later(a, b *plan.Execution) bool {
	return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(a.Attempt, b.Attempt)) > 0
}
