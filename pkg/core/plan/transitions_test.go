package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

type packages []desired.Package

func uninstallable(p desired.Package) desired.Package { p.UninstallOnRemoval = true; return p }

func absent(p desired.Package) desired.Package {
	p.UninstallOnRemoval, p.Absent = true, true
	return p
}

func config(p desired.Package, keysAndValues ...string) desired.Package {
	p.ConfigMap = map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		p.ConfigMap[keysAndValues[i]] = keysAndValues[i+1]
	}
	return p
}

func onKey(p desired.Package, pattern, svc string) desired.Package {
	p.ConfigInterrupts = map[string]nwv1.Interrupt{pattern: {Type: nwv1.InterruptService, Services: []string{svc}}}
	return p
}

func env(p desired.Package, value string) desired.Package {
	p.Env = []corev1.EnvVar{{Name: "LEVEL", Value: value}}
	return p
}

func digest(p desired.Package, d string) desired.Package { p.Digest = "sha256:" + d; return p }

// TestTransitions: what runs on a node when its packages change from one set to another.
func TestTransitions(t *testing.T) {
	v1, v2 := pkg("tuning", "1.0.0"), pkg("tuning", "2.0.0")
	for _, c := range []struct {
		name     string
		from, to packages
		want     []string
		cordons  bool
	}{
		{name: "new", to: packages{v1}, want: []string{"tuning apply", "tuning config"}},
		{name: "new with interrupt", to: packages{reboot(v1)}, cordons: true,
			want: []string{"tuning apply", "tuning config", "interrupt reboot", "tuning post-interrupt"}},
		{name: "version higher", from: packages{v1}, to: packages{v2}, want: []string{"tuning upgrade", "tuning config"}},
		{name: "version higher with interrupt", from: packages{service(v1, "a")}, to: packages{service(v2, "a")}, cordons: true,
			want: []string{"tuning upgrade", "tuning config", "interrupt service a", "tuning post-interrupt"}},
		{name: "version lower", from: packages{v2}, to: packages{v1},
			want: []string{"tuning apply (fresh)", "tuning config"}},
		{name: "version lower, uninstall enabled", from: packages{uninstallable(v2)}, to: packages{uninstallable(v1)},
			want: []string{"tuning uninstall 2.0.0", "tuning apply", "tuning config"}},
		{name: "version lower, uninstall enabled, interrupt", from: packages{uninstallable(reboot(v2))}, to: packages{uninstallable(v1)},
			cordons: true, want: []string{"tuning uninstall 2.0.0", "interrupt reboot", "tuning apply", "tuning config"}},
		{name: "digest changed", from: packages{digest(v1, "1")}, to: packages{digest(v1, "2")},
			want: []string{"tuning apply (fresh)", "tuning config"}},
		{name: "env changed", from: packages{env(v1, "1")}, to: packages{env(v1, "2")},
			want: []string{"tuning apply (fresh)", "tuning config"}},
		{name: "config key changed, no configInterrupts", from: packages{reboot(config(v1, "a", "1"))},
			to: packages{reboot(config(v1, "a", "2"))}, want: []string{"tuning config"}},
		{name: "config key changed, with configInterrupts", from: packages{onKey(config(v1, "a", "1"), "a", "x")},
			to: packages{onKey(config(v1, "a", "2"), "a", "x")}, cordons: true,
			want: []string{"tuning config", "interrupt service x", "tuning post-interrupt"}},
		{name: "config key added", from: packages{onKey(v1, "*.conf", "x")}, to: packages{onKey(config(v1, "a.conf", "1"), "*.conf", "x")},
			cordons: true, want: []string{"tuning config", "interrupt service x", "tuning post-interrupt"}},
		{name: "config key removed", from: packages{onKey(config(v1, "a.conf", "1"), "*.conf", "x")}, to: packages{onKey(v1, "*.conf", "x")},
			cordons: true, want: []string{"tuning config", "interrupt service x", "tuning post-interrupt"}},
		{name: "another key changed than configInterrupts names", from: packages{onKey(config(v1, "a", "1", "b", "1"), "a", "x")},
			to: packages{onKey(config(v1, "a", "1", "b", "2"), "a", "x")}, want: []string{"tuning config"}},
		{name: "removed", from: packages{v1}},
		{name: "removed, uninstall enabled", from: packages{uninstallable(v1)}, want: []string{"tuning uninstall 1.0.0"}},
		{name: "removed, uninstall enabled, interrupt", from: packages{uninstallable(reboot(v1))}, cordons: true,
			want: []string{"tuning uninstall 1.0.0", "interrupt reboot"}},
		{name: "absent", from: packages{v1}, to: packages{absent(v1)}, want: []string{"tuning uninstall 1.0.0"}},
		{name: "absent, never installed", to: packages{absent(v1)}},
		{name: "installed again after absent", from: packages{absent(v1)}, to: packages{uninstallable(v1)},
			want: []string{"tuning apply", "tuning config"}},
		{name: "removed together: dependents first", from: packages{uninstallable(pkg("base", "1.0.0")), uninstallable(depends(v1, "base"))},
			want: []string{"tuning uninstall 1.0.0", "base uninstall 1.0.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.nodeWright("tune", budgetOnly(1), c.from...)
			w.settle()
			w.ran, w.log = map[string][]string{}, nil
			w.nodeWright("tune", nil, c.to...)
			w.settle()
			require.Equal(t, c.want, w.ran["n01"])
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
			require.Equal(t, c.cordons, contains(w.log, "Uncordon tune/n01"), "%v", w.log)
			for name := range w.nodes["n01"].Records["tune"].Packages {
				_, wanted := w.in.NodeWrights[0].Desired.ByName(name)
				require.True(t, wanted, "a record of %s, which is not wanted, is left", name)
			}
		})
	}
}

