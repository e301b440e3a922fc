package plan_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// confs is the package of CU-01: a.conf asks for a reboot, all others for the restart of a service, c.txt for nothing.
func confs(values [3]int) desired.Package {
	p := config(pkg("tuning", "1.0.0"))
	for i, key := range []string{"a.conf", "b.conf", "c.txt"} {
		if values[i] > 0 {
			p.ConfigMap[key] = fmt.Sprint(values[i])
		}
	}
	p.ConfigInterrupts = map[string]nwv1.Interrupt{
		"a.conf": {Type: nwv1.InterruptReboot}, "b.conf": {Type: nwv1.InterruptService, Services: []string{"x"}},
	}
	return p
}

// TestFieldReport_CU01_InterruptsOfTheKeysThatChanged: however edits, work, crashes and lost writes interleave, at rest the host
// has the configuration that is wanted; a key that is not what it was had its interrupt; and no interrupt ran for which no key that
// changed asks.
func TestFieldReport_CU01_InterruptsOfTheKeysThatChanged(t *testing.T) {
	for seed := range 100 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { interleave(t, rand.New(rand.NewSource(int64(seed)))) })
	}
}

func interleave(t *testing.T, rng *rand.Rand) {
	w := newWorld(t, 1)
	values := [3]int{1, 1, 1}
	w.nodeWright("tune", budgetOnly(1), confs(values))
	w.settle()
	w.ran = map[string][]string{}
	changed := [3]bool{}
	seen := 0
	follow := func() {
		for _, line := range w.ran["n01"][seen:] {
			switch line {
			case "interrupt reboot":
				require.True(t, changed[0], "a reboot that no key asked for: %v", w.ran)
			case "interrupt service x":
				require.True(t, changed[1], "a restart that no key asked for: %v", w.ran)
			}
		}
		seen = len(w.ran["n01"])
	}
	for range 1 + rng.Intn(6) {
		next := values
		key := rng.Intn(3)
		next[key] = rng.Intn(4) // 0 removes the key
		if next != values {
			changed[key] = true
		}
		values = next
		w.nodeWright("tune", nil, confs(values))
		fails := rng.Intn(3) == 0
		w.fails = func(_, _ string, s nwv1.Stage) int32 {
			if fails && s == nwv1.StageConfig {
				return 1
			}
			return 0
		}
		lost := rng.Intn(4) == 0
		w.lost = func(plan.Decision) bool { return lost && rng.Intn(2) == 0 }
		for range rng.Intn(12) {
			w.pass()
			w.work()
			follow()
		}
	}
	w.fails, w.lost = nil, nil
	w.edit("tune", func(nw *plan.NodeWright) { nw.Retry = "1" })
	w.passes = 0
	w.settle()
	follow()
	def, _ := w.in.NodeWrights[0].Desired.ByName("tuning")
	rec := w.nodes["n01"].Records["tune"].Packages["tuning"]
	require.Equal(t, def.ConfigHash, rec.Configured, "the configuration on the host is the wanted one")
	require.Empty(t, rec.DueKeys)
	if values[0] != 1 {
		require.Contains(t, w.ran["n01"], "interrupt reboot", "a.conf is not what it was")
	}
	if values[1] != 1 {
		restarted := slices.Contains(w.ran["n01"], "interrupt service x") || slices.Contains(w.ran["n01"], "interrupt reboot")
		require.True(t, restarted, "b.conf is not what it was: %v", w.ran)
	}
}

// TestFieldReport_CU01_TheSecondChangeUnderWay: the case of the report. The first change asks for a reboot; before it is done, the
// second asks for a restart: one interrupt stands for both.
func TestFieldReport_CU01_TheSecondChangeUnderWay(t *testing.T) {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), confs([3]int{1, 1, 1}))
	w.settle()
	w.ran = map[string][]string{}
	w.nodeWright("tune", nil, confs([3]int{2, 1, 1}))
	w.passAndWork(3)
	w.nodeWright("tune", nil, confs([3]int{2, 2, 1}))
	w.settle()
	require.Equal(t, []string{"tuning config", "tuning config", "interrupt reboot", "tuning post-interrupt"}, w.ran["n01"])
	w.ran = map[string][]string{}
	w.nodeWright("tune", nil, confs([3]int{2, 3, 1}))
	w.settle()
	require.Equal(t, []string{"tuning config", "interrupt service x", "tuning post-interrupt"}, w.ran["n01"], "nothing old is matched again")
}

// TestFieldReport_CU03_UninstallWithWhatWasInstalled: the uninstall works with the whole definition that was put on that node,
// whatever the manifest says by then.
func TestFieldReport_CU03_UninstallWithWhatWasInstalled(t *testing.T) {
	w := newWorld(t, 1)
	old := uninstallable(env(config(pkg("tuning", "1.0.0"), "f", "old"), "1"))
	w.nodeWright("tune", budgetOnly(1), old)
	w.settle()
	w.nodeWright("tune", func(nw *plan.NodeWright) { nw.Paused = true }, uninstallable(env(config(pkg("tuning", "1.0.0"), "f", "new"), "2")))
	w.pass()
	w.nodeWright("tune", func(nw *plan.NodeWright) { nw.Paused = false }, absent(env(config(pkg("tuning", "1.0.0"), "f", "newer"), "3")))
	w.settle()
	var uninstalls []desired.Package
	for _, s := range w.specs {
		if s.Phase == plan.PhaseUninstall {
			uninstalls = append(uninstalls, s.Definition)
		}
	}
	require.Len(t, uninstalls, 1)
	require.Equal(t, "old", uninstalls[0].ConfigMap["f"])
	require.Equal(t, "1", uninstalls[0].Env[0].Value)
}

