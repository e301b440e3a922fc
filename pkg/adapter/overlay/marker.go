package overlay

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	// docAnnotation ties an object of the marked build to the document that declares it.
	docAnnotation = "fleetwright.dev/mark"
	// keyPrefix begins the extra key that carries the position of a map.
	keyPrefix = "fleetwrightMark"
)

// markPattern has letters and digits only, so that no delimiter of a replacement can cut a mark in two.
var markPattern = regexp.MustCompile(`fwmark([0-9]+)x`)

// mark is where one value stands, and where its key does. A value without a key (a list's entry) has itself as key.
type mark struct {
	value, key Position
}

// declaration is one document of a resource file.
type declaration struct {
	file string
	doc  *yaml.Node
}

// marker writes marks in place of values and reads them back. The original nodes stay as they are.
//
//	priority: 100          becomes   priority: fwmark17x
//	tuning: {image: a}     becomes   tuning: {image: fwmark18x, fleetwrightMark19: fwmark19x}
type marker struct {
	documentsOnly bool // mark no value
	marks         []mark
	documents     []declaration
}

func (m *marker) put(file string, key, value *yaml.Node) string {
	m.marks = append(m.marks, mark{value: at(file, value), key: at(file, key)})
	return fmt.Sprintf("fwmark%dx", len(m.marks)-1)
}

// resources returns marked copies of a file's documents.
func (m *marker) resources(src *source) []*yaml.Node {
	var out []*yaml.Node
	for _, doc := range src.docs {
		out = append(out, m.declare(src.path, doc))
	}
	return out
}

// declare marks one document; of a list, each object by itself.
func (m *marker) declare(file string, doc *yaml.Node) *yaml.Node {
	if items := listItems(doc); items != nil {
		copies := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range items.Content {
			copies.Content = append(copies.Content, m.declare(file, resolve(item)))
		}
		return set(plainCopy(doc), "items", copies)
	}
	m.documents = append(m.documents, declaration{file, doc})
	return m.annotate(m.object(file, doc), strconv.Itoa(len(m.documents)-1))
}

// listItems are the objects of a List, as kubectl exports them; nil for any other document.
func listItems(doc *yaml.Node) *yaml.Node {
	_, items := get(doc, "items")
	if !strings.HasSuffix(text(doc, "kind"), "List") || items == nil || items.Kind != yaml.SequenceNode {
		return nil
	}
	return items
}

// object copies an object with its content marked. What names the object stays, for selectors and patches to find.
func (m *marker) object(file string, doc *yaml.Node) *yaml.Node {
	out := mapping()
	for i := 0; i+1 < len(doc.Content); i += 2 {
		key, value := doc.Content[i], doc.Content[i+1]
		if isHead(key.Value) || isDirective(key.Value) {
			value = plainCopy(value)
		} else {
			value = m.value(file, key, value)
		}
		out.Content = append(out.Content, plainCopy(key), value)
	}
	return out
}

// annotate adds the annotation to a copy of the object's metadata.
func (m *marker) annotate(object *yaml.Node, id string) *yaml.Node {
	_, metadata := get(object, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		return object
	}
	_, annotations := get(metadata, "annotations")
	switch {
	case annotations == nil || isNull(annotations):
		annotations = mapping()
	case annotations.Kind != yaml.MappingNode:
		return object
	}
	return set(object, "metadata", set(metadata, "annotations", set(annotations, docAnnotation, scalar("doc"+id))))
}

// set returns a copy of a mapping with one field set.
func set(object *yaml.Node, field string, value *yaml.Node) *yaml.Node {
	out, found := mapping(), false
	for i := 0; i+1 < len(object.Content); i += 2 {
		key, old := object.Content[i], object.Content[i+1]
		if key.Value == field {
			old, found = value, true
		}
		out.Content = append(out.Content, key, old)
	}
	if !found {
		out.Content = append(out.Content, scalar(field), value)
	}
	return out
}

// patch returns marked copies of a patch's documents.
func (m *marker) patch(p *patch) []*yaml.Node {
	var out []*yaml.Node
	for _, doc := range p.docs {
		if p.isJSON() {
			out = append(out, m.operations(p.source(), doc))
		} else {
			out = append(out, m.object(p.source(), doc))
		}
	}
	return out
}

