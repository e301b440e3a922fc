package report

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

func batchesBlock(p preview.Plan) block {
	b := block{heading: lineOf("Predicted batches"), header: []string{"NodeWright", "compartment", "nodes", "at once", "batches", "begins", "ends"}}
	for _, r := range p.Rollouts {
		for _, lane := range r.Lanes {
			b.rows = append(b.rows, []line{
				lineOf(nameOf(r.NodeWright)), lineOf(nameOf(lane.Compartment)), lineOf(lane.Nodes), lineOf("≤ ", lane.Ceiling), lineOf(sizesText(lane.Batches)),
				lineOf(span(lane.Batches[0].Begin)), lineOf(endText(lane)),
			})
		}
	}
	b.intro = append(b.intro, lineOf("If nothing fails, protected pods finish and budgets allow it; durations are guesses, see docs/simulate.md. ",
		fmt.Sprintf("All at rest after %s, at most %s out of service at once.", span(p.Seconds), plural(p.OutOfService, "node"))))
	if p.Problem != "" {
		b.intro = append(b.intro, lineOf("The prediction ends before the rollout does: ", quoteOf(p.Problem), "."))
	}
	for _, r := range p.Rollouts {
		if r.Outcome != string(simulate.Complete) && p.Problem == "" && len(r.Reasons) > 0 {
			b.bullets = append(b.bullets, lineOf(nameOf(r.NodeWright), " does not get done: ", becauseOf(r.Reasons), "."))
		}
	}
	b.diagram = ganttOf(p.Rollouts)
	return b
}

func endText(l preview.Lane) string {
	if last := l.Batches[len(l.Batches)-1]; !last.Open {
		return span(last.End)
	}
	return "open"
}

// sizesText is `1, 2, 4, 8 × 3`, in its first few parts.
func sizesText(runs []preview.Run) string {
	const most = 12
	var parts []string
	for i, r := range runs {
		if i == most {
			parts = append(parts, fmt.Sprintf("… to batch %d", runs[len(runs)-1].To))
			break
		}
		if r.From == r.To {
			parts = append(parts, fmt.Sprint(r.Size))
		} else {
			parts = append(parts, fmt.Sprintf("%d × %d", r.Size, r.To-r.From+1))
		}
	}
	return strings.Join(parts, ", ")
}

// maxTasks bounds a diagram.
const maxTasks = 40

// ganttOf draws the batches over time. Its zero is midnight of some day in whatever zone the reader is, so that the axis
// counts from 0.
func ganttOf(rollouts []preview.Rollout) string {
	var b strings.Builder
	end, tasks := 0.0, 0
	for _, r := range rollouts {
		for _, lane := range r.Lanes {
			if tasks+len(lane.Batches) > maxTasks {
				continue // a lane is drawn whole or not at all
			}
			tasks += len(lane.Batches)
			fmt.Fprintf(&b, "    section %s / %s\n", plainWord(r.NodeWright), plainWord(lane.Compartment))
			for _, run := range lane.Batches {
				end = max(end, run.End)
				fmt.Fprintf(&b, "    %s :%s, %ds\n", taskText(run), moment(run.Begin), max(1, int(run.End-run.Begin)))
			}
		}
	}
	if tasks == 0 {
		return ""
	}
	axis := "%H:%M"
	if end >= 24*60*60 {
		axis = "day %j %H:%M"
	}
	return "gantt\n    dateFormat YYYY-MM-DD HH:mm:ss\n    axisFormat " + axis + "\n" + b.String()
}

func taskText(r preview.Run) string {
	if r.From == r.To {
		return fmt.Sprintf("%d (%s)", r.From, plural(r.Size, "node"))
	}
	return fmt.Sprintf("%d-%d (%s each)", r.From, r.To, plural(r.Size, "node"))
}

// moment is an instant of the year 2001, which began on a Monday.
func moment(seconds float64) string {
	s := int(seconds)
	const day = 24 * 60 * 60
	month, date := 1, s/day+1
	for _, days := range []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
		if date <= days || month == 12 {
			break
		}
		date -= days
		month++
	}
	return fmt.Sprintf("2001-%02d-%02d %02d:%02d:%02d", month, date, s%day/3600, s%3600/60, s%60)
}

// plainWord keeps of a name what means nothing in the diagram's language.
func plainWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '_'
	}, cut(oneLine(s), 60))
}
