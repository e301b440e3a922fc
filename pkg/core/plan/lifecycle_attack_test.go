package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Each of these went wrong once, and was found by looking for it.

// failsIn makes a stage fail everywhere.
func failsIn(stage nwv1.Stage) func(string, string, nwv1.Stage) int32 {
	return func(_, _ string, s nwv1.Stage) int32 {
		if s == stage {
			return 1
		}
		return 0
	}
}

// An interrupt that failed for good on a node which was given back since uses up nothing of a Fleet's budget.
func TestANodeThatWasGivenBackUsesNoBudget(t *testing.T) {
	w := newWorld(t, 2)
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	w.fails = failsIn(nwv1.StageInterrupt)
	w.nodeWright("tune", budgetOnly(2), service(pkg("tuning", "1.0.0"), "sshd"))
	w.settle()
	require.Equal(t, plan.WaitingForClusterBudget, w.reason("tune", "n02").Code)
	w.nodes["n01"].Labels["pool"] = "cpu"
	w.fails = nil
	w.settle()
	require.False(t, w.nodes["n01"].Unschedulable)
	require.Equal(t, plan.Complete, w.reason("tune", "n02").Code)
}

// Nor does one whose wait for the next attempt was given up.
func TestANodeThatGaveItsInterruptUpUsesNoBudget(t *testing.T) {
	w := newWorld(t, 2)
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	w.fails = failsIn(nwv1.StageInterrupt)
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		budgetOnly(2)(nw)
		nw.Spec.DrainConfig = &nwv1.DrainConfig{Timeout: &metav1.Duration{Duration: time.Minute}, OnTimeout: nwv1.DrainSkip}
	}, service(pkg("tuning", "1.0.0"), "sshd"))
	w.until(plan.ActionInterrupt)
	w.passAndWork(3)
	require.Equal(t, plan.RetryBackoff, w.reason("tune", "n01").Code)
	w.addPod("n01", "web", "late", nil)
	w.leaves = func(plan.Eviction) bool { return false }
	w.fails = nil
	w.settle()
	require.Equal(t, plan.DrainTimeout, w.reason("tune", "n01").Code)
	require.False(t, w.nodes["n01"].Unschedulable)
	require.Equal(t, plan.Complete, w.reason("tune", "n02").Code)
}

// A deleted NodeWright does not wait for an interrupt that failed for good.
func TestAnInterruptThatFailedDoesNotKeepADeletion(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes["n01"].Unschedulable = true // somebody else's
	w.fails = failsIn(nwv1.StageInterrupt)
	after := uninstallable(pkg("after", "1.0.0"))
	after.DependsOn = map[string]string{"tuning": "1.0.0"}
	w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "sshd"), after)
	w.settle()
	require.Equal(t, plan.InterruptFailed, w.reason("tune", "n01").Code)
	w.deleteNodeWright("tune")
	w.settle()
	require.False(t, w.hasNodeWright("tune"), "nothing is there to be uninstalled")
}

// A pause takes nothing of an interrupt's time.
func TestAPauseDoesNotEndAnInterrupt(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "sshd"))
	w.until(plan.ActionInterrupt)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true })
	w.pass()
	w.in.Now = w.in.Now.Add(3 * time.Hour)
	w.pass()
	w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = false })
	for _, j := range w.jobs {
		if j.Suspended {
			j.Created = w.in.Now // the Job controller starts its time anew
		}
	}
	w.pass()
	require.Equal(t, plan.Interrupting, w.reason("tune", "n01").Code)
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// What depended on what has changed between two installations: neither is taken off before the other, so one begins.
func TestRemovalsThatWaitForEachOther(t *testing.T) {
	w := newWorld(t, 1)
	a, b := uninstallable(pkg("aa", "1.0.0")), uninstallable(pkg("bb", "1.0.0"))
	aOnB, bOnA := a, b
	aOnB.DependsOn, bOnA.DependsOn = map[string]string{"bb": "1.0.0"}, map[string]string{"aa": "1.0.0"}
	bOnA.Version = "2.0.0"
	w.nodeWright("tune", budgetOnly(1), aOnB, b)
	w.settle()
	w.nodeWright("tune", nil, a, bOnA)
	w.settle()
	w.nodeWright("tune", nil, pkg("cc", "1.0.0"))
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	require.Contains(t, w.ran["n01"], "aa uninstall 1.0.0")
	require.Contains(t, w.ran["n01"], "bb uninstall 2.0.0")
}

