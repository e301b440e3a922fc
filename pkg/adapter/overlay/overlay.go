package overlay

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Limits of one build. kustomize's time grows with the square of the number of objects.
const (
	maxObjects = 500
	maxPatches = 1000
	maxBytes   = 16 << 20 // of all files that the overlay reaches
	maxDepth   = 32       // of bases in bases
	maxNodes   = 200_000  // YAML values of all files with aliases expanded
	maxDirs    = 1000     // directories, each counted as often as it is named
	// maxBuilt and maxBuiltBytes are what a build may come to, by an upper bound: YAML values, and bytes of their text.
	maxBuilt      = 400_000
	maxBuiltBytes = 64 << 20
	// maxWork is how many objects patches are applied to, each counted once for each patch: about half a millisecond for one.
	maxWork = 10_000
	// maxUnmatched is how many patches that match nothing are looked for: each of them costs a build.
	maxUnmatched = 10
)

// Files is what a build reads: slash-separated paths relative to the repository's root. A missing file is fs.ErrNotExist;
// the text of any other error is shown to the user.
type Files interface {
	Paths() []string
	ReadFile(path string) ([]byte, error)
}

// Object is one object of a build.
type Object struct {
	// JSON is the object as kustomize made it, without kustomize's own annotations. Large integers keep their digits.
	JSON []byte
	// APIVersion, Kind, Namespace and Name as in JSON.
	APIVersion, Kind, Namespace, Name string
	// Origin is the repository path of the file that declares the object, before patches.
	Origin string
}

// Key identifies the object within its build.
func (o Object) Key() ObjectKey { return ObjectKey{o.Kind, o.Namespace, o.Name} }

// ObjectKey identifies an object within one build.
type ObjectKey struct {
	Kind, Namespace, Name string
}

// Result is what a build yields.
type Result struct {
	// Objects sorted by kind, namespace and name.
	Objects []Object
	// Files are the paths that were read, sorted.
	Files []string
}

// Build renders the directory dir of files. The result is nil exactly when one of the findings is an error. Equal files give
// equal results, byte for byte. Builds of one process run one after the other.
//
// Nothing is substituted: ${X}, $$ and $1 come out as they went in. Nothing is written to files. A crash of kustomize is a finding.
func Build(files Files, dir string) (result *Result, findings []finding.Finding) {
	defer func() {
		if crash := recover(); crash != nil {
			result, findings = nil, []finding.Finding{crashed(dir, crash)}
		}
	}()
	s := scanOverlay(files, dir)
	if s.failed() {
		return nil, s.sorted()
	}
	s.annotate()
	objects := s.buildObjects()
	if !s.failed() {
		s.reportUnmatchedPatches()
		s.reportShrunkLists()
	}
	if s.failed() {
		return nil, s.sorted()
	}
	return &Result{Objects: objects, Files: s.paths()}, s.sorted()
}

func (s *scan) buildObjects() []Object {
	built, err := s.renderReportingPatches()
	if err != nil {
		s.report(s.explain(err))
		return nil
	}
	if len(built) == 0 && !s.failed() {
		s.report(s.yieldsNothing())
	}
	var objects []Object
	for _, node := range built {
		object, err := s.object(node)
		if err != nil {
			s.report(s.explain(err))
			return nil
		}
		objects = append(objects, object)
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.APIVersion, b.APIVersion))
	})
	return objects
}

func (s *scan) sorted() []finding.Finding {
	finding.Sort(s.findings)
	return slices.Compact(s.findings)
}

func (s *scan) paths() []string {
	var out []string
	for p := range s.sources {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// cleanDir accepts what a Fleet's path and a command line hold: "./overlays/us/", "overlays/us", ".".
func cleanDir(dir string) (string, error) {
	clean := path.Clean(dir)
	if path.IsAbs(dir) {
		clean = path.Clean("./" + strings.TrimLeft(dir, "/"))
	}
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", errors.New("leads out of the repository")
	}
	return clean, nil
}
