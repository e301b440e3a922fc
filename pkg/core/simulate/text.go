package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Text is the result for people, in lines that end with a newline.
func Text(r Result) string {
	var b strings.Builder
	for i, o := range r.Rollouts {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeRollout(&b, o)
	}
	if len(r.Rollouts) > 1 {
		fmt.Fprintf(&b, "\nAll NodeWrights: %s. Out of service: %s.\n", after(r.End), r.OutOfService)
	}
	if r.Problem != "" {
		fmt.Fprintf(&b, "\nThe simulation was given up: %s.\n", r.Problem)
	}
	return trimmed(b.String())
}

// trimmed is a text without the blanks with which tables fill up their lines.
func trimmed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TextOfGroups says how nodes were imagined.
func TextOfGroups(nodes int, groups []Group) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s imagined, with labels from the selectors of NodeWrights and compartments:\n", plural(nodes, "node"))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, g := range groups {
		made := "default"
		if g.Compartment != "" {
			made = g.Compartment
		}
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\n", g.Count, made, span(g.First, g.Last), labelsOf(g.Labels))
	}
	_ = table.Flush() // a strings.Builder takes everything
	return b.String()
}

func labelsOf(l map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(l)) {
		out = append(out, key+"="+l[key])
	}
	return strings.Join(out, ",")
}

func writeRollout(b *strings.Builder, o Rollout) {
	fmt.Fprintf(b, "NodeWright %s: %s\n", o.NodeWright, o.headline())
	for _, c := range o.Compartments {
		if c.Nodes > 0 || len(c.Batches) > 0 {
			writeCompartment(b, c)
		}
	}
	if o.Outcome == NoNodes {
		return
	}
	if o.OutOfService.Peak > 0 {
		fmt.Fprintf(b, "  out of service: %s\n", o.OutOfService)
	} else {
		b.WriteString("  out of service: no node\n")
	}
	if o.Outcome != Complete {
		for _, r := range o.Reasons {
			fmt.Fprintf(b, "  %s: %s (%s): %s\n", r.Code, plural(r.Count, "node"), firstOf(r.Nodes, r.Count), r.Message)
		}
	}
}

// headline is the outcome in a sentence.
func (o Rollout) headline() string {
	share := fmt.Sprintf("%d of %s complete", o.Complete, plural(o.Total, "node"))
	switch o.Outcome {
	case Complete:
		if o.Begin == 0 && o.End == 0 {
			return fmt.Sprintf("nothing to do, %s", share)
		}
		return fmt.Sprintf("complete %s, %s", after(o.End), share)
	case Failed:
		return fmt.Sprintf("ends %s with failures, %s, %d failed", after(o.End), share, o.Failed)
	case Halted:
		return fmt.Sprintf("halts, %s, %d failed, %d not admitted", share, o.Failed, o.Waiting)
	case NoNodes:
		return "targets no node"
	case Stuck:
	}
	return fmt.Sprintf("does not finish, %s, %d failed, %d waiting", share, o.Failed, o.Waiting)
}

func writeCompartment(b *strings.Builder, c Compartment) {
	strategy := c.Strategy
	if strategy == "none" {
		strategy = "no strategy"
	}
	fmt.Fprintf(b, "  compartment %s: %s, %s, ceiling %d\n", c.Name, strategy, plural(c.Nodes, "node"), c.Ceiling)
	if len(c.Batches) > 0 {
		table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "    batch\tnodes\tbegins\tends\tverdict\t")
		for _, r := range runsOf(c.Batches) {
			fmt.Fprintf(table, "    %s\t%s\t%s\t%s\t%s\t%s\n", r.numbers(), r.sizes(), clockTime(r.first().Begin), r.end(), r.verdict(), r.names())
		}
		_ = table.Flush() // a strings.Builder takes everything
	}
	if c.Halt != nil {
		fmt.Fprintf(b, "    halted at %s by batch %d: %s\n", clockTime(c.Halt.At), c.Halt.Batch, c.Halt.Message)
	}
}

// run is a row of the table: one batch, or many in a row that differ in nothing but their nodes.
type run []Batch

// leastRun is how many equal batches in a row are told as one.
const leastRun = 4

func runsOf(batches []Batch) []run {
	var out []run
	for from := 0; from < len(batches); {
		to := from + 1
		for to < len(batches) && alike(batches[from], batches[to]) {
			to++
		}
		if to-from < leastRun {
			to = from + 1
		}
		out = append(out, run(batches[from:to]))
		from = to
	}
	return out
}

func alike(a, b Batch) bool {
	return a.Round == b.Round && len(a.Nodes) == len(b.Nodes) && a.Verdict == b.Verdict && a.Failed == b.Failed
}

func (r run) first() Batch { return r[0] }
func (r run) last() Batch  { return r[len(r)-1] }

func (r run) numbers() string {
	if len(r) == 1 {
		return fmt.Sprint(r[0].Number)
	}
	return fmt.Sprintf("%d-%d", r.first().Number, r.last().Number)
}

func (r run) sizes() string {
	if len(r) == 1 {
		return fmt.Sprint(len(r[0].Nodes))
	}
	return fmt.Sprintf("%d each", len(r[0].Nodes))
}

func (r run) end() string {
	if r.last().Verdict == Open {
		return "-"
	}
	return clockTime(r.last().End)
}

func (r run) verdict() string {
	if r[0].Failed == 0 {
		return string(r[0].Verdict)
	}
	return fmt.Sprintf("%s, %d failed", r[0].Verdict, r[0].Failed)
}

func (r run) names() string {
	nodes := r.last().Nodes
	if len(r) == 1 && len(nodes) <= 3 {
		return strings.Join(nodes, " ")
	}
	return span(r.first().Nodes[0], nodes[len(nodes)-1])
}

// span names the first and the last of several nodes.
func span(first, last string) string {
	if first == last {
		return first
	}
	return first + " … " + last
}

func firstOf(nodes []string, count int) string {
	const most = 3
	if len(nodes) <= most && len(nodes) == count {
		return strings.Join(nodes, ", ")
	}
	shown := nodes[:min(most, len(nodes))]
	return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), count-len(shown))
}

func after(o Offset) string { return "after " + clockTime(o) }

// clockTime words an offset to the second: 7m10s, 6h12m30s, 3d4h0m0s.
func clockTime(o Offset) string {
	const day = 24 * time.Hour
	d := time.Duration(o).Round(time.Second)
	if d < day {
		return d.String()
	}
	return fmt.Sprintf("%dd%s", d/day, d%day)
}

// String words a load: the most at once, and the sum over time.
func (l Load) String() string {
	out := fmt.Sprintf("at most %s at once, %.1f node hours", plural(l.Peak, "node"), l.NodeSeconds/time.Hour.Seconds())
	if l.AtEnd > 0 {
		out += fmt.Sprintf(", %d still at the end", l.AtEnd)
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
