package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

const rollout = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: tuning}
spec:
  nodeSelectors: {matchLabels: {pool: gpu}}
  deploymentPolicy: two
  packages:
    sysctl: {version: 1.0.0, image: example.com/sysctl}
---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: DeploymentPolicy
metadata: {name: two}
spec:
  default:
    budget: {count: 2}
    strategy: {fixed: {initialBatch: 2, failureThreshold: 1}}
`

// simulateIn runs the command on a repository with these files; PATH is relative to it.
func simulateIn(t *testing.T, files map[string]string, path string, args ...string) (code int, out, errOut string) {
	t.Helper()
	dir := repository(t, files)
	code, out, errOut = command(t, append([]string{"simulate", filepath.Join(dir, path)}, args...)...)
	return code, strings.ReplaceAll(out, dir+"/", ""), strings.ReplaceAll(errOut, dir+"/", "")
}

const fourNodes = `4 nodes imagined, with labels from the selectors of NodeWrights and compartments:
  4  default  node-01 … node-04  pool=gpu

NodeWright tuning: complete after 2m20s, 4 of 4 nodes complete
  compartment default: fixed, 4 nodes, ceiling 2
    batch  nodes  begins  ends   verdict
    1      2      0s      1m10s  good     node-01 node-02
    2      2      1m10s   2m20s  good     node-03 node-04
  out of service: no node
