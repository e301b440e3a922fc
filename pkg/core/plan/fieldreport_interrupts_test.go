package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// rebootUnderWay brings n01 to the moment at which its reboot was asked for, and the machine still runs.
func rebootUnderWay(t *testing.T, nodes int) *world {
	w := newWorld(t, nodes)
	w.ceiling = 1
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.until(plan.ActionInterrupt)
	w.frozen = func(e plan.Execution) bool { return e.Phase == plan.PhaseInterrupt }
	w.pass()
	w.interrupt().State = plan.ExecutionRunning
	return w
}

// interrupt is the execution of the newest interrupt on n01, nil if there is none.
func (w *world) interrupt() *plan.Execution {
	var out *plan.Execution
	for _, name := range sortedKeys(w.jobs) {
		if j := w.jobs[name]; j.Phase == plan.PhaseInterrupt && j.Node == "n01" && (out == nil || j.Attempt > out.Attempt) {
			out = j
		}
	}
	return out
}

func (w *world) interrupts() (n int) {
	for _, j := range w.jobs {
		if j.Phase == plan.PhaseInterrupt && j.Node == "n01" {
			n++
		}
	}
	return n
}

// A reboot's container that ends with 143 is no failure: the changed boot ID is the proof, and everything follows from it.
func TestFieldReport_RB01_TheContainerOfARebootIsKilled(t *testing.T) {
	w := rebootUnderWay(t, 2)
	e := w.interrupt()
	e.State, e.ExitCode, e.Finished = plan.ExecutionFailed, 143, w.in.Now
	w.pass()
	require.Zero(t, w.status("tune").Failed, "not yet known")
	w.nodes["n01"].BootID = "boot-2"
	w.frozen = nil
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.Empty(t, w.nodes["n01"].CordonOwners)
	require.Contains(t, w.ran["n01"], "tuning post-interrupt")
	require.Equal(t, 1, w.interrupts())
	require.EqualValues(t, 2, w.status("tune").Compartments[0].Complete)
}

// However the execution of a reboot ends, the boot ID decides, or the deadline.
func TestFieldReport_RB03_EndingsOfAReboot(t *testing.T) {
	endings := map[string]func(w *world, e *plan.Execution){
		"exit 0": func(_ *world, e *plan.Execution) { e.State = plan.ExecutionSucceeded },
		"exit 143": func(_ *world, e *plan.Execution) {
			e.State, e.ExitCode = plan.ExecutionFailed, 143
		},
		"lost pod": func(_ *world, e *plan.Execution) {
			e.State, e.Disrupted, e.Cause = plan.ExecutionFailed, true, plan.Disrupted
		},
		"node unreachable": func(w *world, _ *plan.Execution) { w.nodes["n01"].Ready = false },
	}
	for name, end := range endings {
		t.Run(name+", then rebooted", func(t *testing.T) {
			w := rebootUnderWay(t, 1)
			e := w.interrupt()
			end(w, e)
			e.Finished = w.in.Now
			w.pass()
			require.Equal(t, plan.Interrupting, w.reason("tune", "n01").Code)
			w.nodes["n01"].BootID, w.nodes["n01"].Ready = "boot-2", true
			if !e.Ended() {
				e.State, e.ExitCode = plan.ExecutionFailed, 137
			}
			w.settle()
			require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
			require.Equal(t, 1, w.interrupts())
		})
		t.Run(name+", never rebooted", func(t *testing.T) {
			w := rebootUnderWay(t, 1)
			end(w, w.interrupt())
			w.interrupt().Finished = w.in.Now
			w.nodes["n01"].Ready = false // a node that is Ready all the time is tried again first
			w.in.Now = w.in.Now.Add(time.Hour)
			w.pass()
			w.pass()
			r := w.reason("tune", "n01")
			require.Equal(t, plan.InterruptFailed, r.Code)
			require.Contains(t, r.Message, "the reboot interrupt was not proven within 1h0m0s")
			require.Equal(t, 1, w.interrupts())
		})
	}
}

// A reboot is proven by the boot ID and nothing else: a Ready that never changed, or that flaps, says nothing.
func TestFieldReport_RB05_OnlyTheBootIDProves(t *testing.T) {
	w := rebootUnderWay(t, 1)
	for _, ready := range []bool{false, true, false, true} {
		w.nodes["n01"].Ready = ready
		w.pass()
		require.Equal(t, plan.Interrupting, w.reason("tune", "n01").Code)
	}
	e := w.interrupt()
	e.State, e.ExitCode, e.Finished = plan.ExecutionFailed, 255, w.in.Now
	w.nodes["n01"].BootID = "boot-2" // too fast for anybody to notice
	w.pass()
	require.Nil(t, w.nodes["n01"].Records["tune"].Interrupt)
}

