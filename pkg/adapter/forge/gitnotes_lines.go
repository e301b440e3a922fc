package forge

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// linesPerContext is how many statuses of one context a note keeps: enough to read the story of a rollout, and bounded.
const linesPerContext = 10

// noteLine is one status as it stands in a note. The names are part of the format: `git notes --ref=fleetwright show` prints them.
type noteLine struct {
	Context     string `json:"context"`
	State       State  `json:"state"`
	Description string `json:"description,omitempty"`
	TargetURL   string `json:"targetURL,omitempty"`
	// Time is when the line was written, RFC 3339 in UTC, by the writer's clock. Order in the note decides, not this.
	Time time.Time `json:"time"`
}

func (l noteLine) status(commit string) Status {
	return Status{Commit: commit, Context: l.Context, State: l.State, Description: l.Description, TargetURL: l.TargetURL, At: l.Time}
}

// parseLine reads one line; false for lines that other tools or people wrote.
func parseLine(raw string) (noteLine, bool) {
	var line noteLine
	if err := json.Unmarshal([]byte(raw), &line); err != nil || line.Context == "" || line.State == "" {
		return noteLine{}, false
	}
	return line, true
}

// newest returns the last line of each context, ordered by context.
func newest(note []byte, commit string) []Status {
	byContext := map[string]Status{}
	for raw := range strings.Lines(string(note)) {
		if line, ok := parseLine(strings.TrimSpace(raw)); ok {
			byContext[line.Context] = line.status(commit)
		}
	}
	return sortedStatuses(byContext)
}

func sortedStatuses(byContext map[string]Status) []Status {
	all := make([]Status, 0, len(byContext))
	for _, s := range byContext {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Context, b.Context) })
	return all
}

// appendLine returns the note with the status as its last line, and false if the newest line of the context says the same.
// The oldest lines of the context beyond linesPerContext go; every other line stays as it is, whoever wrote it.
func appendLine(note []byte, s Status, now time.Time) ([]byte, bool) {
	if slices.ContainsFunc(newest(note, s.Commit), s.Same) {
		return note, false
	}
	lines, mine := splitNote(note, s.Context)
	for drop := mine - (linesPerContext - 1); drop > 0; drop-- {
		lines = dropFirst(lines, s.Context)
	}
	return append(joinLines(lines), encodeLine(s, now)...), true
}

// splitNote returns the note's lines and how many of them are statuses of the context.
func splitNote(note []byte, context string) (lines []string, mine int) {
	for raw := range strings.Lines(string(note)) {
		raw = strings.TrimSuffix(raw, "\n")
		lines = append(lines, raw)
		if line, ok := parseLine(raw); ok && line.Context == context {
			mine++
		}
	}
	return lines, mine
}

func dropFirst(lines []string, context string) []string {
	i := slices.IndexFunc(lines, func(raw string) bool {
		line, ok := parseLine(raw)
		return ok && line.Context == context
	})
	if i < 0 {
		return lines
	}
	return slices.Delete(lines, i, i+1)
}

func joinLines(lines []string) []byte {
	var b bytes.Buffer
	for _, line := range lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// encodeLine cannot fail: the fields are texts and a time. HTML characters stay readable.
func encodeLine(s Status, now time.Time) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	line := noteLine{Context: s.Context, State: s.State, Description: s.Description, TargetURL: s.TargetURL, Time: now.UTC().Truncate(time.Second)}
	if err := enc.Encode(line); err != nil {
		return nil
	}
	return b.Bytes()
}
