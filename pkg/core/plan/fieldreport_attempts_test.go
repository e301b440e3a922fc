package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// nextAttempt lets the wait pass and has the next attempt begin its stage.
func (w *world) nextAttempt() {
	w.in.Now = w.in.Now.Add(20 * time.Minute)
	w.pass()
	w.pass()
	w.work()
	w.pass()
}

// fail ends what runs with an exit code and a last line.
func (w *world) fail(code int32, line string) {
	for _, j := range w.jobs {
		if !j.Ended() {
			j.State, j.ExitCode, j.Message, j.Finished = plan.ExecutionFailed, code, line, w.in.Now
		}
	}
	w.pass()
}

// Attempts that the kubelet refused spend nothing: they are tried again, later each time, and the reason says so.
func TestFieldReport_PF03_RefusedAttemptsDoNotCount(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.pass()
	var waits []time.Duration
	for i, refusal := range []string{"OutOfcpu: no room", "NodeAffinity: no match", "UnexpectedAdmissionError: gpu"} {
		w.nextAttempt()
		w.endWith(plan.PodRefused, refusal)
		at := w.in.Now
		waits = append(waits, w.pass().Next.Sub(at))
		r := w.reason("tune", "n01")
		require.Equal(t, plan.PodRefused, r.Code)
		require.Contains(t, r.Message, fmt.Sprintf("%s (%d of 10 in a row)", refusal, i+1))
		require.Zero(t, w.nodes["n01"].Records["tune"].Packages["tuning"].Failures)
		require.Nil(t, w.nodes["n01"].Records["tune"].Failure)
	}
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second}, waits)
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	require.Zero(t, w.nodes["n01"].Records["tune"].Packages["tuning"].Failures)
	require.Nil(t, w.nodes["n01"].Records["tune"].Packages["tuning"].Setback)
	require.Len(t, w.jobs, 4)
}

// Refusals end, too: what is tried for ever is a failure that says how often it was tried.
func TestFieldReport_PF03_RefusalsDoNotLoopForEver(t *testing.T) {
	for _, cause := range []plan.Code{plan.PodRefused, plan.Disrupted} {
		w := newWorld(t, 2)
		w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1), safetyLimit(100))), pkg("tuning", "1.0.0"))
		w.pass()
		for range 10 {
			w.nextAttempt()
			w.endWith(cause, "no room")
			w.pass()
		}
		w.pass()
		require.Equal(t, cause, w.reason("tune", "n01").Code)
		require.EqualValues(t, 1, w.status("tune").Failed)
		require.Contains(t, w.status("tune").Compartments[0].Halt.Message, "10 attempts in a row: no room")
		jobs := len(w.jobs)
		w.settle()
		require.Len(t, w.jobs, jobs, "nothing is tried any more")
		w.edit("tune", func(nw *plan.NodeWright) { nw.Retry, nw.Resume = "1", "1" })
		w.settle()
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	}
}

// A disruption between failures neither counts nor resets what did.
func TestFieldReport_PF03_DisruptionsBetweenFailures(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.pass()
	for range 2 {
		w.nextAttempt()
		w.fail(3, "boom")
		w.nextAttempt()
		w.endWith(plan.Disrupted, "Evicted")
		w.pass()
	}
	require.EqualValues(t, 2, w.nodes["n01"].Records["tune"].Packages["tuning"].Failures)
	w.nextAttempt()
	w.fail(3, "boom")
	w.pass()
	require.Equal(t, plan.PackageFailed, w.reason("tune", "n01").Code)
	require.Len(t, w.jobs, 5)
}

// The first failure is kept beside the newest, from one attempt to the next, and both are in the status; since when does not
// move with the retries.
func TestFieldReport_ST09_FirstAndLastFailure(t *testing.T) {
	w := newWorld(t, 1)
	w.in.Settings.Attempts = 6
	plain(w)
	w.pass()
	w.nextAttempt()
	w.fail(1, "E1")
	for range 5 {
		w.nextAttempt()
		w.fail(2, strings.Repeat("E2", 300))
		rec := w.nodes["n01"].Records["tune"]
		require.Equal(t, "E1", rec.FirstFailure.Message)
		require.Len(t, []rune(rec.Failure.Message), 256)
	}
	w.pass()
	failures := w.status("tune").Failures
	require.Len(t, failures, 1)
	require.EqualValues(t, 2, failures[0].ExitCode)
	require.EqualValues(t, 1, failures[0].First.ExitCode)
	require.Equal(t, "E1", failures[0].First.Message)
	since := w.reason("tune", "n01").Since
	w.in.Now = w.in.Now.Add(time.Hour)
	w.pass()
	require.Equal(t, since, w.reason("tune", "n01").Since)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "1" })
	w.settle()
	require.Nil(t, w.nodes["n01"].Records["tune"].Failure)
	require.Nil(t, w.nodes["n01"].Records["tune"].FirstFailure)
}

