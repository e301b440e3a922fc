package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func planStatus(status nwv1.Status, change func(*plan.Status)) plan.Status {
	s := plan.Status{NodeWright: "tune", UID: "uid", Generation: 3, Status: status, Round: 2, Total: 4, Complete: 1, PackageList: []string{"a:1", "b:2"}}
	if change != nil {
		change(&s)
	}
	return s
}

func reasons(all ...plan.ReasonCount) func(*plan.Status) {
	return func(s *plan.Status) { s.Reasons = all }
}

func TestNodeWrightConditions(t *testing.T) {
	halt := &fleetv1.LedgerHalt{Batch: 2, Message: "node n1 failed, package a, stage apply, exit code 3"}
	for name, c := range map[string]struct {
		in      plan.Status
		kind    string
		want    metav1.ConditionStatus // empty: absent
		reason  string
		message string
	}{
		"complete": {planStatus(nwv1.StatusComplete, func(s *plan.Status) { s.Complete = 4 }), "Ready", metav1.ConditionTrue, "NodesConverged", "4/4 nodes complete"},
		"in progress": {planStatus(nwv1.StatusInProgress, reasons(plan.ReasonCount{Code: plan.Running, Count: 2, Nodes: []string{"n1", "n2"}})),
			"Ready", metav1.ConditionFalse, "Progressing", "1/4 nodes complete, 2 Running (n1, n2)"},
		"reconciling":         {planStatus(nwv1.StatusInProgress, nil), "Reconciling", metav1.ConditionTrue, "Progressing", "1/4 nodes complete"},
		"not reconciling":     {planStatus(nwv1.StatusComplete, nil), "Reconciling", "", "", ""},
		"paused":              {planStatus(nwv1.StatusPaused, nil), "Ready", metav1.ConditionFalse, "Paused", "1/4 nodes complete"},
		"a word without name": {planStatus("", nil), "Ready", metav1.ConditionFalse, "Unknown", "1/4 nodes complete"},
		"failed": {planStatus(nwv1.StatusErroring, func(s *plan.Status) {
			s.Failures = []plan.NodeFailure{{Node: "n1", Failure: noderecord.Failure{Package: "a", Stage: "apply", ExitCode: 3, Reason: "PackageFailed", Message: "no space"}}}
		}), "Ready", metav1.ConditionFalse, "Erroring", "1/4 nodes complete, node n1 failed, package a, stage apply, exit code 3: no space"},
		"unresolved": {planStatus(nwv1.StatusBlocked, func(s *plan.Status) { s.Problem = `DeploymentPolicy "x" does not exist` }),
			"Stalled", metav1.ConditionTrue, "UnresolvedReference", `DeploymentPolicy "x" does not exist`},
		"halted": {planStatus(nwv1.StatusErroring, func(s *plan.Status) {
			s.Halted, s.Compartments = []string{"gold"}, []plan.CompartmentStatus{{Name: "gold", Halt: halt}}
		}), "Stalled", metav1.ConditionTrue, "RolloutHalted", "compartment gold halted in batch 2: node n1 failed, package a, stage apply, exit code 3"},
		"protected": {planStatus(nwv1.StatusInProgress, func(s *plan.Status) {
			s.Protected = plan.Blockers{Count: 12, First: []plan.Blocker{{Node: "n1", Message: "the node waits for protected pods to finish: ml/a"}}}
		}), "Blocked", metav1.ConditionTrue, "NonInterruptPodsRunning",
			"node n1: the node waits for protected pods to finish: ml/a; and 11 more nodes"},
		"one cause of a blocked drain": {planStatus(nwv1.StatusInProgress, blockedBy(
			plan.Blocker{Node: "n1", Cause: plan.BlockedByBudget, Message: "budget"}, plan.Blocker{Node: "n2", Cause: plan.BlockedByBudget, Message: "budget too"})),
			"DrainBlocked", metav1.ConditionTrue, "PodDisruptionBudget", "node n1: budget; node n2: budget too"},
		"two causes of a blocked drain": {planStatus(nwv1.StatusInProgress, blockedBy(
			plan.Blocker{Node: "n1", Cause: plan.BlockedByBudget, Message: "budget"}, plan.Blocker{Node: "n1", Cause: plan.BlockedEmptyDir, Message: "emptyDir"})),
			"DrainBlocked", metav1.ConditionTrue, "MultipleCauses", "node n1: budget; node n1: emptyDir"},
		"a drain that is not blocked": {planStatus(nwv1.StatusPaused, nil), "DrainBlocked", "", "", ""},
		"nobody ignored":              {planStatus(nwv1.StatusComplete, nil), "NodesIgnored", metav1.ConditionFalse, "NodesIgnored", "no node"},
		"malformed": {planStatus(nwv1.StatusBlocked, reasons(plan.ReasonCount{Code: plan.RecordUnreadable, Count: 1, Nodes: []string{"n1"}, Message: "bad"})),
			"NodeStateMalformed", metav1.ConditionTrue, "ParseError", "1 nodes: n1: bad"},
	} {
		t.Run(name, func(t *testing.T) {
			got := apimeta.FindStatusCondition(NodeWrightStatus(c.in, nwv1.NodeWrightStatus{}, nil, noon).Conditions, c.kind)
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, []string{string(c.want), c.reason, c.message}, []string{string(got.Status), got.Reason, got.Message})
			require.Equal(t, int64(3), got.ObservedGeneration)
		})
	}
}

