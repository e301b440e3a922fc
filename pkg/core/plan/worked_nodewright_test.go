package plan_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Why we deviate from NodeWright: each is the first cell of a row of docs/compatibility.md.
const (
	whyCeiling  = "budget with a strategy"
	whyZero     = "`count: 0` or `percent: 0` in `interruptionBudget`"
	whyFailed   = "a failed node"
	whyBypassed = "upgrade, change of configuration, uninstall"
)

// nodeWrightExample is one numbered example of what NodeWright does with a budget. Batches are written `2,5(1f),STOP`: two
// nodes, five of which one fails, and a halt.
type nodeWrightExample struct {
	id    string
	nodes int
	rules func(*plan.NodeWright)
	// fails are the numbers of the nodes that fail, from 1.
	fails []int
	// before and after are the contents of an edit of a completed rollout; without them it is an installation.
	before, after packages
	// theirs and ours are the batches; why says for which reason they differ.
	theirs, ours, why string
}

func same(id string, nodes int, rules func(*plan.NodeWright), batches string, fails ...int) nodeWrightExample {
	return nodeWrightExample{id: id, nodes: nodes, rules: rules, theirs: batches, ours: batches, fails: fails}
}

func percentOnly(n int32) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) { nw.Spec.InterruptionBudget = &nwv1.InterruptionBudget{Percent: &n} }
}

func noBudget(*plan.NodeWright) {}

// noStrategy is a policy whose default has a budget and no strategy.
func noStrategy(b nwv1.DeploymentBudget) func(*plan.NodeWright) {
	return func(nw *plan.NodeWright) {
		nw.Policy = &nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{Budget: b}}
	}
}

var all = percent(100)

// successes are rollouts in which every node succeeds.
var successes = []nodeWrightExample{
	same("E1", 10, policy(count(100), fixed(3)), "3,3,3,1"),
	same("E2", 4, policy(all, fixed(0)), "1,1,1,1"),
	same("E3", 8, policy(count(4), linear(1, 1)), "1,2,3,2"),
	same("E4", 20, policy(all, linear(2, 3)), "2,5,8,5"),
	{id: "E5", nodes: 20, rules: policy(percent(25), exponential(1, 2)), theirs: "1,2,4,8,5", ours: "1,2,4,5,5,3", why: whyCeiling},
	{id: "E6", nodes: 100, rules: policy(percent(5), exponential(1, 3)), theirs: "1,3,9,27,60",
		ours: "1,3," + strings.Repeat("5,", 19) + "1", why: whyCeiling},
	{id: "E7", nodes: 30, rules: policy(count(2), exponential(5, 2)), theirs: "5,10,15", ours: repeated("2", 15), why: whyCeiling},
	same("E8", 10, noStrategy(percent(25)), "2,2,2,2,2"),
	same("E9", 5, noStrategy(percent(10)), "1,1,1,1,1"),
	same("E10", 8, noStrategy(count(3)), "3,3,2"),
	same("E11", 10, percentOnly(30), "3,3,3,1"),
	{id: "E12", nodes: 3, rules: budgetOnly(0), theirs: "1,1,1", ours: "", why: whyZero},
	{id: "E13", nodes: 3, rules: percentOnly(0), theirs: "1,1,1", ours: "", why: whyZero},
	same("E14", 7, noBudget, "7"),
	same("E15", 7, budgetOnly(50), "7"),
	{id: "E16", nodes: 7, rules: policy(percent(10), fixed(50)), theirs: "7", ours: repeated("1", 7), why: whyCeiling},
}

// frozen are rollouts in which NodeWright selects failed nodes again and nobody else.
var frozen = []nodeWrightExample{
	{id: "F1", nodes: 20, rules: policy(all, exponential(1, 2)), fails: []int{2}, theirs: "1,2(1f)", ours: "1,2(1f),1,2,4,8,2", why: whyFailed},
	same("F2", 20, policy(all, exponential(1, 2, failureThreshold(1))), "1,2(1f),STOP", 2),
	{id: "F3", nodes: 10, rules: policy(all, fixed(2, failureThreshold(2))), fails: []int{1}, theirs: "2(1f)", ours: "2(1f),2,2,2,2", why: whyFailed},
	{id: "F4", nodes: 10, rules: percentOnly(20), fails: []int{1}, theirs: "2(1f)", ours: "2(1f),2,2,2,2", why: whyFailed},
	{id: "F5", nodes: 6, rules: noStrategy(count(2)), fails: []int{1}, theirs: "2(1f)", ours: "2(1f),2,2", why: whyFailed},
}

