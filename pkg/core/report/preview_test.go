package report_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

var update = flag.Bool("update", false, "write golden files")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./pkg/core/report -run Plan -update writes it anew")
}

// wholePlan has something in every section.
func wholePlan() preview.Plan {
	return preview.Plan{
		Schema: preview.Schema, Tool: "v0.3.0", Path: "overlays/us-east-1", Result: preview.Changes, Objects: 7,
		Compared: preview.Comparison{
			Base: "main", BaseCommit: "1111111111111111", Head: "the files on disk", HeadCommit: "2222222222222222", Behind: "3333333333333333",
		},
		Findings: []finding.Finding{{Severity: finding.Warning, File: "bases/gpu.yaml", Line: 7, Column: 5, Kind: "NodeWright", Name: "kernel",
			Field: "spec.nodeSelectors", Message: "selects none of the nodes"}},
		Files: []string{"bases/gpu.yaml"}, Nodes: preview.Nodes{Source: preview.Cluster, Count: 40, PodsKnown: true},
		Affected: preview.Tally{Nodes: 12, Reboot: 10, NoInterrupt: 2, Uninstall: 1},
		NodeWrights: []preview.NodeWright{{
			Name: "kernel", Change: preview.Changed, Effective: true, Selected: 40, Anyway: 3,
			Packages: []preview.Package{
				{Name: "args", Change: preview.Changed, Old: &preview.Version{Version: "1.0.0", Image: "x/a"}, New: &preview.Version{Version: "1.1.0", Image: "x/a", Digest: "sha256:0123456789abcdef"},
					Env: preview.Keys{Changed: []string{"TOKEN"}}, ConfigMap: preview.Keys{Added: []string{"b"}, Removed: []string{"a"}},
					Stages: []string{"upgrade", "config"}, Interrupt: "reboot"},
				{Name: "old", Change: preview.Removed, Old: &preview.Version{Version: "2.0.0"}, Stages: []string{"uninstall"}, Uninstall: true},
				{Name: "sysctl", Change: preview.Added, New: &preview.Version{Version: "3.0.0"}, Stages: []string{"apply", "config"}, Interrupt: "service",
					Services: []string{"kubelet"}, Checked: true},
			},
			Settings: []preview.Setting{{Field: "spec.priority", Change: preview.Changed, Old: "200", New: "100"}},
			Effects: []preview.Effect{
				{Compartment: "canary", Tally: preview.Tally{Nodes: 2, NoInterrupt: 2}, First: []string{"n1", "n2"}},
				{Compartment: "default", Tally: preview.Tally{Nodes: 10, Reboot: 10, Uninstall: 1}, First: []string{"n3", "n4", "n5"}},
			},
		}},
		Others: []preview.Object{{Kind: "DeploymentPolicy", Name: "two", Change: preview.Added}},
		Rollouts: []preview.Rollout{{NodeWright: "kernel", Outcome: "Complete", End: 90000, Lanes: []preview.Lane{{
			Compartment: "default", Strategy: "exponential", Nodes: 10, Ceiling: 5,
			Batches: []preview.Run{
				{From: 1, To: 1, Size: 1, End: 470, First: "n3", Last: "n3"}, {From: 2, To: 4, Size: 3, Begin: 470, End: 90000, First: "n4", Last: "n12"},
			},
		}}}},
		Seconds: 90000, OutOfService: 3,
		Blocks: []preview.Block{{NodeWright: "kernel", Code: "ProtectedPod", Count: 1, Pods: 2, First: []string{"n3"}, Message: "pod ml/run-1 is protected"}},
		Warnings: []preview.Warning{
			{Code: preview.NoFailureThreshold, NodeWright: "kernel", Compartment: "default", Count: 10},
			{Code: preview.Uninstalls, NodeWright: "kernel", Package: "old", Version: "2.0.0"},
		},
		Inert: []preview.Inert{{Kind: "NodeWright", Name: "kernel", Fields: []string{"spec.priority"}}},
		Notes: []string{"the ledger cannot be read"},
	}
}

