package plan_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Every disturbance, at every moment of a lifecycle, and two of them at random moments: when they are over everything converges
// without a hand, and no invariant is broken meanwhile.

// life is a lifecycle of two nodes with two packages that is disturbed.
type life struct {
	*world
	bootID, version string
	names           []string
	created         int
	deleted         bool
}

// disturbance is what happens to n01 or its NodeWright, and what ends it again; end may be nil.
type disturbance struct {
	name    string
	do, end func(l *life)
}

// want makes the NodeWright want these packages in the life's version; `bb` depends on `aa` where both are wanted.
func (l *life) want(names ...string) {
	if l.deleted {
		return
	}
	l.names = names
	var all []desired.Package
	for _, name := range names {
		p := service(pkg(name, l.version), name)
		if name == "aa" {
			p = uninstallable(reboot(pkg(name, l.version)))
		} else if slices.Contains(names, "aa") {
			p.DependsOn = map[string]string{"aa": l.version}
		}
		all = append(all, p)
	}
	l.nodeWright("tune", nil, all...)
}

// retry asks for one, as a person does once the failure is seen.
func (l *life) retry() {
	l.pass()
	l.created++
	for _, nw := range l.in.NodeWrights {
		l.edit(nw.Name, func(nw *plan.NodeWright) { nw.Retry = fmt.Sprint(l.created) })
	}
}

func onNodeWright(f func(*plan.NodeWright)) func(*life) { return func(l *life) { l.edit("tune", f) } }

func onNode(f func(*plan.Node)) func(*life) { return func(l *life) { f(l.nodes["n01"]) } }

// heldUp are the disturbances that hold something up for a while.
func heldUp() []disturbance {
	return []disturbance{
		{"paused", onNodeWright(func(nw *plan.NodeWright) { nw.Paused = true }), onNodeWright(func(nw *plan.NodeWright) { nw.Paused = false })},
		{"paused for long", onNodeWright(func(nw *plan.NodeWright) { nw.Paused = true }), func(l *life) {
			l.in.Now = l.in.Now.Add(5 * time.Hour)
			l.pass()
			for _, j := range l.jobs {
				if j.Suspended {
					j.Created = l.in.Now
				}
			}
			l.edit("tune", func(nw *plan.NodeWright) { nw.Paused = false })
		}},
		{"disabled", onNodeWright(func(nw *plan.NodeWright) { nw.Disabled = true }), onNodeWright(func(nw *plan.NodeWright) { nw.Disabled = false })},
		{"unresolved", onNodeWright(func(nw *plan.NodeWright) { nw.Problem = "policy x does not exist" }),
			onNodeWright(func(nw *plan.NodeWright) { nw.Problem = "" })},
		{"out of scope", onNodeWright(func(nw *plan.NodeWright) { nw.OutOfScope = "outside of the scope of Fleet a/b" }),
			onNodeWright(func(nw *plan.NodeWright) { nw.OutOfScope = "" })},
		{"scope moved away", onNodeWright(func(nw *plan.NodeWright) { nw.Scope = labels.SelectorFromSet(labels.Set{"pool": "cpu"}) }),
			onNodeWright(func(nw *plan.NodeWright) { nw.Scope = nil })},
		{"standby", func(l *life) { l.in.Standby = "NVIDIA's operator is active" }, func(l *life) { l.in.Standby = "" }},
		{"deselected", onNode(func(n *plan.Node) { n.Labels["pool"] = "cpu" }), onNode(func(n *plan.Node) { n.Labels["pool"] = "gpu" })},
		{"ignored", onNode(func(n *plan.Node) { n.Labels[nwv1.IgnoreLabel] = nwv1.TrueValue }),
			onNode(func(n *plan.Node) { delete(n.Labels, nwv1.IgnoreLabel) })},
		{"tainted", onNode(func(n *plan.Node) { n.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}} }),
			onNode(func(n *plan.Node) { n.Taints = nil })},
		{"not ready", onNode(func(n *plan.Node) { n.Ready = false }), onNode(func(n *plan.Node) { n.Ready = true })},
		{"no boot ID", func(l *life) { l.bootID, l.nodes["n01"].BootID = l.nodes["n01"].BootID, "" },
			func(l *life) { l.nodes["n01"].BootID = l.bootID + l.nodes["n01"].BootID }},
		{"clock ahead", func(l *life) { l.in.Now = l.in.Now.AddDate(1, 0, 0) }, func(l *life) {
			l.in.Now = l.in.Now.AddDate(-1, 0, 0)
			l.retry() // by that clock the time of everything was over
		}},
		{"everything fails", func(l *life) { l.fails = func(string, string, nwv1.Stage) int32 { return 1 } }, func(l *life) {
			l.fails = nil
			l.retry()
		}},
		{"package out and in", func(l *life) { l.want("bb") }, func(l *life) { l.want("aa", "bb") }},
		{"content changed and back", func(l *life) { l.version = "3.0.0"; l.want(l.names...) }, func(l *life) { l.version = "1.0.0"; l.want(l.names...) }},
	}
}

