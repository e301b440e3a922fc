package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Random graphs of up to eight packages, with restarts at random points: what a package depends on has ended before it
// starts, and comes before it in the order of the whole.
func TestFieldReport_OD01_OrderOfRandomGraphs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := randomGraph(t)
		w := newWorld(t, 1)
		w.nodeWright("tune", budgetOnly(1), set...)
		w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.Serial = rapid.Bool().Draw(t, "serial") })
		for range rapid.IntRange(0, 12).Draw(t, "passes before all is well") {
			if rapid.Bool().Draw(t, "killed") { // after the ledger was written, before anything else
				w.lost = func(plan.Decision) bool { return true }
			}
			w.pass()
			w.lost = nil
			w.checkDependencies(set)
			w.work()
		}
		w.settle()
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		for _, p := range set {
			for dep := range p.DependsOn {
				require.Less(t, slices.Index(w.ran["n01"], dep+" config"), slices.Index(w.ran["n01"], p.Name+" apply"), "%v", w.ran["n01"])
			}
		}
	})
}

// randomGraph: a package depends on some of those before it; the names are shuffled, so that they do not give the order.
func randomGraph(t *rapid.T) packages {
	names := rapid.Permutation([]string{"aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh"}).Draw(t, "names")
	var set packages
	for i := range rapid.IntRange(1, 8).Draw(t, "packages") {
		p := pkg(names[i], "1.0.0")
		var on []string
		for _, earlier := range names[:i] {
			if rapid.IntRange(0, 2).Draw(t, p.Name+" on "+earlier) == 0 {
				on = append(on, earlier)
			}
		}
		if rapid.IntRange(0, 3).Draw(t, p.Name+" interrupts") == 0 {
			p = service(p, p.Name)
		}
		set = append(set, depends(p, on...))
	}
	return set
}

// checkDependencies: whatever runs or has run, what it depends on has ended.
func (w *world) checkDependencies(set packages) {
	for _, j := range w.jobs {
		i := slices.IndexFunc(set, func(p desired.Package) bool { return p.Name == j.Package })
		if i < 0 {
			continue // the merged interrupt
		}
		for dep := range set[i].DependsOn {
			have := w.nodes["n01"].Records["tune"].Packages[dep]
			require.NotEmpty(w.t, have.Configured, "%s runs before %s, on which it depends, is there", j.Package, dep)
			require.False(w.t, have.DueInstall && set[slices.IndexFunc(set, func(p desired.Package) bool { return p.Name == dep })].Interrupt != nil,
				"%s runs before the interrupt of %s", j.Package, dep)
		}
	}
}

// A diamond with a failed branch: the join never starts, and says what it waits for. A cycle is refused.
func TestFieldReport_OD01_DiamondAndCycle(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = func(_, name string, _ nwv1.Stage) int32 {
		if name == "left" {
			return 1
		}
		return 0
	}
	w.nodeWright("tune", budgetOnly(1), pkg("base", "1.0.0"), depends(pkg("left", "1.0.0"), "base"), depends(pkg("right", "1.0.0"), "base"),
		depends(pkg("join", "1.0.0"), "left", "right"))
	w.settle()
	require.Contains(t, w.ran["n01"], "right config")
	require.False(t, slices.ContainsFunc(w.ran["n01"], func(line string) bool { return strings.HasPrefix(line, "join") }))
	require.Equal(t, noderecord.Failed, w.nodes["n01"].Records["tune"].Outcome)
	require.Equal(t, "package left", w.reason("tune", "n01").Object)

	_, problems := desired.Resolve(entriesOf(depends(pkg("aa", "1.0.0"), "bb"), depends(pkg("bb", "1.0.0"), "aa"), depends(pkg("cc", "1.0.0"), "gone")), nil)
	require.Equal(t, []string{"dependency cycle: aa -> bb -> aa", `package "gone" does not exist`}, messagesOf(problems))
}

func entriesOf(set ...desired.Package) *nwv1.NodeWright {
	obj := &nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{}}}
	for _, p := range set {
		obj.Spec.Packages[p.Name] = entryOf(p)
	}
	return obj
}

