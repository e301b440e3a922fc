package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// source is one file of the repository that the overlay reaches.
type source struct {
	path string
	data []byte
	// docs are the roots of the YAML documents; empty documents are left out.
	docs []*yaml.Node
}

// Position is a place in a file. Line and Column count from 1; 0 means unknown.
type Position struct {
	File         string
	Line, Column int
	// Approximate is true where a patch may have changed the value: the place is that of the object's own file.
	Approximate bool
}

func at(file string, node *yaml.Node) Position {
	return Position{File: file, Line: node.Line, Column: node.Column}
}

func problem(code string, p Position, format string, args ...any) finding.Finding {
	return finding.Finding{Code: code, Severity: finding.Error, File: p.File, Line: p.Line, Column: p.Column,
		Message: fmt.Sprintf(format, args...)}
}

func allowing(f finding.Finding, allowed string) finding.Finding {
	f.Allowed = allowed
	return f
}

// place moves a position within a text to the file that holds the text.
type place func(line, column int) (int, int)

func inPlace(line, column int) (int, int) { return line, column }

// parse reads all documents of a text and moves their nodes to where the text stands in the file.
func parse(file string, text []byte, to place) ([]*yaml.Node, []finding.Finding) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var docs []*yaml.Node
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, []finding.Finding{syntaxError(file, text, to, err)}
		}
		if len(doc.Content) == 0 || isNull(doc.Content[0]) {
			continue
		}
		move(&doc, to, map[*yaml.Node]bool{})
		docs = append(docs, doc.Content[0])
	}
}

func move(node *yaml.Node, to place, done map[*yaml.Node]bool) {
	if node == nil || done[node] {
		return
	}
	done[node] = true
	node.Line, node.Column = to(node.Line, node.Column)
	for _, child := range node.Content {
		move(child, to, done)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntaxError words what the YAML reader says; it knows lines only, so the column is where the line's text begins.
func syntaxError(file string, text []byte, to place, err error) finding.Finding {
	line, message := 1, err.Error()
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	lines := strings.Split(string(text), "\n")
	line = min(corrected(line, message, lines), len(lines))
	line, column := to(line, indent(lines[line-1])+1)
	return allowing(problem(codeInvalidYAML, Position{File: file, Line: line, Column: column}, "is not YAML: %s", message),
		"YAML with spaces for indentation")
}

// parserMessages are those for which the YAML reader forgets that its own count of lines starts at 0.
var parserMessages = regexp.MustCompile(`^did not find expected (<document start>|',' or '[\]}]'|'-' indicator|key|node content)$`)

// corrected moves a line to where the mistake is: the reader names the beginning of what it could not finish.
func corrected(line int, message string, lines []string) int {
	if parserMessages.MatchString(message) && line > 1 {
		return line + 1
	}
	if strings.Contains(message, "tab character") {
		for i := line; i <= len(lines); i++ {
			if strings.Contains(lines[i-1][:indent(lines[i-1])], "\t") {
				return i
			}
		}
	}
	return line
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// placeOf says where the text of a scalar stands: block scalars start on the next line, indented; others where they are.
func placeOf(scalar *yaml.Node, file []byte) place {
	if scalar.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		quote := 0
		if scalar.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			quote = 1
		}
		return func(line, column int) (int, int) {
			if line > 1 {
				return scalar.Line + line - 1, column
			}
			return scalar.Line, scalar.Column + quote + column - 1
		}
	}
	margin := 0
	for _, line := range strings.Split(string(file), "\n")[min(scalar.Line, bytes.Count(file, []byte("\n"))):] {
		if strings.TrimSpace(line) != "" {
			margin = indent(line)
			break
		}
	}
	return func(line, column int) (int, int) { return scalar.Line + line, margin + column }
}

// checker looks at one file's nodes for what readers of YAML disagree about.
type checker struct {
	file     string
	findings []finding.Finding
	nodes    int // of the overlay, up to here
}

// checkNodes reports duplicate keys, keys that are no strings, and aliases that expand to too much: the limit is that of all
// files together, for many small files can hold as much as a large one.
func (s *scan) checkNodes(file string, docs []*yaml.Node) []finding.Finding {
	if s.nodes > maxNodes {
		return []finding.Finding{s.tooMany}
	}
	c := &checker{file: file, nodes: s.nodes}
	for _, doc := range docs {
		c.walk(doc)
	}
	if s.nodes = c.nodes; c.nodes > maxNodes {
		s.tooMany = problem(codeTooLarge, Position{File: file, Line: 1, Column: 1},
			"up to here, the overlay expands to more than %d YAML values", maxNodes)
		return []finding.Finding{s.tooMany}
	}
	return c.findings
}

func (c *checker) walk(node *yaml.Node) {
	if c.nodes++; c.nodes > maxNodes {
		return
	}
	switch node.Kind {
	case yaml.AliasNode:
		c.walk(node.Alias) // counted again each time, as a build would
	case yaml.MappingNode:
		c.keys(node)
	}
	for _, child := range node.Content {
		c.walk(child)
	}
}

func (c *checker) keys(mapping *yaml.Node) {
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		if key.ShortTag() == "!!merge" {
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			c.findings = append(c.findings, allowing(problem(codeInvalidKey, at(c.file, key), "key %s is not text", short(key)),
				"a key in quotes"))
			continue
		}
		if earlier, ok := first[key.Value]; ok {
			c.findings = append(c.findings, problem(codeDuplicateKey, at(c.file, key), "key %q was already set on line %d",
				key.Value, earlier.Line))
			continue
		}
		first[key.Value] = key
	}
}

func short(node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode {
		return "of several values"
	}
	return strconv.Quote(node.Value)
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// get returns the key and value of a field; nil where the mapping lacks it.
func get(mapping *yaml.Node, field string) (key, value *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == field {
			return mapping.Content[i], resolve(mapping.Content[i+1])
		}
	}
	return nil, nil
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func text(mapping *yaml.Node, fields ...string) string {
	node := mapping
	for _, field := range fields {
		if _, node = get(node, field); node == nil {
			return ""
		}
	}
	return node.Value
}
