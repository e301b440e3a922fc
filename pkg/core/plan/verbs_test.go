package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// ask puts a verb annotation on a node.
func (w *world) ask(node, name, value string) {
	requests := map[string]string{name: value}
	for k, v := range w.nodes[node].Requests {
		if k != name {
			requests[k] = v
		}
	}
	w.nodes[node].Requests = requests
}

// ranSince is what ran on each node since the last call.
func (w *world) ranSince() map[string][]string {
	out := w.ran
	w.ran = map[string][]string{}
	return out
}

// Two of five nodes are asked to run again: these do, once, one at a time as the budget says, and the same token twice is once.
func TestFieldReport_UX03_ARerunRunsOnceWhereItIsAskedFor(t *testing.T) {
	w := newWorld(t, 5)
	w.ceiling = 1
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"), pkg("other", "1.0.0"))
	w.settle()
	w.ranSince()
	w.ask("n02", "rerun", "t1 package=tuning")
	w.ask("n04", "rerun", "t1 package=tuning")
	w.settle()
	again := map[string][]string{"n02": {"tuning apply (fresh)", "tuning config"}, "n04": {"tuning apply (fresh)", "tuning config"}}
	require.Equal(t, again, w.ranSince())
	require.EqualValues(t, 2, w.status("tune").Round)
	require.False(t, w.status("tune").LateJoiners, "nobody joined")
	require.EqualValues(t, 1, w.nodes["n02"].Records["tune"].Reruns, "it is counted")

	w.ask("n02", "rerun", "t1 package=tuning")
	w.settle()
	require.Empty(t, w.ranSince(), "the token was handled")
	w.edit("tune", func(nw *plan.NodeWright) { nw.Rerun = "t1 package=tuning node=n02,n04" })
	w.settle()
	require.Equal(t, again, w.ranSince(), "the NodeWright's token is another one")
	require.Equal(t, []plan.RequestStatus{{Verb: "rerun", Token: "t1"}}, w.status("tune").Requests)
}

func TestRerunBeginsAtAStage(t *testing.T) {
	for stage, want := range map[string][]string{
		"apply": {"tuning apply (fresh)", "tuning config", "interrupt service containerd", "tuning post-interrupt"}, "config": {
			"tuning config", "interrupt service containerd", "tuning post-interrupt"},
		"interrupt": {"interrupt service containerd", "tuning post-interrupt"}, "post-interrupt": {"tuning post-interrupt"},
	} {
		t.Run(stage, func(t *testing.T) {
			w := newWorld(t, 1)
			w.nodeWright("tune", budgetOnly(1), service(pkg("tuning", "1.0.0"), "containerd"))
			w.settle()
			w.ranSince()
			w.edit("tune", func(nw *plan.NodeWright) { nw.Rerun = "again stage=" + stage })
			w.settle()
			require.Equal(t, map[string][]string{"n01": want}, w.ranSince())
			require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
			require.Empty(t, w.outOfService())
		})
	}
}

// A rerun is work like any other: it waits for the round that is under way, for windows and pauses, and ends no halt.
func TestARerunWaitsForTheRoundThatIsUnderWay(t *testing.T) {
	w := newWorld(t, 3)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.until(plan.ActionComplete)
	w.pass()
	w.ask("n01", "rerun", "1")
	w.pass()
	require.EqualValues(t, 1, w.status("tune").Round)
	require.Equal(t, plan.WaitingForRound, w.reason("tune", "n01").Code)
	w.settle()
	require.EqualValues(t, 2, w.status("tune").Round)
	require.Len(t, w.ran["n01"], 4, "twice")
	require.Len(t, w.ran["n02"], 2)
	require.Len(t, w.ran["n03"], 2)
}

func TestARerunEndsNoHaltAndAResetDoes(t *testing.T) {
	w := newWorld(t, 3)
	broken := map[string]bool{"n02": true}
	w.fails = func(node, _ string, _ nwv1.Stage) int32 {
		if broken[node] {
			return 3
		}
		return 0
	}
	w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1), safetyLimit(100))), pkg("tuning", "1.0.0"))
	w.settle()
	require.Equal(t, []string{"default"}, w.status("tune").Halted)
	w.ranSince()
	w.ask("n01", "rerun", "1")
	w.ask("n02", "retry", "1")
	w.settle()
	require.Equal(t, plan.Halted, w.reason("tune", "n01").Code)
	require.Equal(t, plan.Halted, w.reason("tune", "n02").Code)
	require.Empty(t, w.ranSince())

	broken["n02"] = false
	w.edit("tune", func(nw *plan.NodeWright) { nw.Reset = "heal" })
	w.settle()
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
	again := []string{"tuning apply (fresh)", "tuning config"}
	require.Equal(t, map[string][]string{"n01": again, "n02": again, "n03": {"tuning apply", "tuning config"}}, w.ranSince())
	w.settle()
	require.Empty(t, w.ranSince(), "once for each token")
}

