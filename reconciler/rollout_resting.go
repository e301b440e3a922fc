package reconciler

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

const (
	// restLeast and restMost bound how long a node is left alone after a decision on it failed; the rest doubles.
	restLeast = time.Second
	restMost  = 30 * time.Second
	// restPerCall is how many times as long as its failing call took a node rests. So a node whose writes hang takes a
	// fifth of the passes' time at most, and the others lose no more than that.
	restPerCall = 4
	// patientConflicts is how many conflicts in a row are taken for a view that lags, and tried again at once.
	patientConflicts = 5
)

// restingMemory are the decisions that failed: one for a NodeWright on a node, each left alone for a while, so that a node
// that refuses everything costs the others nothing. It is safe for concurrent use.
type restingMemory struct {
	mu      sync.Mutex
	entries map[restingKey]resting
}

type restingKey struct {
	nodeWright string
	node       types.UID
}

type resting struct {
	until     time.Time
	delay     time.Duration
	conflicts int
	// problem is what the API server said, in one sentence; empty while there are only a few conflicts.
	problem string
}

// attempt is what became of one decision that was tried.
type attempt struct {
	at      time.Time
	took    time.Duration
	outcome report.Outcome
	err     error
}

func keyOfDecision(d plan.Decision) restingKey { return restingKey{d.NodeWright, d.NodeUID} }

// rests reports whether the decision has to wait.
func (m *restingMemory) rests(d plan.Decision, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Before(m.entries[keyOfDecision(d)].until)
}

// note remembers a failure and forgets a success. again says that the decision may be made anew at once.
func (m *restingMemory) note(d plan.Decision, a attempt) (again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOfDecision(d)
	entry := m.entries[key]
	switch {
	case a.err != nil:
		entry.problem = report.APIAnswer(a.err)
	case a.outcome.Conflict && entry.conflicts+1 < patientConflicts:
		entry.conflicts++
		m.put(key, entry)
		return true
	case a.outcome.Conflict:
		entry.problem = a.outcome.Detail
	default:
		delete(m.entries, key)
		return false
	}
	entry.delay = min(restMost, max(restLeast, 2*entry.delay))
	entry.until = a.at.Add(max(entry.delay, restPerCall*a.took))
	m.put(key, entry)
	return false
}

func (m *restingMemory) put(key restingKey, entry resting) {
	if m.entries == nil {
		m.entries = map[restingKey]resting{}
	}
	m.entries[key] = entry
}

// keep forgets everything that is not decided any more.
func (m *restingMemory) keep(decisions []plan.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make(map[restingKey]resting, len(m.entries))
	for _, d := range decisions {
		if entry, ok := m.entries[keyOfDecision(d)]; ok {
			kept[keyOfDecision(d)] = entry
		}
	}
	m.entries = kept
}

// next is when the first rest ends; zero if there is none.
func (m *restingMemory) next() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first time.Time
	for _, entry := range m.entries {
		if entry.problem != "" {
			first = earlier(first, entry.until)
		}
	}
	return first
}

// problems are what the API server said about decisions that failed, by NodeWright and node UID.
func (m *restingMemory) problems() map[restingKey]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[restingKey]string, len(m.entries))
	for key, entry := range m.entries {
		if entry.problem != "" {
			out[key] = entry.problem
		}
	}
	return out
}

// explain adds to the reasons why what was decided could not be done, so that nobody has to read a log for it.
func (r *Rollout) explain(out *plan.Output, nodes []plan.Node) {
	problems := r.memory.resting.problems()
	if len(problems) == 0 {
		return
	}
	uids := make(map[string]types.UID, len(nodes))
	for i := range nodes {
		uids[nodes[i].Name] = nodes[i].UID
	}
	of := func(nodeWright, node string) string { return problems[restingKey{nodeWright, uids[node]}] }
	for i, reason := range out.Reasons {
		if problem := of(reason.NodeWright, reason.Node); problem != "" {
			out.Reasons[i].Message = explained(reason.Message, problem)
		}
	}
	for _, s := range out.Statuses {
		for i, counted := range s.Reasons {
			for _, node := range counted.Nodes {
				if problem := of(s.NodeWright, node); problem != "" {
					s.Reasons[i].Message = explained(counted.Message, "node "+node+": "+problem)
					break
				}
			}
		}
	}
}

func explained(message, problem string) string {
	return fmt.Sprintf("%s; this could not be done: %s", message, problem)
}
