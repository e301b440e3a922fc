package report_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// kstatus computes what tools that wait (kubectl wait's successors, Flux, Argo CD, Helm) make of an object, by the documented rules of
// sigs.k8s.io/cli-utils, in their order: a status about another generation is in progress; then the abnormal conditions, the first
// that is True; then Ready; without any of them the object counts as current.
func kstatus(generation, observed int64, conditions []metav1.Condition) string {
	if observed != generation {
		return "InProgress"
	}
	for _, c := range conditions {
		switch {
		case c.Type == "Reconciling" && c.Status == metav1.ConditionTrue:
			return "InProgress"
		case c.Type == "Stalled" && c.Status == metav1.ConditionTrue:
			return "Failed"
		}
	}
	for _, c := range conditions {
		if c.Type == "Ready" && c.Status != metav1.ConditionTrue {
			return "InProgress"
		}
	}
	return "Current"
}

// everyDelivery calls f for each combination of what a pass can find.
func everyDelivery(f func(name string, d report.Delivery)) {
	views := map[string][]report.NodeWrightView{
		"none": nil, "complete": {view("gpu", true, "4/4")}, "rolling": {view("gpu", false, "1/4")}, "halted": {haltedView()}, "stale": {stale()},
		"missing": {{Name: "gpu"}}, "mixed": {view("a", true, "4/4"), haltedView(), view("z", false, "1/4")},
	}
	failures := map[string]*report.Failure{"ok": nil, "retried": failed(false, ""), "retried commit": failed(false, revB), "stalled": failed(true, revB)}
	for rollout, nodeWrights := range views {
		for kind, failure := range failures {
			for _, applied := range []string{"", revA, revB} {
				for _, suspended := range []bool{false, true} {
					for _, working := range []string{"", "delivering"} {
						f(fmt.Sprintf("%s, %s, applied %.8q, suspended %t, working %q", rollout, kind, applied, suspended, working), report.Delivery{
							Generation: 3, Attempted: revB, Applied: applied, Suspended: suspended, Working: working, Failure: failure, NodeWrights: nodeWrights,
						})
					}
				}
			}
		}
	}
}

// TestDeliveryReport_DST15_ConditionsAreUnambiguous: in every state, whichever condition a reader looks at first, it reads the same.
func TestDeliveryReport_DST15_ConditionsAreUnambiguous(t *testing.T) {
	states := 0
	everyDelivery(func(name string, d report.Delivery) {
		states++
		all := map[string]metav1.ConditionStatus{}
		for _, c := range d.Conditions() {
			require.NotContains(t, all, c.Type, name)
			require.EqualValues(t, 3, c.ObservedGeneration, name)
			require.NotEmpty(t, c.Reason, name)
			require.NotEmpty(t, c.Message, name)
			all[c.Type] = c.Status
		}
		require.Equal(t, "Ready", d.Conditions()[0].Type, name)
		_, reconciling := all["Reconciling"]
		_, stalled := all["Stalled"]
		require.False(t, reconciling && stalled, name)
		switch all["Ready"] {
		case metav1.ConditionTrue:
			require.Len(t, all, 1, "%s: nothing else beside Ready=True", name)
		case metav1.ConditionUnknown:
			require.False(t, stalled, name)
			require.True(t, reconciling || d.Suspended, name)
		case metav1.ConditionFalse:
			require.True(t, reconciling || stalled || d.Suspended, name)
		}
		if reconciling || stalled { // they are there only while they are true
			require.NotEqual(t, metav1.ConditionTrue, all["Ready"], name)
			require.Equal(t, metav1.ConditionTrue, d.Conditions()[1].Status, name)
		}
	})
	require.Equal(t, 7*4*3*2*2, states)
}

