package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

func zone(name string, b nwv1.DeploymentBudget, s *nwv1.DeploymentStrategy, key string) nwv1.Compartment {
	return nwv1.Compartment{Name: name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{key: "x"}}, Budget: b, Strategy: s}
}

// TestTheSafestCompartmentWins: fixed before linear before exponential before none, then the smaller ceiling, then the name.
func TestTheSafestCompartmentWins(t *testing.T) {
	one, two, three := fixed(1), linear(1, 1), exponential(1, 2)
	for _, c := range []struct {
		name string
		all  []nwv1.Compartment
		want string
	}{
		{"fixed", []nwv1.Compartment{zone("a", count(20), &three, "x"), zone("b", count(10), &two, "x"), zone("c", count(30), &one, "x")}, "c"},
		{"linear before exponential", []nwv1.Compartment{zone("a", count(1), &three, "x"), zone("b", count(10), &two, "x")}, "b"},
		{"any before none", []nwv1.Compartment{zone("a", count(1), nil, "x"), zone("b", count(10), &three, "x")}, "b"},
		{"the smaller ceiling", []nwv1.Compartment{zone("a", count(3), &one, "x"), zone("b", percent(50), &one, "x")}, "b"},
		{"the name", []nwv1.Compartment{zone("b", count(3), &one, "x"), zone("a", count(3), &one, "x")}, "a"},
		{"none matches", []nwv1.Compartment{zone("a", count(3), &one, "y")}, "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 4)
			for _, n := range w.nodes {
				n.Labels["x"] = "x"
			}
			w.nodeWright("tune", func(nw *plan.NodeWright) {
				nw.Policy = &nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{Budget: count(1)}, Compartments: c.all}
			}, pkg("tuning", "1.0.0"))
			w.pass()
			require.Equal(t, c.want, w.nodes["n01"].Records["tune"].Compartment)
		})
	}
}

// TestPercentagesAreIntegers: rounded down, never below one node, and 29 % of 100 are 29.
func TestPercentagesAreIntegers(t *testing.T) {
	for _, c := range []struct{ nodes, percent, want int32 }{{100, 29, 29}, {100, 57, 57}, {50, 58, 29}, {10, 25, 2}, {3, 1, 1}, {7, 100, 7}} {
		w := newWorld(t, int(c.nodes))
		w.nodeWright("tune", policy(percent(c.percent), fixed(1)), pkg("tuning", "1.0.0"))
		w.pass()
		require.Equal(t, c.want, w.status("tune").Compartments[0].Ceiling, "%d %% of %d", c.percent, c.nodes)
	}
	w := newWorld(t, 0)
	w.nodeWright("tune", policy(percent(50), fixed(1)), pkg("tuning", "1.0.0"))
	w.pass()
	require.Zero(t, w.status("tune").Compartments[0].Ceiling)
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status, "nothing to do is done")
}

// TestAnUnreadableRecordHoldsOnlyItsNode, and the slot of what still runs there.
func TestAnUnreadableRecordHoldsOnlyItsNode(t *testing.T) {
	w := newWorld(t, 3)
	w.frozen = func(e plan.Execution) bool { return e.Node == "n01" }
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.passAndWork(3)
	kept := w.nodes["n01"].Records
	w.nodes["n01"].Malformed, w.nodes["n01"].Records = map[string]string{"tune": "unexpected end of JSON input"}, nil
	w.passAndWork(5)
	require.Equal(t, plan.RecordUnreadable, w.reason("tune", "n01").Code)
	require.Equal(t, plan.WaitingForSlot, w.reason("tune", "n02").Code)
	w.nodes["n01"].Malformed, w.nodes["n01"].Records, w.frozen = nil, kept, nil
	w.settle()
	require.EqualValues(t, 3, w.status("tune").Complete)
}

