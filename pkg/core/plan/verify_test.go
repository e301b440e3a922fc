package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

func verified(every time.Duration, onDrift nwv1.DriftPolicy) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) {
		budgetOnly(1)(nw)
		nw.Spec.VerifyInterval, nw.Spec.OnDrift = &metav1.Duration{Duration: every}, onDrift
	}
}

// rest passes and works until nothing is to be done now: settle would wait for the next check, and the next.
func (w *world) rest() {
	w.t.Helper()
	for range 500 {
		out := w.pass()
		busy := w.busy()
		w.work()
		if len(out.Decisions) == 0 && out.Ledger == nil && !busy {
			return
		}
	}
	w.t.Fatalf("the rollout did not come to rest; log ends with %v", w.log[max(0, len(w.log)-20):])
}

// later lets time pass and everything that is due happen.
func (w *world) later(d time.Duration) {
	w.in.Now = w.in.Now.Add(d)
	w.rest()
}

func TestHostsAreVerified(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), reboot(pkg("kernel", "1.0.0")), pkg("tools", "1.0.0"))
	w.rest()
	w.ranSince()
	next := w.last.Next
	w.later(30 * time.Minute)
	require.Empty(t, w.ranSince(), "not due yet")
	require.False(t, next.IsZero(), "the loop wakes up for it")

	w.log = nil
	w.later(31 * time.Minute)
	checks := []string{"kernel verify [apply config post-interrupt]", "tools verify [apply config]"}
	require.Equal(t, map[string][]string{"n01": checks, "n02": checks}, w.ranSince())
	require.False(t, contains(w.log, "Uncordon tune/n01"), "%v", w.log)
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.Empty(t, w.status("tune").Reasons)
	require.EqualValues(t, 1, w.status("tune").Round, "no round begins for it")
	w.later(30 * time.Minute)
	require.Empty(t, w.ranSince())
	w.later(31 * time.Minute)
	require.Len(t, w.ranSince(), 2, "again and again")
}

func TestDriftIsReported(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), pkg("kernel", "1.0.0"), pkg("tools", "1.0.0"))
	w.rest()
	w.drift = map[string]string{"n02": "tools"}
	w.later(2 * time.Hour)
	since := w.in.Now
	s := w.status("tune")
	require.Equal(t, nwv1.StatusComplete, s.Status, "what was rolled out is rolled out")
	require.EqualValues(t, 2, s.Complete)
	require.Equal(t, []plan.ReasonCount{{
		Code: plan.Drifted, Count: 1, Nodes: []string{"n02"},
		Message: "the host does not match package tools any more: its apply check failed",
	}}, s.Reasons)
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	require.WithinDuration(t, since, w.reason("tune", "n02").Since, time.Minute)
	w.ranSince()
	w.later(2 * time.Hour)
	require.WithinDuration(t, since, w.reason("tune", "n02").Since, time.Minute, "since it was seen first")
	require.NotContains(t, fmt.Sprint(w.ranSince()), "tools apply", "only reported")

	w.drift = nil
	w.later(2 * time.Hour)
	require.Empty(t, w.status("tune").Reasons, "a check that finds it mended says so")
	w.drift = map[string]string{"n02": "tools"}
	w.later(2 * time.Hour)
	w.nodeWright("tune", nil, pkg("kernel", "1.0.0"), pkg("tools", "1.1.0"))
	w.rest()
	require.Empty(t, w.status("tune").Reasons, "another version is another state")
}

func TestDriftIsReapplied(t *testing.T) {
	w := newWorld(t, 3)
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReapply), service(pkg("kernel", "1.0.0"), "x"), pkg("tools", "1.0.0"))
	w.rest()
	w.drift = map[string]string{"n01": "kernel", "n02": "kernel"}
	w.ranSince()
	w.in.Now = w.in.Now.Add(2 * time.Hour)
	for range 4 {
		w.pass()
		w.work()
	}
	w.drift = nil
	w.rest()
	ran := w.ranSince()
	again := []string{
		"kernel verify [apply config post-interrupt]", "tools verify [apply config]",
		"kernel apply (fresh)", "kernel config", "interrupt service x", "kernel post-interrupt",
	}
	require.Equal(t, map[string][]string{"n01": again, "n02": again, "n03": again[:2]}, ran)
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.EqualValues(t, 2, w.status("tune").Round, "within batches and budget of a round")
	require.Empty(t, w.status("tune").Reasons)
	require.Empty(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Drift)
}

