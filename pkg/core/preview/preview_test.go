package preview_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

var start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// kernel is a NodeWright `kernel` on pool=gpu under policy `two` with one package that reboots.
func kernel(edits ...func(*nwv1.NodeWright, *nwv1.DeploymentPolicy)) simulate.Objects {
	nw := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "kernel"}, Spec: nwv1.NodeWrightSpec{
		NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}, DeploymentPolicy: "two", Priority: 200,
		Packages: map[string]nwv1.Package{"args": {
			Image: "example.com/args", Version: "1.0.0", ContainerSHA: "sha256:aa", Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot},
			Env: []corev1.EnvVar{{Name: "TOKEN", Value: "secret-1"}}, ConfigMap: map[string]string{"a": "secret-2", "b": "1"},
			ConfigInterrupts: map[string]nwv1.Interrupt{"b": {Type: nwv1.InterruptService, Services: []string{"kubelet"}}},
		}},
	}}
	policy := &nwv1.DeploymentPolicy{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{
		Budget:   nwv1.DeploymentBudget{Count: new(int32(2))},
		Strategy: &nwv1.DeploymentStrategy{Fixed: &nwv1.FixedStrategy{BatchRules: nwv1.BatchRules{InitialBatch: 2, FailureThreshold: new(int32(1))}}},
	}}}
	for _, edit := range edits {
		edit(nw, policy)
	}
	return simulate.Objects{NodeWrights: []*nwv1.NodeWright{nw}, Policies: []*nwv1.DeploymentPolicy{policy}}
}

// args edits the package.
func args(edit func(p *nwv1.Package)) func(*nwv1.NodeWright, *nwv1.DeploymentPolicy) {
	return func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) {
		p := nw.Spec.Packages["args"]
		edit(&p)
		nw.Spec.Packages["args"] = p
	}
}

func version(v string) func(*nwv1.NodeWright, *nwv1.DeploymentPolicy) {
	return args(func(p *nwv1.Package) { p.Version = v })
}

func nodes(n int) []plan.Node {
	var out []plan.Node
	for i := range n {
		name := fmt.Sprintf("n%02d", i+1)
		out = append(out, plan.Node{Name: name, UID: types.UID(name), Ready: true, Labels: map[string]string{"pool": "gpu"}, BootID: "b"})
	}
	return out
}

// over is a plan on five nodes, on which the old state is complete.
func over(base, head simulate.Objects, edits ...func(*preview.Input)) preview.Plan {
	in := preview.Input{
		Base: base, Head: head, Source: preview.Saved, Nodes: nodes(5), Start: start, Path: "overlays/a",
		Settings: plan.Settings{StageTimeout: time.Hour, Namespace: "fleetwright"},
	}
	for _, edit := range edits {
		edit(&in)
	}
	return preview.Make(in)
}

