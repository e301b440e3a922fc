package overlay

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// reportShrunkLists warns where a strategic merge makes a list shorter. kustomize knows no merge keys for our kinds: what looks
// like a change of one entry replaces the list as a whole, and the entries of the base are gone without a word.
func (s *scan) reportShrunkLists() {
	for _, k := range s.kustomizations {
		for _, p := range k.patches {
			if p.isJSON() || p.deletes() {
				continue
			}
			for _, doc := range p.docs {
				s.shrunkBy(p, doc)
			}
		}
	}
}

func (s *scan) shrunkBy(p *patch, doc *yaml.Node) {
	for _, src := range s.resources {
		for _, declared := range src.docs {
			if !p.meets(doc, declared) {
				continue
			}
			compareLists("", doc, declared, func(field string, now, before *yaml.Node) {
				f := shrunk(at(p.source(), now), field, before, now)
				f.Kind, f.Name = text(declared, "kind"), text(declared, "metadata", "name")
				s.report(f)
			})
		}
	}
}

// meets says whether the patch is about the declared object, by kind and name. Labels of a target are left out: they may come
// from the overlay.
func (p *patch) meets(doc, declared *yaml.Node) bool {
	kind, name := text(declared, "kind"), text(declared, "metadata", "name")
	if p.target == nil {
		return text(doc, "kind") == kind && text(doc, "metadata", "name") == name
	}
	return pattern(text(p.target, "kind"))(kind) && pattern(text(p.target, "name"))(name)
}

// compareLists calls shrinks for each list of the patch that is shorter than the declared one.
func compareLists(at string, patched, declared *yaml.Node, shrinks func(field string, now, before *yaml.Node)) {
	for i := 0; i+1 < len(patched.Content); i += 2 {
		name, now := patched.Content[i].Value, resolve(patched.Content[i+1])
		_, before := get(declared, name)
		if before == nil || at == "" && isHead(name) || now.Kind != before.Kind {
			continue
		}
		field := strings.TrimPrefix(at+"."+name, ".")
		switch {
		case now.Kind == yaml.MappingNode && text(now, "$patch") == "":
			compareLists(field, now, before, shrinks)
		case now.Kind == yaml.SequenceNode && len(now.Content) < len(before.Content):
			shrinks(field, now, before)
		}
	}
}

func shrunk(p Position, field string, before, now *yaml.Node) finding.Finding {
	f := allowing(problem(codeListShrinks, p, "the patch replaces the whole list: %s become %s", entriesText(before), entriesText(now)),
		"a JSON patch to change one entry")
	f.Severity, f.Field = finding.Warning, field
	return f
}

// entriesText counts a list's entries and names them, as far as they have names.
func entriesText(list *yaml.Node) string {
	var names []string
	for _, entry := range list.Content {
		if name := text(resolve(entry), "name"); name != "" && len(names) < 5 {
			names = append(names, name)
		}
	}
	count := fmt.Sprintf("%d entries", len(list.Content))
	if len(list.Content) == 1 {
		count = "1 entry"
	}
	if len(names) == 0 {
		return count
	}
	return count + " (" + strings.Join(names, ", ") + ")"
}