func contains(log []string, line string) bool {
	for _, l := range log {
		if l == line {
			return true
		}
	}
	return false
}

// TestRevertHalfWay: the change is from the attempted version, and an older success proves nothing.
func TestRevertHalfWay(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.settle()
	w.ran = map[string][]string{}
	w.fails = failing("n01")
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.settle()
	require.EqualValues(t, 1, w.status("tune").Failed)
	w.fails = nil
	w.nodeWright("tune", nil, pkg("tuning", "1.0.0"))
	w.settle()
	require.Equal(t, []string{"tuning apply (fresh)", "tuning config"}, w.ran["n01"], "1.0.0 is applied again although it was complete before")
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// TestConfigChangesWhileThePackageFails: the failing run is replaced at once.
func TestConfigChangesWhileThePackageFails(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = func(_, _ string, s nwv1.Stage) int32 {
		if s == nwv1.StageConfig && w.in.NodeWrights[0].Desired.Packages[0].ConfigMap["a"] == "bad" {
			return 1
		}
		return 0
	}
	w.nodeWright("tune", budgetOnly(1), config(pkg("tuning", "1.0.0"), "a", "bad"))
	w.passAndWork(8)
	w.nodeWright("tune", nil, config(pkg("tuning", "1.0.0"), "a", "good"))
	w.settle()
	require.Equal(t, []string{"tuning apply", "tuning config"}, w.ran["n01"], "apply had succeeded and is not run again")
}

// TestUninstallEnabledLater: what the newest manifest says decides when the package is removed, though it starts nothing.
func TestUninstallEnabledLater(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.settle()
	w.ran = map[string][]string{}
	w.nodeWright("tune", nil, uninstallable(pkg("tuning", "1.0.0")))
	w.settle()
	require.Empty(t, w.ran)
	w.nodeWright("tune", nil)
	w.settle()
	require.Equal(t, []string{"tuning uninstall 1.0.0"}, w.ran["n01"])
}

// TestUninstallTakenBack: the package is applied anew, with its step flags cleared.
func TestUninstallTakenBack(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0"))
	w.settle()
	w.ran = map[string][]string{}
	w.fails = failing("n01")
	w.nodeWright("tune", nil, absent(pkg("tuning", "1.0.0")))
	w.settle()
	w.fails = nil
	w.nodeWright("tune", nil, pkg("tuning", "1.0.0"))
	w.settle()
	require.Equal(t, []string{"tuning apply (fresh)", "tuning config"}, w.ran["n01"])
}

// TestInterruptsAreMerged: one interrupt for all that are due, the strongest; services add up; dependents of an
// interrupted package form a second wave.
func TestInterruptsAreMerged(t *testing.T) {
	a, b, c := pkg("aa", "1.0.0"), pkg("bb", "1.0.0"), pkg("cc", "1.0.0")
	noop := c
	noop.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptNoop}
	all := b
	all.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptRestartAllServices}
	for _, tc := range []struct {
		name string
		set  packages
		want []string
	}{
		{"reboot covers services", packages{service(a, "x"), service(b, "y"), reboot(c)}, []string{"interrupt reboot"}},
		{"services add up", packages{service(a, "y", "x"), service(b, "z", "x"), noop}, []string{"interrupt service x y z"}},
		{"all services cover some", packages{service(a, "x"), all}, []string{"interrupt restartAllServices"}},
		{"two reboots are one", packages{reboot(a), reboot(b)}, []string{"interrupt reboot"}},
		{"second wave", packages{service(a, "x"), depends(service(b, "y"), "aa")}, []string{"interrupt service x", "interrupt service y"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.nodeWright("tune", budgetOnly(1), tc.set...)
			w.settle()
			var got []string
			for _, line := range w.ran["n01"] {
				if line[:3] == "int" {
					got = append(got, line)
				}
			}
			require.Equal(t, tc.want, got)
			require.Len(t, w.ran["n01"], len(tc.want)+3*len(tc.set), "each package has three stages of its own")
		})
	}
}

func serial(nw *plan.NodeWright) { nw.Spec.Serial = true }

// TestAFailedPackageHoldsTheInterrupt of the others.
func TestAFailedPackageHoldsTheInterrupt(t *testing.T) {
	w := newWorld(t, 1)
	w.fails = func(_, name string, _ nwv1.Stage) int32 {
		if name == "bb" {
			return 1
		}
		return 0
	}
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("aa", "1.0.0")), pkg("bb", "1.0.0"))
	w.settle()
	require.Equal(t, []string{"aa apply", "aa config"}, w.ran["n01"])
	require.Equal(t, "boot-1", w.nodes["n01"].BootID)
}

// TestSerial: one package after the other, dependencies first.
func TestSerial(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), depends(pkg("aa", "1.0.0"), "zz"), pkg("mm", "1.0.0"), pkg("zz", "1.0.0"))
	w.edit("tune", serial)
	w.settle()
	require.Equal(t, []string{"mm apply", "mm config", "zz apply", "zz config", "aa apply", "aa config"}, w.ran["n01"])
}
