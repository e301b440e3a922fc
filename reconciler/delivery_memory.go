package reconciler

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// deliveryMemory is what the process remembers of Fleets. All of it may be lost: a Fleet without memory is looked at afresh.
type deliveryMemory struct {
	mu     sync.Mutex
	fleets map[types.NamespacedName]*fleetMemory
	passes map[types.NamespacedName]*underWay
}

// fleetMemory belongs to the one worker that has the Fleet, except for drift.
type fleetMemory struct {
	// uid of the Fleet: another one may take its name.
	uid types.UID
	// next is when the repository is looked at again; zero: now.
	next time.Time
	// retries counts failures in a row that are tried again.
	retries int
	// pushed is the newest token of a webhook that was heeded. A process that starts looks at every Fleet anyway.
	pushed string
	// byHand is the revision that people were told is promoted by hand.
	byHand string
	// failure of the last attempt.
	failure *report.Failure
	// rendered is the newest build, applied the one whose objects are in the cluster; nil: none.
	rendered, applied *rendering
	// signed is whose signatures were verified.
	signed signedBy
	// ended are the commits whose end was handed to the writer: it keeps trying, and no later report overrules it.
	ended map[string]bool
	// drift says that a delivered object was changed since the last apply.
	drift bool
}

// signedBy is a verdict about the signatures of one revision under one generation of the Fleet.
type signedBy struct {
	revision   string
	generation int64
	text       string
}

// of is the verdict on the attempted revision, from memory or, after a restart, from the condition.
func (s signedBy) of(fleet *fleetv1.Fleet) string {
	status := fleet.Status
	switch {
	case fleet.Spec.Source.Verify == nil:
		return ""
	case s.revision == status.LastAttemptedRevision && s.generation == fleet.Generation:
		return s.text
	}
	return report.RememberedSignatures(fleet)
}

// rendering is what a revision comes to under one generation of the Fleet.
type rendering struct {
	revision   Revision
	generation int64
	objects    []*unstructured.Unstructured
	findings   []finding.Finding
	failure    *report.Failure
	// provisional: the verdict may change without a commit.
	provisional bool
}

// of is the memory of a Fleet, by its UID.
func (m *deliveryMemory) of(fleet *fleetv1.Fleet) *fleetMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fleets == nil {
		m.fleets = map[types.NamespacedName]*fleetMemory{}
	}
	key := keyOf(fleet)
	if had := m.fleets[key]; had == nil || had.uid != fleet.UID {
		m.fleets[key] = &fleetMemory{uid: fleet.UID, ended: map[string]bool{}}
	}
	return m.fleets[key]
}

// isOther says that the memory is of an earlier Fleet of that name.
func (m *deliveryMemory) isOther(fleet *fleetv1.Fleet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	had := m.fleets[keyOf(fleet)]
	return had != nil && had.uid != fleet.UID
}

func (m *deliveryMemory) forget(fleet types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.fleets, fleet)
}

// markDrift needs no mark for a Fleet without memory: it is looked at afresh.
func (m *deliveryMemory) markDrift(fleet types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if memory := m.fleets[fleet]; memory != nil {
		memory.drift = true
	}
}

// takeDrift clears the mark; a change after it marks again.
func (m *deliveryMemory) takeDrift(memory *fleetMemory) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	drift := memory.drift
	memory.drift = false
	return drift
}

// noteEnds remembers which of the wanted statuses are an end.
func (m *fleetMemory) noteEnds(wanted []report.CommitStatus) {
	for _, w := range wanted {
		if delete(m.ended, w.Commit); w.State.Final() {
			m.ended[w.Commit] = true
		}
	}
}

// matches says that the rendering is of this revision and this generation of the Fleet.
func (r *rendering) matches(fleet *fleetv1.Fleet, revision string) bool {
	return r != nil && r.revision.Name == revision && r.generation == fleet.Generation
}

// stands says that the verdict can only change with the revision or the Fleet.
func (r *rendering) stands() bool { return r != nil && (r.failure == nil || !r.provisional) }

// backoff is how long to wait before the next try: base, 2·base, 4·base, ... but not longer than the interval, at which the
// repository is looked at anyway; spread by ±20 % so that many Fleets do not come back together.
func backoff(retries int, base, interval time.Duration, random float64) time.Duration {
	d := interval
	if shift := retries - 1; shift < 16 && base<<shift < interval {
		d = base << shift
	}
	return time.Duration(float64(d) * (0.8 + 0.4*random))
}
