package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
)

// MaxComment is how long a comment may be, in bytes: forges cut near 65 536 characters.
const MaxComment = 60_000

// PlanComment is a plan as a comment for a pull request, in markdown of at most 60 000 bytes. A large one is shortened row by row: tables
// stay whole, and say what is left out. Text from manifests is escaped.
func PlanComment(p preview.Plan) string { return planDocument(p).within(MaxComment) }

// within shortens a document until its markdown has at most limit bytes. What is too long even with one row in each table keeps
// its first parts whole.
func (d document) within(limit int) string {
	text := ""
	for _, most := range []int{200, 100, 50, 25, 12, 6, 3, 1} {
		if text = d.shortened(most).markdown(); len(text) <= limit {
			return text
		}
	}
	for d = d.shortened(1); len(text) > limit && len(d) > 1; {
		d = d[:len(d)-1]
		text = append(d[:len(d):len(d)], block{intro: []line{lineOf("… and more, which does not fit here.")}}).markdown()
	}
	return text
}

// PlanText is the same for a terminal, in full.
func PlanText(p preview.Plan) string { return planDocument(p).text() }

func planDocument(p preview.Plan) document {
	d := document{{heading: lineOf("Plan for ", nameOf(p.Path)), intro: []line{planHeadline(p), planComparison(p)}}}
	add := func(b block) {
		if len(b.rows)+len(b.bullets) > 0 {
			d = append(d, b)
		}
	}
	add(findingsBlock(p))
	if p.Result == preview.Errors {
		return d
	}
	add(packagesBlock(p))
	add(effectsBlock(p))
	add(batchesBlock(p))
	add(blocksBlock(p))
	add(warningsBlock(p))
	add(inertBlock(p))
	add(settingsBlock(p))
	var notes []line
	for _, n := range p.Notes {
		notes = append(notes, lineOf(quoteOf(n)))
	}
	add(block{heading: lineOf("Not known"), bullets: notes})
	return d
}

// planHeadline says in a sentence what the change does, and to how many nodes.
func planHeadline(p preview.Plan) line {
	switch p.Result {
	case preview.Errors:
		errors := 0
		for _, f := range p.Findings {
			if f.Severity == finding.Error {
				errors++
			}
		}
		return lineOf("**This change has ", plural(errors, "error"), " and cannot be applied.**")
	case preview.None:
		return lineOf("**No changes.**")
	case preview.Changes:
	}
	switch {
	case p.Nodes.Source == preview.NoNodes:
		return lineOf("**This change concerns ", concerns(p), ".** It is planned for no nodes: neither a cluster nor a list of nodes was given.")
	case p.Affected.Nodes == 0:
		return lineOf("**None of ", plural(p.Nodes.Count, "node"), " has anything to do because of this change.** It concerns ", concerns(p), ".")
	}
	has := "has"
	if p.Affected.Nodes > 1 {
		has = "have"
	}
	return lineOf("**", fmt.Sprintf("%d of %s %s", p.Affected.Nodes, plural(p.Nodes.Count, "node"), has), " something to do because of this change: ",
		consequence(p.Affected), ".**")
}

func concerns(p preview.Plan) string {
	var parts []string
	if n := len(p.NodeWrights); n > 0 {
		parts = append(parts, plural(n, "NodeWright"))
	}
	if n := len(p.Others); n > 0 {
		parts = append(parts, plural(n, "other object"))
	}
	packages := 0
	for _, nw := range p.NodeWrights {
		for _, pkg := range nw.Packages {
			if starts(pkg) {
				packages++
			}
		}
	}
	if packages > 0 {
		return strings.Join(parts, " and ") + " with " + plural(packages, "changed package")
	}
	return strings.Join(parts, " and ") + " and no package"
}

// starts reports whether a change of a package is more than fields that start nothing.
func starts(p preview.Package) bool {
	return p.Change != preview.Changed || len(p.Stages) > 0 || *p.Old != *p.New || !p.Env.Empty() || p.EnvOrder || !p.ConfigMap.Empty()
}

func consequence(t preview.Tally) string {
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{
		{t.Reboot, "reboot"}, {t.ServiceRestart, "restart services"}, {t.DrainOnly, "are drained"}, {t.NoInterrupt, "go on without an interrupt"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if t.Uninstall > 0 {
		parts = append(parts, fmt.Sprintf("from %d something is uninstalled", t.Uninstall))
	}
	return strings.Join(parts, ", ")
}

// planComparison says what was compared, and with which program.
func planComparison(p preview.Plan) line {
	c := p.Compared
	l := lineOf("Compared: ", nameOf(c.Head), at(c.HeadCommit), " with ")
	if c.Base == "" {
		l = append(l, lineOf("nothing: everything is new")...)
	} else {
		l = append(l, lineOf(nameOf(c.Base), at(c.BaseCommit))...)
	}
	l = append(l, lineOf(". ", plural(p.Objects, "object"), ", ", plural(len(p.Files), "changed file"))...)
	if p.Tool != "" {
		l = append(l, lineOf(", fleetwright ", nameOf(p.Tool))...)
	}
	l = append(l, lineOf(".")...)
	if c.Behind != "" {
		l = append(l, lineOf(" The branch has gone on to ", nameOf(shortCommit(c.Behind)), " since; its changes are not in this plan.")...)
	}
	if c.BaseErrors > 0 {
		l = append(l, lineOf(" The old state has ", plural(c.BaseErrors, "error"), ": what they concern counts as new.")...)
	}
	if p.Nodes.Assumed {
		l = append(l, lineOf(" The list of nodes has no record of any rollout: its nodes are taken to be complete at the old state.")...)
	}
	return l
}

func at(commit string) line {
	if commit == "" {
		return nil
	}
	return lineOf(" at ", nameOf(shortCommit(commit)))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func findingsBlock(p preview.Plan) block {
	b := block{heading: lineOf("Findings"), header: []string{"where", "object", "field", "problem"}}
	for _, f := range p.Findings {
		problem := lineOf(quoteOf(f.Message))
		if f.Allowed != "" {
			problem = append(problem, lineOf(" (allowed: ", quoteOf(f.Allowed), ")")...)
		}
		if f.Severity == finding.Warning {
			problem = append(lineOf("warning: "), problem...)
		}
		b.rows = append(b.rows, []line{lineOf(nameOf(f.Position())), lineOf(nameOf(f.Object())), lineOf(nameOf(f.Field)), problem})
	}
	return b
}

// span words seconds: 7m10s, 6h12m30s.
func span(seconds float64) string {
	return (time.Duration(seconds * float64(time.Second))).Round(time.Second).String()
}
