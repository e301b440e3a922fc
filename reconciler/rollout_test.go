package reconciler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rolloutWorld is a cluster of three nodes in memory, whose writes are listed in order.
type rolloutWorld struct {
	finalized   []plan.FinalizerChange
	finalizeErr error
	mu          sync.Mutex
	log         []string
	in          plan.Input
	ledger      fleetv1.LedgerSpec
	version     int
	refuse      bool  // the next swap
	fail        error // of Do, for node n1
	blind       error // of Pods
	pods        []*corev1.Pod
	// protected pods by node.
	protected map[string]string
	now       time.Time
	status    map[string]*nwv1.NodeWright
	events    []report.RolloutEvent
}

func (w *rolloutWorld) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *rolloutWorld) Observe(_ context.Context, now time.Time) (plan.Input, error) {
	in := w.in
	in.Now = now
	in.Nodes = append([]plan.Node(nil), w.in.Nodes...)
	return in, nil
}

func (w *rolloutWorld) Pods(_ context.Context, node string) ([]*corev1.Pod, error) {
	w.note("list pods of %s", node)
	return w.pods, w.blind
}

func (w *rolloutWorld) Occupancies(_ context.Context, queries []plan.OccupancyQuery) (map[string]plan.Occupancy, error) {
	w.note("look for protected pods")
	out := map[string]plan.Occupancy{}
	for _, q := range queries {
		out[q.NodeWright] = plan.Occupancy{Protected: maps.Clone(w.protected)}
	}
	return out, w.blind
}

func (w *rolloutWorld) Fresh(context.Context) error { w.note("fresh view"); return nil }

func (w *rolloutWorld) Do(_ context.Context, d plan.Decision) (report.Outcome, error) {
	w.note("%s %s", d.Action, d.Node)
	if d.Node == "n1" && w.fail != nil {
		return report.Outcome{}, w.fail
	}
	if d.Record != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.in.Nodes {
			if w.in.Nodes[i].Name == d.Node {
				w.in.Nodes[i].Records = map[string]noderecord.Record{d.NodeWright: *d.Record}
			}
		}
	}
	return report.Outcome{Written: true}, nil
}

func (w *rolloutWorld) Discard(_ context.Context, jobs []string) error {
	w.note("discard %v", jobs)
	return nil
}

func (w *rolloutWorld) Strand(_ context.Context, jobs []string) error {
	w.note("strand %v", jobs)
	return nil
}

func (w *rolloutWorld) Get(context.Context) (fleetv1.LedgerSpec, string, error) {
	return w.ledger, fmt.Sprint(w.version), nil
}

func (w *rolloutWorld) Put(_ context.Context, spec fleetv1.LedgerSpec, version string) (string, bool, error) {
	if w.refuse || version != fmt.Sprint(w.version) {
		w.note("ledger refused")
		w.refuse = false
		return "", false, nil
	}
	w.note("ledger written")
	w.version++
	w.ledger = spec
	return fmt.Sprint(w.version), true, nil
}

func (w *rolloutWorld) List(context.Context) (map[string]*nwv1.NodeWright, error) {
	return w.status, nil
}

func (w *rolloutWorld) Finalize(_ context.Context, change plan.FinalizerChange) (bool, error) {
	w.finalized = append(w.finalized, change)
	return false, w.finalizeErr
}

func (w *rolloutWorld) Write(_ context.Context, old *nwv1.NodeWright, status nwv1.NodeWrightStatus) error {
	w.note("status %s", status.Status)
	next := old.DeepCopy()
	next.Status = status
	w.status[old.Name] = next
	return nil
}

func (w *rolloutWorld) Emit(e report.RolloutEvent) { w.events = append(w.events, e) }

