package overlay

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Locator knows where the values of a build are written.
type Locator struct {
	objects  map[ObjectKey]*located
	marks    *marker
	removals []removal
}

// located is one object of the build, and the document that declares it.
type located struct {
	marked any // the object with marks in place of values; nil where no build with marks succeeds
	file   string
	doc    *yaml.Node
}

// Locate builds the overlay again with a mark in place of every value, and keeps where each mark stands. It is for findings
// about a build that succeeded; numbers and booleans are text in it, so nothing but Locator.At may look at its objects.
//
// Where the overlay cannot be built with marks (a JSON patch tests a value, say), positions are those of the object's own
// file and Approximate. An overlay that does not build at all is an error.
func Locate(files Files, dir string) (located *Locator, err error) {
	defer func() {
		if crash := recover(); crash != nil {
			located, err = nil, fmt.Errorf("locate: %s", crashed(dir, crash))
		}
	}()
	s := scanOverlay(files, dir)
	if s.failed() {
		return nil, fmt.Errorf("locate: %s", s.sorted()[0])
	}
	marks := &marker{}
	built, err := s.renderMarked(marks)
	if err != nil {
		return s.locateRoughly()
	}
	l, err := newLocator(built, marks)
	if err != nil {
		return nil, err
	}
	l.removals = s.removals()
	return l, nil
}

func newLocator(built []*resource.Resource, marks *marker) (*Locator, error) {
	l := &Locator{objects: map[ObjectKey]*located{}, marks: marks}
	for _, r := range built {
		data, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", r.CurId(), err)
		}
		object := &located{}
		if err := json.Unmarshal(data, &object.marked); err != nil {
			return nil, fmt.Errorf("read %s: %w", r.CurId(), err)
		}
		if declared, ok := marks.document(r.GetAnnotations()[docAnnotation]); ok {
			object.file, object.doc = declared.file, declared.doc
		}
		l.objects[ObjectKey{r.GetKind(), r.GetNamespace(), r.GetName()}] = object
	}
	return l, nil
}

// locateRoughly knows only which document declares which object.
func (s *scan) locateRoughly() (*Locator, error) {
	marks := &marker{documentsOnly: true}
	built, err := s.renderMarked(marks)
	if err != nil {
		return nil, fmt.Errorf("locate: %w", err)
	}
	l, err := newLocator(built, marks)
	if err != nil {
		return nil, err
	}
	for _, object := range l.objects {
		object.marked = nil
	}
	return l, nil
}

// At answers where the value at a JSON pointer ("/spec/packages/tuning/image") is written: the value itself, the key where
// the value is a map, the first entry where it is a list. A value that is missing is where a patch takes it away, else where its
// nearest parent is. Names, labels and the like (apiVersion,
// kind, metadata) are looked up in the document that declares the object. False: the object is not part of the build.
func (l *Locator) At(key ObjectKey, pointer string) (Position, bool) {
	return l.find(key, pointer, func(m mark) Position { return m.value })
}

// AtKey is At for a finding about a field's name: the position of the key.
func (l *Locator) AtKey(key ObjectKey, pointer string) (Position, bool) {
	return l.find(key, pointer, func(m mark) Position { return m.key })
}

func (l *Locator) find(key ObjectKey, pointer string, pick func(mark) Position) (Position, bool) {
	object, ok := l.objects[key]
	if !ok {
		return Position{}, false
	}
	tokens := split(pointer)
	if len(tokens) > 0 && !isHead(tokens[0]) && object.marked != nil {
		if p, ok := l.removedAt(object, tokens); ok {
			return p, true
		}
		if m, ok := l.marks.nearest(object.marked, tokens); ok {
			return pick(m), true
		}
	}
	if object.doc == nil {
		return Position{}, false
	}
	p := pick(declaredAt(object, tokens))
	p.Approximate = object.marked == nil
	return p, true
}

// declaredAt walks the document that declares an object as far as the pointer leads.
func declaredAt(object *located, tokens []string) mark {
	node := object.doc
	found := mark{value: at(object.file, node), key: at(object.file, node)}
	for _, token := range tokens {
		key, value := step(node, token)
		if value == nil {
			return found
		}
		node = value
		found = mark{value: at(object.file, value), key: at(object.file, key)}
		if value.Kind != yaml.ScalarNode {
			found.value = found.key
		}
	}
	return found
}

func step(node *yaml.Node, token string) (key, value *yaml.Node) {
	if node.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(node.Content) {
			value = resolve(node.Content[i])
			return value, value
		}
		return nil, nil
	}
	return get(node, token)
}

func split(pointer string) []string {
	if pointer = strings.TrimPrefix(pointer, "/"); pointer == "" {
		return nil
	}
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return tokens
}

// renderMarked builds with marks: resources and patches are rewritten, the rest stays.
func (s *scan) renderMarked(marks *marker) ([]*resource.Resource, error) {
	replace := map[string][]byte{}
	for _, src := range s.resources {
		data, err := encode(marks.resources(src)...)
		if err != nil {
			return nil, fmt.Errorf("mark %s: %w", src.path, err)
		}
		replace[src.path] = data
	}
	texts := map[*patch]string{}
	for _, k := range s.kustomizations {
		for _, p := range k.patches {
			data, err := encode(marks.patch(p)...)
			if err != nil {
				return nil, fmt.Errorf("mark the patch of %s: %w", k.path, err)
			}
			if p.file != nil {
				replace[p.file.path] = data
			}
			texts[p] = string(data)
		}
	}
	contents, err := s.contents(variant{replace: replace, entries: func(p *patch) []*yaml.Node {
		return []*yaml.Node{markedEntry(p, texts[p])}
	}})
	if err != nil {
		return nil, err
	}
	return s.render(contents)
}

// markedEntry is the patch's entry with its text in place replaced.
func markedEntry(p *patch, text string) *yaml.Node {
	switch {
	case p.file != nil:
		return p.entry
	case p.entry.Kind == yaml.ScalarNode:
		return scalar(text)
	}
	out := mapping()
	for i := 0; i+1 < len(p.entry.Content); i += 2 {
		key, value := p.entry.Content[i], p.entry.Content[i+1]
		if key.Value == "patch" {
			value = scalar(text)
		}
		out.Content = append(out.Content, key, value)
	}
	return out
}
