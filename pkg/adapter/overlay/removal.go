package overlay

import (
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// removal is a place in a patch that takes a value away: a null or $patch: delete of a strategic merge, a remove of a JSON
// patch. A finding about a value that is missing belongs there.
type removal struct {
	patch  *patch
	doc    *yaml.Node
	tokens []string
	at     Position
}

// removals of all patches, in the order in which they are applied.
func (s *scan) removals() []removal {
	var out []removal
	for _, k := range s.kustomizations {
		for _, p := range k.patches {
			for _, op := range p.operations() {
				if text(op, "op") == "remove" {
					out = append(out, removal{patch: p, doc: op, tokens: split(text(op, "path")), at: at(p.source(), op)})
				}
			}
			for _, doc := range p.docs {
				if doc.Kind == yaml.MappingNode {
					out = append(out, removal{patch: p, doc: doc}.below(doc)...)
				}
			}
		}
	}
	return out
}

// below finds what a strategic merge takes away in a map and under it.
func (r removal) below(node *yaml.Node) []removal {
	var out []removal
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		found := removal{patch: r.patch, doc: r.doc, tokens: append(slices.Clone(r.tokens), key.Value), at: at(r.patch.source(), key)}
		switch {
		case isNull(value), text(value, "$patch") == "delete":
			out = append(out, found)
		case value.Kind == yaml.MappingNode:
			out = append(out, found.below(value)...)
		}
	}
	return out
}

// takes says whether the removal is about the declared object, and takes away the value at the tokens or one above it.
func (r removal) takes(declared *yaml.Node, tokens []string) bool {
	return declared != nil && len(r.tokens) > 0 && len(r.tokens) <= len(tokens) && slices.Equal(r.tokens, tokens[:len(r.tokens)]) &&
		r.patch.meets(r.doc, declared)
}

// removedAt is where the last patch takes away what an object lacks.
func (l *Locator) removedAt(object *located, tokens []string) (Position, bool) {
	value, there := object.marked, true
	for _, token := range tokens {
		if value, there = child(value, token); !there {
			break
		}
	}
	if there {
		return Position{}, false
	}
	for _, r := range slices.Backward(l.removals) {
		if r.takes(object.doc, tokens) {
			return r.at, true
		}
	}
	return Position{}, false
}