// TestDeliveryReport_DST04_WaitingToolsSeeProgressFailureAndEnd: at each step of a pass kstatus says what a person would.
func TestDeliveryReport_DST04_WaitingToolsSeeProgressFailureAndEnd(t *testing.T) {
	gpu := func(v report.NodeWrightView) []report.NodeWrightView { return []report.NodeWrightView{v} }
	for _, step := range []struct {
		name string
		d    report.Delivery
		want string
	}{
		{"fetching", report.Delivery{Attempted: revA, Working: "delivering"}, "InProgress"},
		{"the server is away", report.Delivery{Failure: failed(false, "")}, "InProgress"},
		{"the server is away after the end", report.Delivery{Attempted: revA, Applied: revA, Failure: failed(false, ""), NodeWrights: gpu(view("gpu", true, "4/4"))}, "InProgress"},
		{"the build fails", report.Delivery{Attempted: revB, Applied: revA, Failure: failed(true, revB)}, "Failed"},
		{"the next commit", report.Delivery{Attempted: revB, Applied: revA, Working: "delivering"}, "InProgress"},
		{"rolling", report.Delivery{Attempted: revB, Applied: revB, NodeWrights: gpu(view("gpu", false, "1/4"))}, "InProgress"},
		{"halted", report.Delivery{Attempted: revB, Applied: revB, NodeWrights: gpu(haltedView())}, "Failed"},
		{"complete", report.Delivery{Attempted: revB, Applied: revB, NodeWrights: gpu(view("gpu", true, "4/4"))}, "Current"},
		{"suspended before the first commit", report.Delivery{Suspended: true}, "InProgress"},
		{"suspended when complete", report.Delivery{Attempted: revB, Applied: revB, Suspended: true, NodeWrights: gpu(view("gpu", true, "4/4"))}, "Current"},
	} {
		step.d.Generation = 7
		require.Equal(t, step.want, kstatus(7, 7, step.d.Conditions()), step.name)
		require.Equal(t, "InProgress", kstatus(8, 7, step.d.Conditions()), "%s, and the Fleet was edited", step.name)
	}
	for _, c := range (report.Delivery{Failure: failed(false, "")}).Conditions() {
		if c.Type == "Reconciling" {
			require.Equal(t, "ProgressingWithRetry", c.Reason)
		}
	}
	everyDelivery(func(name string, d report.Delivery) {
		got := kstatus(3, 3, d.Conditions())
		require.Equal(t, d.Conditions()[0].Status == metav1.ConditionTrue, got == "Current", name)
		require.Equal(t, len(d.Conditions()) > 1 && d.Conditions()[1].Type == "Stalled", got == "Failed", name)
	})
}

// TestDeliveryReport_DST07_ANewObjectIsNotDone: the -1 that the API server fills in keeps a tool waiting that looks before we do.
func TestDeliveryReport_DST07_ANewObjectIsNotDone(t *testing.T) {
	require.Equal(t, "InProgress", kstatus(1, -1, nil))
	require.Equal(t, "Current", kstatus(1, 1, nil), "what it would be without")
}

// TestDeliveryReport_DST03_MessagesBelongToTheLastAttempt: nothing of an earlier failure is left in what a later one shows, whatever
// they were.
func TestDeliveryReport_DST03_MessagesBelongToTheLastAttempt(t *testing.T) {
	first := &report.Failure{Reason: "InvalidSecret", Message: "Secret fleets/none does not exist"}
	second := &report.Failure{Reason: "BuildFailed", Message: "a/kustomization.yaml:3: is not YAML", Stalled: true, Revision: revB}
	status := fleetv1.FleetStatus{LastAttemptedRevision: revB}
	for _, f := range []*report.Failure{first, second, first, nil} {
		status.Conditions = report.Delivery{Attempted: revB, Applied: revA, Failure: f, NodeWrights: []report.NodeWrightView{view("gpu", true, "4/4")}}.Conditions()
		text := fmt.Sprint(status.Conditions)
		for _, other := range []*report.Failure{first, second} {
			require.Equal(t, other == f, strings.Contains(text, other.Message) || strings.Contains(text, other.Reason), text)
		}
		require.Equal(t, f, report.Remembered(status))
	}
}

// TestDeliveryReport_DST12_ReadyIsAllParts: of five NodeWrights one is in each state that is not the end, in turn; the Fleet is not Ready,
// the commit is no success, and the words name the part.
func TestDeliveryReport_DST12_ReadyIsAllParts(t *testing.T) {
	parts := func() []report.NodeWrightView {
		var out []report.NodeWrightView
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			out = append(out, view(name, true, "4/4"))
		}
		return out
	}
	all := report.Delivery{Attempted: revA, Applied: revA, NodeWrights: parts()}
	require.Equal(t, metav1.ConditionTrue, all.Conditions()[0].Status)
	bad := map[string]func(v *report.NodeWrightView){
		"about an older generation": func(v *report.NodeWrightView) { v.Current = false },
		"never looked at": func(v *report.NodeWrightView) {
			v.Current, v.Status = false, nwv1.NodeWrightStatus{ObservedGeneration: -1}
		},
		"looked at, but no word":     func(v *report.NodeWrightView) { v.Status = nwv1.NodeWrightStatus{} },
		"being uninstalled":          func(v *report.NodeWrightView) { v.Leaving = true },
		"halted":                     func(v *report.NodeWrightView) { n := v.Name; *v = haltedView(); v.Name = n },
		"a word that is not known":   func(v *report.NodeWrightView) { v.Status.Status = "finished" },
		"complete in a halted batch": func(v *report.NodeWrightView) { v.Status.CompartmentStatuses = haltedView().Status.CompartmentStatuses },
	}
	for _, s := range []nwv1.Status{nwv1.StatusUnknown, nwv1.StatusBlocked, nwv1.StatusWaiting, nwv1.StatusDisabled, nwv1.StatusPaused, nwv1.StatusInProgress, nwv1.StatusErroring} {
		bad["status "+string(s)] = func(v *report.NodeWrightView) { v.Status.Status, v.Status.CompleteNodes = s, "3/4" }
	}
	for name, spoil := range bad {
		for i := range 5 {
			d := all
			d.NodeWrights = parts()
			spoil(&d.NodeWrights[i])
			require.NotEqual(t, metav1.ConditionTrue, d.Conditions()[0].Status, name)
			require.Contains(t, d.Conditions()[0].Message, "NodeWright/"+d.NodeWrights[i].Name, name)
			require.False(t, d.RolledOut(), name)
			require.NotEqual(t, report.CommitSuccess, d.CommitStatuses()[0].State, name)
		}
	}
}