func TestNodeWrightStatusIsStable(t *testing.T) {
	in := planStatus(nwv1.StatusInProgress, nil)
	first := NodeWrightStatus(in, nwv1.NodeWrightStatus{}, nil, noon)
	require.Equal(t, first, NodeWrightStatus(in, first, nil, noon.Add(time.Hour)), "the same plan writes the same status, times included")
	require.Equal(t, "1/4", first.CompleteNodes)
	require.Equal(t, "a:1,b:2", first.PackageList)
	done := NodeWrightStatus(planStatus(nwv1.StatusComplete, nil), first, nil, noon.Add(time.Hour))
	require.Nil(t, apimeta.FindStatusCondition(done.Conditions, "Reconciling"), "what no longer holds is removed")
}

func TestNamesAreLimited(t *testing.T) {
	nodes := strings.Split("a b c d e f g h i j k l", " ")
	s := planStatus(nwv1.StatusWaiting, reasons(plan.ReasonCount{Code: plan.WaitingForBatch, Count: 400, Nodes: nodes}))
	require.Equal(t, "1/4 nodes complete, 400 WaitingForBatch (a, b, c, d, e, f, g, h, i, j, and 390 more)", Progress(s))
}

func TestStatusEvents(t *testing.T) {
	halted := planStatus(nwv1.StatusErroring, func(s *plan.Status) {
		s.Compartments = []plan.CompartmentStatus{{Name: "gold", Halt: &fleetv1.LedgerHalt{Batch: 2, Message: "node n1 failed"}}}
	})
	for name, c := range map[string]struct {
		old  nwv1.NodeWrightStatus
		in   plan.Status
		want []string
	}{
		"a round begins": {nwv1.NodeWrightStatus{Round: 1, Status: nwv1.StatusComplete}, planStatus(nwv1.StatusInProgress, nil),
			[]string{"RolloutStarted: round 2 begins on 4 nodes: packages a:1, b:2"}},
		"late joiners": {nwv1.NodeWrightStatus{Round: 1}, planStatus(nwv1.StatusInProgress, func(s *plan.Status) { s.LateJoiners = true }),
			[]string{"RolloutStarted: round 2 begins on 4 nodes: nodes that joined later"}},
		"it is complete": {nwv1.NodeWrightStatus{Round: 2, Status: nwv1.StatusInProgress}, planStatus(nwv1.StatusComplete, nil),
			[]string{"RolloutComplete: round 2 is complete on 4 nodes"}},
		"it was complete before": {nwv1.NodeWrightStatus{Round: 2, Status: nwv1.StatusComplete}, planStatus(nwv1.StatusComplete, nil), nil},
		"it halts":               {nwv1.NodeWrightStatus{Round: 2}, halted, []string{"RolloutHalted: compartment gold halted in batch 2: node n1 failed"}},
		"a compartment is renamed": {nwv1.NodeWrightStatus{Round: 2, CompartmentStatuses: map[string]nwv1.CompartmentStatus{
			"old": {BatchState: &nwv1.BatchState{CurrentBatch: 2}}, "idle": {BatchState: &nwv1.BatchState{}}, "gold": {},
		}}, planStatus(nwv1.StatusInProgress, func(s *plan.Status) { s.Compartments = []plan.CompartmentStatus{{Name: "gold"}} }),
			[]string{"CompartmentGone: compartment old left the policy in the middle of a round; its nodes go on in the compartments " +
				"that select them now, with those compartments' batches"}},
		"it was halted before": {NodeWrightStatus(halted, nwv1.NodeWrightStatus{}, nil, noon), halted, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range StatusEvents(c.old, c.in) {
				require.Equal(t, Object{"NodeWright", "tune", "uid"}, e.About)
				got = append(got, e.Reason+": "+e.Note)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestDecisionEvents(t *testing.T) {
	record := &noderecord.Record{Round: 2, Batch: 3, Compartment: "gold", Failure: &noderecord.Failure{Package: "a", Stage: "apply", ExitCode: 3, Reason: "PackageFailed"}}
	start := plan.ExecutionSpec{Stages: []nwv1.Stage{"apply", "config"}}
	start.Definition.Name, start.Definition.Version, start.Attempt = "a", "1.0", 2
	reboot := plan.ExecutionSpec{Interrupt: &noderecord.Interrupt{Type: "reboot", Packages: []string{"a", "b"}}}
	for name, c := range map[string]struct {
		d    plan.Decision
		want string
	}{
		"admit":     {plan.Decision{Action: plan.ActionAdmit, Record: record}, "Admitted: admitted to round 2, batch 3 of nodewright tune (compartment gold)"},
		"drain":     {plan.Decision{Action: plan.ActionDrain, Evict: []plan.Eviction{{Namespace: "ns", Name: "p"}}}, "Drain: asking 1 pods to leave for nodewright tune: ns/p"},
		"no drain":  {plan.Decision{Action: plan.ActionDrain}, ""},
		"run":       {plan.Decision{Action: plan.ActionRun, Start: []plan.ExecutionSpec{start}}, "Apply: nodewright tune runs a 1.0 (apply, config), attempt 2"},
		"interrupt": {plan.Decision{Action: plan.ActionInterrupt, Start: []plan.ExecutionSpec{reboot}}, "Interrupt: reboot for a, b of nodewright tune"},
		"fail":      {plan.Decision{Action: plan.ActionFail, Record: record}, "NodeFailed: node n1 failed, package a, stage apply, exit code 3: PackageFailed"},
		"release":   {plan.Decision{Action: plan.ActionRelease}, "Released: released by nodewright tune"},
		"record":    {plan.Decision{Action: plan.ActionRecord}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.d.NodeWright, c.d.NodeWrightUID, c.d.Node, c.d.NodeUID = "tune", "uid", "n1", "node-uid"
			e, found := DecisionEvent(c.d)
			require.Equal(t, c.want != "", found)
			if found {
				require.Equal(t, c.want, e.Reason+": "+e.Note)
				require.Equal(t, c.d.Action == plan.ActionFail, e.Warning)
				require.Equal(t, "v1", e.About.APIVersion())
				require.Equal(t, "nodewright.nvidia.com/v1alpha1", e.Related.APIVersion())
			}
		})
	}
}

func TestDriftEvents(t *testing.T) {
	drift := &noderecord.Drift{Stage: "apply", Message: "it is 1"}
	with := func(a, b *noderecord.Drift) *noderecord.Record {
		return &noderecord.Record{Packages: map[string]noderecord.Package{"a": {Drift: a}, "b": {Drift: b}}}
	}
	d := plan.Decision{NodeWright: "tune", Node: "n1", Before: with(nil, drift), Record: with(drift, nil)}
	var notes []string
	for _, e := range DriftEvents(d) {
		notes = append(notes, fmt.Sprintf("%t %s: %s", e.Warning, e.Reason, e.Note))
	}
	require.Equal(t, []string{
		"true HostDrifted: nodewright tune: the host does not match package a any more: its apply check failed: it is 1",
		"false HostMatches: nodewright tune: the host matches package b again",
	}, notes)
	d.Before = d.Record
	require.Empty(t, DriftEvents(d), "told once")
	d.Before = nil
	require.Empty(t, DriftEvents(d))
}

func TestReasonEvents(t *testing.T) {
	_, found := ReasonEvent(plan.Reason{Code: plan.WaitingForBatch}, Object{}, Object{})
	require.False(t, found, "the ordinary course is no event")
	e, found := ReasonEvent(plan.Reason{NodeWright: "tune", Code: plan.ProtectedPod, Message: "waits for pod a/b"}, Object{Kind: "Node"}, Object{})
	require.True(t, found)
	require.Equal(t, "nodewright tune: waits for pod a/b", e.Note)
	require.True(t, e.Warning)
}

func blockedBy(first ...plan.Blocker) func(*plan.Status) {
	return func(s *plan.Status) { s.Blockers = plan.Blockers{First: first, Count: int32(len(first))} }
}

func TestHandled(t *testing.T) {
	require.Nil(t, Handled(nil, fleetv1.LedgerRollout{}, nil))
	require.Equal(t, map[string]string{"retry": "a", "resume": "t1", "reset": "r", "rerun": "old"},
		Handled(map[string]string{"retry": "a", "rerun": "old"}, fleetv1.LedgerRollout{Resumed: "t1"}, []plan.RequestStatus{
			{Verb: "reset", Token: "r"}, {Verb: "rerun", Token: "new", Pending: 1}, {Verb: "retry", Token: "x y", Problem: "refused"},
		}))
}

func TestRedactSecrets(t *testing.T) {
	require.Equal(t, "token [redacted] and [redacted], not abc", RedactSecrets([]string{"hunter", "hunter2", "abc"}, "token hunter2 and hunter, not abc"))
}
