package promotion

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// States of a commit status, as every forge's are translated to.
const (
	success = "success"
	failure = "failure"
	broken  = "error"
)

// Shown is the newest status of one context on a commit, whoever wrote it.
type Shown struct {
	Context string
	// State is pending, success, failure or error.
	State string
	// At is when it was written by the forge's clock; zero where the forge does not say.
	At time.Time
}

// Question is everything that a decision is made from.
type Question struct {
	// Gates of the Fleet.
	Gates []fleetv1.PromotionGate
	// Revision that wants to be applied, and what its commit shows.
	Revision string
	Shown    []Shown
	// Had is the last answer, about whichever revision; nil if there is none.
	Had *fleetv1.PromotionStatus
	// Now is the clock.
	Now time.Time
}

// Answer is whether the revision may be applied.
type Answer struct {
	// Open: nothing is waited for any more.
	Open bool
	// Status is what to remember, so that a soak goes on over restarts.
	Status *fleetv1.PromotionStatus
	// Next is when time alone opens the last gate; zero if something else has to happen first, or nothing.
	Next time.Time
}

// Decide answers the question. A success counts from the time that the forge gives, else from when it was first seen; what was
// remembered of an earlier look at the same revision stays, as a success whose words were rewritten is no other one.
func Decide(q Question) Answer {
	out := Answer{Open: true, Status: &fleetv1.PromotionStatus{Revision: q.Revision}}
	waitsForTime := true
	for _, gate := range q.Gates {
		now := q.look(gate.Context)
		out.Status.Gates = append(out.Status.Gates, now)
		if isOpen(gate, now, q.Now) {
			continue
		}
		out.Open = false
		if now.Since == nil {
			waitsForTime = false
			continue
		}
		if end := now.Since.Add(soakOf(gate)); end.After(out.Next) {
			out.Next = end
		}
	}
	if !waitsForTime || out.Open {
		out.Next = time.Time{}
	}
	return out
}

// look is how a gate stands now.
func (q Question) look(context string) fleetv1.PromotionGateStatus {
	out := fleetv1.PromotionGateStatus{Context: context}
	i := slices.IndexFunc(q.Shown, func(s Shown) bool { return s.Context == context })
	if i < 0 {
		return out
	}
	out.State = q.Shown[i].State
	if out.State != success {
		return out
	}
	out.Since = q.remembered(context)
	if out.Since == nil {
		out.Since = since(q.Shown[i].At, q.Now)
	}
	return out
}

// remembered is since when the context was success at the last look at this revision; nil if it was not.
func (q Question) remembered(context string) *metav1.Time {
	if q.Had == nil || q.Had.Revision != q.Revision {
		return nil
	}
	for _, gate := range q.Had.Gates {
		if gate.Context == context && gate.State == success && gate.Since != nil && !gate.Since.After(q.Now) {
			return gate.Since
		}
	}
	return nil
}

// since is in whole seconds, as it is stored, and never too early. A forge whose clock is ahead does not shorten a soak.
func since(at, now time.Time) *metav1.Time {
	if at.IsZero() || at.After(now) {
		at = now
	}
	whole := at.Truncate(time.Second)
	if whole.Before(at) {
		whole = whole.Add(time.Second)
	}
	return &metav1.Time{Time: whole}
}

func soakOf(gate fleetv1.PromotionGate) time.Duration {
	if gate.Soak == nil {
		return 0
	}
	return max(0, gate.Soak.Duration)
}

// isOpen: without a soak, success is enough, also in the second in which it was seen.
func isOpen(gate fleetv1.PromotionGate, now fleetv1.PromotionGateStatus, clock time.Time) bool {
	if now.State != success || now.Since == nil {
		return false
	}
	soak := soakOf(gate)
	return soak == 0 || clock.Sub(now.Since.Time) >= soak
}

// HeldBack are the contexts that are failure or error: only a newer commit, or a person, goes on from there.
func HeldBack(status *fleetv1.PromotionStatus) []string {
	var out []string
	if status == nil {
		return nil
	}
	for _, gate := range status.Gates {
		if gate.State == failure || gate.State == broken {
			out = append(out, gate.Context)
		}
	}
	return out
}
