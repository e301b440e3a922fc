package overlay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// patch is one entry of a list of patches.
type patch struct {
	field string // patches, patchesStrategicMerge or patchesJson6902
	entry *yaml.Node
	at    Position
	file  *source    // where the patch is a file
	text  *yaml.Node // where the patch stands in the kustomization file
	// docs of the patch: one sequence for a JSON patch, mappings for strategic merges.
	docs   []*yaml.Node
	target *yaml.Node
}

func (p *patch) isJSON() bool { return len(p.docs) > 0 && p.docs[0].Kind == yaml.SequenceNode }

// operations of a JSON patch; none for a strategic merge.
func (p *patch) operations() []*yaml.Node {
	var out []*yaml.Node
	for _, doc := range p.docs {
		if doc.Kind != yaml.SequenceNode {
			continue
		}
		for _, op := range doc.Content {
			out = append(out, resolve(op))
		}
	}
	return out
}

// source file of the patch's own nodes.
func (p *patch) source() string {
	if p.file != nil {
		return p.file.path
	}
	return p.at.File
}

func (p *patch) raw() []byte {
	if p.file != nil {
		return bytes.TrimSpace(p.file.data)
	}
	return bytes.TrimSpace([]byte(p.text.Value))
}

// deletes says whether the patch takes whole objects away.
func (p *patch) deletes() bool {
	for _, doc := range p.docs {
		if text(doc, "$patch") == "delete" {
			return true
		}
	}
	return false
}

func (s *scan) patchList(k *kustomization, key, value *yaml.Node) {
	nodes := s.entries(k, key, value)
	if s.patches += len(nodes); s.patches > maxPatches {
		s.report(problem(codeTooLarge, at(k.path, key), "the overlay has more than %d patches", maxPatches))
		return
	}
	for _, node := range nodes {
		p := &patch{field: key.Value, entry: resolve(node), at: at(k.path, node)}
		if s.loadPatch(k, p) {
			k.patches = append(k.patches, p)
			s.checkPatch(p)
		}
	}
}

// loadPatch finds the text of a patch: a file, or a block in place.
func (s *scan) loadPatch(k *kustomization, p *patch) bool {
	where := p.entry
	if p.field != "patchesStrategicMerge" {
		if p.entry.Kind != yaml.MappingNode {
			s.report(allowing(problem(codeInvalidField, p.at, "is not a patch"), "path or patch, and target"))
			return false
		}
		if !s.onlyKeys(k.path, p.entry, "path", "patch", "target", "options") {
			return false
		}
		if _, p.target = get(p.entry, "target"); p.target != nil && isNull(p.target) {
			p.target = nil
		}
		_, inline := get(p.entry, "patch")
		_, where = get(p.entry, "path")
		if (inline == nil) == (where == nil) {
			s.report(problem(codeInvalidField, p.at, "a patch needs either path or patch"))
			return false
		}
		if inline != nil {
			p.text = inline
			return s.loadInline(k, p)
		}
	} else if isInline(p.entry.Value) {
		p.text = p.entry
		return s.loadInline(k, p)
	}
	return s.loadFile(k, p, where)
}

// isInline tells the two forms of patchesStrategicMerge apart: a path holds no line break and no mapping.
func isInline(value string) bool {
	for _, r := range value {
		if r == '\n' || r == '{' {
			return true
		}
	}
	return false
}

func (s *scan) loadFile(k *kustomization, p *patch, node *yaml.Node) bool {
	file, isDir, ok := s.reference(k, node)
	if isDir {
		s.report(allowing(problem(codeInvalidField, at(k.path, node), "%s is a directory", node.Value), "a file"))
	}
	if !ok || isDir {
		return false
	}
	if p.file = s.read(file, at(k.path, node)); p.file == nil {
		return false
	}
	p.docs = p.file.docs
	return true
}

func (s *scan) loadInline(k *kustomization, p *patch) bool {
	if !isText(p.text) {
		s.report(allowing(problem(codeInvalidField, at(k.path, p.text), "is not text"), "a block that begins with |"))
		return false
	}
	docs, findings := parse(k.path, []byte(p.text.Value), placeOf(p.text, k.data))
	findings = append(findings, s.checkNodes(k.path, docs)...)
	s.report(findings...)
	p.docs = docs
	return len(findings) == 0
}

func (s *scan) checkPatch(p *patch) {
	if len(p.docs) == 0 {
		s.report(problem(codeInvalidField, p.at, "the patch is empty"))
		return
	}
	for _, doc := range p.docs {
		switch {
		case p.isJSON() && doc.Kind == yaml.SequenceNode:
			s.checkOperations(p, doc)
		case doc.Kind == yaml.MappingNode:
			s.checkMerge(p, doc)
		default:
			s.report(allowing(problem(codeInvalidField, at(p.source(), doc), "is not a patch"),
				"a part of an object, or a list of JSON patch operations"))
		}
	}
	if p.isJSON() && bytes.HasPrefix(p.raw(), []byte("[")) && !json.Valid(p.raw()) {
		s.report(allowing(problem(codeInvalidField, at(p.source(), p.docs[0]), "a patch that begins with [ must be JSON"),
			"JSON with quoted keys, or lines that begin with -"))
	}
	if p.isJSON() && p.target == nil {
		s.report(allowing(problem(codeInvalidField, p.at, "a JSON patch needs a target"), "target with kind and name"))
	}
}

func (s *scan) checkMerge(p *patch, doc *yaml.Node) {
	if p.target == nil && (text(doc, "kind") == "" || text(doc, "metadata", "name") == "") {
		s.report(allowing(problem(codeInvalidField, at(p.source(), doc), "the patch says not which object it changes"),
			"kind and metadata.name in the patch, or a target"))
	}
	for i := 0; i+1 < len(doc.Content); i += 2 {
		if !isHead(doc.Content[i].Value) {
			s.report(lint(p.source(), doc.Content[i+1])...)
		}
	}
}

func (s *scan) checkOperations(p *patch, list *yaml.Node) {
	for _, op := range list.Content {
		op = resolve(op)
		_, where := get(op, "path")
		if where == nil || text(op, "op") == "" {
			s.report(allowing(problem(codeInvalidField, at(p.source(), op), "is not a JSON patch operation"), "op, path and value"))
			continue
		}
		if where.Value == "" || where.Value == "/" {
			s.report(allowing(problem(codeInvalidField, at(p.source(), where), "replaces a whole object"), "a path such as /spec/priority"))
		}
		if _, value := get(op, "value"); value != nil {
			s.report(lint(p.source(), value)...)
		}
	}
}

// onlyKeys holds an entry to the exact names of its fields: kustomize reads them in any case and through merge keys, and so
// might read a path that was not checked.
func (s *scan) onlyKeys(file string, entry *yaml.Node, names ...string) bool {
	if entry.Kind != yaml.MappingNode {
		s.report(allowing(problem(codeInvalidField, at(file, entry), "is not a map"), strings.Join(names, ", ")))
		return false
	}
	for i := 0; i < len(entry.Content); i += 2 {
		if key := entry.Content[i]; !slices.Contains(names, key.Value) {
			s.report(allowing(problem(codeUnknownField, at(file, key), "unknown field %s", key.Value), strings.Join(names, ", ")))
			return false
		}
	}
	return true
}
