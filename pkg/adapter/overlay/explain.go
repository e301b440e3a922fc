package overlay

import (
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

const (
	// maxLine is about how long a finding may become through what kustomize says, in characters.
	maxLine = 200
	// minMessage of kustomize is shown, however long the path before it is.
	minMessage = 80
)

var (
	registeredTwice = regexp.MustCompile(`already registered id: ([^\s']+)`)
	pointers        = regexp.MustCompile(`/[^\s'":,]+`)
)

// explain turns an error of kustomize into a finding with a place, as well as its text allows.
func (s *scan) explain(err error) finding.Finding {
	message := shortened(innermost(err), maxLine-len(s.rootFile())-len(cannotBuild)-len(":1:1: "))
	if m := registeredTwice.FindStringSubmatch(err.Error()); m != nil {
		return s.declaredTwice(resid.FromString(m[1]))
	}
	if message == emptyKustomization && !strings.Contains(err.Error(), "accumulating") { // the overlay's own, not a base's
		return s.yieldsNothing()
	}
	if p, ok := s.operation(message); ok {
		return problem(codePatchFailed, p, "the patch does not apply: %s", message)
	}
	return s.atRoot(codeBuildFailed, cannotBuild+message, "")
}

const (
	cannotBuild = "kustomize cannot build the overlay: "
	// emptyKustomization is what kustomize says of a file without a field that it acts on.
	emptyKustomization = "kustomization.yaml is empty"
)

func (s *scan) yieldsNothing() finding.Finding {
	return s.atRoot(codeEmptyBuild, "the overlay yields no object", "at least one; to take everything away, set prune and delete the Fleet")
}

// crashed is the finding of a build that panicked.
func crashed(dir string, crash any) finding.Finding {
	return problem(codeBuildFailed, Position{File: dir}, "the build crashed: %s", shortened(fmt.Sprint(crash), minMessage))
}

func (s *scan) rootFile() string {
	if k := s.byDir[s.root]; k != nil {
		return k.path
	}
	return s.root
}

func shortened(message string, limit int) string {
	if runes := []rune(message); len(runes) > max(limit, minMessage) {
		return string(runes[:max(limit, minMessage)-1]) + "…"
	}
	return message
}

func (s *scan) atRoot(code, message, allowed string) finding.Finding {
	where := Position{File: s.root}
	if k := s.byDir[s.root]; k != nil {
		where = Position{File: k.path, Line: 1, Column: 1}
	}
	return allowing(problem(code, where, "%s", message), allowed)
}

// innermost drops the layers that kustomize wraps around a cause, and what it tried before.
func innermost(err error) string {
	message := strings.ReplaceAll(err.Error(), repository+"/", "")
	message = strings.Join(strings.Fields(message), " ")
	for _, prefix := range []string{"accumulating resources: ", "accumulating components: ", "recursed accumulation of path "} {
		if i := strings.LastIndex(message, prefix); i >= 0 {
			message = message[i+len(prefix):]
		}
	}
	return message
}

// declaredTwice names both documents; kustomize names neither file.
func (s *scan) declaredTwice(id resid.ResId) finding.Finding {
	var places []Position
	for _, src := range s.resources {
		for _, doc := range src.docs {
			if text(doc, "kind") == id.Kind && text(doc, "metadata", "name") == id.Name {
				places = append(places, at(src.path, doc))
			}
		}
	}
	if len(places) < 2 {
		return s.atRoot(codeDuplicateObject, id.Kind+"/"+id.Name+" is declared twice", "one declaration; change it by a patch")
	}
	f := problem(codeDuplicateObject, places[1], "is declared twice, also in %s", places[0].File)
	f.Kind, f.Name = id.Kind, id.Name
	return allowing(f, "one declaration; change it by a patch")
}

// operation finds the JSON patch operation whose path an error quotes.
func (s *scan) operation(message string) (Position, bool) {
	for _, pointer := range pointers.FindAllString(message, -1) {
		for _, k := range s.kustomizations {
			for _, p := range k.patches {
				if op := p.operationAt(pointer); op != nil {
					return at(p.source(), op), true
				}
			}
		}
	}
	return Position{}, false
}

func (p *patch) operationAt(pointer string) *yaml.Node {
	if !p.isJSON() {
		return nil
	}
	for _, op := range p.docs[0].Content {
		if text(resolve(op), "path") == pointer {
			return resolve(op)
		}
	}
	return nil
}
