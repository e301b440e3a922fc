package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// uninstallFails makes the uninstall stages fail, as long as bad says so.
func uninstallFails(bad *bool) func(string, string, nwv1.Stage) int32 {
	return func(_, _ string, s nwv1.Stage) int32 {
		if *bad && s == nwv1.StageUninstall {
			return 4
		}
		return 0
	}
}

// A NodeWright with something to uninstall gets its finalizer before anything is installed; one without needs none.
func TestTheFinalizerComesBeforeTheInstall(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("plain", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.nodeWright("tune", budgetOnly(1), uninstallable(pkg("base", "1.0.0")))
	out := w.pass()
	require.Equal(t, []plan.FinalizerChange{{NodeWright: "tune", UID: "uid-tune", Wanted: true}}, out.Finalizers)
	w.settle()
	require.False(t, w.in.NodeWrights[0].Finalizer)
	w.nodeWright("tune", nil, pkg("base", "1.0.0"))
	w.settle()
	require.True(t, w.in.NodeWrights[1].Finalizer, "what is installed may still have to be uninstalled")
}

// TestDeletionUninstalls: what a deleted NodeWright installed is uninstalled, dependents first, within the budget and with
// the interrupts; then the object goes, and the cordons with it.
func TestDeletionUninstalls(t *testing.T) {
	for _, c := range []struct {
		name     string
		packages packages
		want     []string
		stays    bool // the object waits
	}{
		{"nothing to uninstall", packages{pkg("tuning", "1.0.0")}, nil, false},
		{"one package", packages{uninstallable(pkg("tuning", "1.0.0")), pkg("plain", "1.0.0")}, []string{"tuning uninstall 1.0.0"}, true},
		{"with interrupt", packages{uninstallable(reboot(pkg("tuning", "1.0.0")))}, []string{"tuning uninstall 1.0.0", "interrupt reboot"}, true},
		{"dependents first", packages{
			uninstallable(pkg("aa", "1.0.0")), uninstallable(depends(pkg("bb", "1.0.0"), "aa")), uninstallable(depends(pkg("cc", "1.0.0"), "bb")),
		}, []string{"cc uninstall 1.0.0", "bb uninstall 1.0.0", "aa uninstall 1.0.0"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3)
			w.ceiling = 1
			w.nodeWright("tune", budgetOnly(1), c.packages...)
			w.settle()
			w.ran, w.passes = map[string][]string{}, 0
			w.deleteNodeWright("tune")
			require.Equal(t, c.stays, w.hasNodeWright("tune"))
			w.settle()
			require.False(t, w.hasNodeWright("tune"))
			for name, n := range w.nodes {
				require.Equal(t, c.want, w.ran[name], name)
				require.Empty(t, n.CordonOwners)
				require.False(t, n.Unschedulable)
				for have := range n.Records["tune"].Packages {
					require.NotContains(t, c.want, have+" uninstall 1.0.0")
				}
			}
		})
	}
}

// TestDeletionInTheMiddle: whatever is under way when the NodeWright is deleted, it ends: also a failed install, an install
// between two attempts, one whose image never comes, and one whose policy was deleted with it.
func TestDeletionInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(w *world)
	}{
		{"the install failed for good", func(w *world) { w.fails = failing("n01", "n02"); w.settle(); w.fails = nil }},
		{"between two attempts", func(w *world) { w.fails = failing("n01", "n02"); w.passAndWork(5); w.fails = nil }},
		{"while a stage runs", func(w *world) { w.passAndWork(4) }},
		{"before its admission is confirmed", func(w *world) { w.pass() }},
		{"the image cannot be pulled", func(w *world) {
			w.passAndWork(3)
			for _, j := range w.jobs {
				j.State, j.Trouble, j.TroubleSince = plan.ExecutionPending, plan.ImagePull, w.in.Now
			}
		}},
		{"the policy is gone", func(w *world) {
			w.settle()
			w.in.NodeWrights[0].Spec.DeploymentPolicy, w.in.NodeWrights[0].Policy = "gone", nil
			w.in.NodeWrights[0].Problem = `spec.deploymentPolicy: DeploymentPolicy "gone" does not exist`
			w.ceiling = 1
		}},
		{"a package is gone", func(w *world) {
			w.settle()
			w.in.NodeWrights[0].Problem = `spec.packages.tuning.packageRef.name: Package "x" does not exist`
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.nodeWright("tune", budgetOnly(2), uninstallable(reboot(pkg("tuning", "1.0.0"))))
			c.prepare(w)
			w.deleteNodeWright("tune")
			w.passes = 0
			w.settle()
			require.False(t, w.hasNodeWright("tune"), "%v", w.log)
			for name, n := range w.nodes {
				require.False(t, n.Unschedulable, name)
				require.Empty(t, n.Records["tune"].Packages, name)
			}
		})
	}
}

