package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Nodes that leave a compartment take their counts with them; the next batch starts.
func TestFieldReport_BA01_NodesLeaveTheCompartment(t *testing.T) {
	w := newWorld(t, 6)
	w.nodeWright("tune", policy(count(2), fixed(2)), pkg("tuning", "1.0.0"))
	for range 50 {
		w.passAndWork(1)
		if w.status("tune").Complete == 4 {
			break
		}
	}
	for _, n := range []string{"n01", "n02", "n03"} {
		w.nodes[n].Labels["pool"] = "cpu"
	}
	w.passAndWork(2)
	require.NotEmpty(t, w.outOfService(), "the next batch has started")
	require.EqualValues(t, 3, w.status("tune").Total)
	w.settle()
	require.EqualValues(t, 3, w.status("tune").Complete)
}

// Admitted nodes go on independently of each other.
func TestFieldReport_BA03_NodesOfABatchAdvanceAlone(t *testing.T) {
	w := newWorld(t, 2)
	w.frozen = func(e plan.Execution) bool { return e.Node == "n02" }
	w.nodeWright("tune", policy(count(2), fixed(2)), reboot(pkg("tuning", "1.0.0")))
	w.passAndWork(30)
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	require.Contains(t, w.outOfService(), "n02")
}

// A new target while a node is under way makes nobody else unavailable.
func TestFieldReport_BA10_NewTargetUnderWay(t *testing.T) {
	w := newWorld(t, 3)
	w.ceiling = 1
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.until(plan.ActionRun)
	w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
	w.passAndWork(2)
	require.Equal(t, []string{"n01"}, w.outOfService())
	w.settle()
	require.EqualValues(t, 3, w.status("tune").Complete)
}

// Free slots are used within one pass.
func TestFieldReport_BA11_SlotsAreUsed(t *testing.T) {
	w := newWorld(t, 9)
	w.ceiling = 3
	w.frozen = func(e plan.Execution) bool { return (len(e.Node)+int(e.Node[2])+w.passes)%3 == 0 }
	w.nodeWright("tune", budgetOnly(3), pkg("tuning", "1.0.0"))
	for range 200 {
		w.pass()
		s := w.status("tune").Compartments[0]
		free, waiting := s.Ceiling-s.InUse, s.Matched-s.Complete-s.InProgress
		require.Zero(t, min(free, waiting), "%d slots are free and %d nodes wait", free, waiting)
		w.work()
	}
	require.EqualValues(t, 9, w.status("tune").Complete)
}

// 'complete' is said once, at the end.
func TestFieldReport_ST01_CompleteIsSaidOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("aa", "1.0.0")), depends(reboot(pkg("bb", "1.0.0")), "aa"), pkg("cc", "1.0.0"))
	var said []nwv1.Status
	for range 80 {
		w.passAndWork(1)
		if s := w.status("tune").Status; len(said) == 0 || said[len(said)-1] != s {
			said = append(said, s)
		}
	}
	require.Equal(t, []nwv1.Status{nwv1.StatusInProgress, nwv1.StatusComplete}, said)
}

// An image that cannot be pulled is a failure after a while, and heals when it can.
func TestFieldReport_PF01_ImagePull(t *testing.T) {
	for _, trouble := range []plan.Code{plan.ImagePull, plan.ContainerCannotRun} {
		w := newWorld(t, 2)
		w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1), safetyLimit(100))), pkg("tuning", "1.0.0"))
		w.pass()
		w.pass()
		w.trouble(trouble, 59*time.Second)
		w.pass()
		require.Zero(t, w.status("tune").Failed)
		w.in.Now = w.in.Now.Add(time.Second)
		w.pass()
		w.pass()
		require.EqualValues(t, 1, w.status("tune").Failed)
		require.Equal(t, "n01: package tuning: back-off", w.status("tune").Compartments[0].Halt.Message)
		for _, j := range w.jobs {
			j.Trouble = ""
		}
		w.settle()
		require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
		require.Empty(t, w.status("tune").Failures)
	}
}

// A cordon that somebody else set survives.
func TestFieldReport_DR08_ForeignCordon(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes["n01"].Unschedulable = true
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	require.True(t, w.nodes["n01"].Unschedulable)
	require.Empty(t, w.nodes["n01"].CordonOwners)
}

