package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layer is one row of the layer table in docs/decisions/0001-layout.md.
type layer struct {
	name string
	// trees belong to the layer.
	trees []string
	// imports are the trees of this module that the layer may import, beside the packages of its own tree.
	imports []string
	// apart says that the packages of the layer do not import one another.
	apart bool
}

// words are data and types: every layer may import them.
var words = []string{"pkg/apis", "schema", "charts"}

// layers in the order of the table: a package imports only from layers above its own.
var layers = []layer{
	{name: "words", trees: words, imports: words},
	{name: "core", trees: []string{"pkg/core"}, imports: append([]string{"pkg/core"}, words...)},
	{name: "adapter", trees: []string{"pkg/adapter"}, imports: append([]string{"pkg/core"}, words...), apart: true},
	{name: "reconciler", trees: []string{"reconciler"}, imports: append([]string{"pkg/core"}, words...)},
	{name: "agent", trees: []string{"pkg/agent"}, imports: append([]string{"pkg/core", "pkg/adapter/host"}, words...)},
	{name: "main", trees: []string{"cmd"}, imports: append([]string{"pkg", "reconciler"}, words...)},
	{name: "generators", trees: []string{"docs"}, imports: words},
	{name: "tests", trees: []string{"test"}, imports: append([]string{"pkg", "reconciler", "cmd", "test"}, words...)},
}

func layerOf(path string) (layer, bool) {
	for _, l := range layers {
		if under(path, l.trees...) {
			return l, true
		}
	}
	return layer{}, false
}

// unit is the part of a layer whose packages may import one another: `pkg/adapter/git` for a package below it.
func unit(path string) string {
	slashes := 0
	for i, c := range path {
		if c == '/' {
			slashes++
		}
		if slashes == 3 {
			return path[:i]
		}
	}
	return path
}

func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		l, known := layerOf(p.path())
		if !assert.True(t, known, "rule: every package belongs to a layer: %s does not; add it to the table", p.path()) {
			continue
		}
		for _, imported := range p.within() {
			allowed := under(imported, l.imports...) || under(imported, unit(p.path()))
			if l.name == "reconciler" || l.name == "main" {
				allowed = allowed || under(imported, l.trees...)
			}
			assert.True(t, allowed, "rule: %s imports only %v: %s imports %s", l.name, l.imports, p.path(), imported)
			if l.apart && under(imported, l.trees...) {
				assert.Equal(t, unit(p.path()), unit(imported),
					"rule: packages of the layer %s do not import one another: %s imports %s", l.name, p.path(), imported)
			}
		}
	}
}

// impure are imports that the core never has: I/O, the network, the clock's and chance's libraries, clients.
var impure = []string{
	"os", "net", "syscall", "log", "math/rand", "crypto/rand", "io/fs", "testing", "unsafe", "runtime",
	"k8s.io/client-go", "k8s.io/kubectl", "k8s.io/apiserver", "sigs.k8s.io/controller-runtime", "sigs.k8s.io/kustomize",
	"github.com/go-git", "github.com/prometheus", "google.golang.org/grpc",
}

// impureDeps are what the core must not even pull in through others.
var impureDeps = []string{
	"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "github.com/go-git", "sigs.k8s.io/kustomize/api", "k8s.io/kubectl",
}

// clock are the functions of package time that read or wait for the clock.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "Tick": true,
	"NewTimer": true, "NewTicker": true,
}

func TestCoreIsPure(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		if !under(p.path(), "pkg/core") {
			continue
		}
		seen++
		for _, imported := range p.Imports {
			assert.False(t, under(imported, impure...), "rule: the core has no I/O: %s imports %s", p.path(), imported)
		}
		for _, dep := range p.Deps {
			assert.False(t, under(dep, impureDeps...), "rule: the core needs no client: %s pulls in %s", p.path(), dep)
		}
		for _, f := range p.files(t) {
			assert.Empty(t, impurities(f))
		}
	}
	require.NotZero(t, seen, "pkg/core has packages")
}

// impurities lists what a file of the core must not do.
func impurities(f file) []string {
	var found []string
	add := func(n ast.Node, rule, what string) {
		found = append(found, fmt.Sprintf("rule: %s: %s:%d %s", rule, f.path, f.line(n), what))
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "no goroutine in the core", "starts one")
		case *ast.SelectStmt, *ast.SendStmt:
			add(n, "no channel in the core", "uses one")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && x.Obj == nil && clock[n.Sel.Name] {
				add(n, "time comes into the core as a value", "uses time."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestImpuritiesAreFound(t *testing.T) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, "x.go", `package x
import "time"
func f(c chan int) time.Time {
	go f(c)
	c <- 1
	time.Sleep(time.Second)
	return time.Now().Add(time.Hour)
}`, 0)
	require.NoError(t, err)
	require.Equal(t, []string{
		"rule: no goroutine in the core: x.go:4 starts one",
		"rule: no channel in the core: x.go:5 uses one",
		"rule: time comes into the core as a value: x.go:6 uses time.Sleep",
		"rule: time comes into the core as a value: x.go:7 uses time.Now",
	}, impurities(file{path: "x.go", set: set, ast: parsed}))
}

// homes says which trees may import a library that stands for an outside system. Tests may import any.
var homes = map[string][]string{
	"github.com/go-git/go-git":               {"pkg/adapter/git", "pkg/adapter/forge", "cmd"},
	"sigs.k8s.io/kustomize/api":              {"pkg/adapter/overlay"},
	"github.com/santhosh-tekuri/jsonschema":  {"pkg/adapter/manifest"},
	"k8s.io/kubectl":                         {"pkg/adapter/cluster"},
	"code.gitea.io/sdk":                      {"pkg/adapter/forge"},
	"github.com/google/go-github":            {"pkg/adapter/forge"},
	"gitlab.com/gitlab-org/api":              {"pkg/adapter/forge"},
	"helm.sh/helm":                           {},
	"pgregory.net/rapid":                     {},
	"github.com/stretchr/testify":            {},
	"github.com/spf13/cobra":                 {"cmd"},
	"os/exec":                                {"pkg/adapter/host", "pkg/adapter/sandbox", "pkg/agent", "cmd"},
	"sigs.k8s.io/controller-runtime":         {"pkg/adapter/cluster", "pkg/apis", "reconciler", "cmd"},
	"github.com/google/go-containerregistry": {"pkg/adapter/oci", "cmd"},
}

func TestLibrariesHaveOneHome(t *testing.T) {
	for _, p := range packages(t) {
		if under(p.path(), "test") || strings.HasSuffix(p.path(), "test") { // hosttest is to host what httptest is to http
			continue
		}
		for _, imported := range p.Imports {
			for library, trees := range homes {
				if under(imported, library) {
					assert.True(t, under(p.path(), trees...),
						"rule: %s is for %v and tests only: %s imports %s", library, trees, p.path(), imported)
				}
			}
		}
	}
}
