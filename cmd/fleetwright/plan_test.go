package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// committed is a repository on main whose work tree has these files, all committed.
func committed(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	repo, err := gogit.PlainInitWithOptions(dir, &gogit.PlainInitOptions{InitOptions: gogit.InitOptions{DefaultBranch: "refs/heads/main"}})
	require.NoError(t, err)
	edit(t, dir, files)
	commitAll(t, repo)
	return dir
}

func commitAll(t *testing.T, repo *gogit.Repository) {
	t.Helper()
	tree, err := repo.Worktree()
	require.NoError(t, err)
	require.NoError(t, tree.AddWithOptions(&gogit.AddOptions{All: true}))
	_, err = tree.Commit("c", &gogit.CommitOptions{Author: &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(0, 0).UTC()}})
	require.NoError(t, err)
}

func edit(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// planJSON runs the command and reads what it says.
func planJSON(t *testing.T, args ...string) (code int, p preview.Plan) {
	t.Helper()
	code, out, errOut := command(t, append([]string{"plan", "-o", "json"}, args...)...)
	require.Empty(t, errOut)
	require.NoError(t, json.Unmarshal([]byte(out), &p), out)
	return code, p
}

var newVersion = strings.Replace(rollout, "version: 1.0.0", "version: 1.1.0", 1)

// TestPlanExitCodes: 0 without changes, 2 with, 1 for findings.
func TestPlanExitCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		head string
		code int
		want string
	}{
		"the same":           {rollout, 0, "**No changes.**"},
		"only bytes differ":  {"# a comment\n" + strings.Replace(rollout, "{count: 2}", "{ count: 2 }", 1), 0, "**No changes.**"},
		"a new version":      {newVersion, 2, "**This change concerns 1 NodeWright with 1 changed package.** It is planned for no nodes: neither a cluster nor a list of nodes was given."},
		"another budget":     {strings.Replace(rollout, "count: 2", "count: 3", 1), 2, "**This change concerns 1 other object and no package.**"},
		"an error":           {strings.Replace(rollout, "count: 2", "count: two", 1), 1, "| `overlays/a/rollout.yaml:15:21` | `DeploymentPolicy/two` | `spec.default.budget.count` |"},
		"a broken YAML file": {"a: [", 1, "**This change has 1 error and cannot be applied.**"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := committed(t, planned(rollout))
			edit(t, dir, map[string]string{"overlays/a/rollout.yaml": tc.head})
			code, out, errOut := command(t, "plan", filepath.Join(dir, "overlays/a"), "--against", "HEAD")
			require.Empty(t, errOut)
			require.Contains(t, out, tc.want)
			require.Equal(t, tc.code, code)
		})
	}
}

// planned is a repository with one overlay.
func planned(text string) map[string]string {
	return map[string]string{"overlays/a/kustomization.yaml": "resources: [rollout.yaml]\n", "overlays/a/rollout.yaml": text}
}

// TestPlanSaysWhatIsCompared: uncommitted work with HEAD, a clean default branch with the commit before, nothing with nothing.
func TestPlanSaysWhatIsCompared(t *testing.T) {
	dir := committed(t, planned(rollout))
	path := filepath.Join(dir, "overlays/a")
	code, p := planJSON(t, path)
	require.Equal(t, 2, code, "the first commit: everything is new")
	require.Empty(t, p.Compared.Base)

	edit(t, dir, planned(newVersion))
	code, p = planJSON(t, path)
	require.Equal(t, "HEAD", p.Compared.Base)
	require.Equal(t, []string{"overlays/a/rollout.yaml"}, p.Files)
	require.Equal(t, 2, code)

	repo, err := gogit.PlainOpen(dir)
	require.NoError(t, err)
	commitAll(t, repo)
	code, p = planJSON(t, path)
	require.Equal(t, "the commit before HEAD", p.Compared.Base)
	require.NotEqual(t, p.Compared.HeadCommit, p.Compared.BaseCommit)
	require.Equal(t, "1.0.0", p.NodeWrights[0].Packages[0].Old.Version)
	require.Equal(t, 2, code)

	_, p = planJSON(t, filepath.Join(path, "rollout.yaml"))
	require.Equal(t, "1.0.0", p.NodeWrights[0].Packages[0].Old.Version, "a single file is compared with itself")

	plain := t.TempDir()
	edit(t, plain, planned(rollout))
	_, p = planJSON(t, filepath.Join(plain, "overlays/a"))
	require.Empty(t, p.Compared.Base, "no repository")
	require.Equal(t, preview.Added, p.NodeWrights[0].Change)
}

// TestFieldReport_KB21_ThePlanCountsItsObjects: manifests that silently drop out of a build show.
func TestFieldReport_KB21_ThePlanCountsItsObjects(t *testing.T) {
	dir := committed(t, planned(rollout))
	_, out, _ := command(t, "plan", filepath.Join(dir, "overlays/a"))
	require.Contains(t, out, "2 objects, 2 changed files.")
}