// A deleted NodeWright stops its executions first, then gives its nodes back, failed ones too.
func TestFieldReport_DR10_DeletedWhileFailing(t *testing.T) {
	w := newWorld(t, 2)
	w.fails = failing("n01")
	w.nodeWright("tune", budgetOnly(2), reboot(pkg("tuning", "1.0.0")))
	w.passAndWork(2)
	require.NotEmpty(t, w.jobs)
	w.in.NodeWrights = nil
	w.pass()
	for _, j := range w.jobs {
		require.True(t, j.Ended(), "%s still runs", j.Name)
	}
	require.True(t, w.nodes["n02"].Unschedulable, "the cordon outlasts what runs")
	jobs := len(w.jobs)
	w.settle()
	require.Len(t, w.jobs, jobs)
	require.False(t, w.nodes["n01"].Unschedulable)
	require.Empty(t, w.nodes["n01"].Records)
	require.Empty(t, w.in.Ledger.Rollouts)
}

// Two NodeWrights with one package name on one node share nothing.
func TestFieldReport_D06_OnePackageNameTwice(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("first", budgetOnly(1), config(pkg("tuning", "1.0.0"), "a", "1"))
	w.nodeWright("second", budgetOnly(1), config(pkg("tuning", "2.0.0"), "a", "2"))
	w.settle()
	for name, version := range map[string]string{"first": "1.0.0", "second": "2.0.0"} {
		require.Equal(t, nwv1.StatusComplete, w.status(name).Status)
		require.Equal(t, version, w.nodes["n01"].Records[name].Packages["tuning"].Version)
	}
	require.Equal(t, []string{"tuning apply", "tuning config", "tuning apply", "tuning config"}, w.ran["n01"])
}

// 'Stop at the first failure, always' is safetyLimit 100 with failureThreshold 1.
func TestFieldReport_BA06_NoFailuresAllowed(t *testing.T) {
	w := newWorld(t, 10)
	w.fails = failing("n08")
	w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1), safetyLimit(100))), pkg("tuning", "1.0.0"))
	w.settle()
	require.Equal(t, []string{"default"}, w.status("tune").Halted)
	require.EqualValues(t, 7, w.status("tune").Complete)
}

// A batch of which no node ended counts neither way.
func TestFieldReport_BA05_WholeBatchIneligibleAndBack(t *testing.T) {
	w := newWorld(t, 4)
	w.nodeWright("tune", policy(count(2), fixed(2, failureThreshold(1))), reboot(pkg("tuning", "1.0.0")))
	w.pass()
	for _, n := range []string{"n01", "n02"} {
		w.nodes[n].Labels["pool"] = "cpu"
	}
	w.passAndWork(3)
	require.Empty(t, w.status("tune").Halted)
	require.False(t, w.nodes["n01"].Unschedulable)
	for _, n := range []string{"n01", "n02"} {
		w.nodes[n].Labels["pool"] = "gpu"
	}
	w.settle()
	require.EqualValues(t, 4, w.status("tune").Complete)
}

// A release that does not boot stops after the configured number of failures.
func TestFieldReport_BA12_NoNodeBoots(t *testing.T) {
	w := newWorld(t, 5)
	w.dies = func(string) bool { return true }
	w.nodeWright("tune", policy(count(2), fixed(1, failureThreshold(1))), reboot(pkg("tuning", "1.0.0")))
	w.settle()
	require.Equal(t, []string{"n01"}, w.outOfService())
	require.Equal(t, []string{"default"}, w.status("tune").Halted)
}

// The cluster's budget holds over all NodeWrights.
func TestFieldReport_BA16_TwoBudgetsOneCluster(t *testing.T) {
	w := newWorld(t, 2)
	w.ceiling = 1
	w.in.Budgets = []plan.Budget{{Name: "ns/f", Scope: scopeOf("pool=gpu"), Percent: new(int32(50))}}
	for _, name := range []string{"x", "y"} {
		w.nodeWright(name, func(nw *plan.NodeWright) {
			budgetOnly(1)(nw)
			nw.Spec.NodeSelectors.MatchLabels["kubernetes.io/hostname"] = map[string]string{"x": "n01", "y": "n02"}[name]
		}, reboot(pkg("tuning", "1.0.0")))
	}
	for name, n := range w.nodes {
		n.Labels["kubernetes.io/hostname"] = name
	}
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("y").Status)
}

// A failed fix is not blocked by the failure that it fixes.
func TestFieldReport_CU11_FixFirst(t *testing.T) {
	w := newWorld(t, 3)
	w.ceiling = 1
	w.fails = func(node, _ string, _ nwv1.Stage) int32 {
		if node == "n02" && w.in.NodeWrights[0].Desired.Packages[0].Version == "1.0.0" {
			return 1
		}
		return 0
	}
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.settle()
	require.Equal(t, []string{"n02"}, w.outOfService())
	w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
	w.pass()
	require.Equal(t, plan.AdmissionUnconfirmed, w.reason("tune", "n02").Code)
	w.settle()
	require.EqualValues(t, 3, w.status("tune").Complete)
}

