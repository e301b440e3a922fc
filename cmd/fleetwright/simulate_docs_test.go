package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

var updatePage = flag.Bool("update-page", false, "write what commands print into docs/simulate.md")

var console = regexp.MustCompile("(?ms)^```console\n\\$ fleetwright (simulate [^\n]*)\n(.*?)^```")

// TestCommandsOfThePage runs every command that docs/simulate.md shows, in the root of the repository, and compares what
// it prints with what the page says it prints.
func TestCommandsOfThePage(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("docs/simulate.md")
	require.NoError(t, err)
	shown := console.FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(shown), 2)
	for _, m := range shown {
		var out, errOut bytes.Buffer
		code := run(t.Context(), strings.Fields(m[1]), Streams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut})
		require.Zero(t, code, "%s: %s", m[1], errOut.String())
		got := out.String() + errOut.String()
		if *updatePage {
			page = bytes.Replace(page, []byte(m[0]), []byte("```console\n$ fleetwright "+m[1]+"\n"+got+"```"), 1)
			require.NoError(t, os.WriteFile("docs/simulate.md", page, 0o644))
			continue
		}
		require.Equal(t, m[2], got, "go test ./cmd/fleetwright -run CommandsOfThePage -update-page writes the page anew")
	}
}

// TestDefaultsOfThePage: the page names the same durations as the program.
func TestDefaultsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/simulate.md")
	require.NoError(t, err)
	for _, step := range simulate.Steps() {
		require.Regexp(t, "(?m)^\\| `"+string(step)+"` \\| "+regexp.QuoteMeta(simulate.DefaultDurations()[step].String())+" \\|", string(page))
	}
}

// validatedSet is what manifests declare.
func validatedSet(t *testing.T, text string) (manifest.Set, []finding.Finding) {
	t.Helper()
	tree, err := git.Worktree(repository(t, map[string]string{"r.yaml": text, "kustomization.yaml": "resources: [r.yaml]\n"}))
	require.NoError(t, err)
	validator, err := manifest.New()
	require.NoError(t, err)
	r := render.Overlay(validator, tree, ".", manifest.Options{})
	return r.Set, r.Findings
}

// completeRecord is the record of a node uid-a on which the only NodeWright is complete.
func completeRecord(t *testing.T, objects simulate.Objects) string {
	t.Helper()
	nws := simulate.NodeWrights(objects, fleetv1.LedgerSpec{}, nil)
	_, state := simulate.RunFrom(simulate.Scenario{NodeWrights: nws, Nodes: []plan.Node{
		{Name: "a", UID: "uid-a", Labels: map[string]string{"pool": "gpu"}, Ready: true},
	}})
	r := state.Nodes[0].Records[nws[0].Name]
	require.Equal(t, noderecord.Succeeded, r.Outcome)
	return noderecord.Encode(r)
}
