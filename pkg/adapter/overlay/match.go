package overlay

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

const probeField = "fleetwrightProbe"

func matchesNothing(p Position, format string, args ...any) finding.Finding {
	return allowing(problem(codePatchNoMatch, p, "the patch matches no object: "+format, args...), "the kind and name of an object in resources")
}

// reportUnmatchedPatches finds the patches with a target that no object fits, about which kustomize keeps silent. It builds
// once more, with a probe in front of each such patch that has the same target and leaves a mark on what it meets. Patches
// that delete are left out of that build, because they would take the marks away.
func (s *scan) reportUnmatchedPatches() {
	probes := map[*patch]string{}
	for _, k := range s.kustomizations {
		for _, p := range k.patches {
			if p.target != nil {
				probes[p] = probeField + strconv.Itoa(len(probes))
			}
		}
	}
	if len(probes) == 0 {
		return
	}
	built, err := s.renderProbes(probes)
	if err != nil {
		f := s.explain(fmt.Errorf("check the targets of patches: %w", err))
		f.Severity = finding.Warning
		s.report(f)
		return
	}
	for p, field := range probes {
		if !slices.ContainsFunc(built, func(r *resource.Resource) bool { return !r.Field(field).IsNilOrEmpty() }) {
			s.report(matchesNothing(p.at, "%s", targetText(p.target)))
		}
	}
}

func (s *scan) renderProbes(probes map[*patch]string) ([]*resource.Resource, error) {
	contents, err := s.contents(variant{entries: func(p *patch) []*yaml.Node {
		var entries []*yaml.Node
		if field, ok := probes[p]; ok {
			entries = append(entries, mapping(scalar("target"), p.target,
				scalar("patch"), scalar(`[{"op":"add","path":"/`+field+`","value":"met"}]`)))
		}
		if !p.deletes() {
			entries = append(entries, p.entry)
		}
		return entries
	}})
	if err != nil {
		return nil, err
	}
	return s.render(contents)
}

// targetText words a target as it is written: kind=NodeWright, name=gpu-.*
func targetText(target *yaml.Node) string {
	var parts []string
	for i := 0; i+1 < len(target.Content); i += 2 {
		parts = append(parts, target.Content[i].Value+"="+resolve(target.Content[i+1]).Value)
	}
	return "target " + strings.Join(parts, ", ")
}

var noMergeTarget = regexp.MustCompile(`(?:no resource matches strategic merge patch "([^"]+)"|no matches for Id ([^;]+);)`)

// unmatchedMerge finds the patch that kustomize complains about, among those that were not left out.
func (s *scan) unmatchedMerge(err error, left []*patch) (*patch, *yaml.Node) {
	if err == nil {
		return nil, nil
	}
	m := noMergeTarget.FindStringSubmatch(err.Error())
	if m == nil {
		return nil, nil
	}
	id := resid.FromString(m[1] + m[2])
	for _, k := range s.kustomizations {
		for _, p := range k.patches {
			if p.target != nil || slices.Contains(left, p) {
				continue
			}
			for _, doc := range p.docs {
				if text(doc, "kind") == id.Kind && text(doc, "metadata", "name") == id.Name {
					return p, doc
				}
			}
		}
	}
	return nil, nil
}