// TestWithdrawnAdmission: a new round takes back what nobody has written; the node is admitted to the new one.
func TestWithdrawnAdmission(t *testing.T) {
	for _, started := range []bool{false, true} {
		w := newWorld(t, 2)
		w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
		if started {
			w.until(plan.ActionRun)
			w.nodeWright("tune", nil, reboot(pkg("tuning", "2.0.0")))
			w.lost = func(d plan.Decision) bool { return d.Record != nil && d.Record.Round == 2 }
			w.settleUntil(func() bool {
				l := w.in.Ledger.Rollouts["tune"].Intents
				return len(l) > 0 && l[0].Round == 2
			})
			require.True(t, w.nodes["n01"].Unschedulable)
		} else {
			w.lost = func(plan.Decision) bool { return true }
			w.pass()
		}
		w.nodeWright("tune", nil, reboot(pkg("tuning", "3.0.0")))
		w.pass()
		w.lost = nil
		w.ceiling = 1
		w.pass()
		require.Equal(t, started, w.nodes["n01"].Unschedulable, "only a node that was under way keeps its cordon")
		w.settle()
		require.EqualValues(t, 2, w.status("tune").Complete)
		require.Equal(t, "3.0.0", w.nodes["n01"].Records["tune"].Packages["tuning"].Version)
	}
}

// TestUnavailableNodesUseUpTheBudget where it says so.
func TestUnavailableNodesUseUpTheBudget(t *testing.T) {
	w := newWorld(t, 4)
	w.nodes["n03"].Ready, w.nodes["n04"].Unschedulable = false, true
	b := count(2)
	b.CountUnavailable = true
	w.nodeWright("tune", policy(b, fixed(2)), pkg("tuning", "1.0.0"))
	w.pass()
	require.Equal(t, "2 of the 2 slots of compartment default are in use: n03 (unavailable), n04 (unavailable)", w.reason("tune", "n01").Message)
	w.nodes["n03"].Ready, w.nodes["n04"].Unschedulable = true, false
	w.settle()
	require.EqualValues(t, 4, w.status("tune").Complete)
}

// TestStrategySizeIsCarriedOver where the policy, or the NodeWright, says so.
func TestStrategySizeIsCarriedOver(t *testing.T) {
	for _, own := range []bool{false, true} {
		w := newWorld(t, 7)
		w.nodeWright("tune", func(nw *plan.NodeWright) {
			policy(percent(100), exponential(1, 2))(nw)
			nw.Policy.ResetBatchStateOnCompletion = new(own)
			if own {
				nw.Spec.DeploymentPolicyOptions = &nwv1.DeploymentPolicyOptions{ResetBatchStateOnCompletion: new(false)}
			}
		}, pkg("tuning", "1.0.0"))
		w.settle()
		require.Equal(t, []int{1, 2, 4}, w.sizes("tune"))
		w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
		w.settle()
		require.Equal(t, []int{7}, w.sizes("tune"))
	}
}

// TestOrderByLabel: the label's value, then the name.
func TestOrderByLabel(t *testing.T) {
	w := newWorld(t, 3)
	for name, rack := range map[string]string{"n01": "b", "n02": "a", "n03": "a"} {
		w.nodes[name].Labels["rack"] = rack
	}
	w.nodeWright("tune", func(nw *plan.NodeWright) {
		policy(count(1), fixed(1))(nw)
		nw.Policy.Order, nw.Policy.OrderBy = nwv1.OrderLabel, "rack"
	}, pkg("tuning", "1.0.0"))
	w.settle()
	for name, order := range map[string]int32{"n02": 0, "n03": 1, "n01": 2} {
		require.Equal(t, order, w.nodes[name].Records["tune"].Order, name)
	}
}

// TestMissingExecutionIsAskedForAgain with the stages that it was started with, and a look at earlier ones.
func TestMissingExecutionIsAskedForAgain(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.settle()
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.until(plan.ActionRun)
	w.jobs = map[string]*plan.Execution{}
	out := w.pass()
	require.Equal(t, []nwv1.Stage{nwv1.StageUpgrade, nwv1.StageConfig}, out.Decisions[0].Start[0].Stages)
	require.True(t, out.Decisions[0].CheckEarlier)
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Complete)
}

// TestRollingHalts: the verdict is taken over consecutive ends, and the halt takes back admissions that nobody has seen.
func TestRollingHalts(t *testing.T) {
	w := newWorld(t, 12)
	w.fails = failing("n01", "n02", "n03", "n04")
	s := fixed(2, failureThreshold(2))
	s.Fixed.Advance = nwv1.AdvanceRolling
	w.nodeWright("tune", policy(count(3), s), pkg("tuning", "1.0.0"))
	w.lost = func(d plan.Decision) bool { return d.Node == "n06" && w.passes < 60 }
	for range 400 {
		w.passAndWork(1)
		w.in.Now = w.in.Now.Add(3 * time.Second)
	}
	require.Equal(t, []string{"default"}, w.status("tune").Halted)
	require.True(t, strings.HasPrefix(w.status("tune").Compartments[0].Halt.Message, "n0"))
	require.Empty(t, w.outOfService())
	require.Equal(t, noderecord.Released, w.nodes["n06"].Records["tune"].Outcome)
}