// TestDeletionWaitsVisibly: what keeps the deletion is said, and nothing vanishes before it is over.
func TestDeletionWaitsVisibly(t *testing.T) {
	for _, c := range []struct {
		name     string
		hold     func(w *world)
		held     plan.Code
		nodes    []string
		mendable func(w *world)
	}{
		{"paused", func(w *world) { w.in.NodeWrights[0].Paused = true }, plan.Paused, nil, func(w *world) { w.in.NodeWrights[0].Paused = false }},
		{"disabled", func(w *world) { w.in.NodeWrights[0].Disabled = true }, plan.Disabled, nil, func(w *world) { w.in.NodeWrights[0].Disabled = false }},
		{"a node is ignored", func(w *world) { w.nodes["n01"].Labels[nwv1.IgnoreLabel] = "true" }, plan.Ignored, []string{"n01"},
			func(w *world) { delete(w.nodes["n01"].Labels, nwv1.IgnoreLabel) }},
		{"a record cannot be read", func(w *world) {
			w.nodes["n02"].Malformed = map[string]string{"tune": "bad"}
			delete(w.nodes["n02"].Records, "tune")
		}, plan.RecordUnreadable, []string{"n02"}, func(w *world) { w.nodes["n02"].Malformed = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.nodeWright("tune", budgetOnly(2), uninstallable(pkg("tuning", "1.0.0")))
			w.settle()
			c.hold(w)
			w.deleteNodeWright("tune")
			w.settle()
			require.True(t, w.hasNodeWright("tune"))
			u := w.status("tune").Uninstall
			require.NotNil(t, u)
			require.True(t, u.Deleting)
			require.Equal(t, c.held, u.Held)
			require.Equal(t, c.nodes, u.HeldNodes)
			c.mendable(w)
			w.settle()
			require.False(t, w.hasNodeWright("tune"))
		})
	}
}

// TestAbandonUninstall: a failing uninstall is given up with a token: the record forgets the package, its files stay, and
// what waited for it goes on.
func TestAbandonUninstall(t *testing.T) {
	v1, v2 := uninstallable(reboot(pkg("tuning", "1.0.0"))), uninstallable(pkg("tuning", "2.0.0"))
	for _, c := range []struct {
		name   string
		from   packages
		change func(w *world)
		want   []string // after the abandonment
		left   bool     // the package is on record in the end
		gone   bool     // the object is
	}{
		{"removed", packages{v1}, func(w *world) { w.nodeWright("tune", nil) }, nil, false, false},
		{"kept away", packages{v1}, func(w *world) { w.nodeWright("tune", nil, absent(v1)) }, nil, false, false},
		{"deleted", packages{v1}, func(w *world) { w.deleteNodeWright("tune") }, nil, false, true},
		{"downgrade", packages{v2}, func(w *world) { w.nodeWright("tune", nil, uninstallable(pkg("tuning", "1.0.0"))) },
			[]string{"tuning apply (fresh)", "tuning config"}, true, false},
	} {
		for _, hangs := range []bool{false, true} {
			name := c.name + ", failed"
			if hangs {
				name = c.name + ", hangs without a bound"
			}
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, 2)
				w.nodeWright("tune", budgetOnly(2), c.from...)
				w.settle()
				bad := !hangs
				w.fails = uninstallFails(&bad)
				w.frozen = func(e plan.Execution) bool { return hangs && e.Phase == plan.PhaseUninstall }
				w.in.Settings.StageTimeout = 0
				c.change(w)
				w.passAndWork(200)
				require.True(t, w.hasNodeWright("tune"))
				s := w.status("tune")
				require.EqualValues(t, 2, s.Uninstall.Count)
				if !hangs {
					require.EqualValues(t, 2, s.Failed)
					require.Len(t, s.Uninstall.Failures, 2)
				}
				w.ran = map[string][]string{}
				w.in.NodeWrights[0].Abandon = "now"
				w.passes = 0
				w.settle()
				require.Equal(t, c.gone, !w.hasNodeWright("tune"))
				for name, n := range w.nodes {
					require.Equal(t, c.want, w.ran[name])
					_, has := n.Records["tune"].Packages["tuning"]
					require.Equal(t, c.left, has)
					require.False(t, n.Unschedulable)
				}
				if !c.gone {
					require.Equal(t, nwv1.StatusComplete, w.status("tune").Status, "%+v", w.last.Reasons)
					require.Equal(t, "now", w.in.Ledger.Rollouts["tune"].Abandoned)
				}
			})
		}
	}
}

// TestAbandonIsForOneRound: a token that was handled says nothing about the next removal.
func TestAbandonIsForOneRound(t *testing.T) {
	w := newWorld(t, 1)
	p := uninstallable(pkg("tuning", "1.0.0"))
	w.nodeWright("tune", func(nw *plan.NodeWright) { nw.Abandon = "earlier" }, p)
	w.settle()
	require.Equal(t, "earlier", w.in.Ledger.Rollouts["tune"].Abandoned)
	w.ran = map[string][]string{}
	w.nodeWright("tune", nil)
	w.settle()
	require.Equal(t, []string{"tuning uninstall 1.0.0"}, w.ran["n01"])
}

// TestDeletedAndCreatedAgain: an object of the same name that comes after the deletion starts anew.
func TestDeletedAndCreatedAgain(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), uninstallable(pkg("tuning", "1.0.0")))
	w.settle()
	w.deleteNodeWright("tune")
	w.settle()
	w.ran = map[string][]string{}
	w.nodeWright("tune", func(nw *plan.NodeWright) { nw.UID = "uid-2"; budgetOnly(1)(nw) }, uninstallable(pkg("tuning", "1.0.0")))
	w.succeeded = map[string]int{}
	w.settle()
	require.Equal(t, []string{"tuning apply", "tuning config"}, w.ran["n01"])
}
