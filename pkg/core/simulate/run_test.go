package simulate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// TestWorkedExamples are the examples that the documentation gives for the batch rules.
func TestWorkedExamples(t *testing.T) {
	for _, c := range []struct {
		name      string
		nodes     int
		budget    nwv1.DeploymentBudget
		strategy  *nwv1.DeploymentStrategy
		interrupt nwv1.InterruptType
		fails     []string
		want      []int
		outcome   simulate.Outcome
	}{
		{name: "fixed 5, count 5", nodes: 12, budget: count(5), strategy: fixed(5), want: []int{5, 5, 2}},
		{name: "linear 1 +1, count 100", nodes: 10, budget: count(100), strategy: linear(1, 1), want: []int{1, 2, 3, 4}},
		{name: "exponential 1 x2, percent 100", nodes: 20, budget: percent(100), strategy: exponential(1, 2), want: []int{1, 2, 4, 8, 5}},
		{name: "exponential 2 x2, count 3", nodes: 10, budget: count(3), strategy: exponential(2, 2), want: []int{2, 3, 3, 2}},
		{name: "fixed 1, percent 25", nodes: 10, budget: percent(25), strategy: fixed(1), want: []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{name: "exponential 1 x2, the second batch fails both", nodes: 20, budget: percent(100), strategy: exponential(1, 2),
			fails: []string{"n02", "n03"}, want: []int{1, 2, 1, 2, 4, 8, 2}, outcome: simulate.Failed},
		{name: "fixed 2, failureThreshold 1, one of the first two fails", nodes: 10, budget: count(2),
			strategy: fixed(2, failureThreshold(1)), fails: []string{"n02"}, want: []int{2}, outcome: simulate.Halted},
		{name: "fixed 2, batchThreshold 50, one of the first two fails", nodes: 4, budget: count(2),
			strategy: fixed(2, batchThreshold(50)), fails: []string{"n02"}, want: []int{2, 2}, outcome: simulate.Failed},
		{name: "the same with an interrupt: the failed node stays cordoned", nodes: 4, budget: count(2), interrupt: nwv1.InterruptReboot,
			strategy: fixed(2, batchThreshold(50)), fails: []string{"n02"}, want: []int{2, 1, 1}, outcome: simulate.Failed},
		{name: "linear 3 +2, percent 50", nodes: 10, budget: percent(50), strategy: linear(3, 2), want: []int{3, 5, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fleet{t: t}
			f.nodeWright("tune")
			if c.interrupt != "" {
				interrupt(c.interrupt)(f.objects.NodeWrights[0])
			}
			sc := f.policy(c.budget, c.strategy).scenario(c.nodes)
			sc.Failures.Nodes = c.fails
			got := only(t, simulate.Run(sc))
			require.Equal(t, c.want, sizes(got.Compartments[0]))
			if c.outcome == "" {
				c.outcome = simulate.Complete
			}
			require.Equal(t, c.outcome, got.Outcome)
			require.Equal(t, len(c.fails), got.Failed)
			require.Len(t, got.Failures, len(c.fails))
		})
	}
}

func TestWorkedExampleRebootThatNoNodeSurvives(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("kernel", interrupt(nwv1.InterruptReboot), budgetOnly(2)).scenario(20)
	sc.Failures = simulate.Failures{Percent: 100, Stage: nwv1.StageInterrupt}
	r := simulate.Run(sc)
	got := only(t, r)
	require.Equal(t, simulate.Stuck, got.Outcome)
	require.Equal(t, []int{2}, sizes(got.Compartments[0]), "both slots are held, nobody else is touched")
	require.Equal(t, 2, got.Failed)
	require.Equal(t, simulate.Load{Peak: 2, AtEnd: 2, NodeSeconds: 2 * (time.Hour + time.Minute + 40*time.Second).Seconds()}, r.OutOfService,
		"from the cordon to the end of the reboot's time, after drain, apply and config")
	require.Equal(t, simulate.Reason{Code: plan.WaitingForSlot, Count: 18, Message: "2 of the 2 slots of compartment default are in use: n01 (failed), n02 (failed)",
		Nodes: []string{"n03", "n04", "n05", "n06", "n07", "n08", "n09", "n10", "n11", "n12"}}, got.Reasons[1])
}

// TestWorkedExampleRevert: content A, then B, then A again. Each run starts from what the one before left.
func TestWorkedExampleRevert(t *testing.T) {
	nodes := (&fleet{t: t}).scenario(6).Nodes
	state := simulate.State{Nodes: nodes}
	for round, version := range []string{"1.0.0", "2.0.0", "1.0.0"} {
		f := &fleet{t: t}
		f.nodeWright("tune", func(nw *nwv1.NodeWright) {
			nw.Spec.Packages = map[string]nwv1.Package{"tuning": {Version: version, Image: "example.com/tuning"}}
		}).policy(count(2), fixed(2))
		r, after := simulate.RunFrom(simulate.Scenario{
			Start: begin, NodeWrights: simulate.NodeWrights(f.objects, state.Ledger, state.Nodes),
			Nodes: state.Nodes, Ledger: state.Ledger, Snapshots: state.Snapshots,
		})
		got := only(t, r)
		require.Equal(t, simulate.Complete, got.Outcome)
		require.Equal(t, []int{2, 2, 2}, sizes(got.Compartments[0]))
		require.EqualValues(t, round+1, got.Compartments[0].Batches[0].Round)
		require.Equal(t, version, after.Nodes[0].Records["tune"].Packages["tuning"].Version)
		state = after
	}
}

// TestTimes: one node goes through everything, and each step takes as long as it was said to.
func TestTimes(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("kernel", interrupt(nwv1.InterruptReboot)).scenario(1)
	sc.Settings.StageTimeout = 0
	sc.Durations = simulate.Durations{
		simulate.StepDrain: time.Second, simulate.StepApply: 10 * time.Second, simulate.StepConfig: 100 * time.Second,
		simulate.StepReboot: 1000 * time.Second, simulate.StepPostInterrupt: 10000 * time.Second,
	}
	r := simulate.Run(sc)
	got := only(t, r)
	const all = simulate.Offset(11111 * time.Second)
	require.Equal(t, all, got.End)
	require.Equal(t, all, r.End)
	require.Equal(t, []simulate.Batch{{Round: 1, Number: 1, Nodes: []string{"n01"}, End: all, Verdict: simulate.Good}},
		got.Compartments[0].Batches)
	require.Equal(t, simulate.Load{Peak: 1, NodeSeconds: 11111}, got.OutOfService)
	require.Equal(t, []simulate.Point{{InProgress: 1, OutOfService: 1}, {At: all, Complete: 1}}, got.Timeline)
}

// TestFailedAttempts: three attempts with their back-off, then the node has failed.
func TestFailedAttempts(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("tune").policy(count(1), fixed(1, failureThreshold(1))).scenario(3)
	sc.Failures = simulate.Failures{Nodes: []string{"n01"}, Stage: nwv1.StageConfig}
	got := only(t, simulate.Run(sc))
	// apply and config, 10 s, config, 20 s, config: what succeeded is not run again.
	at := simulate.Offset(70*time.Second + 10*time.Second + 10*time.Second + 20*time.Second + 10*time.Second)
	failure := simulate.Failure{
		Node: "n01", Package: "tuning", Stage: "config", ExitCode: 1, Reason: "PackageFailed", Message: "simulated failure",
	}
	require.Equal(t, []simulate.Failure{failure}, got.Failures)
	require.Equal(t, &simulate.Halt{
		Batch: 1, At: got.End, Failures: []simulate.Failure{failure},
		Message: "n01: package tuning, stage config, exit code 1: simulated failure",
	}, got.Compartments[0].Halt)
	require.Equal(t, []simulate.Verdict{simulate.Halting}, verdicts(got.Compartments[0]))
	require.Equal(t, at, got.End)
}

// TestVerdicts are read from the ledger: below the safety limit a failure is bad, above it is tolerated.
func TestVerdicts(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("tune").policy(percent(100), exponential(1, 2, failureThreshold(3))).scenario(20)
	sc.Failures.Nodes = []string{"n02", "n03", "n19"}
	got := only(t, simulate.Run(sc))
	require.Equal(t, []int{1, 2, 1, 2, 4, 8, 2}, sizes(got.Compartments[0]))
	require.Equal(t, []simulate.Verdict{"good", "bad", "good", "good", "good", "good", "tolerated"}, verdicts(got.Compartments[0]))
	require.Equal(t, 2, got.Compartments[0].Batches[1].Failed)
	require.Nil(t, got.Compartments[0].Halt)
}

// TestRolling: a node is admitted whenever a slot is free, and a batch ends with its last node.
func TestRolling(t *testing.T) {
	f := &fleet{t: t}
	strategy := fixed(2, failureThreshold(1))
	strategy.Fixed.Advance = nwv1.AdvanceRolling
	sc := f.nodeWright("tune").policy(count(2), strategy).scenario(30)
	sc.Failures.Nodes = []string{"n04"}
	got := only(t, simulate.Run(sc))
	require.Equal(t, simulate.Halted, got.Outcome)
	c := got.Compartments[0]
	require.Equal(t, []string{"n01", "n02"}, c.Batches[0].Nodes)
	require.Equal(t, simulate.Good, c.Batches[0].Verdict)
	require.Equal(t, simulate.Offset(70*time.Second), c.Batches[0].End)
	require.Equal(t, []string{"n03", "n04"}, c.Batches[1].Nodes)
	require.Equal(t, []string{"n05"}, c.Batches[2].Nodes, "n03 has made room, n04 is being tried again")
	require.Equal(t, simulate.Offset(140*time.Second), c.Batches[2].Begin)
	require.Equal(t, []string{"n04"}, []string{c.Halt.Failures[0].Node})
	for _, b := range c.Batches {
		require.NotEqual(t, simulate.Open, b.Verdict)
	}
}

// TestFlakyExecutionsAreTriedAgain: time goes by, and nobody fails.
func TestFlakyExecutionsAreTriedAgain(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("kernel", interrupt(nwv1.InterruptReboot)).policy(percent(100), fixed(40)).scenario(40)
	smooth := only(t, simulate.Run(sc))
	sc.Failures.FlakyPercent, sc.Settings.Attempts = 20, 10
	flaky := only(t, simulate.Run(sc))
	require.Equal(t, simulate.Complete, flaky.Outcome)
	require.Greater(t, flaky.End, smooth.End)
}

// TestStageTimeout: what takes longer than it may is ended, as a kubelet does.
func TestStageTimeout(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("tune").scenario(1)
	sc.Durations = simulate.Durations{simulate.StepApply: 2 * time.Hour}
	got := only(t, simulate.Run(sc))
	require.Equal(t, simulate.Failed, got.Outcome)
	require.Equal(t, "StageTimeout", got.Failures[0].Reason)
}

// TestNeverFinishes: each of these comes to rest, and says why it does not go on.
func TestNeverFinishes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fleet, *simulate.Scenario)
		want   plan.Code
	}{
		{"budget 0", func(f *fleet, sc *simulate.Scenario) {
			sc.NodeWrights = f.policy(count(0), fixed(1)).resolved()
		}, plan.BudgetIsZero},
		{"paused", func(_ *fleet, sc *simulate.Scenario) { sc.NodeWrights[0].Paused = true }, plan.Paused},
		{"cluster budget 0", func(_ *fleet, sc *simulate.Scenario) {
			sc.Budgets = []plan.Budget{{Name: "fleetwright/x", Count: new(int32)}}
		}, plan.WaitingForClusterBudget},
		{"protected pod", func(f *fleet, sc *simulate.Scenario) {
			sc.NodeWrights[0].Spec.PodNonInterruptLabels.MatchLabels = map[string]string{"job": "training"}
			sc.Nodes[0].PodsListed, sc.Nodes[0].Pods = true, pods("job", "training")
		}, plan.ProtectedPod},
		{"not ready", func(_ *fleet, sc *simulate.Scenario) { sc.Nodes[0].Ready = false }, plan.NodeNotReady},
		{"the one that goes first is stuck", func(f *fleet, sc *simulate.Scenario) {
			f.nodeWright("first", priority(1)).policy(count(0), fixed(1))
			sc.NodeWrights = f.resolved()
		}, plan.WaitingForPriority},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fleet{t: t}
			f.nodeWright("kernel", interrupt(nwv1.InterruptReboot))
			sc := f.scenario(1)
			c.change(f, &sc)
			r := simulate.Run(sc)
			require.Empty(t, r.Problem)
			got := r.Rollouts[len(r.Rollouts)-1]
			require.Equal(t, simulate.Stuck, got.Outcome)
			require.Equal(t, c.want, got.Reasons[0].Code)
			require.Equal(t, []string{"n01"}, got.Reasons[0].Nodes)
			require.NotEmpty(t, got.Reasons[0].Message)
			require.Equal(t, 1, got.Waiting)
		})
	}
}