// What the checks cannot say is not drift: a lost pod, a node that is away, a Job that nobody finds, one that nobody starts.
func TestChecksThatSayNothing(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world, *plan.Execution)
		again   bool
	}{
		"the pod is lost": {happens: func(w *world, e *plan.Execution) {
			e.State, e.Disrupted, e.Finished = plan.ExecutionFailed, true, w.in.Now
		}},
		"the Job is gone": {again: true, happens: func(w *world, e *plan.Execution) { delete(w.jobs, e.Name) }},
		"the Job is gone and the node away": {happens: func(w *world, e *plan.Execution) {
			delete(w.jobs, e.Name)
			w.nodes["n01"].Ready = false
		}},
		"nobody starts it": {happens: func(w *world, e *plan.Execution) {
			e.Trouble, e.TroubleSince = plan.ImagePull, w.in.Now
			w.pass()
			require.Empty(w.t, w.last.Decisions)
			w.in.Now = w.in.Now.Add(2 * time.Minute)
		}},
		"it does not end": {happens: func(w *world, e *plan.Execution) {
			w.frozen = func(x plan.Execution) bool { return x.Name == e.Name }
			w.in.Now = w.in.Now.Add(62 * time.Minute)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.drift = map[string]string{"n01": "kernel"}
			w.nodeWright("tune", verified(4*time.Hour, nwv1.DriftReapply), pkg("kernel", "1.0.0"))
			w.rest()
			w.ranSince()
			w.in.Now = w.in.Now.Add(4 * time.Hour)
			w.pass()
			for _, e := range w.jobs {
				if e.Phase == plan.PhaseVerify {
					c.happens(w, e)
				}
			}
			w.pass()
			if c.again {
				w.drift = nil
				w.rest()
				require.Equal(t, map[string][]string{"n01": {"kernel verify [apply config]"}}, w.ranSince())
			}
			w.pass()
			rec := w.nodes["n01"].Records["tune"].Packages["kernel"]
			require.Empty(t, rec.Running)
			require.Nil(t, rec.Drift)
			require.EqualValues(t, 1, w.status("tune").Complete)
		})
	}
}

// Nothing is verified while it would be in the way, and few nodes at once.
func TestVerificationStandsBack(t *testing.T) {
	w := newWorld(t, 30)
	w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), pkg("kernel", "1.0.0"))
	w.edit("tune", func(nw *plan.NodeWright) { budgetOnly(30)(nw) })
	w.rest()
	w.in.Now = w.in.Now.Add(2 * time.Hour)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true })
	w.pass()
	require.Empty(t, w.last.Decisions, "paused")
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = false })
	w.nodes["n01"].Ready = false
	w.pass()
	var nodes []string
	for _, d := range w.last.Decisions {
		require.Equal(t, plan.ActionVerify, d.Action)
		nodes = append(nodes, d.Node)
	}
	require.Len(t, nodes, 10)
	require.NotContains(t, nodes, "n01")
	w.pass()
	require.Empty(t, w.last.Decisions, "the others when these are done")

	w.nodeWright("reboots", budgetOnly(30), reboot(pkg("firmware", "1.0.0")))
	for range 6 { // the world itself refuses an interrupt beside other work
		w.pass()
		w.work()
	}
	w.rest()
	require.EqualValues(t, 29, w.status("reboots").Complete)
}

func TestNoIntervalNoVerification(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", verified(0, nwv1.DriftReapply), pkg("kernel", "1.0.0"))
	w.rest()
	w.ranSince()
	w.later(1000 * time.Hour)
	require.Empty(t, w.ranSince())
	w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.VerifyInterval = &metav1.Duration{Duration: time.Millisecond} })
	w.rest()
	require.Len(t, w.ranSince()["n01"], 1, "a minute at least")
}
