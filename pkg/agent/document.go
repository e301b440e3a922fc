package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// node is one JSON value with the line it begins on. encoding/json keeps neither lines nor duplicate keys.
type node struct {
	line   int
	scalar any // string, json.Number, bool or nil
	fields map[string]*node
	items  []*node
	kind   string // object, array, string, number, boolean, null
}

// maxDepth bounds nesting: config.json needs five levels.
const maxDepth = 32

type documentReader struct {
	dec      *json.Decoder
	data     []byte
	problems *problems
}

// parseDocument reads exactly one JSON value. Duplicate keys become problems; the first value counts.
func parseDocument(data []byte, found *problems) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	r := documentReader{dec: dec, data: data, problems: found}
	root, err := r.value("", 0)
	if err != nil {
		return nil, r.syntax(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, r.problem("more text after the end of the JSON object")
	}
	return root, nil
}

func (r documentReader) line() int {
	return 1 + bytes.Count(r.data[:min(int(r.dec.InputOffset()), len(r.data))], []byte("\n"))
}

func (r documentReader) syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.problem("the JSON text ends too early")
	}
	return r.problem("not JSON: " + err.Error())
}

func (r documentReader) problem(text string) error {
	return &ConfigError{[]Problem{{Line: r.line(), Text: text}}}
}

func (r documentReader) value(field string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{line: r.line()}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return n, r.object(n, field, depth)
		}
		return n, r.array(n, field, depth)
	case string:
		n.kind = "string"
	case json.Number:
		n.kind = "number"
	case bool:
		n.kind = "boolean"
	default:
		n.kind = "null"
	}
	n.scalar = token
	return n, nil
}

func (r documentReader) object(n *node, field string, depth int) error {
	n.kind, n.fields = "object", map[string]*node{}
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		child, err := r.value(join(field, name), depth+1)
		if err != nil {
			return err
		}
		if n.fields[name] != nil {
			r.problems.add(child.line, join(field, name), "is given twice")
			continue
		}
		n.fields[name] = child
	}
	_, err := r.dec.Token()
	return err
}

func (r documentReader) array(n *node, field string, depth int) error {
	n.kind = "array"
	for r.dec.More() {
		child, err := r.value(fmt.Sprintf("%s[%d]", field, len(n.items)), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, child)
	}
	_, err := r.dec.Token()
	return err
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// names of an object's fields, sorted.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.fields)) }
