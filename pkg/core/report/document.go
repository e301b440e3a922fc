package report

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
)

// phrase is a piece of text with what may be done to it.
type phrase struct {
	text string
	kind phraseKind
}

type phraseKind int

const (
	// ours is a text of this package: it goes out as it is.
	ours phraseKind = iota
	// aName is an identifier that somebody else chose.
	aName
	// aQuote is a sentence that holds text of others.
	aQuote
)

// line is one line of text, or a cell of a table.
type line []phrase

// lineOf joins words of ours (strings, numbers) and phrases.
func lineOf(parts ...any) line {
	var out line
	for _, part := range parts {
		switch typed := part.(type) {
		case phrase:
			out = append(out, typed)
		case line:
			out = append(out, typed...)
		default:
			out = append(out, phrase{text: fmt.Sprint(typed)})
		}
	}
	return out
}

// maxPhrase bounds a name or a quotation, in bytes.
const maxPhrase = 300

func nameOf(s string) phrase  { return phrase{cut(oneLine(s), maxPhrase), aName} }
func quoteOf(s string) phrase { return phrase{cut(oneLine(s), maxPhrase), aQuote} }

// oneLine makes one line of printable text: what forges take for a command stands at the beginning of one, and marks that turn the
// direction of writing or are not seen can make a text read as another.
func oneLine(s string) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return '�'
		}
		return r
	}, s)
	return strings.Join(strings.Fields(mapped), " ")
}

// namesOf lists the first few names, and how many more there are.
func namesOf(all []string, count int) line {
	const most = 6
	var out line
	for i, n := range all[:min(most, len(all))] {
		if i > 0 {
			out = append(out, phrase{text: ", "})
		}
		out = append(out, nameOf(n))
	}
	if more := count - min(most, len(all)); more > 0 {
		if len(out) > 0 {
			out = append(out, phrase{text: " and "})
		}
		out = append(out, phrase{text: fmt.Sprintf("%d more", more)})
	}
	return out
}

// block is a part of a document: a heading, sentences, a table or a list, a diagram.
type block struct {
	heading line
	intro   []line
	header  []string
	rows    [][]line
	bullets []line
	// diagram in mermaid's language.
	diagram string
}

// document is a text in no markup yet.
type document []block

// shortened keeps the first rows of every table and list, and says how many are left out: a table is never cut in its middle.
func (d document) shortened(most int) document {
	out := make(document, 0, len(d))
	for _, b := range d {
		if more := len(b.rows) - most; more > 0 && len(b.rows) > most+1 {
			last := make([]line, len(b.header))
			last[0] = lineOf(fmt.Sprintf("… and %d more rows", more))
			b.rows = append(b.rows[:most:most], last)
		}
		if more := len(b.bullets) - most; more > 0 && len(b.bullets) > most+1 {
			b.bullets = append(b.bullets[:most:most], lineOf(fmt.Sprintf("… and %d more", more)))
		}
		if strings.Count(b.diagram, "\n") > 2*most+10 {
			b.diagram = ""
		}
		out = append(out, b)
	}
	return out
}

// markdown is the document in GitHub's dialect, which the other forges read too.
func (d document) markdown() string {
	var out strings.Builder
	for i, b := range d {
		if i > 0 {
			out.WriteByte('\n')
		}
		if len(b.heading) > 0 {
			level := "### "
			if i == 0 {
				level = "## "
			}
			out.WriteString(level + b.heading.markdown(false) + "\n\n")
		}
		out.WriteString(strings.Join(b.markdownParts(), "\n"))
	}
	return out.String()
}

func (b block) markdownParts() []string {
	var parts []string
	for _, l := range b.intro {
		parts = append(parts, l.markdown(false)+"\n")
	}
	if len(b.rows) > 0 {
		var t strings.Builder
		t.WriteString("| " + strings.Join(b.header, " | ") + " |\n|" + strings.Repeat("---|", len(b.header)) + "\n")
		for _, row := range b.rows {
			for _, cell := range row {
				t.WriteString("| " + cell.markdown(true) + " ")
			}
			t.WriteString("|\n")
		}
		parts = append(parts, t.String())
	}
	if len(b.bullets) > 0 {
		var list strings.Builder
		for _, l := range b.bullets {
			list.WriteString("- " + l.markdown(false) + "\n")
		}
		parts = append(parts, list.String())
	}
	if b.diagram != "" {
		parts = append(parts, "```mermaid\n"+b.diagram+"```\n")
	}
	return parts
}

// markdown renders a line; in a table a pipe would begin another cell.
func (l line) markdown(inTable bool) string {
	var out strings.Builder
	for _, p := range l {
		switch p.kind {
		case aName:
			out.WriteString(codeSpan(p.text, inTable))
		case aQuote:
			out.WriteString(escapeMarkdown(p.text))
		case ours:
			out.WriteString(p.text)
		}
	}
	return out.String()
}

// codeSpan shows a name as it is: in code nothing is markup, nobody is mentioned and no issue is linked.
func codeSpan(s string, inTable bool) string {
	if s == "" {
		return ""
	}
	if inTable && strings.Contains(s, "|") { // dialects disagree on what a backslash before a pipe means in code
		return escapeMarkdown(s)
	}
	longest, run := 0, 0
	for _, r := range s {
		run++
		if r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		s = " " + s + " "
	}
	return fence + strings.ReplaceAll(s, "@", "@"+noWidth) + fence
}

// noWidth is a space that is not seen: it keeps forges from taking a word for a mention, an issue or a link.
const noWidth = "\u200b"

var markdownEscapes = strings.NewReplacer(
	"\\", "&#92;", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "<", "&lt;", ">", "&gt;", "&", "&amp;", "|", "&#124;", "~", "\\~",
	"$", "\\$", "!", "\\!", "{", "\\{", "}", "\\}", "@", "@"+noWidth, "#", "#"+noWidth, "://", ":"+noWidth+"//", "www.", "www"+noWidth+".", "GH-", "GH"+noWidth+"-",
)

func escapeMarkdown(s string) string { return markdownEscapes.Replace(s) }

// text is the document for a terminal.
func (d document) text() string {
	var out strings.Builder
	for i, b := range d {
		if i > 0 {
			out.WriteByte('\n')
		}
		if len(b.heading) > 0 {
			out.WriteString(b.heading.text() + "\n")
		}
		for _, l := range b.intro {
			out.WriteString(l.text() + "\n")
		}
		if len(b.rows) > 0 {
			b.textTable(&out)
		}
		for _, l := range b.bullets {
			out.WriteString("  - " + l.text() + "\n")
		}
	}
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func (b block) textTable(out *strings.Builder) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  "+strings.Join(b.header, "\t"))
	for _, row := range b.rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, cell.text())
		}
		fmt.Fprintln(table, "  "+strings.Join(cells, "\t"))
	}
	_ = table.Flush() // a strings.Builder takes everything
}

func (l line) text() string {
	var out strings.Builder
	for _, p := range l {
		if p.kind == ours { // emphasis is ours; a name may be a pattern
			p.text = strings.ReplaceAll(p.text, "**", "")
		}
		out.WriteString(p.text)
	}
	return out.String()
}
