package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// The lives of nodes that are complete: hosts that are verified, drift, are rebooted behind our back, or are gated again.

// onChecks lets something happen to the checks that are under way.
func onChecks(f func(*plan.Execution)) func(*life) {
	return func(l *life) {
		for _, j := range l.jobs {
			if j.Phase == plan.PhaseVerify && !j.Ended() {
				f(j)
			}
		}
	}
}

// afterwards are the disturbances of nodes that are complete.
func afterwards() []disturbance {
	hour := &metav1.Duration{Duration: time.Hour}
	return []disturbance{
		{"not verified", onNodeWright(func(nw *plan.NodeWright) { nw.Spec.VerifyInterval = nil }),
			onNodeWright(func(nw *plan.NodeWright) { nw.Spec.VerifyInterval = hour })},
		{"verified more often", onNodeWright(func(nw *plan.NodeWright) { nw.Spec.VerifyInterval = &metav1.Duration{Duration: time.Minute} }), nil},
		{"only reported", onNodeWright(func(nw *plan.NodeWright) { nw.Spec.OnDrift = nwv1.DriftReport }),
			onNodeWright(func(nw *plan.NodeWright) { nw.Spec.OnDrift = nwv1.DriftReapply })},
		{"not after reboots", onNodeWright(func(nw *plan.NodeWright) { nw.Spec.ReapplyOnReboot = false }),
			onNodeWright(func(nw *plan.NodeWright) { nw.Spec.ReapplyOnReboot = true })},
		{"no budget", onNodeWright(func(nw *plan.NodeWright) { budgetOnly(0)(nw) }), onNodeWright(func(nw *plan.NodeWright) { budgetOnly(1)(nw) })},
		{"drift", func(l *life) { l.drift["n01"] = "aa" }, nil},
		{"days pass", func(l *life) { l.in.Now = l.in.Now.Add(50 * time.Hour) }, (*life).retry},
		{"the clock goes back", func(l *life) { l.in.Now = l.in.Now.Add(-50 * time.Hour) }, nil},
		{"a year ahead and back", func(l *life) { l.in.Now = l.in.Now.AddDate(1, 0, 0) }, func(l *life) { l.in.Now = l.in.Now.AddDate(-1, 0, 0); l.retry() }},
		{"checks lost", func(l *life) {
			maps.DeleteFunc(l.jobs, func(_ string, j *plan.Execution) bool { return j.Phase == plan.PhaseVerify })
		}, nil},
		{"checks suspended", onChecks(func(j *plan.Execution) { j.Suspended = true }), nil},
		{"checks without an image", onChecks(func(j *plan.Execution) { j.Trouble, j.TroubleSince = plan.ImagePull, j.Created }), nil},
		{"checks without room", onChecks(func(j *plan.Execution) { j.Trouble, j.TroubleSince = plan.InsufficientResources, j.Created }), nil},
		{"checks disrupted", func(l *life) {
			onChecks(func(j *plan.Execution) { j.State, j.Disrupted, j.Finished = plan.ExecutionFailed, true, l.in.Now })(l)
		}, nil},
		{"checks that hang", func(l *life) { l.frozen = func(e plan.Execution) bool { return e.Phase == plan.PhaseVerify } },
			func(l *life) { l.frozen = nil }},
		{"checks lost for an interrupt", func(l *life) {
			maps.DeleteFunc(l.jobs, func(_ string, j *plan.Execution) bool { return j.Phase == plan.PhaseVerify })
			l.nodeWright("other", nil, reboot(pkg("zz", "9.0.0")))
		}, nil},
		{"an interrupt of another", func(l *life) { l.nodeWright("other", nil, reboot(pkg("zz", "3.0.0"))) }, nil},
		{"regate", func(l *life) { l.ask("n01", "regate", "1") }, nil},
	}
}

// restingLives are lifecycles of complete nodes, from where they begin.
func restingLives() map[string]func(l *life) {
	verifying := func(l *life) {
		l.edit("tune", func(nw *plan.NodeWright) {
			verified(time.Hour, nwv1.DriftReapply)(nw)
			nw.Spec.ReapplyOnReboot = true
		})
		l.want("aa", "bb")
		l.nodeWright("other", budgetOnly(1), reboot(pkg("zz", "1.0.0")))
		l.rest()
		l.in.Now = l.in.Now.Add(2 * time.Hour)
	}
	gated := func(l *life) {
		l.edit("tune", func(nw *plan.NodeWright) { autoTaints(l.world)(nw); verified(time.Hour, nwv1.DriftReapply)(nw) })
		verifying(l)
	}
	return map[string]func(l *life){
		"verified":         verifying,
		"drifted":          func(l *life) { verifying(l); l.drift["n01"] = "bb" },
		"drifted, reboots": func(l *life) { verifying(l); l.drift["n01"], l.drift["n02"] = "aa", "aa" },
		"beside another":   func(l *life) { verifying(l); l.nodeWright("other", nil, reboot(pkg("zz", "2.0.0"))) },
		"rebooted":         func(l *life) { verifying(l); l.nodes["n01"].BootID += "?" },
		"rebooted, gated":  func(l *life) { gated(l); l.nodes["n01"].BootID += "?" },
		"regated":          func(l *life) { gated(l); l.ask("n01", "regate", "t") },
	}
}

func beginAtRest(t *testing.T, from func(*life)) *life {
	l := &life{world: newWorld(t, 2), version: "1.0.0"}
	l.drift, l.mends = map[string]string{}, true
	l.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	l.nodeWright("tune", budgetOnly(1))
	from(l)
	l.passes = 0
	return l
}

// requireRestForGood: while time goes on everything comes to rest, no drift stays, and nothing is held.
func (l *life) requireRestForGood() {
	l.rest()
	for range 8 {
		l.later(65 * time.Minute)
	}
	l.log = append(l.log, "not verified any more")
	if l.hasNodeWright("tune") {
		for name, rec := range l.nodes["n01"].Records["tune"].Packages {
			require.Nil(l.t, rec.Drift, name)
			require.Empty(l.t, rec.Running, "%s: %v", name, l.log)
		}
		last := l.nodes["n01"].Records["tune"].LastVerified(l.in.Now)
		require.WithinDuration(l.t, l.in.Now, last, 70*time.Minute, "verified again and again: %v", l.log)
		l.edit("tune", func(nw *plan.NodeWright) { nw.Spec.VerifyInterval = nil })
	}
	l.requireRest()
	for _, n := range l.nodes {
		require.Empty(l.t, n.Taints, n.Name)
	}
}

func TestEveryDisturbanceOfCompleteNodes(t *testing.T) {
	all, step, first := append(append(heldUp(), atOnce()...), afterwards()...), every(t, 90), 0
	all = slices.DeleteFunc(all, func(d disturbance) bool { return d.name == "paused for long" }) // what another runs has timed out by then
	for _, name := range sortedKeys(restingLives()) {
		for _, d := range all {
			first++
			t.Run(name+"/"+d.name, func(t *testing.T) {
				for at := first % step; at < lifetime; at += step {
					for _, lasts := range []int{1, 6} {
						l := beginAtRest(t, restingLives()[name])
						l.logf("%s, %s at %d for %d", name, d.name, at, lasts)
						l.some(at)
						l.undergo(d, func() { l.some(lasts) })
						l.requireRestForGood()
					}
				}
			})
		}
	}
}
