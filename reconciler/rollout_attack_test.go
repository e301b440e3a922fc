package reconciler

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// attempts counts what was tried on a node.
func (w *rolloutWorld) attempts(node string) (n int) {
	for _, line := range w.log {
		if len(line) > len(node) && line[len(line)-len(node):] == node {
			n++
		}
	}
	return n
}

// A node whose writes always fail is tried again after 1, 2, 4 … 30 seconds and not with every pass.
func TestFailingNodeRests(t *testing.T) {
	w, r := newRolloutWorld(t)
	w.fail = apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n1", nil)
	w.in.Nodes = w.in.Nodes[1:2]
	for range 2 {
		_, _ = r.Pass(context.Background())
	}
	require.Equal(t, 1, w.attempts("n1"))
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		w.now = w.now.Add(wait - time.Millisecond)
		next, err := r.Pass(context.Background())
		require.NoError(t, err)
		require.Equal(t, w.now.Add(time.Millisecond), next, "the loop wakes by itself")
		require.Equal(t, 1+i, w.attempts("n1"), "it still rests")
		w.now = next
		_, err = r.Pass(context.Background())
		require.Error(t, err)
		require.Equal(t, 2+i, w.attempts("n1"))
	}
	reasons := w.status["tune"].Status.Reasons
	require.Len(t, reasons, 1)
	require.Contains(t, reasons[0].Message, `; this could not be done: node n1: Node "n1" is invalid`, "people see why")
	w.fail = nil
	w.now = w.now.Add(restMost)
	for range 3 {
		_, err := r.Pass(context.Background())
		require.NoError(t, err)
	}
	require.NotContains(t, w.status["tune"].Status.Reasons[0].Message, "could not be done")
}

func TestRestingMemory(t *testing.T) {
	d := plan.Decision{NodeWright: "tune", NodeUID: "n"}
	for name, c := range map[string]struct {
		attempt attempt
		again   bool
		rest    time.Duration
		problem string
	}{
		"success":     {attempt: attempt{}},
		"one refusal": {attempt: attempt{err: apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("no"))}, rest: time.Second, problem: `nodes "n" is forbidden: no`},
		"a hanging call rests as long as it cost": {
			attempt: attempt{err: context.DeadlineExceeded, took: 30 * time.Second}, rest: 2 * time.Minute, problem: "the API server did not answer in time"},
		"an address is not repeated": {attempt: attempt{err: &net.OpError{Op: "dial", Err: errors.New("127.0.0.1:4711")}}, rest: time.Second, problem: "the API server could not be reached"},
		"a conflict is tried again":  {attempt: attempt{outcome: report.Outcome{Conflict: true, Detail: "changed"}}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			var m restingMemory
			c.attempt.at = noon
			require.Equal(t, c.again, m.note(d, c.attempt))
			require.Equal(t, c.rest > 0, m.rests(d, noon))
			require.False(t, m.rests(d, noon.Add(c.rest)))
			require.Equal(t, c.problem, m.problems()[keyOfDecision(d)])
		})
	}
	var m restingMemory
	conflict := attempt{at: noon, outcome: report.Outcome{Conflict: true, Detail: "refused by a webhook"}}
	for range patientConflicts - 1 {
		require.True(t, m.note(d, conflict))
	}
	require.False(t, m.note(d, conflict), "a conflict that never ends is a refusal")
	require.Equal(t, noon.Add(restLeast), m.next())
	require.False(t, m.rests(plan.Decision{NodeWright: "other", NodeUID: "n"}, noon), "another NodeWright's work goes on")
	m.keep(nil)
	require.Zero(t, m.next(), "what is not decided any more is forgotten")
}

// A list of pods that failed must bring another pass soon: nothing else would, and the node would wait for minutes.
func TestFailedListOfPodsBringsAnotherPass(t *testing.T) {
	w, r := newRolloutWorld(t)
	nw := &w.in.NodeWrights[0]
	object := &nwv1.NodeWright{Spec: nw.Spec}
	object.Name, object.UID = "tune", "nw"
	p := object.Spec.Packages["tuning"]
	p.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptReboot}
	object.Spec.Packages["tuning"] = p
	nw.Desired, _ = desired.Resolve(object, nil)
	w.in.Nodes = []plan.Node{{Name: "n0", UID: "n0", Ready: true, BootID: "b", Unschedulable: true, Records: map[string]noderecord.Record{}}}
	w.blind = errors.New("list pods of node n0: the server answered 500")
	var err error
	for range 4 {
		if _, e := r.Pass(context.Background()); e != nil {
			err = e
		}
	}
	require.EqualError(t, err, "list pods of node n0: the server answered 500")
}