func TestPlanComment(t *testing.T) {
	golden(t, "plan.md", report.PlanComment(wholePlan()))
	golden(t, "plan.txt", report.PlanText(wholePlan()))
}

func TestPlanHeadlines(t *testing.T) {
	changed := []preview.NodeWright{{Name: "kernel", Packages: []preview.Package{{Name: "a", Change: preview.Added, New: &preview.Version{}}}}}
	for want, p := range map[string]preview.Plan{
		"**No changes.**": {Result: preview.None},
		"**This change has 2 errors and cannot be applied.**": {Result: preview.Errors, Findings: []finding.Finding{
			{Severity: finding.Error}, {Severity: finding.Error}, {Severity: finding.Warning}}},
		"**This change concerns 1 NodeWright with 1 changed package.** It is planned for no nodes: neither a cluster nor a list of nodes was given.": {
			Result: preview.Changes, NodeWrights: changed, Nodes: preview.Nodes{Source: preview.NoNodes}},
		"**None of 3 nodes has anything to do because of this change.** It concerns 1 other object and no package.": {
			Result: preview.Changes, Others: []preview.Object{{Kind: "Package"}}, Nodes: preview.Nodes{Source: preview.Saved, Count: 3}},
		"**1 of 3 nodes has something to do because of this change: 1 reboot.**": {
			Result: preview.Changes, Affected: preview.Tally{Nodes: 1, Reboot: 1}, Nodes: preview.Nodes{Source: preview.Saved, Count: 3}},
	} {
		lines := strings.Split(report.PlanComment(p), "\n")
		require.Equal(t, want, lines[2])
	}
}

// TestFieldReport_PP01_ALargePlanIsShortenedBetweenRows: ten thousand nodes and fifty NodeWrights with long names stay below what forges
// take, and every table is whole.
func TestFieldReport_PP01_ALargePlanIsShortenedBetweenRows(t *testing.T) {
	text := report.PlanComment(largePlan(strings.Repeat("äöü🙂`|", 40)))
	require.LessOrEqual(t, len(text), 60_000)
	require.True(t, utf8.ValidString(text))
	require.Contains(t, text, "more rows")
	requireTables(t, text)
	require.Equal(t, text, report.PlanComment(largePlan(strings.Repeat("äöü🙂`|", 40))))
	require.Zero(t, strings.Count(text, "```")%2, "fences are closed")

	require.Contains(t, report.PlanText(largePlan("x")), "package-49-9", "on a terminal nothing is left out")
}

// largePlan is one with text of others in every place that can hold some.
func largePlan(evil string) preview.Plan {
	p := preview.Plan{Result: preview.Changes, Path: "overlays/" + evil, Nodes: preview.Nodes{Source: preview.Cluster, Count: 10_000},
		Affected: preview.Tally{Nodes: 10_000, Reboot: 10_000}, Compared: preview.Comparison{Base: evil, Head: evil}, Tool: evil}
	first := []string{evil + "1", evil + "2", evil + "3"}
	for i := range 50 {
		nw := preview.NodeWright{Name: fmt.Sprintf("nw-%d-%s", i, evil), Change: preview.Changed}
		for j := range 10 {
			nw.Packages = append(nw.Packages, preview.Package{Name: fmt.Sprintf("package-%d-%d", i, j), Change: preview.Changed,
				Old: &preview.Version{Version: evil, Image: evil}, New: &preview.Version{Version: evil + "2", Image: evil + "2", Digest: evil},
				ConfigMap: preview.Keys{Added: first}, Stages: []string{"upgrade"}, Interrupt: "service", Services: first})
			nw.Settings = append(nw.Settings, preview.Setting{Field: evil, Change: preview.Changed, Old: evil, New: evil + "2"})
			nw.Effects = append(nw.Effects, preview.Effect{Compartment: evil, Tally: preview.Tally{Nodes: 200, Reboot: 200}, First: first})
		}
		p.NodeWrights = append(p.NodeWrights, nw)
		p.Blocks = append(p.Blocks, preview.Block{NodeWright: nw.Name, Code: evil, Count: 200, First: first, Message: evil})
		p.Warnings = append(p.Warnings, preview.Warning{Code: preview.NoDigest, NodeWright: nw.Name, Package: evil, Version: evil})
		p.Inert = append(p.Inert, preview.Inert{Kind: "NodeWright", Name: nw.Name, Fields: first})
		p.Findings = append(p.Findings, finding.Finding{Severity: finding.Warning, File: evil, Line: 1, Kind: "NodeWright", Name: nw.Name, Field: evil, Message: evil, Allowed: evil})
		p.Notes = append(p.Notes, evil)
		var runs []preview.Run
		for k := range 60 {
			runs = append(runs, preview.Run{From: k + 1, To: k + 1, Size: k + 1, Begin: float64(k), End: float64(k + 1)})
		}
		p.Rollouts = append(p.Rollouts, preview.Rollout{NodeWright: nw.Name, Outcome: "Stuck", Reasons: p.Blocks[:1], Lanes: []preview.Lane{{Compartment: evil, Batches: runs[:2]}, {Compartment: evil, Batches: runs}}})
	}
	return p
}

