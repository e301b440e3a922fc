package reconciler

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// evictionMemory is what the API server answered to pods that were asked to leave, each with its own back-off. Losing it
// costs one more request for each pod. It is safe for concurrent use.
type evictionMemory struct {
	mu    sync.Mutex
	nodes map[types.UID]map[types.UID]remembered // by node, then pod
}

type remembered struct {
	plan.Refusal
	delay time.Duration
	at    time.Time
}

// pace is the wait before a pod is asked again: it doubles from first to most.
type pace struct{ first, most time.Duration }

// paceOf goes by how often a drain looks again (5 seconds by default): a budget is asked after 5, 10, 20, 30, 30 … seconds, so
// is a server that fails; one that throttles says itself when; a namespace that is being deleted takes its pods along
// without us.
func paceOf(k plan.RefusalKind, retry time.Duration) pace {
	switch k {
	case plan.RefusedByThrottling:
		return pace{retry / 5, 6 * retry}
	case plan.RefusedByNamespace:
		return pace{2 * retry, 2 * retry}
	case plan.RefusedByBudget, plan.RefusedByError:
	}
	return pace{retry, 6 * retry}
}

// longestWait bounds what the API server may ask for.
const longestWait = time.Minute

// note remembers what was refused, and forgets what was accepted, or answered for a pod that is not there any more.
func (m *evictionMemory) note(d plan.Decision, outcome report.Outcome, now time.Time, retry time.Duration) {
	if len(outcome.Evictions) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pods := maps.Clone(m.nodes[d.NodeUID]) // plans hold what was there before
	if pods == nil {
		pods = map[types.UID]remembered{}
	}
	for _, e := range outcome.Evictions {
		refusal, refused := e.Refusal()
		if !refused {
			delete(pods, e.UID)
			continue
		}
		p := paceOf(refusal.Kind, retry)
		delay := min(p.most, max(p.first, 2*pods[e.UID].delay))
		refusal.Again = now.Add(max(delay, min(e.RetryAfter, longestWait)))
		pods[e.UID] = remembered{refusal, delay, now}
	}
	if m.nodes == nil {
		m.nodes = map[types.UID]map[types.UID]remembered{}
	}
	m.nodes[d.NodeUID] = pods
}

// outdated is after how many longest back-offs an answer is forgotten: the pod has left by itself, or is not asked any more.
const outdated = 10

// apply gives the nodes their memory and forgets the nodes that are gone and the answers that are old.
func (m *evictionMemory) apply(nodes []plan.Node, now time.Time, retry time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.nodes) == 0 {
		return
	}
	kept := make(map[types.UID]map[types.UID]remembered, len(m.nodes))
	for i := range nodes {
		pods := m.nodes[nodes[i].UID]
		if len(pods) == 0 {
			continue
		}
		alive := make(map[types.UID]remembered, len(pods))
		nodes[i].Refusals = make(map[types.UID]plan.Refusal, len(pods))
		for uid, answer := range pods {
			if now.Sub(answer.at) < outdated*6*retry+longestWait {
				alive[uid], nodes[i].Refusals[uid] = answer, answer.Refusal
			}
		}
		kept[nodes[i].UID] = alive
	}
	m.nodes = kept
}

// accepted is the decision with the evictions that were accepted, for those who hear of it.
func accepted(d plan.Decision, outcome report.Outcome) plan.Decision {
	took := map[types.UID]bool{}
	for _, e := range outcome.Evictions {
		took[e.UID] = e.Result == report.EvictionAccepted
	}
	var evict []plan.Eviction
	for _, e := range d.Evict {
		if took[e.UID] {
			evict = append(evict, e)
		}
	}
	d.Evict = evict
	return d
}