// Who asks for a reset and takes a package out wants both: what is on the host is uninstalled.
func TestAResetDoesNotForgetWhatHasToBeUninstalled(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		w := newWorld(t, 1)
		w.nodeWright("tune", budgetOnly(1), uninstallable(pkg("aa", "1.0.0")), pkg("bb", "1.0.0"))
		w.settle()
		w.edit("tune", func(nw *plan.NodeWright) { nw.Reset = "t1" })
		if deleted {
			w.deleteNodeWright("tune")
		} else {
			w.nodeWright("tune", nil, pkg("bb", "1.0.0"))
		}
		w.settle()
		require.Contains(t, w.ran["n01"], "aa uninstall 1.0.0")
	}
}

// A check that is lost when it is not asked for any more keeps nobody waiting.
func TestALostExecutionThatIsNotWantedAnyMore(t *testing.T) {
	w := newWorld(t, 1)
	checked := pkg("tuning", "1.0.0")
	checked.SkipIfSatisfied = true
	w.frozen = func(plan.Execution) bool { return true }
	w.nodeWright("tune", budgetOnly(1), checked)
	w.passAndWork(3)
	require.Len(t, w.jobs, 1)
	w.jobs, w.frozen = map[string]*plan.Execution{}, nil
	w.nodeWright("tune", nil, pkg("tuning", "1.0.0"))
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// A definition that somebody deleted under a running uninstall whose Job is lost keeps nobody waiting.
func TestALostUninstallWithoutItsDefinition(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), uninstallable(pkg("aa", "1.0.0")), pkg("bb", "1.0.0"))
	w.settle()
	w.frozen = func(plan.Execution) bool { return true }
	w.nodeWright("tune", nil, pkg("bb", "1.0.0"))
	w.passAndWork(4)
	for name, j := range w.jobs {
		if j.Phase == plan.PhaseUninstall {
			delete(w.jobs, name)
		}
	}
	w.in.Snapshots, w.frozen = map[string]desired.Package{}, nil
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// The interrupt of two packages goes on for one when the uninstall of the other is given up.
func TestAnInterruptIsNotForAPackageThatWasGivenUp(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), service(uninstallable(pkg("aa", "1.0.0")), "x"), pkg("bb", "1.0.0"))
	w.settle()
	w.fails = failsIn(nwv1.StageInterrupt)
	w.nodeWright("tune", nil, service(pkg("bb", "2.0.0"), "y"))
	w.until(plan.ActionInterrupt)
	w.settleUntil(func() bool { return w.reason("tune", "n01").Code == plan.RetryBackoff })
	require.Equal(t, []string{"aa", "bb"}, w.nodes["n01"].Records["tune"].Interrupt.Packages)
	w.fails = nil
	w.edit("tune", func(nw *plan.NodeWright) { nw.Abandon = "now" })
	w.until(plan.ActionInterrupt)
	for _, s := range w.specs {
		if s.Phase == plan.PhaseInterrupt {
			require.NotEmpty(t, s.InterruptPackage.Image)
		}
	}
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// A node of which nothing is known is not complete under a NodeWright that cannot be resolved: what it would get is not known.
func TestNothingIsCompleteUnderWhatCannotBeResolved(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("driver", func(nw *plan.NodeWright) {
		budgetOnly(1)(nw)
		nw.Spec.Priority = 1
		nw.Problem = `spec.packages.driver.packageRef.name: Package "x" does not exist`
	})
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.settle()
	require.Equal(t, plan.Unresolved, w.reason("driver", "n01").Code)
	require.Equal(t, plan.WaitingForPriority, w.reason("tune", "n01").Code)
	require.Empty(t, w.ran["n01"])
	w.edit("driver", func(nw *plan.NodeWright) { nw.Problem = "" })
	w.nodeWright("driver", nil, pkg("driver", "1.0.0"))
	w.settle()
	require.Equal(t, []string{"driver apply", "driver config", "tuning apply", "tuning config"}, w.ran["n01"])
}

