package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(data)
}

// constants returns the values of the string constants in a directory whose names start with prefix, and whose declared
// type is the given one ("" for any).
func constants(t *testing.T, dir, prefix, typ string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	require.NoError(t, err)
	var values []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if declared, ok := spec.Type.(*ast.Ident); typ != "" && (!ok || declared.Name != typ) {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				values = append(values, value)
			}
			return true
		})
	}
	require.NotEmpty(t, values, "%s has constants %s*", dir, prefix)
	return values
}

func TestEveryReasonIsExplained(t *testing.T) {
	operations := read(t, "docs/operations.md")
	reasons := constants(t, "pkg/core/plan", "", "Code")
	reasons = append(reasons, constants(t, "pkg/adapter/git", "Reason", "Reason")...)
	reasons = append(reasons, constants(t, "pkg/core/report", "Reason", "")...)
	for _, reason := range reasons {
		assert.Contains(t, operations, "| `"+reason+"` |", "rule: docs/operations.md explains every reason: %s is missing", reason)
	}
	rows := regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|").FindAllStringSubmatch(operations, -1)
	flux := []string{
		"ReconciliationSucceeded", "Progressing", "ProgressingWithRetry", "Suspended", "BuildFailed", "PruneFailed",
	}
	for _, row := range rows {
		assert.Contains(t, append(reasons, flux...), row[1], "rule: docs/operations.md explains only what exists: %s does not", row[1])
	}
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	metrics := constants(t, "pkg/core/report", "Metric", "")
	sources, err := filepath.Glob(filepath.Join(root, "reconciler", "*_metrics.go"))
	require.NoError(t, err)
	for _, path := range sources {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`"(fleetwright_[a-z_]+)"`).FindAllStringSubmatch(string(data), -1) {
			metrics = append(metrics, name[1])
		}
	}
	alerts, operations := read(t, "charts/fleetwright/alerts.yaml"), read(t, "docs/operations.md")
	for _, used := range regexp.MustCompile(`fleetwright_[a-z_]+`).FindAllString(alerts, -1) {
		assert.Contains(t, metrics, used, "rule: an alert uses a metric that exists")
	}
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.Contains(t, operations, "### "+name[1]+"\n", "rule: docs/operations.md says what to do about every alert")
		assert.Contains(t, alerts, "runbook: docs/operations.md#"+strings.ToLower(name[1]), "rule: an alert names its section")
	}
}

func TestChartUsesFlagsThatExist(t *testing.T) {
	options := read(t, "cmd/fleetwright-reconciler/options.go")
	used := regexp.MustCompile(`- --([a-z-]+)=`).FindAllStringSubmatch(read(t, "charts/fleetwright/templates/deployment.yaml")+read(t, "charts/fleetwright/templates/reviewer.yaml"), -1)
	require.NotEmpty(t, used)
	for _, flag := range used {
		assert.Contains(t, options, `"`+flag[1]+`"`, "rule: the chart uses flags that exist")
	}
}

func TestEveryDependencyIsExplained(t *testing.T) {
	modules := read(t, "go.mod")
	dependencies := read(t, "docs/dependencies.md")
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(modules, -1)
	require.NotEmpty(t, direct)
	for _, module := range direct {
		assert.Contains(t, dependencies, "| `"+module[1]+"` |", "rule: docs/dependencies.md explains every direct dependency")
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(dependencies, -1) {
		assert.Contains(t, modules, "\t"+row[1]+" v", "rule: docs/dependencies.md explains only what is there")
	}
}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code = regexp.MustCompile("`[^`\n]*`")
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, tree := range []string{"docs", "fleet-example", "README.md"} {
		err := filepath.WalkDir(filepath.Join(root, tree), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return nil //nolint:nilerr // README.md may not be there yet; a directory has no text
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(data), ""), -1) {
				target, fragment, _ := strings.Cut(match[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				file := path
				if target != "" {
					file = filepath.Join(filepath.Dir(path), target)
				}
				assert.FileExistsf(t, file, "rule: a link leads somewhere: %s in %s", match[1], path)
				if fragment != "" {
					assert.Contains(t, anchors(t, file), fragment, "rule: a link leads somewhere: %s in %s", match[1], path)
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// anchors are the fragments of a page's headings, as forges make them.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(data), -1) {
		words := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		out = append(out, strings.ReplaceAll(words, " ", "-"))
	}
	return out
}
