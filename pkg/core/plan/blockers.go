package plan

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// blockers are the nodes that others wait for: the first few by name, with what holds them up, and how many there are.
type blockers struct {
	n     int
	parts []string
}

func (b *blockers) add(m *member, why string) {
	const most = 3
	if b.n++; b.n <= most {
		b.parts = append(b.parts, m.node.Name+why)
	}
}

// String is the list behind a colon; empty if there is nobody.
func (b *blockers) String() string {
	parts := b.parts
	if left := b.n - len(parts); left > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", left))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// holdersOf names the nodes that hold the slots of a compartment, before those that are admitted now.
func (v *view) holdersOf(c *compartment, admitted int) string {
	var who blockers
	for _, m := range v.at {
		switch {
		case m == nil:
		case c.holders[m]:
			who.add(m, m.heldUp())
		case m.compartment == c && c.counts(m):
			who.add(m, " (unavailable)")
		}
	}
	switch out := who.String(); {
	case admitted == 0:
		return out
	case out == "":
		return fmt.Sprintf(": %d admitted now", admitted)
	default:
		return fmt.Sprintf("%s, %d admitted now", out, admitted)
	}
}

// openIn names the nodes of a compartment's newest batch that have not ended.
func (v *view) openIn(c *compartment, batch int32) string {
	var who blockers
	for _, m := range v.at {
		switch {
		case m == nil:
		case m.intent != nil && m.intent.Compartment == c.name,
			m.rec.Compartment == c.name && m.rec.Batch == batch && v.current(m.rec) && m.rec.IsOpen():
			who.add(m, m.heldUp())
		}
	}
	return who.String()
}

// heldUp is what a node under way waits for, in brackets; empty while it goes on, so that the sentence does not change
// with each of its stages.
func (m *member) heldUp() string {
	switch {
	case m.rec.Outcome == noderecord.Failed:
		return " (failed)"
	case m.reason == nil || m.reason.code.goesOn():
		return ""
	case m.reason.object == "":
		return " (" + string(m.reason.code) + ")"
	}
	return " (" + string(m.reason.code) + ", " + m.reason.object + ")"
}