// atOnce are the disturbances that are over at once.
func atOnce() []disturbance {
	return []disturbance{
		{"rebooted by somebody", onNode(func(n *plan.Node) { n.BootID += "?" }), nil},
		{"uncordoned", onNode(func(n *plan.Node) { n.Unschedulable = false }), nil},
		{"another node of the name", func(l *life) {
			l.created++
			l.addNode("n01", nil).UID = types.UID(fmt.Sprint("again-", l.created))
			delete(l.ran, "n01")
		}, nil},
		{"object created anew", func(l *life) {
			l.created++
			l.edit("tune", func(nw *plan.NodeWright) { nw.UID, nw.Generation = types.UID(fmt.Sprint("uid-again-", l.created)), 1 })
		}, nil},
		{"jobs lost that did not begin", func(l *life) {
			maps.DeleteFunc(l.jobs, func(_ string, j *plan.Execution) bool { return j.State == plan.ExecutionPending })
		}, nil},
		{"ledger lost", func(l *life) { l.in.Ledger = fleetv1.LedgerSpec{} }, nil},
		{"package out", func(l *life) { l.want("bb") }, nil},
		{"content changed", func(l *life) { l.version = "3.0.0"; l.want(l.names...) }, nil},
		{"reset", onNodeWright(func(nw *plan.NodeWright) { nw.Reset = "t" }), nil},
		{"rerun", onNodeWright(func(nw *plan.NodeWright) { nw.Rerun = "t" }), nil},
		{"abandon", onNodeWright(func(nw *plan.NodeWright) { nw.Abandon = "t" }), nil},
		{"a pod comes", func(l *life) { l.addPod("n01", "web", fmt.Sprint("late-", l.passes), nil) }, nil},
		{"deleted", func(l *life) {
			if !l.deleted {
				l.deleted = true
				l.deleteNodeWright("tune")
			}
		}, nil},
	}
}

// lives are the lifecycles, from where they begin.
func lives() map[string]func(l *life) {
	installed := func(l *life) {
		l.want("aa", "bb")
		l.settle()
	}
	return map[string]func(l *life){
		"install":   func(l *life) { l.want("aa", "bb") },
		"upgrade":   func(l *life) { installed(l); l.version = "2.0.0"; l.want("aa", "bb") },
		"downgrade": func(l *life) { l.version = "2.0.0"; installed(l); l.version = "1.0.0"; l.want("aa", "bb") },
		"removal":   func(l *life) { installed(l); l.want("bb") },
		"deletion":  func(l *life) { installed(l); l.deleted = true; l.deleteNodeWright("tune") },
	}
}

func begin(t *testing.T, from func(*life)) *life {
	l := &life{world: newWorld(t, 2), version: "1.0.0"}
	l.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
	l.nodeWright("tune", budgetOnly(1))
	from(l)
	l.passes = 0
	return l
}

func (l *life) some(passes int) {
	for range passes {
		l.pass()
		l.work()
	}
}

// requireRest: everything is done, and nothing is held.
func (l *life) requireRest() {
	l.passes = 0
	l.settle()
	for _, r := range l.last.Reasons {
		require.Equal(l.t, plan.Complete, r.Code, "%+v\n%v", r, l.log)
	}
	require.Equal(l.t, l.deleted, !l.hasNodeWright("tune"))
	for _, n := range l.nodes {
		require.False(l.t, n.Unschedulable || len(n.CordonOwners) > 0, "%s is held: %v", n.Name, l.log)
	}
	require.Empty(l.t, l.last.Decisions)
}

// lifetime is how many passes a lifecycle has, about.
const lifetime = 45

// every is the distance of the moments that are tried, of each disturbance others; FLEETWRIGHT_MOMENTS=1 tries all.
func every(t *testing.T, def int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("FLEETWRIGHT_MOMENTS"), fmt.Sprint(def)))
	require.NoError(t, err)
	return n
}

func TestEveryDisturbanceAtEveryMoment(t *testing.T) {
	all, step, first := append(heldUp(), atOnce()...), every(t, 30), 0
	for _, name := range sortedKeys(lives()) {
		for _, d := range all {
			first++
			t.Run(name+"/"+d.name, func(t *testing.T) {
				for at := first % step; at < lifetime; at += step {
					for _, lasts := range []int{1, 6} {
						l := begin(t, lives()[name])
						l.logf("%s, %s at %d for %d", name, d.name, at, lasts)
						l.some(at)
						l.undergo(d, func() { l.some(lasts) })
						l.requireRest()
					}
				}
			})
		}
	}
}

// undergo is a disturbance with what happens while it lasts.
func (l *life) undergo(d disturbance, meanwhile func()) {
	l.logf("%s begins", d.name)
	d.do(l)
	meanwhile()
	l.logf("%s ends", d.name)
	if d.end != nil {
		d.end(l)
	}
}

func TestTwoDisturbancesAtOnce(t *testing.T) {
	all := append(heldUp(), atOnce()...)
	names := sortedKeys(lives())
	for seed := range 3600 / every(t, 30) {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		name, a, b := names[rng.IntN(len(names))], all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		if a.name == b.name {
			continue
		}
		at, then, lasts, on := rng.IntN(lifetime), rng.IntN(12), rng.IntN(8), rng.IntN(8)
		t.Run(fmt.Sprintf("%d/%s/%s/%s", seed, name, a.name, b.name), func(t *testing.T) {
			l := begin(t, lives()[name])
			l.some(at)
			l.undergo(a, func() {
				l.some(then)
				l.undergo(b, func() { l.some(lasts) })
				l.some(on)
			})
			l.requireRest()
		})
	}
}
