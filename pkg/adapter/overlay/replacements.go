package overlay

import (
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// replacement is one entry of replacements, in place or in a file.
type replacement struct {
	at     Position
	source []string // the path that is copied; nil for a fixed value
	value  *yaml.Node
	aims   []aim
}

// aim is where a replacement writes.
type aim struct {
	selects   *yaml.Node
	path      []string
	delimiter bool // the value becomes a part of the text that is there
}

// Fields that a replacement has, by level.
var (
	replacementFields = []string{"source", "sourceValue", "targets", "path"}
	sourceFields      = []string{"group", "version", "kind", "name", "namespace", "fieldPath", "options"}
	targetFields      = []string{"select", "reject", "fieldPaths", "options"}
	optionFields      = []string{"delimiter", "index", "encoding", "create"}
)

const defaultFieldPath = "metadata.name"

// replacementList reads what replacements copy, from the file that they name, if they do.
func (s *scan) replacementList(k *kustomization, key, value *yaml.Node) {
	for _, entry := range s.entries(k, key, value) {
		entry = resolve(entry)
		if !s.onlyKeys(k.path, entry, replacementFields...) {
			continue
		}
		_, node := get(entry, "path")
		if node == nil {
			s.replacement(k, k.path, entry)
			continue
		}
		if file, isDir, ok := s.reference(k, node); ok && !isDir {
			s.replacementFile(k, s.read(file, at(k.path, node)))
		}
	}
}

func (s *scan) replacementFile(k *kustomization, src *source) {
	if src == nil {
		return
	}
	for _, doc := range src.docs {
		list := []*yaml.Node{doc}
		if doc.Kind == yaml.SequenceNode {
			list = doc.Content
		}
		for _, entry := range list {
			if entry = resolve(entry); s.onlyKeys(src.path, entry, replacementFields[:3]...) {
				s.replacement(k, src.path, entry)
			}
		}
	}
}

func (s *scan) replacement(k *kustomization, file string, entry *yaml.Node) {
	r := replacement{at: at(file, entry)}
	_, r.value = get(entry, "sourceValue")
	if _, from := get(entry, "source"); from != nil && !isNull(from) {
		if !s.onlyKeys(file, from, sourceFields...) {
			return
		}
		r.source = fieldPath(text(from, "fieldPath"))
	}
	_, targets := get(entry, "targets")
	if targets == nil || targets.Kind != yaml.SequenceNode {
		s.report(allowing(problem(codeInvalidField, r.at, "the replacement has no list of targets"), "targets with select and fieldPaths"))
		return
	}
	for _, target := range targets.Content {
		if !s.aim(&r, file, resolve(target)) {
			return
		}
	}
	k.replacements = append(k.replacements, r)
}

func (s *scan) aim(r *replacement, file string, target *yaml.Node) bool {
	if !s.onlyKeys(file, target, targetFields...) {
		return false
	}
	_, options := get(target, "options")
	if options != nil && !isNull(options) && !s.onlyKeys(file, options, optionFields...) {
		return false
	}
	a := aim{delimiter: text(options, "delimiter") != ""}
	_, a.selects = get(target, "select")
	_, paths := get(target, "fieldPaths")
	if paths == nil || len(paths.Content) == 0 {
		a.path = fieldPath("")
		r.aims = append(r.aims, a)
		return true
	}
	for _, p := range paths.Content {
		a.path = fieldPath(resolve(p).Value)
		r.aims = append(r.aims, a)
	}
	return true
}

func fieldPath(text string) []string {
	if text == "" {
		text = defaultFieldPath
	}
	return utils.SmarterPathSplitter(text, ".")
}

func (r replacement) renames() bool {
	return slices.ContainsFunc(r.aims, func(a aim) bool {
		return overlaps(a.path, []string{"kind"}) || overlaps(a.path, []string{"apiVersion"}) || overlaps(a.path, []string{"metadata", "name"})
	})
}

// replaced adds what a replacement may add: its value in each place, or, where it may copy what replacements have made, twice
// as much each time.
func (w *weigher) replaced(r replacement, c *cost) {
	from := w.copies.at(r.source)
	if r.source == nil && r.value != nil {
		from = found{volume: measure(r.value), any: true}
	}
	for _, a := range r.aims {
		if w.over {
			return
		}
		n := w.matches(a.selects, c)
		c.work += n/10 + c.objects/50 + 1
		switch again := r.source != nil && w.copies.writes(r.source); {
		case !from.any || again && (from.composite || a.delimiter || w.copies.at(a.path).inText):
			c.double()
		default:
			c.grow(from.volume, n)
			c.grow(volume{values: len(a.path)}, n)
		}
		w.check(c, r.at)
	}
}

// copies knows what stands at a path anywhere in the overlay's files, and which paths replacements write.
type copies struct {
	docs []*yaml.Node
	adds []*yaml.Node // operations of JSON patches
	aims [][]string
}

func (s *scan) allCopies() copies {
	var out copies
	for _, src := range s.resources {
		out.docs = append(out.docs, flatten(src.docs)...)
	}
	for _, k := range s.kustomizations {
		for _, p := range k.patches {
			if p.isJSON() {
				out.adds = append(out.adds, p.operations()...)
			} else {
				out.docs = append(out.docs, p.docs...)
			}
		}
		for _, r := range k.replacements {
			for _, a := range r.aims {
				out.aims = append(out.aims, a.path)
			}
		}
	}
	return out
}

// flatten puts the objects of a List in its place.
func flatten(docs []*yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for _, doc := range docs {
		if items := listItems(doc); items != nil {
			for _, item := range items.Content {
				out = append(out, flatten([]*yaml.Node{resolve(item)})...)
			}
			continue
		}
		out = append(out, doc)
	}
	return out
}

func (c copies) writes(path []string) bool {
	return slices.ContainsFunc(c.aims, func(a []string) bool { return overlaps(a, path) })
}

// found is what stands at a path.
type found struct {
	volume
	any       bool // there is something, or it is sure to be a single value
	composite bool
	inText    bool // the path leads into the text of a value
}

// at adds up what a path may lead to: the largest single value, or all composite ones together, for they may be merged.
func (c copies) at(path []string) found {
	var out found
	for _, doc := range c.docs {
		out.look(doc, path)
	}
	for _, op := range c.adds {
		out.lookAt(op, path)
	}
	if len(path) > 0 && path[0] == "metadata" {
		out.any = true // names, labels and annotations that the overlay itself sets
	}
	return out
}

func (f *found) lookAt(op *yaml.Node, path []string) {
	tokens := split(text(op, "path"))
	_, value := get(op, "value")
	switch {
	case value == nil || !overlaps(tokens, path):
	case len(tokens) <= len(path):
		f.look(value, path[len(tokens):])
	default:
		f.add(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(""), value}})
	}
}

