package overlay

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

var kustomizationNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// scan is what an overlay reaches, read and checked.
type scan struct {
	files Files
	known map[string]bool // paths of files
	dirs  map[string]bool // paths of directories

	root           string // the overlay's directory
	kustomizations []*kustomization
	byDir          map[string]*kustomization
	sources        map[string]*source
	resources      []*source // in the order of kustomize: bases first
	places         *marker   // which document declares which object
	annotated      map[string][]byte
	bytes, objects int
	nodes, patches int
	affixes        bool // names get a prefix or a suffix somewhere
	findings       []finding.Finding
	tooMany        finding.Finding // once nodes is over its limit
}

// kustomization is one kustomization file.
type kustomization struct {
	*source
	dir     string
	node    *yaml.Node
	patches []*patch
	// reached and replacements are in the order of the file; everywhere are the values of fields that are put into every object.
	reached      []reached
	replacements []replacement
	everywhere   []*yaml.Node
}

func scanOverlay(files Files, dir string) *scan {
	s := &scan{files: files, known: map[string]bool{}, dirs: map[string]bool{".": true},
		byDir: map[string]*kustomization{}, sources: map[string]*source{}}
	for _, p := range files.Paths() {
		s.known[p] = true
		for d := path.Dir(p); !s.dirs[d]; d = path.Dir(d) {
			s.dirs[d] = true
		}
	}
	clean, err := cleanDir(dir)
	if err != nil {
		s.report(problem(codeOutside, Position{File: dir}, "the path %s", err))
		return s
	}
	s.root = clean
	if !s.dirs[clean] {
		s.report(s.missingRoot(dir))
		return s
	}
	s.directory(clean, Position{File: clean}, nil)
	if !s.failed() {
		s.weigh()
	}
	return s
}

func (s *scan) missingRoot(dir string) finding.Finding {
	if _, err := s.files.ReadFile(s.root); err == nil {
		return allowing(problem(codePathNotFound, Position{File: s.root}, "the path is a file"), "the directory that holds kustomization.yaml")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return problem(codeUnreadableFile, Position{File: s.root}, "the path cannot be read: %s", err)
	}
	f := problem(codePathNotFound, Position{File: s.root}, "the path %s does not exist in the repository", dir)
	return allowing(f, strings.Join(s.siblings(path.Dir(s.root)), ", "))
}

// siblings are the first directories next to a missing one, to choose from.
func (s *scan) siblings(parent string) []string {
	var out []string
	for d := range s.dirs {
		if path.Dir(d) == parent && d != "." {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), 8)]
}

func (s *scan) report(f ...finding.Finding) { s.findings = append(s.findings, f...) }

func (s *scan) failed() bool { return finding.HasErrors(s.findings) }

// directory reads a directory's kustomization file and all that it names. stack holds the directories that lead here.
func (s *scan) directory(dir string, from Position, stack []string) {
	for _, above := range stack {
		if dir == "." || strings.HasPrefix(above+"/", dir+"/") {
			s.report(problem(codeCycle, from, "%s leads back to a directory that is being built: %s", dir,
				strings.Join(append(stack, dir), " -> ")))
			return
		}
	}
	if s.byDir[dir] != nil {
		return
	}
	if len(stack) >= maxDepth {
		s.report(problem(codeTooLarge, from, "bases are nested deeper than %d", maxDepth))
		return
	}
	k := s.kustomizationOf(dir, from)
	if k == nil {
		return
	}
	s.byDir[dir] = k
	s.fields(k, append(slices.Clone(stack), dir))
	s.kustomizations = append(s.kustomizations, k) // after its bases
}

func (s *scan) kustomizationOf(dir string, from Position) *kustomization {
	var found []string
	for _, name := range kustomizationNames {
		if s.known[path.Join(dir, name)] {
			found = append(found, path.Join(dir, name))
		}
	}
	switch len(found) {
	case 0:
		if from.Line == 0 {
			from.File = path.Join(dir, kustomizationNames[0])
		}
		s.report(allowing(problem(codeNoKustomization, from, "directory %s has no kustomization.yaml", dir),
			"a kustomization.yaml that lists its files under resources"))
		return nil
	case 1:
	default:
		s.report(problem(codeManyFiles, Position{File: found[1]}, "directory %s has several kustomization files: %s; keep one", dir,
			strings.Join(found, ", ")))
		return nil
	}
	src := s.read(found[0], from)
	if src == nil {
		return nil
	}
	if len(src.docs) != 1 || src.docs[0].Kind != yaml.MappingNode {
		s.report(problem(codeInvalidDocument, Position{File: src.path, Line: 1, Column: 1}, "is not one YAML document with fields such as resources"))
		return nil
	}
	return &kustomization{source: src, dir: dir, node: src.docs[0]}
}

// read loads and checks a file once; nil after a finding.
func (s *scan) read(file string, from Position) *source {
	if src, ok := s.sources[file]; ok {
		return src
	}
	data, err := s.files.ReadFile(file)
	if err != nil {
		s.report(problem(codeUnreadableFile, from, "%s cannot be read: %s", file, err))
		return nil
	}
	if s.bytes += len(data); s.bytes > maxBytes {
		s.report(problem(codeTooLarge, from, "the overlay reads more than %d MiB of files", maxBytes>>20))
		return nil
	}
	docs, findings := parse(file, data, inPlace)
	findings = append(findings, s.checkNodes(file, docs)...)
	s.report(findings...)
	if len(findings) > 0 {
		return nil
	}
	src := &source{path: file, data: data, docs: docs}
	s.sources[file] = src
	return src
}