var (
	codes = regexp.MustCompile("(`+)[^`](?:.*?[^`])??(`+)")
	pipe  = regexp.MustCompile(`(^|[^\\])\|`)
)

// requireTables: each row of a table has as many cells as its header. GitHub's dialect splits cells first, so that a pipe counts also in
// code unless it is escaped.
func requireTables(t *testing.T, text string) {
	t.Helper()
	cells, tables := 0, 0
	for _, l := range strings.Split(text, "\n") {
		if !strings.HasPrefix(l, "|") {
			cells = 0
			continue
		}
		n := len(pipe.FindAllString(strings.ReplaceAll(l, `\\`, ""), -1))
		if cells == 0 {
			cells, tables = n, tables+1
		}
		require.Equal(t, cells, n, "row %s", l)
	}
	require.NotZero(t, tables)
}

// TestTextOfManifestsIsNotMarkup: nobody is mentioned, no cell begins, no HTML and no command comes through.
func TestTextOfManifestsIsNotMarkup(t *testing.T) {
	for _, evil := range []string{
		"a|b", "`", "``` x", "a`b``c", "<img src=x onerror=alert(1)>", "</details>", "@everyone", "#1", "[x](http://evil.example)", "**bold**",
		"a\nb\n/merge\n# heading", "![x](http://evil.example/t.png)", "\u202egnp.exe", "GH-12", "www.evil.example", "https://evil.example", "\\|", "~~x~~", "$x$",
		"-->", "```mermaid\nclick", "end\x00\x1b[31m",
	} {
		text := report.PlanComment(largePlan(evil))
		requireTables(t, text)
		require.NotContains(t, text, "\u202e")
		require.NotContains(t, text, "\x1b")
		require.Zero(t, strings.Count(diagram.ReplaceAllString(text, ""), "\n```")%2)
		bare := codes.ReplaceAllString(diagram.ReplaceAllString(text, ""), "")
		for _, forbidden := range []string{"<img", "</details", "@everyone", "](http:/", "https://", " #1", "GH-12", "www.evil", "\n/merge", "\n# ", "**bold", "~~x"} {
			require.NotContains(t, bare, forbidden, "of %q", evil)
		}
	}
}

var diagram = regexp.MustCompile("(?s)```mermaid\n.*?\n```\n")

// TestPlanDiagram: names cannot become another statement of the diagram.
func TestPlanDiagram(t *testing.T) {
	p := wholePlan()
	p.Rollouts[0].NodeWright, p.Rollouts[0].Lanes[0].Compartment = "a:b\nclick x", "c;d#e%%"
	require.Equal(t, "```mermaid\ngantt\n    dateFormat YYYY-MM-DD HH:mm:ss\n    axisFormat day %j %H:%M\n    section a_b_click_x / c_d_e__\n"+
		"    1 (1 node) :2001-01-01 00:00:00, 470s\n    2-4 (3 nodes each) :2001-01-01 00:07:50, 89530s\n```\n", diagram.FindString(report.PlanComment(p)))
}