// TestFieldReport_CU05_ALateEndChangesNothing: the end of an interrupt or of an uninstall that comes when its entry, or the whole
// NodeWright, is gone makes no entry again.
func TestFieldReport_CU05_ALateEndChangesNothing(t *testing.T) {
	for _, gone := range []string{"entry", "object"} {
		w := newWorld(t, 1)
		w.nodeWright("tune", budgetOnly(1), uninstallable(service(pkg("tuning", "1.0.0"), "x")))
		w.settle()
		w.nodeWright("tune", nil)
		for range 100 {
			w.pass()
			if i := w.nodes["n01"].Records["tune"].Interrupt; i != nil && len(w.jobs) > 0 {
				break
			}
			w.work()
		}
		w.pass()
		for _, j := range w.jobs {
			if j.Phase == plan.PhaseInterrupt && !j.Ended() {
				j.State, j.Finished = plan.ExecutionSucceeded, w.in.Now
			}
		}
		if gone == "object" {
			w.in.NodeWrights = nil
		} else {
			r := w.nodes["n01"].Records["tune"].Clone()
			delete(r.Packages, "tuning")
			w.nodes["n01"].Records["tune"] = r
		}
		w.log = nil
		w.settle()
		require.Empty(t, w.nodes["n01"].Records["tune"].Packages, gone)
		require.False(t, w.nodes["n01"].Unschedulable, gone)
		if gone == "object" {
			require.NotContains(t, w.log, "Complete tune/n01", "nothing tells of a completion")
		}
	}
}

// TestFieldReport_CU07_OneUnreadableRecord: it holds its node and no other; nothing is executed there on guesses; mended, it goes on.
func TestFieldReport_CU07_OneUnreadableRecord(t *testing.T) {
	w := newWorld(t, 3)
	w.nodeWright("tune", budgetOnly(3), pkg("tuning", "1.0.0"))
	w.settle()
	good := w.nodes["n02"].Records["tune"]
	w.nodes["n02"].Malformed = map[string]string{"tune": "invalid character"}
	delete(w.nodes["n02"].Records, "tune")
	w.ran = map[string][]string{}
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.settle()
	require.Equal(t, []string{"tuning upgrade", "tuning config"}, w.ran["n01"])
	require.Equal(t, w.ran["n01"], w.ran["n03"])
	require.Empty(t, w.ran["n02"])
	require.Equal(t, plan.RecordUnreadable, w.reason("tune", "n02").Code)
	w.nodes["n02"].Malformed = nil
	w.nodes["n02"].Records["tune"] = good
	w.settle()
	require.Equal(t, w.ran["n01"], w.ran["n02"])
	require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
}

// TestFixArrivesWhileTheOldAttemptFails: new content replaces an attempt of a package that failed before, also while it runs; the
// attempt of one that did not fail is finished.
func TestFixArrivesWhileTheOldAttemptFails(t *testing.T) {
	for _, failed := range []bool{true, false} {
		w := newWorld(t, 1)
		hang := !failed
		w.fails = func(_, _ string, s nwv1.Stage) int32 {
			if failed && s == nwv1.StageConfig {
				return 1
			}
			return 0
		}
		w.frozen = func(e plan.Execution) bool { return hang && e.Stage == nwv1.StageConfig }
		w.nodeWright("tune", budgetOnly(1), config(pkg("tuning", "1.0.0"), "a", "bad"))
		for range 300 {
			w.pass()
			if failed && w.nodes["n01"].Records["tune"].Packages["tuning"].Failures > 0 {
				hang = true // the second attempt hangs
			}
			w.work()
			if out := w.last.Next; !out.IsZero() && out.After(w.in.Now) && len(w.last.Decisions) == 0 && !w.busy() && !(hang && inStage(nwv1.StageConfig)(w)) {
				w.in.Now = out
			}
			if inStage(nwv1.StageConfig)(w) && hang {
				break
			}
		}
		require.True(t, inStage(nwv1.StageConfig)(w))
		w.fails = nil
		w.nodeWright("tune", nil, config(pkg("tuning", "1.0.0"), "a", "good"))
		w.passAndWork(3)
		running := inStage(nwv1.StageConfig)(w)
		require.Equal(t, !failed, running, "an attempt of a package that failed is replaced at once; failed before: %v", failed)
		w.frozen = nil
		w.settle()
		require.EqualValues(t, 1, w.status("tune").Complete)
		require.Equal(t, "tuning config", last(w.ran["n01"], 1)[0])
	}
}

// TestFieldReport_CU09_ANewDigestIsAChange: with the version as it was, another digest is rolled out, within the budget; the same one
// is not.
func TestFieldReport_CU09_ANewDigestIsAChange(t *testing.T) {
	w := newWorld(t, 2)
	w.ceiling = 1
	w.nodeWright("tune", budgetOnly(1), digest(pkg("tuning", "1.0.0"), "1"))
	w.settle()
	w.ranSince()
	w.nodeWright("tune", nil, digest(pkg("tuning", "1.0.0"), "1"))
	w.settle()
	require.Empty(t, w.ranSince())
	w.nodeWright("tune", nil, digest(pkg("tuning", "1.0.0"), "2"))
	w.settle()
	again := []string{"tuning apply (fresh)", "tuning config"}
	require.Equal(t, map[string][]string{"n01": again, "n02": again}, w.ranSince())
	require.Equal(t, "sha256:2", w.nodes["n01"].Records["tune"].Packages["tuning"].Digest)
}