func (f *found) look(node *yaml.Node, path []string) {
	node = resolve(node)
	if len(path) == 0 {
		f.add(node)
		return
	}
	switch node.Kind {
	case yaml.SequenceNode:
		if isAny(path[0]) {
			for _, entry := range node.Content {
				f.look(entry, path[1:])
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if path[0] == "*" || node.Content[i].Value == path[0] {
				f.look(node.Content[i+1], path[1:])
			}
		}
	case yaml.ScalarNode:
		f.inText = true
	}
}

func (f *found) add(node *yaml.Node) {
	v := measure(node)
	f.any = true
	if node.Kind == yaml.ScalarNode && !f.composite {
		f.values, f.bytes = max(f.values, v.values), max(f.bytes, v.bytes)
		return
	}
	f.composite = f.composite || node.Kind != yaml.ScalarNode
	f.values, f.bytes = f.values+v.values, f.bytes+v.bytes
}

// isAny says that a part of a path stands for entries of a list: an index, a selector, or a star.
func isAny(token string) bool {
	return token == "-" || strings.ContainsAny(token, "*[=") || strings.Trim(token, "0123456789") == ""
}

// overlaps says that one of two paths may lead to, or through, the place of the other.
func overlaps(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && !isAny(a[i]) && !isAny(b[i]) {
			return false
		}
	}
	return true
}