// operations marks what a JSON patch adds below the object's content. Tests are left out: they would compare marks.
func (m *marker) operations(file string, list *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	for _, op := range list.Content {
		op = resolve(op)
		if text(op, "op") == "test" {
			continue
		}
		_, value := get(op, "value")
		tokens := split(text(op, "path"))
		if value != nil && len(tokens) > 0 && !isHead(tokens[0]) {
			op = set(op, "value", m.value(file, value, value))
		}
		out.Content = append(out.Content, op)
	}
	return out
}

// value returns a marked copy of one value. Nulls stay: in a patch they delete.
func (m *marker) value(file string, key, node *yaml.Node) *yaml.Node {
	node = resolve(node)
	if m.documentsOnly {
		return plainCopy(node)
	}
	switch node.Kind {
	case yaml.MappingNode:
		return m.mapValue(file, key, node)
	case yaml.SequenceNode:
		out := &yaml.Node{Kind: yaml.SequenceNode}
		for _, entry := range node.Content {
			out.Content = append(out.Content, m.value(file, entry, entry))
		}
		return out
	}
	if isNull(node) {
		return plainCopy(node)
	}
	return scalar(m.put(file, key, node))
}

func (m *marker) mapValue(file string, key, node *yaml.Node) *yaml.Node {
	out := mapping()
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, v := node.Content[i], node.Content[i+1]
		if isDirective(k.Value) {
			out.Content = append(out.Content, plainCopy(k), plainCopy(resolve(v)))
			continue
		}
		out.Content = append(out.Content, plainCopy(k), m.value(file, k, v))
	}
	id := m.put(file, key, key)
	out.Content = append(out.Content, scalar(keyPrefix+strconv.Itoa(len(m.marks)-1)), scalar(id))
	return out
}

// isDirective recognizes the keys that steer a strategic merge: $patch, $retainKeys, $setElementOrder/x.
func isDirective(key string) bool { return strings.HasPrefix(key, "$") }

// plainCopy copies a node with aliases expanded and anchors gone.
func plainCopy(node *yaml.Node) *yaml.Node {
	node = resolve(node)
	out := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value, Style: node.Style}
	for _, child := range node.Content {
		out.Content = append(out.Content, plainCopy(child))
	}
	return out
}

func (m *marker) document(annotation string) (declaration, bool) {
	i, err := strconv.Atoi(strings.TrimPrefix(annotation, "doc"))
	if annotation == "" || err != nil || i >= len(m.documents) {
		return declaration{}, false
	}
	return m.documents[i], true
}

// nearest follows a pointer into a marked object and returns the mark of the deepest value on the way that has one.
func (m *marker) nearest(object any, tokens []string) (mark, bool) {
	best, found := mark{}, false
	value := object
	for _, token := range tokens {
		var ok bool
		if value, ok = child(value, token); !ok {
			break
		}
		if here, ok := m.of(value); ok {
			best, found = here, true
		}
	}
	return best, found
}

func child(value any, token string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		next, ok := v[token]
		return next, ok
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// of reads the mark of a value: a scalar's own, a map's extra key, a list's first entry. Of several extra keys, as a merge
// leaves them, the smallest is that of the document that declares the object.
func (m *marker) of(value any) (mark, bool) {
	switch v := value.(type) {
	case string:
		if found := markPattern.FindStringSubmatch(v); found != nil {
			return m.at(found[1])
		}
	case []any:
		if len(v) > 0 {
			return m.of(v[0])
		}
	case map[string]any:
		return m.ofMap(v)
	}
	return mark{}, false
}

func (m *marker) ofMap(value map[string]any) (mark, bool) {
	least := -1
	for key := range value {
		if id, ok := strings.CutPrefix(key, keyPrefix); ok {
			if n, err := strconv.Atoi(id); err == nil && (least < 0 || n < least) {
				least = n
			}
		}
	}
	return m.at(strconv.Itoa(least))
}

func (m *marker) at(id string) (mark, bool) {
	n, err := strconv.Atoi(id)
	if err != nil || n < 0 || n >= len(m.marks) {
		return mark{}, false
	}
	return m.marks[n], true
}