// verdicts are what NodeWright's formulas say when failed nodes do not freeze it. We follow them to the letter.
var verdicts = []nodeWrightExample{
	same("G1", 20, policy(all, exponential(1, 2)), "1,2(1f),1,2,4,8,2", 2),
	same("G2", 40, policy(all, exponential(4, 2, batchThreshold(75))), "4(1f),8,16,12", 1),
	same("G3", 40, policy(all, exponential(4, 2, batchThreshold(75))), "4(2f),2,4,8,16,6", 1, 2),
	same("G4", 60, policy(all, linear(5, 5, batchThreshold(90), safetyLimit(100))), "5,10(1f),15,20,10", 6),
	same("G5", 30, policy(all, linear(3, 2)), "3(1f),1(1f),1,3,5,7,9,1", 1, 4),
	same("G6", 20, policy(all, fixed(2, failureThreshold(3))), "2(1f),2(1f),2(1f),STOP", 1, 3, 5),
	same("G7", 20, policy(all, fixed(2, failureThreshold(3))), "2(1f),2(1f),2,2(1f),2(1f),2,2(1f),2(1f),2,2(1f)", 1, 3, 7, 9, 13, 15, 19),
	same("G8", 20, policy(all, fixed(5, failureThreshold(1))), "5,5(1f),5,5", 6),
	same("G9", 20, policy(all, fixed(5, failureThreshold(1), safetyLimit(51))), "5,5(1f),STOP", 6),
	same("G10", 20, policy(all, fixed(5, failureThreshold(1), safetyLimit(100))), "5,5,5(1f),STOP", 11),
	same("G11", 20, policy(all, fixed(5, failureThreshold(1), safetyLimit(100))), "5,5,5,5(1f)", 16),
	same("G12", 64, policy(all, exponential(8, 2)), "8,16(2f),8,16,16", 9, 10),
	same("G13", 16, policy(all, exponential(8, 2)), "8(1f),8", 1),
	same("G14", 3, policy(all, fixed(1, failureThreshold(1))), "1(1f),STOP", 1),
	same("G15", 3, policy(all, fixed(1, failureThreshold(1))), "1,1(1f),1", 2),
	same("G16", 10, policy(all, linear(1, 1)), "1(1f),1,2,3,3", 1),
	same("G17", 10, policy(all, exponential(1, 2)), "1(1f),1,2,4,2", 1),
	same("G18", 20, policy(all, fixed(5, batchThreshold(81), failureThreshold(1), safetyLimit(100))), "5(1f),STOP", 1),
	same("G19", 20, policy(all, fixed(5, batchThreshold(80), failureThreshold(1), safetyLimit(100))), "5(1f),5,5,5", 1),
}

// bypassed are edits of a completed rollout, which NodeWright carries out on all nodes at once.
var bypassed = []nodeWrightExample{
	{id: "U1", nodes: 10, rules: budgetOnly(2), before: packages{pkg("tuning", "1.0.0")}, after: packages{pkg("tuning", "2.0.0")},
		theirs: "10", ours: "2,2,2,2,2", why: whyBypassed},
	{id: "U2", nodes: 10, rules: policy(all, fixed(2, failureThreshold(1))), before: packages{pkg("tuning", "1.0.0")},
		after: packages{pkg("tuning", "2.0.0")}, theirs: "10", ours: "2,2,2,2,2", why: whyBypassed},
	{id: "U3", nodes: 10, rules: budgetOnly(2), before: packages{uninstallable(pkg("tuning", "1.0.0"))},
		after: packages{absent(pkg("tuning", "1.0.0"))}, theirs: "10", ours: "2,2,2,2,2", why: whyBypassed},
	{id: "U4", nodes: 10, rules: budgetOnly(2), before: packages{config(pkg("tuning", "1.0.0"), "a", "1")},
		after: packages{config(pkg("tuning", "1.0.0"), "a", "2")}, theirs: "10", ours: "2,2,2,2,2", why: whyBypassed},
}

// TestNodeWrightExamples runs NodeWright's worked examples; where we deviate, the row says why.
func TestNodeWrightExamples(t *testing.T) {
	for _, e := range slices.Concat(successes, frozen, verdicts, bypassed) {
		t.Run(e.id, func(t *testing.T) {
			require.Equal(t, e.theirs == e.ours, e.why == "", "a deviation says why, and nothing else does")
			require.Equal(t, e.ours, e.run(t))
		})
	}
}