func TestLimit(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("tune").policy(count(1), fixed(1)).scenario(3)
	sc.Limit = 2 * time.Minute
	r := simulate.Run(sc)
	require.Equal(t, "not at rest after 2m0s", r.Problem)
	require.Equal(t, simulate.Stuck, r.Rollouts[0].Outcome)
	require.Equal(t, []simulate.Verdict{simulate.Good, simulate.Open}, verdicts(r.Rollouts[0].Compartments[0]))
	require.Equal(t, 1, r.Rollouts[0].Complete)
}

// TestFromTheMiddle: a rollout that is under way goes on where it is, with the execution that is running.
func TestFromTheMiddle(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("kernel", interrupt(nwv1.InterruptReboot)).policy(count(2), fixed(2)).scenario(6)
	whole := only(t, simulate.Run(sc))
	for _, stopAt := range []time.Duration{time.Second, 45 * time.Second, 2 * time.Minute, 8 * time.Minute, 20 * time.Minute} {
		cut := sc
		cut.Limit = stopAt
		_, state := simulate.RunFrom(cut)
		rest := sc
		rest.Start, rest.Nodes, rest.Ledger, rest.Snapshots = state.Now, state.Nodes, state.Ledger, state.Snapshots
		got := only(t, simulate.Run(rest))
		require.Equal(t, simulate.Complete, got.Outcome, "stopped at %s", stopAt)
		batches := whole.Compartments[0].Batches
		n := len(got.Compartments[0].Batches)
		require.NotZero(t, n)
		for i, b := range got.Compartments[0].Batches {
			require.Equal(t, batches[len(batches)-n+i].Nodes, b.Nodes, "stopped at %s", stopAt)
			require.Equal(t, batches[len(batches)-n+i].Number, b.Number)
		}
	}
}

