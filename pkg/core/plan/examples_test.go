package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

func policy(b nwv1.DeploymentBudget, s nwv1.DeploymentStrategy) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) {
		nw.Policy = &nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{Budget: b, Strategy: &s}}
	}
}

func count(n int32) nwv1.DeploymentBudget   { return nwv1.DeploymentBudget{Count: &n} }
func percent(n int32) nwv1.DeploymentBudget { return nwv1.DeploymentBudget{Percent: &n} }

func fixed(initial int32, more ...func(*nwv1.BatchRules)) nwv1.DeploymentStrategy {
	return nwv1.DeploymentStrategy{Fixed: &nwv1.FixedStrategy{BatchRules: batchRules(initial, more)}}
}

func linear(initial, delta int32, more ...func(*nwv1.BatchRules)) nwv1.DeploymentStrategy {
	return nwv1.DeploymentStrategy{Linear: &nwv1.LinearStrategy{BatchRules: batchRules(initial, more), Delta: delta}}
}

func exponential(initial, factor int32, more ...func(*nwv1.BatchRules)) nwv1.DeploymentStrategy {
	return nwv1.DeploymentStrategy{Exponential: &nwv1.ExponentialStrategy{BatchRules: batchRules(initial, more), GrowthFactor: factor}}
}

func batchRules(initial int32, more []func(*nwv1.BatchRules)) nwv1.BatchRules {
	r := nwv1.BatchRules{InitialBatch: initial}
	for _, f := range more {
		f(&r)
	}
	return r
}

func failureThreshold(n int32) func(*nwv1.BatchRules) {
	return func(r *nwv1.BatchRules) { r.FailureThreshold = &n }
}
func batchThreshold(n int32) func(*nwv1.BatchRules) {
	return func(r *nwv1.BatchRules) { r.BatchThreshold = n }
}

func budgetOnly(n int32) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) { nw.Spec.InterruptionBudget = &nwv1.InterruptionBudget{Count: &n} }
}

// TestWorkedExamples are the examples that the documentation gives for the batch rules: the numbers of nodes admitted,
// batch by batch.
func TestWorkedExamples(t *testing.T) {
	for _, c := range []struct {
		name      string
		nodes     int
		rules     func(*plan.NodeWright)
		ceiling   int
		interrupt bool
		fails     []string
		want      []int
		halted    bool
	}{
		{name: "fixed 5, count 5", nodes: 12, rules: policy(count(5), fixed(5)), ceiling: 5, want: []int{5, 5, 2}},
		{name: "linear 1 +1, count 100", nodes: 10, rules: policy(count(100), linear(1, 1)), want: []int{1, 2, 3, 4}},
		{name: "exponential 1 x2, percent 100", nodes: 20, rules: policy(percent(100), exponential(1, 2)), want: []int{1, 2, 4, 8, 5}},
		{name: "exponential 2 x2, count 3", nodes: 10, rules: policy(count(3), exponential(2, 2)), ceiling: 3, want: []int{2, 3, 3, 2}},
		{name: "fixed 1, percent 25", nodes: 10, rules: policy(percent(25), fixed(1)), ceiling: 2,
			want: []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{name: "exponential 1 x2, the second batch fails both", nodes: 20, rules: policy(percent(100), exponential(1, 2)),
			fails: []string{"n02", "n03"}, want: []int{1, 2, 1, 2, 4, 8, 2}},
		{name: "fixed 2, failureThreshold 1, one of the first two fails", nodes: 10,
			rules: policy(count(2), fixed(2, failureThreshold(1))), ceiling: 2, fails: []string{"n02"}, want: []int{2}, halted: true},
		{name: "fixed 2, batchThreshold 50, one of the first two fails", nodes: 4,
			rules: policy(count(2), fixed(2, batchThreshold(50))), ceiling: 2, fails: []string{"n02"}, want: []int{2, 2}},
		{name: "the same with an interrupt: the failed node stays cordoned", nodes: 4, interrupt: true,
			rules: policy(count(2), fixed(2, batchThreshold(50))), ceiling: 2, fails: []string{"n02"}, want: []int{2, 1, 1}},
		{name: "linear 3 +2, percent 50", nodes: 10, rules: policy(percent(50), linear(3, 2)), ceiling: 5, want: []int{3, 5, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.nodes)
			w.ceiling = c.ceiling
			w.fails = failing(c.fails...)
			p := pkg("tuning", "1.0.0")
			if c.interrupt {
				p = reboot(p)
			}
			w.nodeWright("tune", c.rules, p)
			w.settle()
			require.Equal(t, c.want, w.sizes("tune"))
			s := w.status("tune")
			require.Equal(t, c.halted, len(s.Halted) > 0)
			require.EqualValues(t, len(c.fails), s.Failed)
			if !c.halted {
				require.EqualValues(t, c.nodes-len(c.fails), s.Complete)
			}
		})
	}
}