func TestConsequencesOfAPackage(t *testing.T) {
	for name, tc := range map[string]struct {
		base, head simulate.Objects
		want       preview.Tally
		stages     []string
		interrupt  string
	}{
		"version up":        {kernel(), kernel(version("1.1.0")), preview.Tally{Nodes: 5, Reboot: 5}, []string{"upgrade", "config"}, "reboot"},
		"version down":      {kernel(), kernel(version("0.9.0")), preview.Tally{Nodes: 5, Reboot: 5}, []string{"apply", "config"}, "reboot"},
		"digest":            {kernel(), kernel(args(func(p *nwv1.Package) { p.ContainerSHA = "sha256:bb" })), preview.Tally{Nodes: 5, Reboot: 5}, []string{"apply", "config"}, "reboot"},
		"key with a rule":   {kernel(), kernel(args(func(p *nwv1.Package) { p.ConfigMap["b"] = "2" })), preview.Tally{Nodes: 5, ServiceRestart: 5}, []string{"config"}, "service"},
		"key without one":   {kernel(), kernel(args(func(p *nwv1.Package) { p.ConfigMap["a"] = "2" })), preview.Tally{Nodes: 5, NoInterrupt: 5}, []string{"config"}, ""},
		"noop":              {kernel(), kernel(version("1.1.0"), args(func(p *nwv1.Package) { p.Interrupt.Type = nwv1.InterruptNoop })), preview.Tally{Nodes: 5, DrainOnly: 5}, []string{"upgrade", "config"}, "noop"},
		"checks come first": {kernel(), kernel(version("1.1.0"), args(func(p *nwv1.Package) { p.SkipIfSatisfied = new(true) })), preview.Tally{Nodes: 5, Reboot: 5}, []string{"upgrade", "config"}, "reboot"},
		"uninstall of a lower version": {kernel(args(uninstallable)), kernel(args(uninstallable), version("0.9.0")),
			preview.Tally{Nodes: 5, Reboot: 5, Uninstall: 5}, []string{"uninstall", "apply", "config"}, "reboot"},
		"removal with uninstall":       {kernel(args(uninstallable)), kernel(noPackage), preview.Tally{Nodes: 5, Reboot: 5, Uninstall: 5}, []string{"uninstall"}, "reboot"},
		"removal without":              {kernel(), kernel(noPackage), preview.Tally{}, []string{}, ""},
		"new object":                   {simulate.Objects{}, kernel(), preview.Tally{Nodes: 5, Reboot: 5}, []string{"apply", "config"}, "reboot"},
		"object deleted":               {kernel(args(uninstallable)), simulate.Objects{}, preview.Tally{Nodes: 5, Reboot: 5, Uninstall: 5}, []string{"uninstall"}, "reboot"},
		"object deleted, no uninstall": {kernel(), simulate.Objects{}, preview.Tally{}, []string{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := over(tc.base, tc.head)
			require.Equal(t, preview.Changes, p.Result)
			require.Equal(t, tc.want, p.Affected)
			require.Len(t, p.NodeWrights, 1)
			require.Len(t, p.NodeWrights[0].Packages, 1)
			require.Equal(t, tc.stages, p.NodeWrights[0].Packages[0].Stages)
			require.Equal(t, tc.interrupt, p.NodeWrights[0].Packages[0].Interrupt)
		})
	}
}

func uninstallable(p *nwv1.Package) { p.Uninstall = &nwv1.Uninstall{Enabled: true} }

func noPackage(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) { nw.Spec.Packages = nil }

// TestChangesThatStartNothing: fields outside of every hash are named, and no node has anything to do.
func TestChangesThatStartNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*nwv1.NodeWright, *nwv1.DeploymentPolicy)
		want []preview.Inert
	}{
		"priority": {func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) { nw.Spec.Priority = 100 },
			[]preview.Inert{{Kind: "NodeWright", Name: "kernel", Fields: []string{"spec.priority"}}}},
		"labels": {func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) { nw.Labels = map[string]string{"team": "a"} },
			[]preview.Inert{{Kind: "NodeWright", Name: "kernel", Fields: []string{"metadata.labels"}}}},
		"budget": {func(_ *nwv1.NodeWright, p *nwv1.DeploymentPolicy) { p.Spec.Default.Budget.Count = new(int32(4)) },
			[]preview.Inert{{Kind: "DeploymentPolicy", Name: "two", Fields: []string{"spec.default.budget.count"}}}},
		"interrupt": {args(func(p *nwv1.Package) { p.Interrupt.Type = nwv1.InterruptNoop }),
			[]preview.Inert{{Kind: "NodeWright", Name: "kernel", Package: "args", Fields: []string{"interrupt.type"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := over(kernel(), kernel(tc.edit))
			require.Equal(t, preview.Changes, p.Result)
			require.Zero(t, p.Affected)
			require.Empty(t, p.Rollouts)
			require.Equal(t, tc.want, p.Inert)
			for _, nw := range p.NodeWrights {
				require.False(t, nw.Effective)
			}
		})
	}
}