// A package that comes good takes its own failures with it, and leaves those of the others.
func TestFieldReport_ST09_AnotherPackagesFailureStays(t *testing.T) {
	w := newWorld(t, 1)
	failures := map[string]int{"aa": 1, "bb": 9}
	w.fails = func(_, pkg string, _ nwv1.Stage) int32 {
		if failures[pkg]--; failures[pkg] >= 0 {
			return int32(len(pkg))
		}
		return 0
	}
	w.nodeWright("tune", budgetOnly(1), pkg("aa", "1.0.0"), pkg("bb", "1.0.0"))
	w.settle()
	require.Equal(t, "bb", w.nodes["n01"].Records["tune"].Failure.Package)
	require.Nil(t, w.nodes["n01"].Records["tune"].FirstFailure, "aa came good")
}

// A failed execution that is cleaned up, by hand or by age, is not run again; `retry` asks for one new series of attempts.
func TestFieldReport_PF11_CleanUpRunsNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = failing("n01")
	plain(w)
	w.settle()
	require.Len(t, w.jobs, 3, "three attempts")
	clear(w.jobs)
	w.settle()
	w.in.Now = w.in.Now.Add(100 * time.Hour)
	w.settle()
	require.Empty(t, w.jobs)
	require.Equal(t, plan.PackageFailed, w.reason("tune", "n01").Code)
	require.Equal(t, "package tuning, stage apply, exit code 3: boom", w.reason("tune", "n01").Message)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "now" })
	w.settle()
	require.Len(t, w.jobs, 3, "one series")
	clear(w.jobs)
	w.settle()
	require.Empty(t, w.jobs, "the same token asks once")
}

// A deleted execution whose end was not seen is made again, once.
func TestFieldReport_PF05_DeletedExecutionIsMadeAgain(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.passAndWork(2)
	require.Len(t, w.jobs, 1)
	for name, j := range w.jobs {
		require.Equal(t, plan.ExecutionRunning, j.State)
		delete(w.jobs, name)
	}
	w.pass()
	w.pass()
	require.Len(t, w.jobs, 1)
	w.settle()
	require.Len(t, w.jobs, 1)
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// Success is what the check says: a stage whose check fails is not done, and what was done before it is not done again.
func TestFieldReport_PF07_CompleteOnlyByItsCheck(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.pass()
	w.nextAttempt()
	for _, j := range w.jobs {
		j.State, j.Stage, j.Done, j.ExitCode, j.Finished = plan.ExecutionFailed, nwv1.StageConfig, []nwv1.Stage{nwv1.StageApply}, 1, w.in.Now
	}
	w.pass()
	pkg := w.nodes["n01"].Records["tune"].Packages["tuning"]
	require.Equal(t, nwv1.StageConfig, pkg.Stage)
	require.Equal(t, nwv1.StateErroring, pkg.State)
	require.NotEqual(t, nwv1.StatusComplete, w.status("tune").Status)
	w.nextAttempt()
	for name, j := range w.jobs {
		if !j.Ended() {
			require.Equal(t, []nwv1.Stage{nwv1.StageConfig}, w.specs[name].Stages, "apply is done")
		}
	}
}

// However events of Jobs, statuses and restarts interleave, an execution that was started is left alone until it ends.
func TestFieldReport_AC09_AsManyExecutionsAsPhases(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 9))
		w := newWorld(t, 3)
		w.lost = func(plan.Decision) bool { return rng.IntN(4) == 0 }
		w.frozen = func(plan.Execution) bool { return rng.IntN(3) == 0 }
		w.nodeWright("tune", budgetOnly(2), reboot(pkg("aa", "1.0.0")), depends(pkg("bb", "1.0.0"), "aa"))
		for range 200 {
			for range rng.IntN(3) {
				w.pass()
			}
			w.work()
		}
		w.lost, w.frozen = nil, nil
		w.settle()
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status, "seed %d", seed)
		// aa: install, interrupt, post-interrupt; bb: install.
		require.Len(t, w.jobs, 3*4, "seed %d", seed)
	}
}

// The last stage of a phase succeeded, and directly after that the pod failed, by its deadline or with its machine: the phase is
// done, and its stages do not run again in the round.
func TestFieldReport_D10_APodThatFailsAfterItsLastStageHasDoneItsWork(t *testing.T) {
	for name, end := range map[string]func(*plan.Execution){
		"deadline": func(e *plan.Execution) { e.TimedOut = true },
		"machine":  func(e *plan.Execution) { e.Disrupted, e.Cause = true, plan.Disrupted },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			plain(w)
			for range 20 {
				w.pass()
				w.work()
				for _, j := range w.jobs {
					if j.State == plan.ExecutionSucceeded {
						j.State = plan.ExecutionFailed
						end(j)
					}
				}
			}
			require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
			require.Len(t, w.jobs, 1)
			require.Zero(t, w.nodes["n01"].Records["tune"].Packages["tuning"].Failures)
		})
	}
}
