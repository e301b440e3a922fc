package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/fleetwright/fleetwright/"
	root   = "../.."
)

// pkg is a package as `go list` sees it.
type pkg struct {
	ImportPath string
	Dir        string
	Name       string
	Doc        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// path is the package's directory in the repository.
func (p pkg) path() string { return strings.TrimPrefix(p.ImportPath, module) }

// within are the packages of this module that p imports, as directories in the repository.
func (p pkg) within() []string {
	var out []string
	for _, i := range p.Imports {
		if rest, ok := strings.CutPrefix(i, module); ok {
			out = append(out, rest)
		}
	}
	return out
}

// packages lists every package of the module that has code beside tests.
func packages(t *testing.T) []pkg {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,Name,Doc,GoFiles,Imports,Deps", "./...")
	command.Dir = root
	out, err := command.Output()
	require.NoError(t, err, "go list")
	var all []pkg
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "read the output of go list")
		if len(p.GoFiles) > 0 {
			all = append(all, p)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// file is one parsed source file.
type file struct {
	path  string // in the repository
	lines int
	set   *token.FileSet
	ast   *ast.File
}

func (f file) line(n ast.Node) int { return f.set.Position(n.Pos()).Line }

// files parses the package's files that are neither tests nor generated.
func (p pkg) files(t *testing.T) []file {
	t.Helper()
	var out []file
	for _, name := range p.GoFiles {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		require.NoError(t, err)
		if ast.IsGenerated(parsed) {
			continue
		}
		out = append(out, file{
			path: p.path() + "/" + name, lines: set.File(parsed.Pos()).LineCount(), set: set, ast: parsed,
		})
	}
	return out
}

// under reports whether a path is one of the trees, or below one.
func under(path string, trees ...string) bool {
	for _, tree := range trees {
		if path == tree || strings.HasPrefix(path, tree+"/") {
			return true
		}
	}
	return false
}