// TestFieldsThatMayStartSomethingAreNotCalledInert: a verb in an annotation, a check, and, without nodes, a selector.
func TestFieldsThatMayStartSomethingAreNotCalledInert(t *testing.T) {
	wider := func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) {
		nw.Annotations = map[string]string{"fleetwright.dev/rerun": "apply"}
		nw.Spec.VerifyInterval = &metav1.Duration{Duration: time.Hour}
		nw.Spec.NodeSelectors.MatchLabels = map[string]string{"zone": "a"}
	}
	p := over(kernel(), kernel(wider), func(in *preview.Input) { in.Source, in.Nodes = preview.NoNodes, nil })
	require.Len(t, p.NodeWrights[0].Settings, 4)
	require.Empty(t, p.Inert)

	p = over(kernel(), kernel(wider), func(in *preview.Input) {
		for i := range in.Nodes {
			in.Nodes[i].Labels["zone"] = "a"
		}
		in.Nodes = append(in.Nodes, plan.Node{Name: "n06", UID: "n06", Ready: true, Labels: map[string]string{"zone": "a"}})
	})
	require.Equal(t, 1, p.NodeWrights[0].Joining)
	require.Equal(t, 6, p.Affected.Nodes, "one joins, and five are asked to run again")
	require.Empty(t, p.Inert)
}

// TestFieldReport_PP07_WhatChangesNothingIsNoChange: other bytes of equal objects are exactly no change.
func TestFieldReport_PP07_WhatChangesNothingIsNoChange(t *testing.T) {
	p := over(kernel(), kernel(), func(in *preview.Input) { in.Files = []string{"overlays/a/kernel.yaml"} })
	require.Equal(t, preview.None, p.Result)
	require.Empty(t, p.NodeWrights)
	require.Empty(t, p.Warnings)
	require.Empty(t, p.Blocks)
	require.Equal(t, []preview.Inert{{Fields: []string{"overlays/a/kernel.yaml"}}}, p.Inert)
}

// TestFieldReport_PP04_ValuesAreNotShown: names of keys only, wherever values are.
func TestFieldReport_PP04_ValuesAreNotShown(t *testing.T) {
	p := over(kernel(), kernel(args(func(p *nwv1.Package) {
		p.Env = []corev1.EnvVar{{Name: "TOKEN", Value: "secret-3"}, {Name: "MORE", Value: "secret-4"}}
		p.ConfigMap = map[string]string{"a": "secret-5", "c": "secret-6"}
	})))
	require.Equal(t, preview.Keys{Added: []string{"MORE"}, Changed: []string{"TOKEN"}}, p.NodeWrights[0].Packages[0].Env)
	require.Equal(t, preview.Keys{Added: []string{"c"}, Changed: []string{"a"}, Removed: []string{"b"}}, p.NodeWrights[0].Packages[0].ConfigMap)
	data, err := json.Marshal(p)
	require.NoError(t, err)
	require.NotContains(t, string(data), "secret")
}

// TestFieldReport_CU04_RemovalAndDowngradeAreNamedBeforeTheMerge: the commit is the intent, so the plan names packages and
// nodes, and warns.
func TestFieldReport_CU04_RemovalAndDowngradeAreNamedBeforeTheMerge(t *testing.T) {
	for name, tc := range map[string]struct {
		base, head simulate.Objects
		want       []preview.Code
		uninstall  int
	}{
		"removed":                 {kernel(), kernel(noPackage), []preview.Code{preview.RemovedWithoutUninstall}, 0},
		"removed with uninstall":  {kernel(args(uninstallable)), kernel(noPackage), []preview.Code{preview.Uninstalls}, 5},
		"downgrade":               {kernel(), kernel(version("0.9.0")), []preview.Code{preview.DowngradeWithoutUninstall}, 0},
		"downgrade and uninstall": {kernel(args(uninstallable)), kernel(args(uninstallable), version("0.9.0")), []preview.Code{preview.Uninstalls}, 5},
		"upgrade":                 {kernel(args(uninstallable)), kernel(args(uninstallable), version("1.9.0")), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := over(tc.base, tc.head)
			require.Equal(t, tc.want, codes(p.Warnings))
			require.Equal(t, tc.uninstall, p.Affected.Uninstall)
		})
	}
}