// A crash between the record of a reboot and its request resumes the request, once, and is no error.
func TestFieldReport_RB07_CrashBetweenIntentAndAction(t *testing.T) {
	w := rebootUnderWay(t, 1)
	clear(w.jobs) // the record was written, the Job was not
	require.NotNil(t, w.nodes["n01"].Records["tune"].Interrupt)
	require.Equal(t, "boot-1", w.nodes["n01"].Records["tune"].Interrupt.BootIDBefore)
	w.pass()
	w.pass()
	require.Equal(t, 1, w.interrupts())
	require.Nil(t, w.nodes["n01"].Records["tune"].Failure)
	w.frozen = nil
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.Equal(t, 1, w.interrupts())
}

// A crash before the uncordon: what was decided is lost with the process, and the next one gives the node back, without
// another interrupt.
func TestFieldReport_RB07_CrashBeforeUncordon(t *testing.T) {
	for name, crashesAt := range map[string]func(d plan.Decision) bool{
		"before the uncordon": func(d plan.Decision) bool { return d.Cordon == plan.CordonDrop },
		"between the uncordon and the end of the turn": func(d plan.Decision) bool {
			return d.Record != nil && d.Record.Outcome == noderecord.Succeeded
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
			lost := 0
			w.lost = func(d plan.Decision) bool {
				if crashesAt(d) && lost < 3 {
					lost++
					return true
				}
				return false
			}
			for range 200 {
				if w.passAndWork(1); lost == 3 {
					break
				}
			}
			require.Equal(t, 3, lost, "the decision was made, and lost")
			require.Equal(t, name == "before the uncordon", w.nodes["n01"].Unschedulable)
			w.settle()
			require.False(t, w.nodes["n01"].Unschedulable)
			require.Empty(t, w.nodes["n01"].CordonOwners)
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
			require.Equal(t, 1, w.interrupts())
		})
	}
}

// A pause keeps a turn from failing; the last attempt of its interrupt is counted once all the same, and nothing is written
// that says the same as before.
func TestAPauseCountsTheLastFailureOfAnInterruptOnce(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "sshd"))
	w.in.Settings.Attempts = 1
	w.until(plan.ActionInterrupt)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true })
	e := w.interrupt()
	e.State, e.ExitCode, e.Message, e.Finished = plan.ExecutionFailed, 1, "boom", w.in.Now
	for pass := range 5 {
		out := w.pass()
		require.EqualValues(t, 1, w.nodes["n01"].Records["tune"].Interrupt.Failures)
		require.True(t, pass == 0 || len(out.Decisions) == 0, "pass %d decides again", pass)
	}
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = false })
	w.pass()
	require.Equal(t, "package tuning, stage interrupt, exit code 1: the service interrupt failed in every attempt: boom",
		w.reason("tune", "n01").Message)
	require.Equal(t, 1, w.interrupts())
}

// A node that never comes back fails by the clock, counts, and heals when it comes back late.
func TestFieldReport_RB08_DeadlineWithoutAnyEvent(t *testing.T) {
	w := newWorld(t, 3)
	w.dies = func(node string) bool { return node == "n01" }
	w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1), safetyLimit(100))), reboot(pkg("tuning", "1.0.0")))
	w.until(plan.ActionInterrupt)
	w.passAndWork(3)
	require.False(t, w.nodes["n01"].Ready)
	next := w.pass().Next
	at := w.nodes["n01"].Records["tune"].Interrupt.At
	require.Equal(t, at.Add(time.Hour), next, "the planner asks to be woken: no event will come")
	w.in.Now = next
	w.pass()
	w.pass()
	require.Equal(t, plan.InterruptFailed, w.reason("tune", "n01").Code)
	require.EqualValues(t, 1, w.status("tune").Failed)
	require.NotNil(t, w.status("tune").Compartments[0].Halt)
	w.in.Now = w.in.Now.Add(48 * time.Hour)
	w.pass()
	require.Equal(t, plan.InterruptFailed, w.reason("tune", "n01").Code)
	w.dies = nil
	w.nodes["n01"].Ready, w.nodes["n01"].BootID = true, "boot-2"
	w.pass()
	require.Equal(t, 1, w.interrupts(), "what has happened is not asked for again")
	w.edit("tune", func(nw *plan.NodeWright) { nw.Resume = "1" })
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.Equal(t, 1, w.interrupts())
}

