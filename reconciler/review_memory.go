package reconciler

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
)

// reviewMemory is what the process remembers of pull requests.
type reviewMemory struct {
	mu     sync.Mutex
	fleets map[types.NamespacedName]*fleetReview
}

// fleetReview belongs to the one worker that has the Fleet.
type fleetReview struct {
	uid   types.UID
	pulls map[int64]*pullReview
	// wanted are the statuses by commit.
	wanted map[string]report.CommitStatus
	// told is the trouble that people were told last.
	told string
}

// pullReview is what is known of one pull request.
type pullReview struct {
	// head is the commit that all of this is about.
	head string
	// seen is what was said about it last; planning says that a first plan is under way.
	seen     review.Admission
	planning bool
	// made says what the plan was made from, and when.
	made   reviewKey
	madeAt time.Time
	// took is how long it took: what takes long is not done anew for every change of the cluster.
	took time.Duration
	// triedAt is when the last attempt began, whatever came of it.
	triedAt time.Time
	// review is what is to be said, published that it is.
	review    report.Review
	published bool
	// commented is the mark of the comment that the forge was last known to show, and when that was.
	commented   review.Mark
	commentedAt time.Time
	// annotated is a digest of the findings that are shown at lines.
	annotated string
}

// reviewKey is what a plan is made from.
type reviewKey struct {
	head, branch string
	generation   int64
	cluster      string
}

func (m *reviewMemory) of(fleet *fleetv1.Fleet) *fleetReview {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fleets == nil {
		m.fleets = map[types.NamespacedName]*fleetReview{}
	}
	key := keyOf(fleet)
	if had := m.fleets[key]; had == nil || had.uid != fleet.UID {
		m.fleets[key] = &fleetReview{uid: fleet.UID, pulls: map[int64]*pullReview{}}
	}
	return m.fleets[key]
}

func (m *reviewMemory) forget(fleet types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.fleets, fleet)
}

func (f *fleetReview) pull(number int64) *pullReview {
	if f.pulls[number] == nil {
		f.pulls[number] = &pullReview{}
	}
	return f.pulls[number]
}

// keep forgets pull requests that are not open any more.
func (f *fleetReview) keep(open []review.Pull) {
	for number := range f.pulls {
		if !slices.ContainsFunc(open, func(p review.Pull) bool { return p.Number == number }) {
			delete(f.pulls, number)
		}
	}
}

// see begins anew with another head, of which the forge shows something or nothing.
func (m *pullReview) see(head string, shown review.Admission) {
	*m = pullReview{head: head, seen: shown, planning: shown != review.Planned}
}

// hasVerdict says that the head has been planned, or refused for its content.
func (m *pullReview) hasVerdict() bool { return m.review.Plan != nil || m.review.Refused != "" }

func digestOf(all []finding.Finding) string { return review.Digest(fmt.Sprint(all)) }