// run carries the example out: each batch ends before the next pass.
func (e nodeWrightExample) run(t *testing.T) string {
	w := newWorld(t, e.nodes)
	w.in.Settings.Attempts = 1
	bad := make([]string, 0, len(e.fails))
	for _, n := range e.fails {
		bad = append(bad, fmt.Sprintf("n%02d", n))
	}
	w.fails = failing(bad...)
	if e.before == nil {
		w.nodeWright("tune", e.rules, pkg("tuning", "1.0.0"))
	} else {
		w.nodeWright("tune", e.rules, e.before...)
		w.settle()
		w.nodeWright("tune", nil, e.after...)
	}
	w.batchByBatch()
	return w.batches("tune")
}

// batchByBatch passes until nothing is decided any more, then lets everything that runs come to its end, and again.
func (w *world) batchByBatch() {
	for range 200 {
		for out := w.pass(); len(out.Decisions) > 0 || out.Ledger != nil; {
			out = w.pass()
		}
		if !w.busy() {
			return
		}
		for w.busy() {
			w.work()
		}
	}
	w.t.Fatalf("the batches do not end: %v", w.batches("tune"))
}

// batches writes the batches of the newest round as the examples do.
func (w *world) batches(nodeWright string) string {
	sizes := w.sizes(nodeWright)
	out := make([]string, 0, len(sizes)+1)
	for i, size := range sizes {
		failed := 0
		for _, n := range w.nodes {
			r := n.Records[nodeWright]
			if r.Round == w.in.Ledger.Rollouts[nodeWright].Round && r.Batch == int32(i+1) && r.Outcome == noderecord.Failed {
				failed++
			}
		}
		text := fmt.Sprint(size)
		if failed > 0 {
			text = fmt.Sprintf("%d(%df)", size, failed)
		}
		out = append(out, text)
	}
	if len(w.status(nodeWright).Halted) > 0 {
		out = append(out, "STOP")
	}
	return strings.Join(out, ",")
}

func repeated(batch string, times int) string {
	return strings.TrimSuffix(strings.Repeat(batch+",", times), ",")
}

// TestNodeWrightCompartmentExamples: the choice of a compartment is NodeWright's.
func TestNodeWrightCompartmentExamples(t *testing.T) {
	one, lin, exp := fixed(1), linear(1, 1), exponential(1, 2)
	for _, c := range []struct {
		id           string
		compartments []nwv1.Compartment
		want         string
	}{
		{"C1", []nwv1.Compartment{zone("exp", count(20), &exp, "x"), zone("lin", count(10), &lin, "x"), zone("fix", count(3), &one, "x")}, "fix"},
		{"C2", []nwv1.Compartment{zone("exp", count(20), &exp, "x"), zone("lin", count(100), &lin, "x")}, "lin"},
		{"C3", []nwv1.Compartment{zone("a", count(10), &lin, "x"), zone("b", count(5), &lin, "x")}, "b"},
		{"C4", []nwv1.Compartment{zone("b", count(3), &one, "x"), zone("a", count(3), &one, "x")}, "a"},
		{"C5", []nwv1.Compartment{zone("none", count(1), nil, "x"), zone("exp", count(100), &exp, "x")}, "exp"},
		{"C6", []nwv1.Compartment{zone("a", count(3), &one, "x"), zone("half", percent(50), &one, "x")}, "half"},
	} {
		t.Run(c.id, func(t *testing.T) {
			w := newWorld(t, 4)
			for _, n := range w.nodes {
				n.Labels["x"] = "x"
			}
			w.nodeWright("tune", func(nw *plan.NodeWright) {
				nw.Policy = &nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{Budget: count(1)}, Compartments: c.compartments}
			}, pkg("tuning", "1.0.0"))
			w.pass()
			require.Equal(t, c.want, w.nodes["n01"].Records["tune"].Compartment)
		})
	}
}

// TestDeviationsAreDocumented: docs/compatibility.md has a row for each reason to deviate.
func TestDeviationsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)
	for _, why := range []string{whyCeiling, whyZero, whyFailed, whyBypassed} {
		require.Contains(t, string(text), "| "+why+" |", "a deviation that docs/compatibility.md does not list")
	}
}