// TestFieldReport_PP06_WhatTheReconcilerRefusesThePlanRefuses: the findings are those of validate, for it is the same code.
func TestFieldReport_PP06_WhatTheReconcilerRefusesThePlanRefuses(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"remote base":    {"overlays/a/kustomization.yaml": "resources: [https://example.com/x.yaml]\n"},
		"unknown field":  planned(strings.Replace(rollout, "version:", "vesrion:", 1)),
		"empty overlay":  {"overlays/a/kustomization.yaml": "resources: []\n"},
		"unknown policy": planned(strings.Replace(rollout, "deploymentPolicy: two", "deploymentPolicy: three", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(committed(t, files), "overlays/a")
			wantCode, want, _ := command(t, "validate", path, "-o", "json")
			code, p := planJSON(t, path)
			require.Equal(t, 1, wantCode)
			require.Equal(t, 1, code)
			got, err := json.Marshal(p.Findings)
			require.NoError(t, err)
			require.JSONEq(t, want, string(got))
		})
	}
}

const planNodes = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {pool: gpu}}, status: {conditions: [{type: Ready, status: "True"}]}}
- {apiVersion: v1, kind: Node, metadata: {name: b, labels: {pool: gpu}}, status: {conditions: [{type: Ready, status: "True"}]}}
- {apiVersion: v1, kind: Node, metadata: {name: c, labels: {pool: cpu}}, status: {conditions: [{type: Ready, status: "True"}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: db, namespace: ml, uid: u1, labels: {app: db}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, controller: true, uid: u}]}
  spec: {nodeName: a}
  status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: db, namespace: ml}
  spec: {selector: {matchLabels: {app: db}}}
  status: {disruptionsAllowed: 0, desiredHealthy: 3, currentHealthy: 3}
`

// TestPlanForSavedNodes: the list gives nodes, pods and budgets.
func TestPlanForSavedNodes(t *testing.T) {
	dir := committed(t, planned(rollout))
	edit(t, dir, planned(strings.Replace(newVersion, "image: example.com/sysctl}", "image: example.com/sysctl, interrupt: {type: reboot}}", 1)))
	nodes := filepath.Join(t.TempDir(), "nodes.yaml")
	require.NoError(t, os.WriteFile(nodes, []byte(planNodes), 0o600))
	code, p := planJSON(t, filepath.Join(dir, "overlays/a"), "--nodes-from", nodes, "--start", "2026-01-05T09:00:00Z")
	require.Equal(t, 2, code)
	require.Equal(t, preview.Tally{Nodes: 2, Reboot: 2}, p.Affected)
	require.Equal(t, preview.Nodes{Source: preview.Saved, Count: 3, Assumed: true, PodsKnown: true}, p.Nodes)
	require.Len(t, p.Blocks, 1)
	require.Equal(t, "PodDisruptionBudget", p.Blocks[0].Code)
	require.Contains(t, p.Blocks[0].Message, "ml/db")
	require.Len(t, p.Rollouts, 1)

	_, first, _ := command(t, "plan", filepath.Join(dir, "overlays/a"), "--nodes-from", nodes, "--start", "2026-01-05T09:00:00Z")
	_, again, _ := command(t, "plan", filepath.Join(dir, "overlays/a"), "--nodes-from", nodes, "--start", "2026-01-05T09:00:00Z")
	require.Equal(t, first, again)
}

// TestPlanTrustsRecords: a node that has the new version already has nothing to do.
func TestPlanTrustsRecords(t *testing.T) {
	dir := committed(t, planned(rollout))
	edit(t, dir, planned(newVersion))
	set, findings := validatedSet(t, newVersion)
	require.Empty(t, findings)
	record := completeRecord(t, simulate.Objects{NodeWrights: set.NodeWrights, Policies: set.DeploymentPolicies})
	nodes := filepath.Join(t.TempDir(), "nodes.json")
	node, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{
		"name": "a", "uid": "uid-a", "labels": map[string]string{"pool": "gpu"}, "annotations": map[string]string{"fleetwright.dev/record_tuning": record}}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(nodes, node, 0o600))
	code, p := planJSON(t, filepath.Join(dir, "overlays/a"), "--nodes-from", nodes)
	require.Equal(t, 2, code)
	require.Zero(t, p.Affected)
	require.False(t, p.Nodes.Assumed)
}

func TestPlanArguments(t *testing.T) {
	dir := committed(t, planned(rollout))
	path := filepath.Join(dir, "overlays/a")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"format":    {[]string{path, "-o", "yaml"}, `unknown output format "yaml" (allowed: markdown, text, json)`},
		"revision":  {[]string{path, "--against", "nothing"}, `"nothing" is not a branch, tag or commit of this repository (in a clone of CI, fetch it first)`},
		"path":      {[]string{"/nonexistent"}, "/nonexistent is neither a directory nor a file"},
		"time":      {[]string{path, "--start", "now"}, `--start: "now" is not a time (allowed: RFC 3339, such as 2026-01-05T09:00:00Z)`},
		"two":       {[]string{path, "--nodes-from", "x", "--context", "y"}, "--nodes-from and a cluster exclude each other; leave one out"},
		"no file":   {[]string{path, "--nodes-from", "/nonexistent"}, "--nodes-from: /nonexistent cannot be read"},
		"two paths": {[]string{path, path}, "accepts 1 arg(s), received 2"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := command(t, append([]string{"plan"}, tc.args...)...)
			require.Equal(t, "fleetwright: "+tc.want+"\n", errOut)
			require.Empty(t, out)
			require.Equal(t, 1, code)
		})
	}
}