func (s *scan) fields(k *kustomization, stack []string) {
	for i := 0; i+1 < len(k.node.Content); i += 2 {
		key, value := k.node.Content[i], resolve(k.node.Content[i+1])
		rule, ok := fieldRules[key.Value]
		s.report(deprecation(k, key, rule)...)
		switch {
		case !ok:
			s.report(allowing(problem(codeUnknownField, at(k.path, key), "unknown field %s", key.Value), allowedFields()))
		case rule.refused != "":
			s.report(allowing(problem(codeRefusedField, at(k.path, key), "%s %s", key.Value, rule.refused), rule.instead))
		case rule.paths:
			s.references(k, key, value, stack)
		case rule.patches:
			s.patchList(k, key, value)
		case key.Value == "replacements":
			s.replacementList(k, key, value)
		case rule.everywhere:
			s.texts(k, key, value)
			k.everywhere = append(k.everywhere, value)
			s.affixes = s.affixes || strings.HasPrefix(key.Value, "name")
		}
	}
}

// texts refuses numbers, dates and the like where kustomize wants text: they would be written out differently, or not at all.
func (s *scan) texts(k *kustomization, key, value *yaml.Node) {
	var wanted []*yaml.Node
	switch key.Value {
	case "namePrefix", "nameSuffix", "namespace":
		wanted = []*yaml.Node{value}
	case "commonLabels", "commonAnnotations":
		wanted = valuesOf(value)
	case "labels":
		for _, entry := range value.Content {
			_, pairs := get(resolve(entry), "pairs")
			wanted = append(wanted, valuesOf(pairs)...)
		}
	}
	for _, node := range wanted {
		if node.Kind == yaml.ScalarNode && !isText(node) && !isNull(node) {
			s.report(allowing(problem(codeInvalidField, at(k.path, node), "%s of %s is not text", node.Value, key.Value),
				`quotes, "`+node.Value+`"`))
		}
	}
}

// valuesOf the fields of a map.
func valuesOf(node *yaml.Node) []*yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	var out []*yaml.Node
	for i := 1; i < len(node.Content); i += 2 {
		out = append(out, resolve(node.Content[i]))
	}
	return out
}

func deprecation(k *kustomization, key *yaml.Node, rule fieldRule) []finding.Finding {
	if rule.deprecated == "" {
		return nil
	}
	f := allowing(problem(codeDeprecatedField, at(k.path, key), "%s is deprecated by kustomize", key.Value), rule.deprecated)
	f.Severity = finding.Warning
	return []finding.Finding{f}
}

func allowedFields() string {
	var out []string
	for name, rule := range fieldRules {
		if rule.refused == "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// entries of a list field; nothing after a finding.
func (s *scan) entries(k *kustomization, key, value *yaml.Node) []*yaml.Node {
	if isNull(value) {
		return nil
	}
	if value.Kind != yaml.SequenceNode {
		s.report(allowing(problem(codeInvalidField, at(k.path, key), "%s is not a list", key.Value), "lines that begin with -"))
		return nil
	}
	return value.Content
}

func (s *scan) references(k *kustomization, key, value *yaml.Node, stack []string) {
	for _, node := range s.entries(k, key, value) {
		target, isDir, ok := s.reference(k, node)
		switch {
		case !ok:
		case isDir:
			s.directory(target, at(k.path, node), stack)
			k.reached = append(k.reached, reached{node: node, dir: target, component: key.Value == "components"})
		case fieldRules[key.Value].dirs:
			s.report(allowing(problem(codeInvalidField, at(k.path, node), "%s is a file", node.Value), "a directory"))
		default:
			k.reached = append(k.reached, reached{node: node, file: s.resource(target, at(k.path, node))})
		}
	}
}

// resource reads a file of manifests; nil after a finding.
func (s *scan) resource(file string, from Position) *source {
	if slices.Contains(kustomizationNames, path.Base(file)) {
		s.report(allowing(problem(codeInvalidField, from, "%s is a kustomization file", file), "the directory that holds it"))
		return nil
	}
	src := s.read(file, from)
	if src == nil || slices.Contains(s.resources, src) {
		return src
	}
	s.resources = append(s.resources, src)
	for _, doc := range src.docs {
		s.document(src, doc)
	}
	if s.objects > maxObjects {
		s.report(problem(codeTooLarge, from, "the overlay has more than %d objects", maxObjects))
	}
	return src
}

// document refuses what kustomize refuses with a text that names no file.
func (s *scan) document(src *source, doc *yaml.Node) {
	if items := listItems(doc); items != nil {
		for _, item := range items.Content {
			s.document(src, resolve(item))
		}
		return
	}
	s.objects++
	if doc.Kind != yaml.MappingNode {
		s.report(problem(codeInvalidDocument, at(src.path, doc), "is not a Kubernetes object"))
		return
	}
	kind := text(doc, "kind")
	if kind == "" {
		s.report(problem(codeInvalidDocument, at(src.path, doc), "has no kind"))
	} else if !strings.HasSuffix(kind, "List") && text(doc, "metadata", "name") == "" {
		f := problem(codeInvalidDocument, at(src.path, doc), "has no metadata.name")
		f.Kind = kind
		s.report(f)
	}
	for i := 0; i+1 < len(doc.Content); i += 2 {
		if !isHead(doc.Content[i].Value) {
			s.report(lint(src.path, doc.Content[i+1])...)
		}
	}
}

// isHead says whether a top-level field names the object; all others are its content.
func isHead(field string) bool {
	return field == "apiVersion" || field == "kind" || field == "metadata"
}