func messagesOf(problems []desired.Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.Message)
	}
	return out
}

// A barrier over all nodes and a node that joins and cannot take part: the reasons say who waits for whom; and a node whose
// gate taint the first does not tolerate is not waited for.
func TestFieldReport_OD03_BarrierAndGates(t *testing.T) {
	gate := corev1.Taint{Key: "gate", Value: "closed", Effect: corev1.TaintEffectNoSchedule}
	for _, c := range []struct {
		name  string
		n03   func(n *plan.Node)
		first plan.Code
		then  int32
		why   string
	}{
		{"NotReady", func(n *plan.Node) { n.Ready = false }, plan.NodeNotReady, 0,
			"NodeWright first goes first on every node; node n03 is not complete"},
		{"gated", func(n *plan.Node) { n.Taints = []corev1.Taint{gate} }, plan.TaintNotTolerated, 3, "every package is done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2)
			c.n03(w.addNode("n03", nil))
			w.nodeWright("first", func(nw *plan.NodeWright) {
				budgetOnly(3)(nw)
				nw.Spec.Priority, nw.Spec.Sequencing = 1, nwv1.SequencingAll
			}, pkg("base", "1.0.0"))
			w.nodeWright("second", func(nw *plan.NodeWright) {
				budgetOnly(3)(nw)
				nw.Spec.AdditionalTolerations = []corev1.Toleration{{Key: "gate", Operator: corev1.TolerationOpExists}}
			}, pkg("top", "1.0.0"))
			w.settle()
			require.EqualValues(t, 2, w.status("first").Complete)
			require.Equal(t, c.first, w.reason("first", "n03").Code)
			require.Equal(t, c.then, w.status("second").Complete)
			require.Equal(t, c.why, w.reason("second", "n01").Message)
			w.nodes["n03"].Ready, w.nodes["n03"].Taints = true, nil
			w.settle()
			require.EqualValues(t, 3, w.status("first").Complete)
			require.EqualValues(t, 3, w.status("second").Complete)
		})
	}
}

// A package that others depend on is not taken away under them: the object is refused, by name. Where all are removed,
// those that depend on others go first.
func TestFieldReport_OD05_UninstallBesideDependents(t *testing.T) {
	base, top := uninstallable(pkg("base", "1.0.0")), uninstallable(depends(pkg("top", "1.0.0"), "base"))
	last := uninstallable(depends(pkg("aa", "1.0.0"), "top"))
	_, problems := desired.Resolve(entriesOf(absent(pkg("base", "1.0.0")), top), nil)
	require.Equal(t, []string{`package "base" is to be uninstalled (uninstall.apply)`}, messagesOf(problems))
	_, problems = desired.Resolve(entriesOf(top), nil)
	require.Equal(t, []string{`package "base" does not exist`}, messagesOf(problems))

	for _, reboots := range []bool{false, true} {
		t.Run(fmt.Sprint("reboots ", reboots), func(t *testing.T) {
			w := newWorld(t, 2)
			set := packages{base, top, last}
			if reboots {
				set = packages{reboot(base), reboot(top), reboot(last)}
			}
			w.nodeWright("tune", budgetOnly(1), set...)
			w.settle()
			w.ran = map[string][]string{}
			w.edit("tune", func(nw *plan.NodeWright) { nw.Problem = `package "base" does not exist` })
			w.settle()
			require.Empty(t, w.ran, "an object that cannot be resolved takes nothing away")
			w.edit("tune", func(nw *plan.NodeWright) { nw.Problem = "" })
			w.nodeWright("tune", nil)
			w.settle()
			for _, name := range sortedKeys(w.nodes) {
				uninstalls := slices.DeleteFunc(slices.Clone(w.ran[name]), func(line string) bool { return strings.HasPrefix(line, "interrupt") })
				require.Equal(t, []string{"aa uninstall 1.0.0", "top uninstall 1.0.0", "base uninstall 1.0.0"}, uninstalls)
			}
		})
	}
}