// Without a boot ID before, no reboot could be proven: also not the second attempt.
func TestASecondRebootNeedsABootIDToo(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.until(plan.ActionInterrupt)
	for _, j := range w.jobs {
		if j.Phase == plan.PhaseInterrupt {
			j.State, j.ExitCode, j.Finished = plan.ExecutionFailed, 1, w.in.Now
		}
	}
	boot := w.nodes["n01"].BootID
	w.nodes["n01"].BootID = ""
	w.in.Now = w.in.Now.Add(10 * time.Minute)
	w.passAndWork(1)
	w.in.Now = w.in.Now.Add(10 * time.Minute)
	w.pass()
	require.Equal(t, plan.NodeNotReady, w.reason("tune", "n01").Code)
	w.nodes["n01"].BootID = boot
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	reboots := slices.DeleteFunc(slices.Clone(w.ran["n01"]), func(s string) bool { return s != "interrupt reboot" })
	require.Len(t, reboots, 1)
}

// A node that failed half-way stays cordoned when what it was to get next changes once more.
func TestAFailedNodeIsNotGivenBackByTheNextChange(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = failing("n01")
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.settle()
	require.Equal(t, []string{"n01"}, w.outOfService())
	w.fails = nil
	w.addPod("n01", "ml", "stays", map[string]string{"protected": "true"})
	protect(w)
	w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
	w.passAndWork(3)
	require.Equal(t, plan.ProtectedPod, w.reason("tune", "n01").Code)
	w.nodeWright("tune", nil, reboot(pkg("tuning", "3.0.0")))
	for range 5 {
		w.pass()
		require.True(t, w.nodes["n01"].Unschedulable, "half of version 1 is on it")
	}
	w.pods = map[string][]*corev1.Pod{}
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// A clock that was far ahead for a moment does not hold an attempt back for ever.
func TestATimeFromAClockThatWasAhead(t *testing.T) {
	w := newWorld(t, 1)
	fails := int32(1)
	w.fails = func(string, string, nwv1.Stage) int32 { return fails }
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	now := w.in.Now
	w.until(plan.ActionRun)
	w.work()
	w.work()
	w.in.Now = now.AddDate(10, 0, 0)
	w.pass()
	require.Equal(t, plan.RetryBackoff, w.reason("tune", "n01").Code)
	w.in.Now, fails = now.Add(time.Hour), 0
	for range 10 {
		w.pass()
		w.work()
	}
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
}

// What NVIDIA's operator left on a node half-way is there when its NodeWright comes, and is then adopted.
func TestWhatIsNotAdoptedIsNotSwept(t *testing.T) {
	w := newWorld(t, 1)
	n := w.nodes["n01"]
	n.Unschedulable, n.CordonOwners, n.Unadopted = true, []string{"tune"}, []string{"tune"}
	w.settle()
	require.Equal(t, []string{"tune"}, n.CordonOwners)
	require.True(t, n.Unschedulable)
	require.Empty(t, w.log)
	plain(w)
	w.settle()
	require.Equal(t, plan.NotAdopted, w.reason("tune", "n01").Code)
}

// A time limit that is longer than a pod can have, or a clock can count, is a long one.
func TestATimeLimitOfCenturies(t *testing.T) {
	w := newWorld(t, 1)
	long := reboot(pkg("tuning", "1.0.0"))
	w.nodeWright("tune", budgetOnly(1), long)
	w.in.NodeWrights[0].Desired.Packages[0].StageTimeout = new(2562047 * time.Hour)
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	for _, s := range w.specs {
		require.Positive(t, s.Timeout)
		require.LessOrEqual(t, s.Timeout.Seconds(), float64(1<<31-1))
	}
}
