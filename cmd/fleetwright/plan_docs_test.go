package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/schema"
)

var (
	planConsole = regexp.MustCompile("(?ms)^(````?)console\n\\$ fleetwright (plan [^\n]*)\n(.*?)^````?\n")
	planDiff    = regexp.MustCompile("(?m)^```diff\n--- (\\S+)\n-(.*)\n\\+(.*)\n```")
)

// TestCommandsOfThePlanPage makes the change that docs/plan.md shows in a copy of the example repository, runs the commands of
// the page there, and compares what they print with what the page says.
func TestCommandsOfThePlanPage(t *testing.T) {
	file, err := filepath.Abs("../../docs/plan.md")
	require.NoError(t, err)
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	change := planDiff.FindStringSubmatch(string(page))
	require.NotNil(t, change)
	t.Chdir(exampleWith(t, change[1], change[2], change[3]))
	require.NoError(t, os.WriteFile("nodes.yaml", []byte(exampleNodes()), 0o600))

	shown := planConsole.FindAllStringSubmatch(string(page), -1)
	require.Len(t, shown, 2)
	for _, m := range shown {
		code, out, errOut := command(t, strings.Fields(m[2])...)
		require.Equal(t, 2, code, "%s: %s", m[2], errOut)
		out = commitHash.ReplaceAllString(out, "${1}0123456789ab")
		if *updatePage {
			page = bytes.Replace(page, []byte(m[0]), []byte("````console\n$ fleetwright "+m[2]+"\n"+out+"````\n"), 1)
			require.NoError(t, os.WriteFile(file, page, 0o644))
			continue
		}
		require.Equal(t, m[3], out, "go test ./cmd/fleetwright -run CommandsOfThePlanPage -update-page writes the page anew")
	}
}

// commitHash is the abbreviated commit of the scratch repository, which changes with every file of the example.
var commitHash = regexp.MustCompile("( at `?)[0-9a-f]{12}")

// exampleWith is a copy of the example repository, committed, with one line of one file changed.
func exampleWith(t *testing.T, file, before, after string) string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.Walk("../../fleet-example", func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel("../../fleet-example", path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	}))
	dir := committed(t, files)
	require.Contains(t, files[file], before+"\n")
	edit(t, dir, map[string]string{file: strings.Replace(files[file], before+"\n", after+"\n", 1)})
	return dir
}

// exampleNodes are two canaries, eight that serve, and ten that train.
func exampleNodes() string {
	var b strings.Builder
	n := 0
	for _, group := range []struct {
		tier  string
		count int
	}{{"canary", 2}, {"serving", 8}, {"training", 10}} {
		for range group.count {
			n++
			fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Node, metadata: {name: gpu-%02d, labels: {pool: gpu, tier: %s}}, "+
				"status: {conditions: [{type: Ready, status: \"True\"}]}}\n", n, group.tier)
		}
	}
	return b.String()
}

// TestPlanMatchesItsSchema: what is printed as JSON is what schema/plan.json says, and nothing else.
func TestPlanMatchesItsSchema(t *testing.T) {
	text, err := schema.FS.ReadFile(schema.PlanFile)
	require.NoError(t, err)
	compiled, err := jsonschema.CompileString(schema.BaseID+schema.PlanFile, string(text))
	require.NoError(t, err)
	t.Chdir(exampleWith(t, "bases/packages/kernel-args.yaml", "  version: 1.1.6", "  version: 1.2.0"))
	require.NoError(t, os.WriteFile("nodes.yaml", []byte(exampleNodes()), 0o600))
	for _, args := range [][]string{{}, {"--nodes-from", "nodes.yaml"}} {
		_, out, errOut := command(t, append([]string{"plan", "overlays/us-east-1", "-o", "json"}, args...)...)
		require.Empty(t, errOut)
		requireValid(t, compiled, out)
	}
	empty, err := json.Marshal(preview.Make(preview.Input{Source: preview.NoNodes}))
	require.NoError(t, err)
	requireValid(t, compiled, string(empty))
	requireValid(t, compiled, everyField(t))
}

func requireValid(t *testing.T, s *jsonschema.Schema, text string) {
	t.Helper()
	var doc any
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	require.NoError(t, s.Validate(doc))
}

// everyField is a plan in which no optional field is left out.
func everyField(t *testing.T) string {
	t.Helper()
	keys := preview.Keys{Added: []string{"a"}, Changed: []string{"b"}, Removed: []string{"c"}}
	v := &preview.Version{Version: "1", Image: "i", Digest: "d"}
	setting := []preview.Setting{{Field: "f", Change: preview.Changed, Old: "1", New: "2"}}
	block := []preview.Block{{NodeWright: "n", Code: "c", Count: 1, First: []string{"a"}, Pods: 1, Message: "m"}}
	p := preview.Make(preview.Input{Source: preview.NoNodes})
	p.Problem, p.Nodes.Assumed = "p", true
	p.Compared = preview.Comparison{Base: "b", BaseCommit: "c", Head: "h", HeadCommit: "c", Behind: "t", BaseErrors: 1}
	p.NodeWrights = []preview.NodeWright{{Name: "n", Change: preview.Changed, Settings: setting, Effects: []preview.Effect{{First: []string{"a"}}},
		Packages: []preview.Package{{Name: "p", Change: preview.Changed, Old: v, New: v, Env: keys, ConfigMap: keys, EnvOrder: true, Inert: []string{"i"},
			Stages: []string{"s"}, Interrupt: "reboot", Services: []string{"s"}, Uninstall: true, Checked: true}}}}
	p.Others = []preview.Object{{Kind: "k", Name: "n", Change: preview.Changed, Settings: setting}}
	p.Rollouts = []preview.Rollout{{NodeWright: "n", Outcome: "Stuck", Reasons: block, Lanes: []preview.Lane{{Batches: []preview.Run{{Open: true}}}}}}
	p.Blocks = block
	p.Warnings = []preview.Warning{{Code: "c", NodeWright: "n", Package: "p", Compartment: "c", Policy: "p", Version: "v", Count: 1}}
	p.Inert = []preview.Inert{{Kind: "k", Name: "n", Package: "p", Fields: []string{"f"}}}
	data, err := json.Marshal(p)
	require.NoError(t, err)
	return string(data)
}

// TestWarningsOfThePlanPage: the page explains every code.
func TestWarningsOfThePlanPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/plan.md")
	require.NoError(t, err)
	source, err := os.ReadFile("../../pkg/core/preview/model.go")
	require.NoError(t, err)
	codes := regexp.MustCompile(`(?m)^	(\w+) Code = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, codes)
	for _, c := range codes {
		require.Contains(t, string(page), "| `"+c[2]+"` |")
	}
}
