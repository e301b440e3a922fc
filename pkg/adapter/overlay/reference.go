package overlay

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// reference checks one path of a kustomization file. It answers the path in the repository, and whether it is a directory.
func (s *scan) reference(k *kustomization, node *yaml.Node) (target string, isDir, ok bool) {
	node = resolve(node)
	from, ref := at(k.path, node), node.Value
	switch {
	case !isText(node) || ref == "":
		s.report(problem(codeInvalidField, from, "is not a path"))
	case strings.Contains(ref, "\n"):
		s.report(allowing(problem(codeInvalidField, from, "holds text instead of a path"), "the path of a file"))
	case looksRemote(ref):
		s.report(allowing(problem(codeRemoteBase, from, "%q would be fetched from elsewhere, which is not done here", ref),
			"a path inside the repository; copy the base into it"))
	case path.IsAbs(ref):
		s.report(allowing(problem(codeOutside, from, "%s is an absolute path", ref), "a path relative to "+k.dir))
	default:
		return s.local(k, node)
	}
	return "", false, false
}

func (s *scan) local(k *kustomization, node *yaml.Node) (target string, isDir, ok bool) {
	from, ref := at(k.path, node), node.Value
	target = path.Join(k.dir, ref)
	switch {
	case target == ".." || strings.HasPrefix(target, "../"):
		s.report(allowing(problem(codeOutside, from, "%s leads out of the repository", ref), "a path inside the repository"))
	case s.dirs[target]:
		return target, true, true
	case s.known[target] && k.dir != "." && !strings.HasPrefix(target, k.dir+"/"):
		s.report(allowing(problem(codeOutside, from, "%s is a file outside of %s", ref, k.dir),
			"files in or below "+k.dir+", or a directory with its own kustomization.yaml"))
	case s.known[target]:
		return target, false, true
	default:
		s.absent(from, ref, target)
	}
	return "", false, false
}

// absent asks the repository why a path is not among its files: a link out of it, a submodule, or simply nothing.
func (s *scan) absent(from Position, ref, target string) {
	_, err := s.files.ReadFile(target)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.report(problem(codePathNotFound, from, "%s does not exist in the repository (looked for %s)", ref, target))
		return
	}
	s.report(problem(codeUnreadableFile, from, "%s cannot be read: %s", ref, err))
}

// isText refuses what kustomize would read as another text than the one that was checked: !!binary, and numbers.
func isText(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" }

// looksRemote is wider than what kustomize fetches: URLs, the short forms of git hosts, queries and double slashes.
func looksRemote(ref string) bool {
	lower := strings.ToLower(ref)
	return strings.ContainsAny(ref, ":@?") || strings.Contains(ref, "//") || strings.Contains(lower, "_git/") ||
		strings.HasPrefix(lower, "github.com") || strings.HasPrefix(lower, "gist.github.com")
}
