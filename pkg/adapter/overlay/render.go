package overlay

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// repository is where the tree lies in the build's file system.
const repository = "/repository"

// oneBuild keeps builds apart: kustomize holds its schema in variables of the process.
var oneBuild sync.Locker = &sync.Mutex{}

// render runs kustomize over contents, which are all the files that exist for it.
func (s *scan) render(contents map[string][]byte) (built []*resource.Resource, err error) {
	disk := filesys.MakeFsInMemory()
	for name, data := range contents {
		if err := disk.WriteFile(path.Join(repository, name), data); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", name, err)
		}
	}
	oneBuild.Lock()
	defer oneBuild.Unlock()
	defer func() {
		if crash := recover(); crash != nil {
			built, err = nil, fmt.Errorf("kustomize crashed: %v", crash)
		}
	}()
	options := &krusty.Options{
		Reorder: krusty.ReorderOptionNone, LoadRestrictions: types.LoadRestrictionsRootOnly, PluginConfig: types.DisabledPluginConfig(),
	}
	m, err := krusty.MakeKustomizer(options).Run(disk, path.Join(repository, s.root))
	if err != nil {
		return nil, err
	}
	return m.Resources(), nil
}

// object takes our note off and keeps what it says.
func (s *scan) object(built *resource.Resource) (Object, error) {
	declared, known := s.places.document(built.GetAnnotations()[docAnnotation])
	if err := clearNote(built); err != nil {
		return Object{}, fmt.Errorf("clear annotations: %w", err)
	}
	data, err := built.MarshalJSON()
	if err != nil {
		return Object{}, fmt.Errorf("write %s: %w", built.CurId(), err)
	}
	object := Object{JSON: data, APIVersion: built.GetApiVersion(), Kind: built.GetKind(), Namespace: built.GetNamespace(), Name: built.GetName()}
	if known {
		object.Origin = declared.file
	}
	return object, nil
}

func clearNote(built *resource.Resource) error {
	annotations := built.GetAnnotations()
	if _, noted := annotations[docAnnotation]; !noted {
		return nil
	}
	if len(annotations) == 1 {
		return built.PipeE(yaml.Lookup("metadata"), yaml.Clear("annotations"))
	}
	return built.PipeE(yaml.Lookup("metadata", "annotations"), yaml.Clear(docAnnotation))
}

// annotate ties every object to the document that declares it. kustomize could note origins itself, but then it also notes
// every transformer on every object, and reads those notes again each time: 500 objects and 300 patches would take hours.
func (s *scan) annotate() {
	s.places, s.annotated = &marker{documentsOnly: true}, map[string][]byte{}
	for _, src := range s.resources {
		nodes := s.places.resources(src)
		data, err := encode(nodes...)
		if err != nil {
			continue // the file is read as it is, and its objects have no origin
		}
		if again, findings := parse(src.path, data, inPlace); len(findings) == 0 && slices.EqualFunc(nodes, again, sameValue) {
			s.annotated[src.path] = data
		}
	}
}

func sameValue(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Value == b.Value && a.ShortTag() == b.ShortTag() && slices.EqualFunc(a.Content, b.Content, sameValue)
}

// variant is one way to write the overlay's files before a build.
type variant struct {
	// entries of a patch list in place of the one entry of the patch.
	entries func(*patch) []*yaml.Node
	// replace holds other contents for files.
	replace map[string][]byte
}

// contents of all files, with the kustomization files rewritten and the resources annotated.
func (s *scan) contents(v variant) (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, src := range s.sources {
		out[name] = src.data
	}
	maps.Copy(out, s.annotated)
	for _, k := range s.kustomizations {
		data, err := s.rewrite(k, v.entries)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", k.path, err)
		}
		out[k.path] = data
	}
	maps.Copy(out, v.replace)
	return out, nil
}

// unused fields change nothing in a result that is sorted and carries no notes of kustomize.
var unused = map[string]bool{"buildMetadata": true, "sortOptions": true}

func (s *scan) rewrite(k *kustomization, entries func(*patch) []*yaml.Node) ([]byte, error) {
	lists := map[string]*yaml.Node{}
	for _, p := range k.patches {
		if lists[p.field] == nil {
			lists[p.field] = &yaml.Node{Kind: yaml.SequenceNode}
		}
		lists[p.field].Content = append(lists[p.field].Content, entries(p)...)
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(k.node.Content); i += 2 {
		key, value := k.node.Content[i], k.node.Content[i+1]
		if list := lists[key.Value]; list != nil {
			value = list
		}
		if !unused[key.Value] {
			root.Content = append(root.Content, key, value)
		}
	}
	return encode(root)
}

func scalar(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

func mapping(pairs ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: pairs}
}

func encode(docs ...*yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	for _, doc := range docs {
		if err := encoder.Encode(doc); err != nil {
			return nil, err
		}
	}
	err := encoder.Close()
	return b.Bytes(), err
}

func asWritten(p *patch) []*yaml.Node { return []*yaml.Node{p.entry} }

// renderReportingPatches builds the overlay as it is written. A strategic merge that matches nothing stops kustomize; it is
// reported and left out, so that one build shows all of them, or the first maxUnmatched.
func (s *scan) renderReportingPatches() ([]*resource.Resource, error) {
	var left []*patch
	for {
		contents, err := s.contents(variant{entries: func(p *patch) []*yaml.Node {
			if slices.Contains(left, p) {
				return nil
			}
			return asWritten(p)
		}})
		if err != nil {
			return nil, err
		}
		built, err := s.render(contents)
		p, doc := s.unmatchedMerge(err, left)
		if p == nil {
			if len(left) > 0 {
				err = nil // what follows from leaving patches out is no news
			}
			return built, err
		}
		left = append(left, p)
		s.report(matchesNothing(at(p.source(), doc), "%s/%s", text(doc, "kind"), text(doc, "metadata", "name")))
		if len(left) == maxUnmatched {
			return nil, nil
		}
	}
}