`

// TestSimulatePaths: an overlay, a directory of manifests and a file are the same.
func TestSimulatePaths(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		path  string
	}{
		"overlay": {files: twoOverlays(rollout), path: "overlays/a"},
		"file":    {files: map[string]string{"x/rollout.yaml": rollout, "x/other.yaml": "kind: [", ".git/HEAD": "ref: x"}, path: "x/rollout.yaml"},
		"file beside a kustomization": {files: map[string]string{"rollout.yaml": rollout, "kustomization.yaml": "resources: [gone.yaml]\n"},
			path: "rollout.yaml"},
		"kustomization file": {files: twoOverlays(rollout), path: "overlays/a/kustomization.yaml"},
		"directory of files": {files: map[string]string{"x/rollout.yml": rollout, "x/.hidden.yaml": "kind: [", "x/below/y.yaml": "kind: ["}, path: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := simulateIn(t, c.files, c.path, "--nodes", "4")
			require.Empty(t, errOut)
			require.Equal(t, fourNodes, out)
			require.Zero(t, code)
		})
	}
}

// TestSimulateStopsAtFindings: they are what `fleetwright validate` prints.
func TestSimulateStopsAtFindings(t *testing.T) {
	files := twoOverlays(strings.Replace(rollout, "count: 2", "count: two", 1))
	dir := repository(t, files)
	code, out, errOut := command(t, "simulate", filepath.Join(dir, "overlays/a"), "--nodes", "4", "-o", "json")
	wantCode, want, wantErr := command(t, "validate", filepath.Join(dir, "overlays/a"))
	require.Contains(t, want, "bases/p.yaml:15:")
	require.Equal(t, want, out)
	require.Equal(t, wantErr, errOut)
	require.Equal(t, 1, code)
	require.Equal(t, wantCode, code)
}

// TestSimulateGoesOnWithWarnings: they leave the output alone. With the nodes of a cluster, selectors are held to them.
func TestSimulateGoesOnWithWarnings(t *testing.T) {
	files := map[string]string{"r.yaml": rollout, "nodes.json": `{"kind":"Node","metadata":{"name":"a","labels":{"pool":"cpu"}}}`}
	dir := repository(t, files)
	code, out, errOut := command(t, "simulate", filepath.Join(dir, "r.yaml"), "--nodes-from", filepath.Join(dir, "nodes.json"))
	require.Equal(t, "1 node of "+filepath.Join(dir, "nodes.json")+"\n\nNodeWright tuning: targets no node\n", out)
	require.Contains(t, errOut, "matches none of the 1 nodes")
	require.Contains(t, errOut, "0 errors, 1 warning\n")
	require.Zero(t, code)
}

func TestSimulateFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"format":           {[]string{"-o", "xml"}, `unknown output format "xml" (allowed: text, json, svg)`},
		"no number":        {[]string{"--nodes", "many"}, `--nodes: "many" is not a number of nodes (allowed: 1 to 50000, or COMPARTMENT=COUNT,...)`},
		"no node":          {[]string{"--nodes", "0"}, `--nodes: "0" is not a number of nodes (allowed: 1 to 50000, or COMPARTMENT=COUNT,...)`},
		"too many":         {[]string{"--nodes", "a=30000,b=30000"}, `--nodes: 60000 is too many (allowed: 1 to 50000)`},
		"half a group":     {[]string{"--nodes", "a=3,b"}, `--nodes: "b" is not COMPARTMENT=COUNT, such as canary=2`},
		"compartment":      {[]string{"--nodes", "canary=3"}, `imagine nodes: compartment "canary" does not exist (allowed: default)`},
		"two sources":      {[]string{"--nodes", "3", "--nodes-from", "x"}, `--nodes and --nodes-from exclude each other; leave one out`},
		"NodeWright":       {[]string{"--nodewright", "x"}, `--nodewright: "x" does not exist (allowed: tuning)`},
		"share":            {[]string{"--fail", "2"}, `--fail: "2" is not a share (allowed: 0% to 100%, such as 2%)`},
		"share above":      {[]string{"--fail", "101%"}, `--fail: "101%" is not a share (allowed: 0% to 100%, such as 2%)`},
		"no share at all":  {[]string{"--flaky", "NaN%"}, `--flaky: "NaN%" is not a share (allowed: 0% to 100%, such as 2%)`},
		"node":             {[]string{"--nodes", "5", "--fail-nodes", "n9"}, `--fail-nodes: node "n9" does not exist (allowed: node-01, node-02, node-03 and 2 more)`},
		"stage":            {[]string{"--fail-stage", "boot"}, `--fail-stage: unknown stage "boot" (allowed: apply, upgrade, config, interrupt, post-interrupt, uninstall)`},
		"no duration":      {[]string{"--duration", "apply"}, `--duration: "apply" is not STEP=DURATION, such as apply=90s`},
		"step":             {[]string{"--duration", "boot=3s"}, `--duration: unknown step "boot" (allowed: apply, config, drain, noop, post-interrupt, reboot, restartAllServices, service, uninstall, upgrade)`},
		"time":             {[]string{"--duration", "apply=1m,reboot=6"}, `--duration: reboot: "6" is not a duration (allowed: 0 and more, such as 90s, 6m or 1h30m)`},
		"negative time":    {[]string{"--duration", "apply=-1s"}, `--duration: apply: "-1s" is not a duration (allowed: 0 and more, such as 90s, 6m or 1h30m)`},
		"budget":           {[]string{"--max-nodes", "half"}, `--max-nodes: "half" is not a number of nodes (allowed: 0 and more, or 0% to 100%)`},
		"budget above":     {[]string{"--max-nodes", "200%"}, `--max-nodes: "200%" is not a number of nodes (allowed: 0 and more, or 0% to 100%)`},
		"seed":             {[]string{"--seed", "-1"}, `--seed: "-1" is not a number (allowed: 0 and more)`},
		"start":            {[]string{"--start", "noon"}, `--start: "noon" is not a time (allowed: RFC 3339, such as 2026-01-05T09:00:00Z)`},
		"file of nodes":    {[]string{"--nodes-from", "gone.yaml"}, `--nodes-from: gone.yaml cannot be read`},
		"nothing on stdin": {[]string{"--nodes-from", "-"}, `--nodes-from: standard input holds no Node`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := simulateIn(t, map[string]string{"r.yaml": rollout}, "r.yaml", c.args...)
			require.Equal(t, "fleetwright: "+c.want+"\n", errOut)
			require.Empty(t, out)
			require.Equal(t, 1, code)
		})
	}
}

func TestSimulateWrongPaths(t *testing.T) {
	files := twoOverlays(rollout)
	files["empty/readme.md"] = "nothing"
	files["policies/policy.yaml"] = policy
	for path, want := range map[string]string{
		"gone":     "gone is neither a directory nor a file",
		".":        " holds several overlays; name one of them (allowed: overlays/a, overlays/b)",
		"empty":    "empty holds neither a kustomization.yaml nor manifests (*.yaml, *.yml)",
		"policies": "policies holds no NodeWright",
	} {
		t.Run(path, func(t *testing.T) {
			code, _, errOut := simulateIn(t, files, path)
			require.Contains(t, errOut, want+"\n")
			require.Equal(t, 1, code)
		})
	}
}

// TestSimulateAHalt is a result, not an error.
func TestSimulateAHalt(t *testing.T) {
	code, out, errOut := simulateIn(t, map[string]string{"r.yaml": rollout}, "r.yaml", "--nodes", "10", "--fail-nodes", "node-02", "--fail-stage", "config")
	require.Empty(t, errOut)
	require.Contains(t, out, "NodeWright tuning: halts, 1 of 10 nodes complete, 1 failed, 8 not admitted\n")
	require.Contains(t, out, "    halted at 2m0s by batch 1: node-02: package sysctl, stage config, exit code 1: simulated failure\n")
	require.Contains(t, out, "  Halted: 8 nodes (node-03, node-04, node-05 and 5 more): compartment default is halted:")
	require.Zero(t, code)
}

func TestSimulateJSONAndChart(t *testing.T) {
	args := []string{"--nodes", "4", "--start", "2026-01-05T09:00:00Z"}
	files := map[string]string{"r.yaml": rollout}
	_, out, _ := simulateIn(t, files, "r.yaml", append(args, "-o", "json")...)
	var got struct {
		Start       string
		EndSeconds  float64
		NodeWrights []struct {
			Name, Outcome string
			Compartments  []struct{ Batches []struct{ Nodes []string } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, "2026-01-05T09:00:00Z", got.Start)
	require.EqualValues(t, 140, got.EndSeconds)
	require.Equal(t, "Complete", got.NodeWrights[0].Outcome)
	require.Equal(t, []string{"node-03", "node-04"}, got.NodeWrights[0].Compartments[0].Batches[1].Nodes)
	_, chart, _ := simulateIn(t, files, "r.yaml", append(args, "-o", "svg")...)
	require.True(t, strings.HasPrefix(chart, "<svg "))
	_, again, _ := simulateIn(t, files, "r.yaml", append(args, "-o", "svg")...)
	require.Equal(t, chart, again)
}

// savedCluster is what kubectl prints of a cluster with three nodes, the first of which is complete.
func savedCluster(t *testing.T) string {
	t.Helper()
	set, findings := validatedSet(t, rollout)
	require.Empty(t, findings)
	objects := simulate.Objects{NodeWrights: set.NodeWrights, Policies: set.DeploymentPolicies}
	record := completeRecord(t, objects)
	return `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: a
    uid: uid-a
    labels: {pool: gpu}
    annotations:
      fleetwright.dev/record_tuning: '` + record + `'
  status: &ready
    conditions: [{type: Ready, status: "True"}]