func newRolloutWorld(t *testing.T) (*rolloutWorld, *Rollout) {
	t.Helper()
	object := &nwv1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: "tune", UID: "nw", Generation: 1},
		Spec:       nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{"tuning": {Version: "1.0.0", Image: "x"}}},
	}
	set, problems := desired.Resolve(object, nil)
	require.Empty(t, problems)
	w := &rolloutWorld{status: map[string]*nwv1.NodeWright{"tune": object}, version: 1, now: noon}
	w.in.NodeWrights = []plan.NodeWright{{Name: "tune", UID: "nw", Generation: 1, Spec: object.Spec, Desired: set}}
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		w.in.Nodes = append(w.in.Nodes, plan.Node{Name: name, UID: types.UID(name), Ready: true, BootID: "b", PodsListed: true})
	}
	r := &Rollout{
		Observer: w, Actor: w, Ledger: w, Statuses: w, Events: w, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Now: func() time.Time { return w.now }, Parallel: 1,
	}
	require.NoError(t, r.lead(context.Background()))
	require.Equal(t, []string{"ledger written", "fresh view"}, w.log, "first the epoch, then the view")
	w.log = nil
	return w, r
}

func TestPassWritesTheLedgerBeforeItActs(t *testing.T) {
	w, r := newRolloutWorld(t)
	for len(w.log) == 0 || w.log[len(w.log)-1] != "Admit n2" {
		w.log = nil
		_, err := r.Pass(context.Background())
		require.NoError(t, err)
		for len(w.log) > 0 && w.log[len(w.log)-1] == "status in_progress" {
			w.log = w.log[:len(w.log)-1]
		}
	}
	require.Equal(t, "Admit n0", w.log[len(w.log)-3])
	require.Len(t, w.ledger.Rollouts["tune"].Intents, 3)
}

func TestPassDoesNothingWhenTheLedgerIsRefused(t *testing.T) {
	w, r := newRolloutWorld(t)
	w.refuse = true
	next, err := r.Pass(context.Background())
	require.NoError(t, err)
	require.Equal(t, noon, next, "it begins anew at once")
	require.Equal(t, []string{"ledger refused"}, w.log, "nothing of the plan is done or told")
}

func TestAnotherLeaderEndsTheLoop(t *testing.T) {
	w, r := newRolloutWorld(t)
	w.ledger.Epoch++ // another leader came
	w.version++
	_, err := r.Pass(context.Background())
	require.NoError(t, err)
	_, err = r.Pass(context.Background())
	require.ErrorIs(t, err, ErrDeposed)
	require.Equal(t, []string{"ledger refused"}, w.log)
	require.ErrorIs(t, func() error { r.memory.version = ""; return r.readLedger(context.Background()) }(), ErrDeposed)
}

func TestOneFailingNodeKeepsNoOtherFromGoingOn(t *testing.T) {
	w, r := newRolloutWorld(t)
	w.fail = errors.New("the server answered 500")
	var last error
	for range 4 {
		if _, err := r.Pass(context.Background()); err != nil {
			last = err
		}
	}
	require.EqualError(t, last, "Admit node n1 for nodewright tune: the server answered 500")
	require.Contains(t, w.log, "Run n0")
	require.Contains(t, w.log, "Run n2")
	require.NotContains(t, w.log, "Run n1")
	require.Equal(t, nwv1.StatusInProgress, w.status["tune"].Status.Status, "it is reported all the same")
}

// What has to be uninstalled one day is not installed before the object is held by its finalizer.
func TestNothingIsDoneBeforeTheFinalizerIsWritten(t *testing.T) {
	w, r := newRolloutWorld(t)
	object := w.status["tune"].DeepCopy()
	p := object.Spec.Packages["tuning"]
	p.Uninstall = &nwv1.Uninstall{Enabled: true}
	object.Spec.Packages["tuning"] = p
	w.in.NodeWrights[0].Desired, _ = desired.Resolve(object, nil)
	w.finalizeErr = errors.New("the server answered 500")
	_, err := r.Pass(context.Background())
	require.ErrorContains(t, err, "the server answered 500")
	require.NotContains(t, w.log, "Admit n0")
	w.finalizeErr = nil
	for range 3 {
		_, err = r.Pass(context.Background())
		require.NoError(t, err)
	}
	require.Contains(t, w.log, "Admit n0")
	require.Equal(t, plan.FinalizerChange{NodeWright: "tune", UID: "nw", Wanted: true}, w.finalized[0])
}

