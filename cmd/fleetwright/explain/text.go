package explain

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// page is text that grows.
type page struct {
	strings.Builder
	now time.Time
}

func (p *page) line(indent int, format string, args ...any) {
	text := strings.Repeat("  ", indent) + fmt.Sprintf(format, args...)
	p.WriteString(strings.TrimRight(text, " ") + "\n")
}

// hang indents all lines of a text but the first.
func hang(text string, spaces int) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", spaces))
}

// fields writes `name value` pairs with aligned values; empty values are left out.
func (p *page) fields(indent int, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			p.line(indent, "%-*s  %s", width+1, pairs[i]+":", hang(pairs[i+1], 2*indent+width+3))
		}
	}
}

func (p *page) notes(notes []string) {
	for _, n := range notes {
		p.line(0, "Note: %s.", n)
	}
	if len(notes) > 0 {
		p.line(0, "")
	}
}

// at says when something was, and how long ago that is.
func (p *page) at(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), short(p.now.Sub(*t)))
}

// short is a duration in its two largest units, as people say it.
func short(d time.Duration) string {
	d = max(0, d)
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// Text words the explanation; now is the time from which ages are counted.
func (e NodeExplanation) Text(now time.Time) string {
	p := &page{now: now}
	p.notes(e.Notes)
	p.line(0, "node %s: %s", e.Node, e.state())
	for _, t := range e.NodeWrights {
		p.line(0, "")
		p.turn(t)
	}
	switch {
	case len(e.NodeWrights) == 0 && len(e.NotSelectedBy) == 0:
		p.line(0, "The cluster has no NodeWright.")
	case len(e.NodeWrights) == 0:
		p.line(0, "No NodeWright selects it: %s.", strings.Join(e.NotSelectedBy, ", "))
	case len(e.NotSelectedBy) > 0:
		p.line(0, "")
		p.line(0, "Not selected by: %s.", strings.Join(e.NotSelectedBy, ", "))
	}
	return p.String()
}

func (e NodeExplanation) state() string {
	out := "NotReady"
	if e.Ready {
		out = "Ready"
	}
	switch {
	case len(e.CordonedBy) > 0 && e.Unschedulable:
		return out + ", cordoned by nodewright " + strings.Join(e.CordonedBy, ", ")
	case len(e.CordonedBy) > 0:
		return out + ", uncordoned by somebody else while nodewright " + strings.Join(e.CordonedBy, ", ") + " owns a cordon"
	case e.Unschedulable:
		return out + ", cordoned by somebody else"
	}
	return out
}

func (p *page) turn(t Turn) {
	p.line(0, "nodewright %s: %s", t.NodeWright, t.Reason.Code)
	admitted := "not yet in round " + fmt.Sprint(t.CurrentRound)
	if t.Batch > 0 {
		admitted = fmt.Sprintf("round %d, %s", t.Round, t.place())
		if t.CurrentRound > t.Round {
			admitted += fmt.Sprintf(" (the rollout is in round %d)", t.CurrentRound)
		}
	}
	pairs := append(p.reason(t.Reason), "admitted", admitted)
	for _, pkg := range t.Packages {
		pairs = append(pairs, "package "+pkg.Name, pkg.text())
	}
	p.fields(1, pairs...)
	if t.Failure != nil {
		p.failure(1, *t.Failure)
	}
}

// place is where the node was admitted; a new node that was not in use needed no slot of any compartment.
func (t Turn) place() string {
	if t.Compartment == "" {
		return "without a slot"
	}
	return fmt.Sprintf("batch %d, compartment %s", t.Batch, t.Compartment)
}

// reason are the fields of a reason without its code.
func (p *page) reason(r Reason) []string {
	return []string{
		"why", r.Message, "waits for", r.Object, "since", p.at(r.Since), "until", r.Ends, "reported", r.Reported,
	}
}

func (pkg Package) text() string {
	out := fmt.Sprintf("%s %s %s", pkg.Version, pkg.Stage, pkg.State)
	if pkg.Attempt > 1 {
		out += fmt.Sprintf(", attempt %d", pkg.Attempt)
	}
	if pkg.Job != "" {
		out += ", job " + pkg.Job
	}
	return out
}

// failure words a failure and quotes the log; the message of the record is the end of the same log.
func (p *page) failure(indent int, f Failure) {
	said := noderecord.Failure{Package: f.Package, Stage: f.Stage, ExitCode: f.ExitCode, Reason: f.Reason, Message: f.Message}
	if f.Log != "" {
		said.Message = ""
	}
	p.line(indent, "%s", report.FailureText(plan.NodeFailure{Node: f.Node, Failure: said}))
	if f.Job == "" {
		return
	}
	p.line(indent+1, "job %s", f.Job)
	for _, l := range strings.Split(f.Log, "\n") {
		if l != "" {
			p.line(indent+1, "| %s", l)
		}
	}
}

// Text words the explanation; now is the time from which ages are counted.
func (e NodeWrightExplanation) Text(now time.Time) string {
	p := &page{now: now}
	p.notes(e.Notes)
	p.line(0, "nodewright %s: %s, %d/%d nodes complete, %d in progress, %d failed, %d waiting, %d blocked",
		e.NodeWright, e.Status, e.Complete, e.Total, e.InProgress, e.Failed, e.Waiting, e.Blocked)
	round := fmt.Sprintf("%d, generation %d", e.Round, e.Generation)
	if e.LateJoiners {
		round += ", for nodes that joined a completed rollout"
	}
	excluded := ""
	if e.Excluded > 0 {
		excluded = fmt.Sprintf("%d selected nodes are not targeted", e.Excluded)
	}
	p.fields(1, "problem", e.Problem, "round", round, "packages", strings.Join(e.Packages, ", "), "excluded", excluded)
	p.compartments(e.Compartments)
	for _, g := range e.Reasons {
		p.line(0, "")
		p.line(0, "%d %s: %s", g.Count, g.Code, firstNames(g))
		p.fields(1, p.reason(g.Reason)...)
	}
	if len(e.Failures) > 0 {
		p.line(0, "")
	}
	for _, f := range e.Failures {
		p.failure(0, f)
	}
	return p.String()
}

func firstNames(g Group) string {
	out := strings.Join(g.Nodes, ", ")
	if more := int(g.Count) - len(g.Nodes); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

func (p *page) compartments(all []Compartment) {
	if len(all) == 0 {
		return
	}
	p.line(0, "")
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPARTMENT\tSTRATEGY\tNODES\tCEILING\tIN USE\tCOMPLETE\tFAILED\tBATCH\tSIZE\tHALTED")
	for _, c := range all {
		strategy, halted := c.Strategy, "no"
		if strategy == "" {
			strategy = "none"
		}
		if c.Halt != nil {
			halted = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n",
			c.Name, strategy, c.Nodes, c.Ceiling, c.InUse, c.Complete, c.Failed, c.Batch, c.BatchSize, halted)
	}
	_ = w.Flush() // a Builder takes everything
	p.WriteString(table.String())
	for _, c := range all {
		if c.Halt != nil {
			p.line(0, "compartment %s halted in batch %d, %s: %s", c.Name, c.Halt.Batch, p.at(&c.Halt.At.Time), hang(c.Halt.Message, 2))
		}
	}
}