func codes(warnings []preview.Warning) []preview.Code {
	var out []preview.Code
	for _, w := range warnings {
		out = append(out, w.Code)
	}
	return out
}

func TestWarnings(t *testing.T) {
	policy := func(edit func(*nwv1.DeploymentPolicySpec)) func(*nwv1.NodeWright, *nwv1.DeploymentPolicy) {
		return func(_ *nwv1.NodeWright, p *nwv1.DeploymentPolicy) { edit(&p.Spec) }
	}
	for name, tc := range map[string]struct {
		edit func(*nwv1.NodeWright, *nwv1.DeploymentPolicy)
		want []preview.Code
	}{
		"nothing":     {policy(func(*nwv1.DeploymentPolicySpec) {}), nil},
		"no strategy": {policy(func(p *nwv1.DeploymentPolicySpec) { p.Default.Strategy = nil }), []preview.Code{preview.NoFailureThreshold}},
		"all at once": {policy(func(p *nwv1.DeploymentPolicySpec) { p.Default.Budget = nwv1.DeploymentBudget{Percent: new(int32(100))} }), []preview.Code{preview.FullBudget}},
		"none at all": {policy(func(p *nwv1.DeploymentPolicySpec) { p.Default.Budget = nwv1.DeploymentBudget{Count: new(int32(0))} }), []preview.Code{preview.ZeroBudget}},
		"no policy": {func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) { nw.Spec.DeploymentPolicy = "" },
			[]preview.Code{preview.FullBudget, preview.NoFailureThreshold}},
		"no digest": {args(func(p *nwv1.Package) { p.ContainerSHA = "" }), []preview.Code{preview.NoDigest}},
		"nobody": {func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) { nw.Spec.NodeSelectors.MatchLabels["pool"] = "cpu" },
			[]preview.Code{preview.NothingSelected, preview.NodesLeave}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, codes(over(kernel(), kernel(version("2.0.0"), tc.edit)).Warnings))
		})
	}
	require.Equal(t, []preview.Code{preview.SameVersion},
		codes(over(kernel(), kernel(args(func(p *nwv1.Package) { p.Env = nil }))).Warnings), "content differs, version does not")
}

// TestFieldReport_KB24_EntriesThatAPatchTakesOutOfAListAreShown.
func TestFieldReport_KB24_EntriesThatAPatchTakesOutOfAListAreShown(t *testing.T) {
	canary := nwv1.Compartment{Name: "canary", Budget: nwv1.DeploymentBudget{Count: new(int32(1))}}
	with := func(c ...nwv1.Compartment) func(*nwv1.NodeWright, *nwv1.DeploymentPolicy) {
		return func(_ *nwv1.NodeWright, p *nwv1.DeploymentPolicy) { p.Spec.Compartments = c }
	}
	for _, left := range [][]nwv1.Compartment{nil, {{Name: "serving"}}} {
		p := over(kernel(with(append(left, canary)...)), kernel(with(left...)))
		require.Equal(t, []preview.Warning{{Code: preview.CompartmentRemoved, Policy: "two", Compartment: "canary"}}, p.Warnings)
		require.Equal(t, []preview.Setting{{Field: "spec.compartments[canary]", Change: preview.Removed}}, p.Others[0].Settings)
	}
}

// TestPredictedBatches: those of the simulation, and no others.
func TestPredictedBatches(t *testing.T) {
	p := over(kernel(), kernel(version("1.1.0")))
	require.Len(t, p.Rollouts, 1)
	require.Equal(t, "Complete", p.Rollouts[0].Outcome)
	lane := p.Rollouts[0].Lanes[0]
	require.Equal(t, []int{2, 1}, []int{lane.Batches[0].Size, lane.Batches[1].Size})
	require.Equal(t, [2]int{1, 2}, [2]int{lane.Batches[0].From, lane.Batches[0].To})
	require.Equal(t, 2, p.OutOfService)
}