// A node that waits for its pods is listed as often as a drain looks again, whatever wakes the loop; and before anything is
// started on it, its pods are listed in that very pass.
func TestWaitingNodesAreListedSeldom(t *testing.T) {
	w, r := newRolloutWorld(t)
	r.Settings.DrainRetry = 5 * time.Second
	object := &nwv1.NodeWright{Spec: w.in.NodeWrights[0].Spec}
	object.Name, object.UID = "tune", "nw"
	p := object.Spec.Packages["tuning"]
	p.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptReboot}
	object.Spec.Packages["tuning"] = p
	object.Spec.PodNonInterruptLabels.MatchLabels = map[string]string{"training": "yes"}
	w.in.NodeWrights[0].Spec = object.Spec
	w.in.NodeWrights[0].Desired, _ = desired.Resolve(object, nil)
	w.in.Nodes = []plan.Node{{Name: "n0", UID: "n0", Ready: true, BootID: "b", Unschedulable: true}}
	training := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "ml", UID: "p", Labels: map[string]string{"training": "yes"}}}
	training.Status.Phase = corev1.PodRunning
	w.pods = []*corev1.Pod{training}
	lists := func() (n int) {
		for _, line := range w.log {
			if line == "list pods of n0" {
				n++
			}
		}
		return n
	}
	for lists() == 0 {
		_, err := r.Pass(context.Background())
		require.NoError(t, err)
	}
	for range 20 {
		w.now = w.now.Add(200 * time.Millisecond)
		next, err := r.Pass(context.Background())
		require.NoError(t, err)
		require.Equal(t, noon.Add(5*time.Second), next, "it looks again in time")
	}
	require.Equal(t, 1, lists())
	require.NotContains(t, w.log, "Run n0")
	w.pods = nil // the training run ends
	w.now = noon.Add(5 * time.Second)
	_, err := r.Pass(context.Background())
	require.NoError(t, err)
	require.Equal(t, 2, lists())
	require.Contains(t, w.log, "Run n0")
}

// What is remembered is never acted by.
func TestActingNeedsANewList(t *testing.T) {
	start := []plan.ExecutionSpec{{}}
	decisions := []plan.Decision{{Node: "a", Start: start}, {Node: "b"}, {Node: "a", Start: start}, {Node: "c", Evict: []plan.Eviction{{}}}, {Node: "d", Start: start}}
	require.Equal(t, []string{"a", "c"}, actingOn(decisions, map[string]bool{"a": true, "b": true, "c": true}))
}

// An execution of a node that is gone must not begin on another node of that name.
func TestExecutionsOfGoneNodesAreStranded(t *testing.T) {
	w, r := newRolloutWorld(t)
	w.in.Nodes = nil
	key := plan.ExecutionKey{NodeWright: "tune", NodeWrightUID: "nw", NodeUID: "gone", Round: 1, Package: "tuning", Phase: plan.PhaseInstall, Attempt: 1}
	w.in.Orphans = []plan.Execution{
		{ExecutionKey: key, Name: "pending", State: plan.ExecutionPending}, {ExecutionKey: key, Name: "ended", State: plan.ExecutionFailed},
		{ExecutionKey: key, Name: "done", State: plan.ExecutionPending, Suspended: true},
	}
	_, err := r.Pass(context.Background())
	require.NoError(t, err)
	require.Contains(t, w.log, "strand [pending]")
	settledLedger := fleetv1.LedgerSpec{}
	require.Equal(t, []string{"ended", "done"}, (&Rollout{}).retention().disposable(plan.Input{Now: noon, Orphans: w.in.Orphans}, settledLedger),
		"once nothing can be judged by it, a stranded Job goes too")
}

// A Job whose end is not on the record yet stays, however long ago it ended: without it the stage would be run again.
func TestJobThatIsNotRecordedStays(t *testing.T) {
	key := plan.ExecutionKey{NodeWright: "tune", NodeWrightUID: "nw", NodeUID: "n", Round: 1, Package: "tuning", Phase: plan.PhaseInstall, Attempt: 1}
	node := plan.Node{Name: "n", UID: "n", Records: map[string]noderecord.Record{"tune": {
		Round: 1, Packages: map[string]noderecord.Package{"tuning": {Running: string(plan.PhaseInstall)}},
	}}, Executions: []plan.Execution{{ExecutionKey: key, Name: "job", State: plan.ExecutionSucceeded, Finished: noon.Add(-48 * time.Hour)}}}
	in := plan.Input{Now: noon, Nodes: []plan.Node{node}}
	require.Empty(t, (&Rollout{}).retention().disposable(in, fleetv1.LedgerSpec{}))
	node.Records["tune"].Packages["tuning"] = noderecord.Package{}
	require.Equal(t, []string{"job"}, (&Rollout{}).retention().disposable(in, fleetv1.LedgerSpec{}))
}

func TestUsedSnapshots(t *testing.T) {
	in := plan.Input{
		Nodes:       []plan.Node{{Records: map[string]noderecord.Record{"tune": {Packages: map[string]noderecord.Package{"p": {Snapshot: "old"}}}}}},
		NodeWrights: []plan.NodeWright{{Desired: desired.Set{Packages: []desired.Package{{SnapshotHash: "new"}}}}},
	}
	used, known := usedSnapshots(in)
	require.True(t, known)
	require.Equal(t, map[string]bool{"old": true, "new": true}, used)
	in.Nodes[0].Malformed = map[string]string{"x": "cut"}
	_, known = usedSnapshots(in)
	require.False(t, known, "a record that cannot be read may name any")
}