func TestStatusesAreWrittenOnlyWhenTheyChange(t *testing.T) {
	w, r := newRolloutWorld(t)
	w.fail = errors.New("no")
	w.in.Nodes = w.in.Nodes[1:2]
	for range 2 { // admitted, then waiting for the node to take its record
		_, _ = r.Pass(context.Background())
	}
	w.log = nil
	for range 5 {
		_, _ = r.Pass(context.Background())
	}
	require.NotContains(t, w.log, "status in_progress")
	require.Empty(t, w.log, "the node rests")
	require.Len(t, w.events, 1, "one event for one transition")
	require.Equal(t, report.EventRolloutStarted, w.events[0].Reason)
}

func TestStandbyActsOnNothing(t *testing.T) {
	w, r := newRolloutWorld(t)
	r.Standby = func(context.Context) (string, error) { return "NVIDIA's operator is active", nil }
	_, err := r.Pass(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{"status blocked"}, w.log)
}

// A cluster at rest is not asked whether another owner is active; whoever would do something asks before.
func TestAnotherOwnerIsLookedForBeforeAnythingIsDone(t *testing.T) {
	w, r := newRolloutWorld(t)
	asked, answer := 0, ""
	r.Standby = func(context.Context) (string, error) { asked++; return answer, nil }
	packages := w.in.NodeWrights[0].Desired
	w.in.NodeWrights[0].Desired = desired.Set{}
	for range 3 {
		_, err := r.Pass(t.Context())
		require.NoError(t, err)
	}
	before := asked
	for range 3 { // nothing is wanted, nothing is to be done
		_, err := r.Pass(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, before, asked)
	answer, w.log = "NVIDIA's operator is active", nil
	w.in.NodeWrights[0].Desired = packages
	_, err := r.Pass(t.Context())
	require.NoError(t, err)
	require.Greater(t, asked, before)
	require.Equal(t, []string{"status blocked"}, w.log, "it would have begun a rollout")
	answer = ""
	_, err = r.Pass(t.Context())
	require.NoError(t, err)
	require.Contains(t, w.log, "ledger written", "it goes on when the other one is gone")
}

func TestDisposable(t *testing.T) {
	ledger := fleetv1.LedgerSpec{Rollouts: map[string]fleetv1.LedgerRollout{"tune": {
		UID: "nw", Round: 2, Compartments: map[string]fleetv1.LedgerCompartment{"default": {Batch: 3}},
	}}}
	execution := func(change func(*plan.Execution)) plan.Execution {
		e := plan.Execution{
			ExecutionKey: plan.ExecutionKey{NodeWright: "tune", NodeWrightUID: "nw", Round: 2}, Name: "job", Compartment: "default", Batch: 2,
			State: plan.ExecutionSucceeded, Finished: noon.Add(-2 * time.Hour),
		}
		change(&e)
		return e
	}
	for name, c := range map[string]struct {
		change func(*plan.Execution)
		want   bool
	}{
		"settled batch":      {func(*plan.Execution) {}, true},
		"open batch":         {func(e *plan.Execution) { e.Batch = 3 }, false},
		"earlier round":      {func(e *plan.Execution) { e.Round, e.Batch = 1, 9 }, true},
		"just finished":      {func(e *plan.Execution) { e.Finished = noon.Add(-time.Minute) }, false},
		"failed: a day":      {func(e *plan.Execution) { e.State = plan.ExecutionFailed }, false},
		"unfinished":         {func(e *plan.Execution) { e.State = plan.ExecutionRunning }, false},
		"nodewright is gone": {func(e *plan.Execution) { e.NodeWright = "gone" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Rollout{}).retention().disposable(plan.Input{Now: noon, Orphans: []plan.Execution{execution(c.change)}}, ledger)
			require.Equal(t, c.want, len(got) == 1)
		})
	}
}