// TestPredictedBatchesBesideACompleteNodeWright: nodes of a live cluster bear the status labels of NodeWrights that have nothing to do.
func TestPredictedBatchesBesideACompleteNodeWright(t *testing.T) {
	both := func(edits ...func(*nwv1.NodeWright, *nwv1.DeploymentPolicy)) simulate.Objects {
		out := kernel(edits...)
		out.NodeWrights = append(out.NodeWrights, kernel(func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) { nw.Name = "tuning" }).NodeWrights...)
		return out
	}
	_, state := simulate.RunFrom(simulate.Scenario{Start: start, Nodes: nodes(5), NodeWrights: simulate.NodeWrights(both(), preview.Input{}.Ledger, nil)})
	for i := range state.Nodes {
		labels := maps.Clone(state.Nodes[i].Labels)
		labels[nwv1.StatusKey("kernel")], labels[nwv1.StatusKey("tuning")] = "complete", "complete"
		state.Nodes[i].Labels = labels
	}
	p := over(both(), both(version("1.1.0")), func(in *preview.Input) {
		in.Source, in.Nodes, in.Ledger, in.Snapshots = preview.Cluster, state.Nodes, state.Ledger, state.Snapshots
	})
	require.Empty(t, p.Problem)
	require.Len(t, p.Rollouts, 1)
	require.Equal(t, "Complete", p.Rollouts[0].Outcome)
}

// TestWithoutNodes: the plan is about packages alone.
func TestWithoutNodes(t *testing.T) {
	p := over(kernel(), kernel(version("1.1.0")), func(in *preview.Input) { in.Source, in.Nodes = preview.NoNodes, nil })
	require.Equal(t, preview.Changes, p.Result)
	require.Zero(t, p.Affected)
	require.Empty(t, p.Rollouts)
	require.Empty(t, p.Blocks)
	require.Equal(t, "reboot", p.NodeWrights[0].Packages[0].Interrupt)
}

// TestErrorsEndThePlan: nothing is said about what cannot be applied.
func TestErrorsEndThePlan(t *testing.T) {
	p := over(kernel(), kernel(version("1.1.0")), func(in *preview.Input) {
		in.Findings = []finding.Finding{{Code: "InvalidValue", Severity: finding.Error, Message: "wrong"}}
	})
	require.Equal(t, preview.Errors, p.Result)
	require.Empty(t, p.NodeWrights)
}

// TestWhatWaitsAnywayIsNotTheChangesDoing: a node that is not complete at the old state has that to do with or without it.
func TestWhatWaitsAnywayIsNotTheChangesDoing(t *testing.T) {
	live := func(in *preview.Input) { in.Source = preview.Cluster }
	p := over(kernel(), kernel(func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) { nw.Spec.Priority = 1 }), live)
	require.Zero(t, p.Affected)
	require.Equal(t, 5, p.NodeWrights[0].Anyway)
	require.False(t, p.Nodes.Assumed)

	p = over(kernel(), kernel(version("1.1.0")), live)
	require.Equal(t, 5, p.Affected.Reboot)
	require.Equal(t, 5, p.NodeWrights[0].Anyway)
}