// TestDeliveryReport_DST16_NotLookedAtIsNotReadyAndAHaltEndsTheWait: without a status of the rollout there is progress and no end; a halt
// ends it at once, whatever else is under way.
func TestDeliveryReport_DST16_NotLookedAtIsNotReadyAndAHaltEndsTheWait(t *testing.T) {
	unseen := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 1}}
	unseen.Status.ObservedGeneration = -1
	d := report.Delivery{Generation: 1, Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{report.ViewOf(unseen, "hash")}}
	require.Equal(t, "InProgress", kstatus(1, 1, d.Conditions()))
	require.Equal(t, "main@sha1:aaaaaaaaaaaa: waiting for the first look at its nodes", d.Conditions()[0].Message)

	d.NodeWrights = append(d.NodeWrights, haltedView(), view("z", false, "1/400"))
	require.Equal(t, "Failed", kstatus(1, 1, d.Conditions()))
	require.Contains(t, d.Conditions()[0].Message, "NodeWright/gpu: halted: node n7: ")
}

// TestDeliveryReport_DST18_WordsDoNotAlternate: with three failing parts, in any order, and with maps that iterate as they like, the
// report is the same every time.
func TestDeliveryReport_DST18_WordsDoNotAlternate(t *testing.T) {
	parts := func() []report.NodeWrightView {
		var out []report.NodeWrightView
		for _, name := range []string{"a", "b", "c"} {
			v := haltedView()
			v.Name = name
			for i := range 8 {
				v.Status.CompartmentStatuses[fmt.Sprintf("c%d", i)] = nwv1.CompartmentStatus{Matched: 9, BatchState: &nwv1.BatchState{CurrentBatch: int32(i), ShouldStop: i%2 == 0}}
			}
			out = append(out, v)
		}
		return out
	}
	want := report.Delivery{Attempted: revA, Applied: revA, NodeWrights: parts()}
	for i := range 600 {
		d := want
		d.NodeWrights = parts()
		for range i % 3 {
			d.NodeWrights = append(d.NodeWrights[1:], d.NodeWrights[0])
		}
		if i%2 == 0 {
			slices.Reverse(d.NodeWrights)
		}
		require.Equal(t, want.Conditions(), d.Conditions())
		require.Equal(t, want.CommitStatuses(), d.CommitStatuses())
		require.Equal(t, want.Summary(), d.Summary())
	}
}

// TestDeliveryReport_DST09_OfflineNodesAreNamed: a rollout that waits for nodes that are away says so, with their count and names.
func TestDeliveryReport_DST09_OfflineNodesAreNamed(t *testing.T) {
	v := view("gpu", false, "396/400")
	v.Status.Reasons = []nwv1.ReasonCount{{Reason: string(plan.NodeNotReady), Count: 4, Nodes: []string{"n1", "n2", "n3", "n4"}, Message: "the node is not Ready"}}
	d := report.Delivery{Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{v}}
	require.Equal(t, "main@sha1:aaaaaaaaaaaa: 396/400 nodes, 4 not Ready: n1, n2, n3, …", d.Conditions()[0].Message)
	require.Equal(t, "396/400 nodes, 4 not Ready: n1, n2, n3, …", d.CommitStatuses()[0].Description)
}

// TestFieldReport_UX04_TheFleetNamesTheSwitch: a rollout that stands because somebody paused or disabled it says so on the Fleet and on the
// commit.
func TestFieldReport_UX04_TheFleetNamesTheSwitch(t *testing.T) {
	for status, want := range map[nwv1.Status]string{nwv1.StatusPaused: "12/24 nodes, paused", nwv1.StatusDisabled: "12/24 nodes, disabled", nwv1.StatusInProgress: "12/24 nodes"} {
		v := view("gpu", false, "12/24")
		v.Status.Status = status
		d := report.Delivery{Attempted: revA, Applied: revA, NodeWrights: []report.NodeWrightView{v}}
		require.Equal(t, want, d.CommitStatuses()[0].Description)
		require.True(t, strings.HasSuffix(d.Conditions()[0].Message, want), d.Conditions()[0].Message)
	}
}