// TestFromRecordsAlone: without a ledger, what is complete stays so and the rest is a new round.
func TestFromRecordsAlone(t *testing.T) {
	f := &fleet{t: t}
	f.nodeWright("tune").policy(count(2), fixed(2))
	sc := f.scenario(5)
	cut := sc
	cut.Limit = 90 * time.Second
	_, state := simulate.RunFrom(cut)
	sc.Nodes, sc.Snapshots = state.Nodes, map[string]desired.Package{}
	for i := range sc.Nodes {
		sc.Nodes[i].Executions = nil // nothing but the nodes was saved
	}
	sc.NodeWrights = simulate.NodeWrights(f.objects, fleetv1.LedgerSpec{}, sc.Nodes)
	require.Equal(t, noderecord.Succeeded, sc.Nodes[0].Records["tune"].Outcome)
	require.Equal(t, sc.Nodes[0].Records["tune"].NodeWright, sc.NodeWrights[0].UID)
	got := only(t, simulate.Run(sc))
	require.Equal(t, simulate.Complete, got.Outcome)
	require.Equal(t, []simulate.Batch{
		{Round: 2, Number: 1, Nodes: []string{"n03", "n04"}, Begin: 0, End: simulate.Offset(70 * time.Second), Verdict: simulate.Good},
		{Round: 2, Number: 2, Nodes: []string{"n05"}, Begin: simulate.Offset(70 * time.Second), End: simulate.Offset(140 * time.Second), Verdict: simulate.Good},
	}, got.Compartments[0].Batches)
}

func pods(key, value string) []*corev1.Pod {
	return []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p", Labels: map[string]string{key: value}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}}
}