// A node that failed beside it keeps no rerun waiting: the new round tries it again, as every round does.
func TestARerunIsNotHeldUpByANodeThatFailed(t *testing.T) {
	w := newWorld(t, 3)
	w.fails = func(node, _ string, _ nwv1.Stage) int32 {
		if node == "n02" {
			return 3
		}
		return 0
	}
	w.nodeWright("tune", budgetOnly(3), pkg("tuning", "1.0.0"))
	w.settle()
	w.ranSince()
	w.ask("n01", "rerun", "1")
	w.settle()
	require.Equal(t, map[string][]string{"n01": {"tuning apply (fresh)", "tuning config"}}, w.ranSince())
	require.Equal(t, plan.PackageFailed, w.reason("tune", "n02").Code)
}

// A retry is for what failed before it; one package of a node can be meant, or one node.
func TestRetryOfANodeAndOfAPackage(t *testing.T) {
	w := newWorld(t, 2)
	attempts := map[string]int{}
	w.fails = func(node, _ string, _ nwv1.Stage) int32 { attempts[node]++; return 3 }
	w.nodeWright("tune", func(nw *plan.NodeWright) { budgetOnly(2)(nw) }, pkg("tuning", "1.0.0"))
	w.settle()
	before := attempts["n02"]
	w.ask("n01", "retry", "1 package=tuning")
	w.settle()
	require.Equal(t, 2*before, attempts["n01"], "another turn of as many attempts")
	require.Equal(t, before, attempts["n02"])
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "1 node=n02" })
	w.pass()
	require.Equal(t, []plan.RequestStatus{{Verb: "retry", Token: "1", Pending: 1, Nodes: []string{"n02"}}}, w.status("tune").Requests)
	w.settle()
	require.Equal(t, 2*before, attempts["n01"])
	require.Equal(t, 2*before, attempts["n02"])
	require.Equal(t, []plan.RequestStatus{{Verb: "retry", Token: "1"}}, w.status("tune").Requests)
}

// A record that cannot be read is for people; a reset replaces it, the node keeps its cordon until it had its turn, and an
// older token does nothing to a record that says that it was handled.
func TestFieldReport_UX01_AResetHealsARecordThatCannotBeRead(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")))
	w.settle()
	w.ranSince()
	n := w.nodes["n01"]
	delete(n.Records, "tune")
	n.Malformed, n.CordonOwners, n.Unschedulable = map[string]string{"tune": "not JSON"}, []string{"tune"}, true
	w.settle()
	require.Equal(t, plan.RecordUnreadable, w.reason("tune", "n01").Code)
	w.ask("n01", "reset", "now")
	require.Equal(t, plan.ActionReset, w.pass().Decisions[0].Action)
	require.True(t, n.Unschedulable, "nothing is known of the node: it stays out of service until it had its turn")
	w.settle()
	require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
	require.Equal(t, map[string][]string{
		"n01": {"tuning apply (fresh)", "tuning config", "interrupt reboot", "tuning post-interrupt"},
	}, w.ranSince())
	require.Empty(t, w.outOfService())
}

// One reset of the NodeWright brings nodes in every state of failure to the end.
func TestFieldReport_UX01_OneResetHealsEveryFailure(t *testing.T) {
	for name, arrange := range map[string]func(w *world){
		"package": func(w *world) { w.fails = func(string, string, nwv1.Stage) int32 { return 1 } },
		"interrupt": func(w *world) {
			w.fails = func(_, _ string, s nwv1.Stage) int32 {
				if s == nwv1.StageInterrupt {
					return 1
				}
				return 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3)
			arrange(w)
			w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1))), service(pkg("tuning", "1.0.0"), "containerd"))
			w.settle()
			require.NotEmpty(t, w.status("tune").Failures)
			w.fails = nil
			w.edit("tune", func(nw *plan.NodeWright) { nw.Reset = "1" })
			w.settle()
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
			require.Empty(t, w.outOfService())
			for _, n := range w.nodes {
				rec := n.Records["tune"]
				require.Equal(t, noderecord.Succeeded, rec.Outcome)
				require.Nil(t, rec.Failure)
				require.Nil(t, rec.Interrupt)
			}
		})
	}
}

func TestRequestsThatCannotBeMetAreRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"), pkg("other", "1.0.0"))
	w.settle()
	w.ranSince()
	w.edit("tune", func(nw *plan.NodeWright) { nw.Rerun, nw.Reset = "1 package=tunning", "1 stage=apply" })
	w.ask("n01", "rerun", "1 stage=interrupt")
	w.ask("n01", "retry", "1 nodewright=other")
	w.ask("n01", "reset", "")
	w.settle()
	require.Empty(t, w.ranSince())
	var problems []string
	for _, r := range w.status("tune").Requests {
		problems = append(problems, r.Problem)
	}
	require.Equal(t, []string{
		`fleetwright.dev/rerun: NodeWright tune has no package "tunning"; it has other, tuning`,
		`fleetwright.dev/reset: "stage=apply" is not one of package=…, node=…`,
	}, problems)
	var messages []string
	for _, r := range w.last.RefusedRequests {
		messages = append(messages, r.Message)
	}
	require.Equal(t, []string{
		"fleetwright.dev/retry: NodeWright other is not among those that select the node",
		"fleetwright.dev/rerun: stage interrupt: no package that is named has an interrupt; the others run from apply or config",
		`fleetwright.dev/reset: a value begins with a token of up to 63 letters, digits and . _ : + -, not ""`,
	}, messages)
}

// Tokens that stood before a node joined are not meant for it.
func TestAJoinerDoesNotRunTwice(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.edit("tune", func(nw *plan.NodeWright) { nw.Rerun, nw.Reset = "1", "1" })
	w.settle()
	w.addNode("n02", nil)
	w.settle()
	require.Len(t, w.ran["n01"], 2)
	require.Len(t, w.ran["n02"], 2)
}

// At rest with a rerun annotation that was handled, ten thousand nodes cost nothing more.
func TestHandledRequestsAreQuiet(t *testing.T) {
	w := newWorld(t, 20)
	w.nodeWright("tune", budgetOnly(20), pkg("tuning", "1.0.0"))
	w.edit("tune", func(nw *plan.NodeWright) { nw.Rerun = "1" })
	w.settle()
	w.in.Now = w.in.Now.Add(time.Hour)
	out := w.pass()
	require.Empty(t, out.Decisions)
	require.Nil(t, out.Ledger)
	for i := range 20 {
		require.Len(t, w.ran[fmt.Sprintf("n%02d", i+1)], 2)
	}
}

// Pause stops what runs and holds back those behind; disable lets it run and holds nobody back. Both: stopped, nobody held back.
func TestFieldReport_UX04_PauseAndDisableAreWhatTheTableSays(t *testing.T) {
	for name, c := range map[string]struct {
		paused, disabled bool
		code             plan.Code
		message          string
		status           nwv1.Status
		suspended        bool
		behind           plan.Code
	}{
		"pause":   {true, false, plan.Suspended, "package tuning, stage apply is suspended: NodeWright tune is paused", nwv1.StatusPaused, true, plan.WaitingForPriority},
		"disable": {false, true, plan.Disabled, "the NodeWright is disabled; package tuning, stage apply goes on to its end", nwv1.StatusDisabled, false, plan.Complete},
		"both":    {true, true, plan.Suspended, "package tuning, stage apply is suspended: NodeWright tune is paused, and disabled", nwv1.StatusDisabled, true, plan.Complete},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
			w.passAndWork(2)
			w.nodeWright("zz", budgetOnly(2), pkg("zz", "1.0.0"))
			w.edit("tune", func(nw *plan.NodeWright) { nw.Paused, nw.Disabled = c.paused, c.disabled })
			w.pass()
			require.Equal(t, c.suspended, w.anySuspended(), "what runs is suspended")
			require.Equal(t, c.code, w.reason("tune", "n01").Code)
			require.Equal(t, c.message, w.reason("tune", "n01").Message, "which switch it is, and what runs")
			w.passAndWork(20)
			require.Equal(t, c.status, w.status("tune").Status)
			require.NotEqual(t, plan.Complete, w.reason("tune", "n02").Code, "nobody is admitted")
			require.Equal(t, c.behind, w.reason("zz", "n02").Code)
			if c.suspended {
				require.Equal(t, c.code, w.reason("tune", "n01").Code)
			}
			w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = false })
			w.pass()
			require.False(t, w.anySuspended(), "without the pause it goes on to its end")
			w.edit("tune", func(nw *plan.NodeWright) { nw.Disabled = false })
			w.settle()
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		})
	}
}

func (w *world) anySuspended() bool {
	for _, j := range w.jobs {
		if j.Suspended {
			return true
		}
	}
	return false
}
