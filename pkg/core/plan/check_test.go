package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

func checkedFirst(p desired.Package) desired.Package { p.SkipIfSatisfied = true; return p }

func always(string, desired.Package) bool { return true }

// TestFieldReport_PF08_WhatIsSatisfiedIsNotInstalled: with skipIfSatisfied the checks run first, before the cordon; success
// stands for the installation and its interrupt, anything else is no failure.
func TestFieldReport_PF08_WhatIsSatisfiedIsNotInstalled(t *testing.T) {
	v1, v2 := checkedFirst(reboot(pkg("kernel", "1.0.0"))), checkedFirst(reboot(pkg("kernel", "2.0.0")))
	flavour := func(p desired.Package, f string) desired.Package { return env(p, f) }
	for _, c := range []struct {
		name      string
		from, to  packages
		satisfied func(string, desired.Package) bool
		want      []string
		cordons   bool
	}{
		{name: "the state is there", to: packages{v1}, satisfied: always, want: []string{"kernel check [apply config post-interrupt]"}},
		{name: "it is not", to: packages{v1}, cordons: true, want: []string{"kernel check [apply config post-interrupt]",
			"kernel apply", "kernel config", "interrupt reboot", "kernel post-interrupt"}},
		{name: "off by default", to: packages{reboot(pkg("kernel", "1.0.0"))}, satisfied: always, cordons: true,
			want: []string{"kernel apply", "kernel config", "interrupt reboot", "kernel post-interrupt"}},
		{name: "upgrade, the newer one is there", from: packages{v1}, to: packages{v2}, satisfied: always,
			want: []string{"kernel check [apply config post-interrupt]"}},
		{name: "the same version in the wrong flavour", from: packages{flavour(v1, "generic")}, to: packages{flavour(v1, "realtime")}, cordons: true,
			satisfied: func(_ string, d desired.Package) bool { return d.Env[0].Value == "generic" },
			want:      []string{"kernel check [apply config post-interrupt]", "kernel apply (fresh)", "kernel config", "interrupt reboot", "kernel post-interrupt"}},
		{name: "configuration, no interrupt", from: packages{config(v1, "a", "1")}, to: packages{config(v1, "a", "2")}, satisfied: always,
			want: []string{"kernel check [config]"}},
		{name: "checks go before the cordon that another package needs", to: packages{checkedFirst(pkg("aa", "1.0.0")), service(pkg("bb", "1.0.0"), "x")},
			satisfied: always, cordons: true,
			want: []string{"aa check [apply config]", "bb apply", "bb config", "interrupt service x", "bb post-interrupt"}},
		{name: "a dependent package waits", to: packages{v1, depends(pkg("zz", "1.0.0"), "kernel")}, satisfied: always,
			want: []string{"kernel check [apply config post-interrupt]", "zz apply", "zz config"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			if c.from != nil {
				w.nodeWright("tune", budgetOnly(1), c.from...)
				w.settle()
			}
			w.ran, w.log, w.satisfied = map[string][]string{}, nil, c.satisfied
			w.nodeWright("tune", budgetOnly(1), c.to...)
			w.settle()
			require.Equal(t, c.want, w.ran["n01"])
			require.Equal(t, c.cordons, contains(w.log, "Uncordon tune/n01"), "%v", w.log)
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
			require.Zero(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Failures)
			if len(c.want) == 1 {
				require.Equal(t, "every package is done; the wanted state of one was there already (skipIfSatisfied)", w.reason("tune", "n01").Message)
				rec := w.nodes["n01"].Records["tune"].Packages["kernel"]
				require.True(t, rec.Satisfied)
				require.Equal(t, c.to[0].Version, rec.Version)
			}
		})
	}
}

// A check that was disrupted says nothing and runs again; one whose installation failed does not run between its attempts.
func TestACheckIsNoAttempt(t *testing.T) {
	w := newWorld(t, 1)
	w.in.Settings.Attempts = 2
	w.nodeWright("tune", budgetOnly(1), checkedFirst(pkg("kernel", "1.0.0")))
	w.passAndWork(3)
	for _, j := range w.jobs {
		require.Equal(t, plan.PhaseCheck, j.Phase)
		j.State, j.Disrupted, j.Finished = plan.ExecutionFailed, true, w.in.Now
	}
	w.fails = func(string, string, nwv1.Stage) int32 { return 3 }
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Failed)
	phases := map[plan.Phase]int{}
	for _, j := range w.jobs {
		phases[j.Phase]++
	}
	require.Equal(t, map[plan.Phase]int{plan.PhaseCheck: 2, plan.PhaseInstall: 2}, phases)
	w.fails = nil
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "1" })
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Complete)
	require.Equal(t, []string{"kernel apply", "kernel config"}, last(w.ran["n01"], 2), "what was begun is finished, not checked")
}

// What was satisfied is uninstalled like what was installed, and changes like it.
func TestSatisfiedPackagesAreOnRecord(t *testing.T) {
	w := newWorld(t, 1)
	w.satisfied = always
	w.nodeWright("tune", budgetOnly(1), uninstallable(checkedFirst(config(pkg("kernel", "1.0.0"), "a", "1"))))
	w.settle()
	w.satisfied, w.ran = nil, map[string][]string{}
	w.nodeWright("tune", nil, uninstallable(checkedFirst(onKey(config(pkg("kernel", "1.0.0"), "a", "2"), "a", "x"))))
	w.settle()
	require.Equal(t, []string{"kernel check [config post-interrupt]", "kernel config", "interrupt service x", "kernel post-interrupt"}, w.ran["n01"])
	require.False(t, w.nodes["n01"].Records["tune"].Packages["kernel"].Satisfied)
	w.ran = map[string][]string{}
	w.nodeWright("tune", nil)
	w.settle()
	require.Equal(t, []string{"kernel uninstall 1.0.0"}, w.ran["n01"])
}
