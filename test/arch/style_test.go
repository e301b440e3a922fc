package arch

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	maxFileLines     = 500
	maxFunctionLines = 60
	maxParameters    = 4
)

// waivers are places that break a limit on purpose: `path` for a file's length, `path name` for a function. Each has a reason;
// one that is no longer needed fails the test.
var waivers = map[string]string{}

func TestSizes(t *testing.T) {
	used := map[string]bool{}
	waived := func(key string) bool {
		_, ok := waivers[key]
		used[key] = used[key] || ok
		return ok
	}
	for _, p := range packages(t) {
		for _, f := range p.files(t) {
			if f.lines > maxFileLines && !waived(f.path) {
				t.Errorf("rule: a file has at most %d lines: %s has %d", maxFileLines, f.path, f.lines)
			}
			for _, d := range f.ast.Decls {
				function, ok := d.(*ast.FuncDecl)
				if !ok || function.Body == nil {
					continue
				}
				checkFunction(t, f, function, waived)
			}
		}
	}
	for key, reason := range waivers {
		assert.NotEmpty(t, reason, "rule: a waiver has a reason: %s", key)
		assert.True(t, used[key], "rule: a waiver is needed: %s is not; remove it", key)
	}
}

func checkFunction(t *testing.T, f file, function *ast.FuncDecl, waived func(string) bool) {
	t.Helper()
	name := function.Name.Name
	lines := f.set.Position(function.End()).Line - f.line(function) + 1
	parameters := function.Type.Params.NumFields()
	if (lines > maxFunctionLines || parameters > maxParameters) && waived(f.path+" "+name) {
		return
	}
	if lines > maxFunctionLines {
		t.Errorf("rule: a function has at most %d lines: %s:%d %s has %d", maxFunctionLines, f.path, f.line(function), name, lines)
	}
	if parameters > maxParameters {
		t.Errorf("rule: a function has at most %d parameters: %s:%d %s has %d; use a struct",
			maxParameters, f.path, f.line(function), name, parameters)
	}
}

func TestPackages(t *testing.T) {
	for _, p := range packages(t) {
		assert.NotEmpty(t, p.Doc, "rule: every package has a doc comment: %s has none", p.path())
		assert.NotContains(t, []string{"util", "utils", "common", "helpers", "misc", "base"}, p.Name,
			"rule: a package is named after its job: %s", p.path())
		for _, f := range p.files(t) {
			checkDeclarations(t, f)
		}
	}
}

func checkDeclarations(t *testing.T, f file) {
	t.Helper()
	for _, d := range f.ast.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
			t.Errorf("rule: nothing registers itself: %s:%d has func init", f.path, f.line(function))
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		structure, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range structure.Fields.List {
			if s, ok := field.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "context" {
					t.Errorf("rule: a context is a parameter: %s:%d keeps one in a struct", f.path, f.line(field))
				}
			}
		}
		return true
	})
}

// private are traces of the machine on which a file was written, and hosts that a build must not depend on.
var private = regexp.MustCompile(`(^|["'` + "`" + `\s=(:])/(work/|home/[a-z]+/|root/(go|\.))` +
	`|proxy\.golang\.org|sum\.golang\.org|registry\.npmjs\.org|pypi\.org`)

func TestTreeHasNoTracesOfAMachine(t *testing.T) {
	command := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		t.Skip("not a git checkout")
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if under(name, "test/arch") || slices.Contains([]string{".sum", ".png"}, filepath.Ext(name)) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) { // deleted and not yet committed
			continue
		}
		require.NoError(t, err)
		for i, line := range strings.Split(string(data), "\n") {
			assert.NotRegexp(t, private, line, "rule: nothing of a machine in the tree: %s:%d", name, i+1)
		}
	}
}

func TestTracesAreFound(t *testing.T) {
	for _, line := range []string{ // in two pieces each, so that this file leaves no trace itself
		`dir := "/wo` + `rk/main"`, "see /ro" + "ot/go/pkg", "GOPROXY=https://proxy." + "golang.org", "cd (/ho" + "me/jane/x)",
	} {
		require.Regexp(t, private, line)
	}
	for _, line := range []string{"docs/work/main", "spec.path: ./root/x", "ghcr.io/nvidia/x", "/srv/root/etc", `cp "/root/$DIR"`} {
		require.NotRegexp(t, private, line)
	}
}