// TestWhatIsInTheWay: pods, taints, nodes that are away, closed windows.
func TestWhatIsInTheWay(t *testing.T) {
	pod := func(name string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: new(true)}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	}
	protect := func(nw *nwv1.NodeWright, _ *nwv1.DeploymentPolicy) {
		nw.Spec.PodNonInterruptLabels.MatchLabels = map[string]string{"training": "yes"}
	}
	p := over(kernel(protect), kernel(protect, version("1.1.0")), func(in *preview.Input) {
		in.PodsKnown = true
		n := in.Nodes
		n[0].PodsListed, n[0].Pods = true, []*corev1.Pod{pod("run-1", map[string]string{"training": "yes"}), pod("run-2", map[string]string{"training": "yes"})}
		n[1].PodsListed, n[1].Pods = true, []*corev1.Pod{pod("db", nil)}
		n[1].Refusals = map[types.UID]plan.Refusal{"db": {Kind: plan.RefusedByBudget, Message: "refused by PodDisruptionBudget db"}}
		n[2].Taints = []corev1.Taint{{Key: "reserved", Effect: corev1.TaintEffectNoSchedule}}
		n[3].Ready = false
	})
	type row struct {
		code  string
		nodes []string
		pods  int
	}
	var got []row
	for _, b := range p.Blocks {
		got = append(got, row{b.Code, b.First, b.Pods})
	}
	require.Equal(t, []row{
		{"NodeNotReady", []string{"n04"}, 0}, {"PodDisruptionBudget", []string{"n02"}, 1}, {"ProtectedPod", []string{"n01"}, 2},
		{"TaintNotTolerated", []string{"n03"}, 0},
	}, got)
	require.Equal(t, 4, p.Affected.Nodes, "the tainted node is not targeted")

	closed := func(_ *nwv1.NodeWright, p *nwv1.DeploymentPolicy) {
		p.Spec.Windows = []nwv1.Window{{Cron: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}}
	}
	p = over(kernel(closed), kernel(closed, version("1.1.0")))
	require.Equal(t, "WaitingForWindow", p.Blocks[0].Code)
	require.Equal(t, 5, p.Blocks[0].Count)
}

// TestFieldReport_UX04_PausedAndDisabledAreInTheWay: a switch that somebody set in the cluster says why nothing would happen after the merge.
func TestFieldReport_UX04_PausedAndDisabledAreInTheWay(t *testing.T) {
	for code, live := range map[string]plan.NodeWright{
		"Paused": {Name: "kernel", UID: "uid", Paused: true}, "Disabled": {Name: "kernel", UID: "uid", Disabled: true},
	} {
		p := over(kernel(), kernel(version("1.1.0")), func(in *preview.Input) { in.Live = map[string]plan.NodeWright{"kernel": live} })
		require.Len(t, p.Blocks, 1)
		require.Equal(t, code, p.Blocks[0].Code)
		require.Equal(t, 5, p.Blocks[0].Count)
		require.Equal(t, "Stuck", p.Rollouts[0].Outcome)
	}
}

// TestRecordsOfTheNodesCount: with records in the list nothing is assumed.
func TestRecordsOfTheNodesCount(t *testing.T) {
	var done noderecord.Record
	_, state := simulate.RunFrom(simulate.Scenario{Start: start, Nodes: nodes(1), NodeWrights: simulate.NodeWrights(kernel(version("1.1.0")), preview.Input{}.Ledger, nil)})
	done = state.Nodes[0].Records["kernel"]
	p := over(kernel(), kernel(version("1.1.0")), func(in *preview.Input) { in.Nodes[0].Records = map[string]noderecord.Record{"kernel": done} })
	require.False(t, p.Nodes.Assumed)
	require.Equal(t, 4, p.Affected.Nodes, "n01 has the new version already")
	require.Equal(t, []string{"n02", "n03", "n04"}, p.NodeWrights[0].Effects[0].First)
}

// TestEqualInputsGiveEqualPlans, and the input is not changed.
func TestEqualInputsGiveEqualPlans(t *testing.T) {
	in := preview.Input{Base: kernel(), Head: kernel(version("1.1.0")), Source: preview.Saved, Nodes: nodes(9), Start: start}
	first, err := json.Marshal(preview.Make(in))
	require.NoError(t, err)
	require.Nil(t, in.Nodes[0].Records)
	for range 5 {
		again, err := json.Marshal(preview.Make(in))
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
}