- kind: Node
  metadata: {name: b, uid: uid-b, labels: {pool: gpu}}
  status: *ready
- kind: Node
  metadata: {name: c, labels: {pool: gpu}}
  status: *ready
---
kind: Node
metadata: {name: d, uid: uid-d, labels: {pool: gpu}}
`
}

// TestSimulateFromNodes: what is on the nodes counts. Node d is not Ready.
func TestSimulateFromNodes(t *testing.T) {
	dir := repository(t, map[string]string{"r.yaml": rollout})
	state := savedCluster(t)
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"simulate", filepath.Join(dir, "r.yaml"), "--nodes-from", "-"},
		Streams{In: strings.NewReader(state), Out: &out, ErrOut: &errOut})
	require.Empty(t, errOut.String())
	require.Zero(t, code)
	require.Equal(t, `4 nodes of standard input

NodeWright tuning: does not finish, 3 of 4 nodes complete, 0 failed, 1 waiting
  compartment default: fixed, 4 nodes, ceiling 2
    batch  nodes  begins  ends   verdict
    1      2      0s      1m10s  good     b c
  out of service: no node
  NodeNotReady: 1 node (d): the node is not Ready
`, out.String())
}

func TestSimulateNodesFromBadFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"another kind": {"kind: Node\nmetadata: {name: a}\n---\nkind: Pod\n", `document 2: kind "Pod" is not expected (allowed: Node, Ledger, or a List of these)`},
		"twice":        {"kind: Node\nmetadata: {name: a}\n---\nkind: Node\nmetadata: {name: a}\n", `document 2: node a is there twice`},
		"no name":      {"kind: Node\n", `document 1: a Node has no name`},
		"no object":    {"- 1\n- 2\n", `document 1: is neither YAML nor JSON of an object`},
		"empty":        {"", `holds no Node`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(repository(t, map[string]string{"nodes.yaml": c.text}), "nodes.yaml")
			code, _, errOut := simulateIn(t, map[string]string{"r.yaml": rollout}, "r.yaml", "--nodes-from", file)
			require.Contains(t, errOut, c.want+"\n")
			require.Contains(t, errOut, "fleetwright: --nodes-from: ")
			require.Equal(t, 1, code)
		})
	}
}

func TestSimulateTheExampleRepository(t *testing.T) {
	entries, err := os.ReadDir("../../fleet-example/overlays")
	require.NoError(t, err)
	for _, e := range entries {
		code, out, errOut := command(t, "simulate", filepath.Join("../../fleet-example/overlays", e.Name()), "--nodes", "24")
		require.Empty(t, errOut)
		require.Equal(t, 3, strings.Count(out, "24 of 24 nodes complete"), out)
		require.Zero(t, code)
	}
}
