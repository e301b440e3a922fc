package promotion

import (
	"fmt"
	"strings"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// soakSteps is in how many steps the words count a soak: a status that changed with each look would be a row on the forge
// each time.
const soakSteps = 10

// Sentence says what a revision waits for; empty if it waits for nothing.
//
//	waits for fleetwright/canary: pending
//	waits for fleetwright/canary: success, 12 min of 30 min
//	held back: fleetwright/canary is failure
func Sentence(status *fleetv1.PromotionStatus, gates []fleetv1.PromotionGate, now time.Time) string {
	var held, waits []string
	for _, gate := range gates {
		at := stateOf(status, gate.Context)
		switch {
		case isOpen(gate, at, now):
		case at.State == failure || at.State == broken:
			held = append(held, gate.Context+" is "+at.State)
		default:
			waits = append(waits, gate.Context+": "+waitsFor(gate, at, now))
		}
	}
	switch {
	case len(held) > 0:
		return "held back: " + strings.Join(held, ", ")
	case len(waits) > 0:
		return "waits for " + strings.Join(waits, "; ")
	}
	return ""
}

// Names are the contexts of the gates, with commas.
func Names(gates []fleetv1.PromotionGate) string {
	var out []string
	for _, gate := range gates {
		out = append(out, gate.Context)
	}
	return strings.Join(out, ", ")
}

func stateOf(status *fleetv1.PromotionStatus, context string) fleetv1.PromotionGateStatus {
	if status != nil {
		for _, gate := range status.Gates {
			if gate.Context == context {
				return gate
			}
		}
	}
	return fleetv1.PromotionGateStatus{}
}

func waitsFor(gate fleetv1.PromotionGate, at fleetv1.PromotionGateStatus, now time.Time) string {
	switch {
	case at.State == "":
		return "no status yet"
	case at.State != success || at.Since == nil:
		return at.State
	}
	soak := soakOf(gate)
	step := max(soak/soakSteps, time.Second)
	done := max(0, now.Sub(at.Since.Time)).Truncate(step)
	if step >= time.Minute {
		return fmt.Sprintf("success, %d min of %s", done/time.Minute, inUnits(soak))
	}
	return fmt.Sprintf("success, %d s of %s", done/time.Second, inUnits(soak))
}

// inUnits words a duration exactly: 2 h, 90 min, 45 s.
func inUnits(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
