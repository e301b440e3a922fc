package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// barWidth is the width of a progress bar in characters.
const barWidth = 24

// screen prints the story. Every line stays: it reads the same in a terminal and in a log.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
	last  string
}

func newScreen(out io.Writer) *screen { return &screen{out: out, begin: time.Now()} }

// chapter begins a part of the story.
func (s *screen) chapter(title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "\n━━ %s %s\n", title, strings.Repeat("━", max(0, 96-len([]rune(title)))))
	s.last = ""
}

// say prints one line with the time since the start.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%5.1fs  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}

// block prints text as it is, indented.
func (s *screen) block(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(s.out, "        %s\n", line)
	}
}

// progress prints a bar for each compartment of a NodeWright, if anything changed since the last time.
func (s *screen) progress(nw *nwv1.NodeWright) {
	var b strings.Builder
	for _, name := range sortedKeys(nw.Status.CompartmentStatuses) {
		c := nw.Status.CompartmentStatuses[name]
		if c.Matched == 0 {
			continue
		}
		fmt.Fprintf(&b, "%-11s %-9s %s %2d/%-2d", nw.Name, name, bar(c), c.Completed, c.Matched)
		if c.BatchState != nil && c.BatchState.CurrentBatch > 0 {
			fmt.Fprintf(&b, "  batch %d", c.BatchState.CurrentBatch)
		}
		fmt.Fprintf(&b, "  at most %d at once", c.Ceiling)
		if c.BatchState != nil && c.BatchState.ShouldStop {
			b.WriteString("  HALTED")
		}
		b.WriteString("\n")
	}
	text := b.String()
	s.mu.Lock()
	same := text == s.last || text == ""
	s.last = text
	s.mu.Unlock()
	if !same {
		s.say("%s: %s complete", nw.Name, nw.Status.CompleteNodes)
		s.block(text)
	}
}

// bar draws complete (█), under way (▒), failed (✗) and waiting (·) nodes.
func bar(c nwv1.CompartmentStatus) string {
	width := func(n int32) int { return int(n) * barWidth / int(c.Matched) }
	done, failed := width(c.Completed), width(c.Failed)
	at := max(0, width(c.InProgress)-failed) // a failed node may still hold its slot
	rest := max(0, barWidth-done-at-failed)
	return strings.Repeat("█", done) + strings.Repeat("▒", at) + strings.Repeat("✗", failed) + strings.Repeat("·", rest)
}