// Order between NodeWrights is per node, unless sequencing asks for all.
func TestFieldReport_OD02_OrderIsPerNode(t *testing.T) {
	for sequencing, want := range map[nwv1.Sequencing]int32{nwv1.SequencingNode: 2, nwv1.SequencingAll: 0} {
		w := newWorld(t, 3)
		w.fails = func(node, name string, _ nwv1.Stage) int32 {
			if node == "n03" && name == "base" {
				return 1
			}
			return 0
		}
		w.nodeWright("x", func(nw *plan.NodeWright) {
			budgetOnly(3)(nw)
			nw.Spec.Priority, nw.Spec.Sequencing = 1, sequencing
		}, pkg("base", "1.0.0"))
		w.nodeWright("y", budgetOnly(3), pkg("top", "1.0.0"))
		w.settle()
		require.Equal(t, want, w.status("y").Complete, sequencing)
		require.Equal(t, plan.WaitingForPriority, w.reason("y", "n03").Code)
		require.Equal(t, "nodewright x", w.reason("y", "n03").Object)
	}
}

// A drain that cannot end gives the node up, or deletes, only when it is told to.
func TestFieldReport_DR13_DrainTimeout(t *testing.T) {
	for _, action := range []nwv1.DrainTimeoutAction{nwv1.DrainReport, nwv1.DrainSkip, nwv1.DrainForce} {
		w := newWorld(t, 2)
		w.nodeWright("tune", func(nw *plan.NodeWright) {
			budgetOnly(1)(nw)
			nw.Spec.DrainConfig = &nwv1.DrainConfig{Timeout: &metav1.Duration{Duration: 10 * time.Second}, OnTimeout: action}
		}, reboot(pkg("tuning", "1.0.0")))
		w.pods = map[string][]*corev1.Pod{}
		p := w.addPod("n01", "web", "a", nil)
		refuse := func(d plan.Decision) bool { // a budget that never allows it
			return len(d.Evict) > 0 && !d.Evict[0].Delete && d.Record == nil
		}
		w.lost = refuse
		w.refuse("n01", p, plan.RefusedByBudget, "PodDisruptionBudget web/pdb allows none", 15*time.Second)
		w.passAndWork(8)
		require.Equal(t, plan.DisruptionBudget, w.reason("tune", "n01").Code)
		w.passAndWork(60)
		switch action {
		case nwv1.DrainReport:
			require.Equal(t, plan.DrainTimeout, w.reason("tune", "n01").Code)
			require.True(t, w.nodes["n01"].Unschedulable)
			require.Len(t, w.pods["n01"], 1)
		case nwv1.DrainSkip:
			require.Equal(t, "the node was not empty after 10s: web/a; PodDisruptionBudget web/pdb allows none", w.reason("tune", "n01").Message)
			require.False(t, w.nodes["n01"].Unschedulable)
			require.Equal(t, plan.Complete, w.reason("tune", "n02").Code)
		case nwv1.DrainForce:
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		}
	}
}

// A missing execution is asked for again; after the boot ID changed it is not.
func TestFieldReport_RB10_MissingInterrupt(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.until(plan.ActionInterrupt)
	lose := func() {
		for name, j := range w.jobs {
			if j.Phase == plan.PhaseInterrupt {
				delete(w.jobs, name)
			}
		}
	}
	lose()
	w.pass()
	require.True(t, w.busy(), "the interrupt is asked for again")
	lose()
	w.nodes["n01"].BootID = "boot-2"
	w.settle()
	require.Equal(t, "boot-2", w.nodes["n01"].BootID, "it is not rebooted a second time")
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// Late joiners form a round of their own; one that fails is named.
func TestFieldReport_PF06_LateJoinerFails(t *testing.T) {
	w := newWorld(t, 3)
	w.nodeWright("tune", policy(count(1), fixed(1)), pkg("tuning", "1.0.0"))
	w.settle()
	w.addNode("n04", nil)
	w.fails = failing("n04")
	w.settle()
	s := w.status("tune")
	require.True(t, s.LateJoiners)
	require.EqualValues(t, 2, s.Round)
	require.Equal(t, "n04", s.Failures[0].Node)
	require.EqualValues(t, 3, s.Complete)
	require.NotEqual(t, nwv1.StatusComplete, s.Status)
}