// TestALongLogIsCutAtItsBeginning, as its end says most; a halt names the first three nodes.
func TestALongLogIsCutAtItsBeginning(t *testing.T) {
	w := newWorld(t, 5)
	w.fails = failing("n01", "n02", "n03", "n04", "n05")
	w.nodeWright("tune", policy(count(5), fixed(5, failureThreshold(1), safetyLimit(100))), pkg("tuning", "1.0.0"))
	for range 60 {
		w.passAndWork(1)
		for _, j := range w.jobs {
			if j.Message != "" {
				j.Message, j.TimedOut = strings.Repeat("x", 300)+"end", true
			}
		}
		w.in.Now = w.in.Now.Add(10 * time.Second)
	}
	message := w.reason("tune", "n01").Message
	require.Equal(t, plan.StageTimeout, w.reason("tune", "n01").Code)
	require.True(t, strings.HasSuffix(message, "xend"))
	require.Less(t, len(message), 330)
	require.Nil(t, w.status("tune").Compartments[0].Halt, "the last batch is past the safety limit")
}

// TestStandby: everything is said and nothing is done.
func TestStandby(t *testing.T) {
	w := newWorld(t, 2)
	rebooting(w)
	w.until(plan.ActionRun)
	w.in.Standby = "another operator is active"
	out := w.pass()
	require.Empty(t, out.Decisions)
	require.Nil(t, out.Ledger)
	require.Equal(t, nwv1.StatusBlocked, w.status("tune").Status)
	require.Equal(t, plan.Standby, w.reason("tune", "n01").Code)
}

// TestUnresolvedGivesNothingBack: with a set that is not what anybody wants, a failed node is not taken for a healed one.
func TestUnresolvedGivesNothingBack(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = failing("n01")
	rebooting(w)
	w.settle()
	w.edit("tune", func(nw *plan.NodeWright) { nw.Problem, nw.Desired.Packages = "Package x does not exist", nil })
	w.settle()
	require.True(t, w.nodes["n01"].Unschedulable)
	require.NotEmpty(t, w.nodes["n01"].Records["tune"].Packages)
	require.Equal(t, nwv1.StatusBlocked, w.status("tune").Status)
}

// TestDeletingStartsNothing.
func TestDeletingStartsNothing(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Deleting = true })
	w.settle()
	require.Empty(t, w.jobs)
	require.Equal(t, "the NodeWright is being deleted", w.reason("tune", "n01").Message)
}

// TestAnInvalidSelectorMatchesNothing: it was refused before.
func TestAnInvalidSelectorMatchesNothing(t *testing.T) {
	w := newWorld(t, 1)
	plain(w)
	w.edit("tune", func(nw *plan.NodeWright) {
		nw.Spec.NodeSelectors = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	})
	w.settle()
	require.Zero(t, w.status("tune").Total)
}

// TestRebootNeedsABootIDToBeProven by.
func TestRebootNeedsABootIDToBeProven(t *testing.T) {
	w := newWorld(t, 1)
	w.nodes["n01"].BootID = ""
	rebooting(w)
	w.settle()
	require.Equal(t, "the node reports no boot ID, by which a reboot would be proven", w.reason("tune", "n01").Message)
}

// TestInterruptThatCannotPullItsImage is named, and fails after a while.
func TestInterruptThatCannotPullItsImage(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "sshd"))
	w.until(plan.ActionInterrupt)
	w.trouble(plan.ImagePull, 0)
	w.pass()
	require.Equal(t, "the service interrupt: back-off", w.reason("tune", "n01").Message)
	w.trouble(plan.ImagePull, time.Hour)
	w.pass()
	w.pass()
	require.EqualValues(t, 1, w.status("tune").Failed)
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "1" })
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Complete, "the retry takes a new execution")
}