func failing(nodes ...string) func(string, string, nwv1.Stage) int32 {
	bad := map[string]bool{}
	for _, n := range nodes {
		bad[n] = true
	}
	return func(node, _ string, _ nwv1.Stage) int32 {
		if bad[node] {
			return 3
		}
		return 0
	}
}

func TestWorkedExampleRebootThatNoNodeSurvives(t *testing.T) {
	w := newWorld(t, 20)
	w.ceiling = 2
	w.dies = func(string) bool { return true }
	w.nodeWright("kernel", budgetOnly(2), reboot(pkg("kernel", "1.0.0")))
	w.settle()
	require.Equal(t, []string{"n01", "n02"}, w.outOfService(), "both slots are held, nobody else is touched")
	require.Equal(t, plan.InterruptFailed, w.reason("kernel", "n01").Code)
	require.Equal(t, plan.WaitingForSlot, w.reason("kernel", "n03").Code)
	require.Equal(t, "2 of the 2 slots of compartment default are in use: n01 (failed), n02 (failed)", w.reason("kernel", "n03").Message)
}

func TestWorkedExampleRevert(t *testing.T) {
	w := newWorld(t, 6)
	w.ceiling = 2
	for round, version := range []string{"1.0.0", "2.0.0", "1.0.0"} {
		w.nodeWright("tune", policy(count(2), fixed(2)), pkg("tuning", version))
		w.settle()
		require.Equal(t, []int{2, 2, 2}, w.sizes("tune"))
		require.EqualValues(t, round+1, w.in.Ledger.Rollouts["tune"].Round)
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		require.Equal(t, version, w.nodes["n01"].Records["tune"].Packages["tuning"].Version)
	}
}

// TestUpgradeAdmitsNoMoreThanTheBudget: NVIDIA's operator admits all ten.
func TestUpgradeAdmitsNoMoreThanTheBudget(t *testing.T) {
	w := newWorld(t, 10)
	w.ceiling = 2
	w.nodeWright("tune", budgetOnly(2), service(pkg("tuning", "1.0.0"), "kubelet"))
	w.settle()
	w.nodeWright("tune", nil, service(pkg("tuning", "2.0.0"), "kubelet"))
	w.pass()
	w.pass()
	require.Equal(t, []string{"n01", "n02"}, w.outOfService())
	w.settle()
	require.EqualValues(t, 10, w.status("tune").Complete)
	require.Equal(t, nwv1.StageUpgrade, firstStage(w, "uid-n10", 2))
}

// firstStage is the first stage of the first execution of a round on a node.
func firstStage(w *world, node string, round int64) nwv1.Stage {
	for _, name := range sortedKeys(w.specs) {
		if s := w.specs[name]; string(s.NodeUID) == node && s.Round == round && s.Phase == plan.PhaseInstall {
			return s.Stages[0]
		}
	}
	return ""
}

// TestNoEffectiveChange: key order, comments or an equal value start nothing.
func TestNoEffectiveChange(t *testing.T) {
	w := newWorld(t, 3)
	p := pkg("tuning", "1.0.0")
	p.ConfigMap = map[string]string{"a": "1", "b": "2"}
	w.nodeWright("tune", budgetOnly(1), p)
	w.settle()
	jobs := len(w.jobs)
	w.nodeWright("tune", func(nw *plan.NodeWright) { nw.Spec.Priority = 7 }, func() desired.Package {
		q := service(p, "sshd") // an interrupt by itself changes nothing on a host
		q.ConfigMap = map[string]string{"b": "2", "a": "1"}
		return q
	}())
	out := w.pass()
	require.Empty(t, out.Decisions)
	require.Nil(t, out.Ledger)
	require.Len(t, w.jobs, jobs)
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}