// The slot is held until the node is Ready with a new boot ID and done: a Ready that is only old does not count.
func TestFieldReport_RB09_SlotIsHeldUntilTheNodeIsBack(t *testing.T) {
	w := rebootUnderWay(t, 2)
	e := w.interrupt()
	e.State, e.Finished = plan.ExecutionSucceeded, w.in.Now
	for range 40 {
		w.in.Now = w.in.Now.Add(time.Second)
		w.pass()
		require.Equal(t, plan.WaitingForSlot, w.reason("tune", "n02").Code)
		require.Equal(t, 1, w.interrupts())
	}
	w.nodes["n01"].BootID, w.nodes["n01"].Ready = "boot-2", false
	w.frozen = nil
	w.passAndWork(5)
	require.Equal(t, plan.WaitingForSlot, w.reason("tune", "n02").Code, "new boot ID, and not Ready yet")
	w.nodes["n01"].Ready = true
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// What changes no content starts nothing: no cordon, no drain, no execution.
func TestFieldReport_RB12_NoEffectiveChange(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(1), config(reboot(pkg("tuning", "1.0.0")), "a", "1"))
	w.settle()
	jobs := len(w.jobs)
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"team": "ml"}}
		nw.Spec.Priority++
		nw.Retry, nw.Resume = "1", "1"
	}, config(reboot(pkg("tuning", "1.0.0")), "a", "1"))
	w.settle()
	require.Len(t, w.jobs, jobs)
	require.Empty(t, w.outOfService())
}

// A service restart is due until it has run, and the package is not complete before its post-interrupt check.
func TestFieldReport_RB15_NotCompleteBeforeTheRestart(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), service(pkg("limits", "1.0.0"), "containerd"))
	effective := false
	w.fails = func(_, _ string, stage nwv1.Stage) int32 {
		switch {
		case stage == nwv1.StageInterrupt:
			effective = true
		case stage == nwv1.StagePostInterrupt && !effective:
			return 1
		}
		return 0
	}
	for range 40 {
		w.passAndWork(1)
		if w.status("tune").Complete == 1 {
			require.True(t, effective, "complete before the service was restarted")
		}
	}
	require.Equal(t, []string{"limits apply", "limits config", "interrupt service containerd", "limits post-interrupt"}, w.ran["n01"])
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// An interrupt that the agent refused is no failure: the node is emptied again, and the interrupt asked for again, later.
func TestAnInterruptThatTheAgentRefusesIsTriedAgain(t *testing.T) {
	for _, p := range []func() *world{
		func() *world { w := newWorld(t, 1); rebooting(w); return w },
		func() *world {
			w := newWorld(t, 1)
			w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "containerd"))
			return w
		},
	} {
		w := p()
		w.until(plan.ActionInterrupt)
		w.pods = nil
		w.endWith(plan.InterruptRefused, "node n01 is not cordoned")
		w.nodes["n01"].Unschedulable = false // by hand
		w.pass()
		require.Equal(t, plan.InterruptRefused, w.reason("tune", "n01").Code)
		require.Zero(t, w.nodes["n01"].Records["tune"].Interrupt.Failures)
		w.in.Now = w.in.Now.Add(10 * time.Second)
		w.pass()
		require.Equal(t, 1, w.interrupts(), "cordoned first")
		require.True(t, w.nodes["n01"].Unschedulable)
		w.settle()
		require.Equal(t, 2, w.interrupts())
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	}
}

// Refusals of interrupts end, too.
func TestInterruptsAreNotRefusedForEver(t *testing.T) {
	w := newWorld(t, 1)
	rebooting(w)
	w.until(plan.ActionInterrupt)
	for range 30 {
		w.endWith(plan.InterruptRefused, "the API server does not answer")
		w.pass()
		w.in.Now = w.in.Now.Add(11 * time.Minute)
		w.pass()
	}
	require.Equal(t, 10, w.interrupts())
	r := w.reason("tune", "n01")
	require.Equal(t, plan.InterruptRefused, r.Code)
	require.Equal(t, "package tuning, stage interrupt: 10 attempts in a row: the API server does not answer", r.Message)
	require.EqualValues(t, 1, w.status("tune").Failed)
}

// The agent is told which pods may stay: those that were there when the gates opened, and no others.
func TestTheGuardOfAnInterrupt(t *testing.T) {
	w := newWorld(t, 1)
	rebooting(w)
	protect(w)
	w.pods = map[string][]*corev1.Pod{}
	daemon := w.addPod("n01", "net", "cni", nil)
	daemon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
	system := w.addPod("n01", metav1.NamespaceSystem, "dns", nil)
	over := w.addPod("n01", "web", "job", nil)
	over.Status.Phase = corev1.PodSucceeded
	w.addPod("n01", "fleetwright", "execution", map[string]string{nwv1.NameLabel: "tune"})
	var guard *plan.InterruptGuard
	for range 30 {
		for _, d := range w.compute(w.input()).Decisions {
			for _, s := range d.Start {
				if s.Phase == plan.PhaseInterrupt {
					guard = &s.Guard
				}
			}
		}
		if guard != nil {
			break
		}
		w.passAndWork(1)
	}
	require.NotNil(t, guard)
	require.Equal(t, []types.UID{system.UID}, guard.Stay)
	require.True(t, guard.DaemonSets)
	require.Equal(t, "protected=true", guard.Protect.String())
	require.NotEqual(t, noderecord.Failed, w.nodes["n01"].Records["tune"].Outcome)
}
