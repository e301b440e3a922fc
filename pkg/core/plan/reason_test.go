package plan_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// reasonCase brings a world of two nodes to the pass in which node n01 or n02 has the reason under the NodeWright `tune`.
type reasonCase struct {
	node    string
	message string
	object  string
	arrange func(w *world)
}

// plain is a NodeWright with one package and one slot.
func plain(w *world) { w.nodeWright("tune", budgetOnly(1), pkg("tuning", "1.0.0")) }

// rebooting is one whose package needs a reboot.
func rebooting(w *world) { w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0"))) }

func (w *world) passAndWork(n int) {
	for range n {
		w.pass()
		w.work()
	}
}

// trouble puts every execution into a trouble that began a while ago.
func (w *world) trouble(code plan.Code, ago time.Duration) {
	for _, j := range w.jobs {
		j.Trouble, j.TroubleMessage, j.TroubleSince = code, "back-off", w.in.Now.Add(-ago)
	}
}

// endWith ends every execution that has not ended, for a cause other than its own exit.
func (w *world) endWith(cause plan.Code, message string) {
	for _, j := range w.jobs {
		if j.Ended() {
			continue
		}
		j.State, j.Cause, j.Message, j.Finished = plan.ExecutionFailed, cause, message, w.in.Now
		j.Disrupted = cause != plan.OutOfMemory
		if !j.Disrupted {
			j.ExitCode = 137
		}
	}
}

func (w *world) edit(name string, f func(*plan.NodeWright)) {
	for i := range w.in.NodeWrights {
		if w.in.NodeWrights[i].Name == name {
			f(&w.in.NodeWrights[i])
		}
	}
}

func protect(w *world) {
	w.edit("tune", func(nw *plan.NodeWright) {
		nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"protected": "true"}}
	})
}

var reasonCases = map[plan.Code]reasonCase{
	plan.Complete: {node: "n01", message: "every package is done", arrange: func(w *world) { plain(w); w.settle() }},
	plan.Drifted: {node: "n02", object: "package tuning",
		message: "the host does not match package tuning any more: its apply check failed",
		arrange: func(w *world) {
			w.nodeWright("tune", verified(time.Hour, nwv1.DriftReport), pkg("tuning", "1.0.0"))
			w.rest()
			w.drift = map[string]string{"n02": "tuning"}
			w.later(time.Hour)
		}},
	plan.Ignored: {node: "n01", message: "the node carries the label nodewright.nvidia.com/ignore=true", arrange: func(w *world) {
		plain(w)
		w.nodes["n01"].Labels[nwv1.IgnoreLabel] = "true"
	}},
	plan.TaintNotTolerated: {node: "n01", object: "taint dedicated",
		message: "the node has the taint dedicated=db:NoSchedule, which the NodeWright does not tolerate",
		arrange: func(w *world) {
			plain(w)
			w.nodes["n01"].Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
		}},
	plan.WaitingForPriority: {node: "n01", object: "nodewright first",
		message: "NodeWright first goes first and is not complete on this node",
		arrange: func(w *world) {
			plain(w)
			w.nodeWright("first", func(nw *plan.NodeWright) { nw.Spec.Priority = 1; budgetOnly(1)(nw) }, pkg("base", "1.0.0"))
		}},
	plan.WaitingForBatch: {node: "n02", object: "compartment default", message: "batch 1 of compartment default has not ended: n01",
		arrange: func(w *world) {
			w.nodeWright("tune", policy(count(2), fixed(1)), pkg("tuning", "1.0.0"))
			w.pass()
		}},
	plan.WaitingForSlot: {node: "n02", object: "compartment default", message: "1 of the 1 slots of compartment default are in use: n01",
		arrange: func(w *world) { plain(w); w.pass() }},
	plan.WaitingForClusterBudget: {node: "n02", object: "fleet ns/f",
		message: "1 of the 1 nodes that Fleet ns/f allows are out of service",
		arrange: func(w *world) {
			w.nodeWright("tune", budgetOnly(2), reboot(pkg("tuning", "1.0.0")))
			w.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(1))}}
			w.pass()
		}},
	plan.WaitingForWindow: {node: "n01", object: "compartment default",
		message: "the maintenance windows are closed; the next one opens at 2026-01-06T02:00:00Z",
		arrange: func(w *world) {
			w.nodeWright("tune", windows(w, count(1), "0 2 * * *", time.Hour), pkg("tuning", "1.0.0"))
		}},
	plan.NotAdopted: {"n01", "the node has the state of NVIDIA's operator and no record: run `fleetwright adopt`, or ask for a reset " +
		"to run everything as new", "", func(w *world) {
		plain(w)
		w.nodes["n01"].Unadopted = []string{"tune"}
	}},
	plan.WaitingForRound: {"n01", "the node is asked to run again and has ended in round 1; it is admitted to the next round, " +
		"which begins when nothing of this one is under way", "", func(w *world) {
		plain(w)
		w.until(plan.ActionComplete)
		w.ask("n01", "rerun", "1")
	}},
	plan.Gating: {node: "new", message: "the node is new and gets the runtime-required taint first",
		arrange: func(w *world) {
			w.nodeWright("tune", autoTaints(w), pkg("tuning", "1.0.0"))
			w.addNode("new", nil).Created = w.in.Now
		}},
	plan.Yielding: {node: "n01", object: "pod ml/train",
		message: "the node is left alone until its protected pods have finished: ml/train",
		arrange: func(w *world) {
			rebooting(w)
			yield(w)
			w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
		}},
	plan.BudgetIsZero: {node: "n01", object: "compartment default", message: "the budget of compartment default is 0",
		arrange: func(w *world) { w.nodeWright("tune", budgetOnly(0), pkg("tuning", "1.0.0")) }},
	plan.Halted: {node: "n02", object: "compartment default",
		message: "compartment default is halted: n01: package tuning, stage apply, exit code 3: boom",
		arrange: func(w *world) {
			w.fails = failing("n01")
			w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1), safetyLimit(100))), pkg("tuning", "1.0.0"))
			w.settle()
		}},
	plan.Paused: {node: "n01", object: "nodewright tune", message: "NodeWright tune is paused", arrange: func(w *world) {
		plain(w)
		w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true })
	}},
	plan.Disabled: {node: "n01", message: "the NodeWright is disabled", arrange: func(w *world) {
		plain(w)
		w.edit("tune", func(nw *plan.NodeWright) { nw.Disabled = true })
	}},
	plan.Unresolved: {node: "n01", message: "policy x does not exist", arrange: func(w *world) {
		plain(w)
		w.edit("tune", func(nw *plan.NodeWright) { nw.Problem = "policy x does not exist" })
	}},
	plan.OutOfScope: {node: "n01", object: "fleet team-a/fleet",
		message: `outside of the scope of Fleet team-a/fleet: package "tuning": containerSHA is missing, and digests are required`, arrange: func(w *world) {
			plain(w)
			w.edit("tune", func(nw *plan.NodeWright) { nw.Confine("team-a/fleet", &fleetv1.Scope{RequireDigest: true}) })
		}},
	plan.Standby: {node: "n01", message: "another operator is active", arrange: func(w *world) {
		plain(w)
		w.in.Standby = "another operator is active"
	}},
	plan.RecordUnreadable: {node: "n01", message: "unexpected end of JSON input", arrange: func(w *world) {
		plain(w)
		w.nodes["n01"].Malformed = map[string]string{"tune": "unexpected end of JSON input"}
	}},
	plan.NodeNotReady: {node: "n01", message: "the node is not Ready", arrange: func(w *world) {
		plain(w)
		w.nodes["n01"].Ready = false
	}},
	plan.Superseded: {node: "n01", message: "the node waits for its admission to round 2", arrange: func(w *world) {
		plain(w)
		w.passAndWork(4) // the execution has ended, which nobody has recorded
		w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	}},
	plan.AdmissionUnconfirmed: {node: "n01", message: "the node's admission is not confirmed yet", arrange: func(w *world) {
		plain(w)
		w.lost = func(plan.Decision) bool { return true }
		w.pass()
	}},
	plan.Cordoning: {node: "n01", message: "the node is being cordoned", arrange: func(w *world) {
		rebooting(w)
		w.pass()
		w.nodes["n01"].Unschedulable = false // by hand
	}},
	plan.ProtectedPod: {node: "n01", object: "pod ml/train", message: "the node waits for protected pods to finish: ml/train",
		arrange: func(w *world) {
			rebooting(w)
			protect(w)
			w.pods = map[string][]*corev1.Pod{}
			w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
			w.addPod("n02", "ml", "train-2", map[string]string{"protected": "true"})
			w.pass()
		}},
	plan.Draining: {node: "n01", message: "pods are leaving: web/a", arrange: func(w *world) {
		rebooting(w)
		w.pods = map[string][]*corev1.Pod{}
		w.addPod("n01", "web", "a", nil)
		w.pass()
	}},
	plan.DisruptionBudget: {node: "n01", object: "pod web/a", message: "PodDisruptionBudget web/pdb allows none", arrange: func(w *world) {
		rebooting(w)
		w.pods = map[string][]*corev1.Pod{}
		p := w.addPod("n01", "web", "a", nil)
		w.refuse("n01", p, plan.RefusedByBudget, "PodDisruptionBudget web/pdb allows none", time.Hour)
		w.pass()
	}},
	plan.EvictionFailed: {node: "n01", object: "pod web/a", message: "eviction of pod web/a failed: boom", arrange: func(w *world) {
		rebooting(w)
		w.pods = map[string][]*corev1.Pod{}
		w.refuse("n01", w.addPod("n01", "web", "a", nil), plan.RefusedByError, "eviction of pod web/a failed: boom", time.Hour)
		w.pass()
	}},
	plan.PodStuck: {node: "n01", object: "pod web/a",
		message: "pod web/a should have ended by 2026-01-05T08:59:00Z; its finalizers hold it: example.com/hold",
		arrange: func(w *world) {
			rebooting(w)
			w.pods = map[string][]*corev1.Pod{}
			p := w.addPod("n01", "web", "a", nil)
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: w.in.Now.Add(-time.Minute)}, []string{"example.com/hold"}
			w.pass()
		}},
	plan.ProtectedPodTimeout: {node: "n01", message: "protected pods were still there after 10s: ml/train",
		arrange: func(w *world) {
			rebooting(w)
			protect(w)
			w.edit("tune", func(nw *plan.NodeWright) {
				nw.Spec.ProtectedPodsTimeout = &metav1.Duration{Duration: 10 * time.Second}
			})
			w.addPod("n01", "ml", "train", map[string]string{"protected": "true"})
			w.addPod("n02", "ml", "train-2", map[string]string{"protected": "true"})
			w.passAndWork(13)
		}},
	plan.DrainBlocked: {node: "n01", object: "pod web/a",
		message: "pod web/a may not be evicted: no controller would replace it (drainConfig.force is false)",
		arrange: func(w *world) {
			rebooting(w)
			w.edit("tune", func(nw *plan.NodeWright) { nw.Spec.DrainConfig = &nwv1.DrainConfig{Force: new(false)} })
			w.pods = map[string][]*corev1.Pod{}
			w.addPod("n01", "web", "a", nil).OwnerReferences = nil
			w.pass()
		}},
	plan.Running: {node: "n01", object: "package tuning", message: "package tuning, stage apply", arrange: func(w *world) {
		plain(w)
		w.passAndWork(2)
	}},
	plan.Starting: {node: "n01", message: "starting tuning (install)", arrange: func(w *world) { plain(w); w.pass() }},
	plan.RetryBackoff: {node: "n01", object: "package tuning",
		message: "package tuning failed; the next attempt is due at 2026-01-05T09:00:13Z",
		arrange: func(w *world) { w.fails = failing("n01"); plain(w); w.passAndWork(4) }},
	plan.ImagePull: {node: "n01", object: "package tuning", message: "package tuning: back-off", arrange: func(w *world) {
		plain(w)
		w.pass()
		w.pass()
		w.trouble(plan.ImagePull, 0)
	}},
	plan.InsufficientResources: {node: "n01", object: "package tuning", message: "package tuning: back-off", arrange: func(w *world) {
		plain(w)
		w.pass()
		w.pass()
		w.trouble(plan.InsufficientResources, time.Hour/2)
	}},
	plan.ContainerCannotRun: {node: "n01", object: "package tuning", message: "package tuning: back-off", arrange: func(w *world) {
		plain(w)
		w.pass()
		w.pass()
		w.trouble(plan.ContainerCannotRun, time.Hour)
		w.pass() // longer than is tolerated: the node has failed
	}},
	plan.CrashLoop: {node: "n01", object: "package tuning", message: "package tuning: back-off", arrange: func(w *world) {
		plain(w)
		w.pass()
		w.pass()
		w.trouble(plan.CrashLoop, time.Hour/2)
	}},
	plan.NoPod: {node: "n01", object: "package tuning", message: "package tuning: back-off", arrange: func(w *world) {
		plain(w)
		w.pass()
		w.pass()
		w.trouble(plan.NoPod, time.Hour/2)
	}},
	plan.PodNotAcknowledged: {node: "n01", object: "package tuning", message: "package tuning: back-off", arrange: func(w *world) {
		plain(w)
		w.pass()
		w.pass()
		w.trouble(plan.PodNotAcknowledged, time.Hour/2)
	}},
	plan.PodRefused: {node: "n01", object: "package tuning",
		message: "package tuning: OutOfcpu: no room (1 of 10 in a row); the next attempt is due at 2026-01-05T09:00:11Z",
		arrange: func(w *world) { plain(w); w.passAndWork(1); w.pass(); w.endWith(plan.PodRefused, "OutOfcpu: no room") }},
	plan.Disrupted: {node: "n01", object: "package tuning",
		message: "package tuning: Evicted: low on disk (1 of 10 in a row); the next attempt is due at 2026-01-05T09:00:11Z",
		arrange: func(w *world) {
			plain(w)
			w.passAndWork(1)
			w.pass()
			w.endWith(plan.Disrupted, "Evicted: low on disk")
		}},
	plan.InterruptRefused: {node: "n01", object: "package tuning",
		message: "the reboot interrupt: the node is not cordoned (1 of 10 in a row); the next attempt is due at 2026-01-05T09:00:14Z",
		arrange: func(w *world) {
			rebooting(w)
			w.until(plan.ActionInterrupt)
			w.endWith(plan.InterruptRefused, "the node is not cordoned")
		}},
	plan.OutOfMemory: {node: "n01", object: "package tuning",
		message: "package tuning, stage apply, exit code 137: killed", arrange: func(w *world) {
			plain(w)
			for range 3 {
				w.until(plan.ActionRun)
				w.work()
				w.endWith(plan.OutOfMemory, "killed")
				w.pass()
				w.in.Now = w.in.Now.Add(time.Minute)
			}
		}},
	// A cycle is refused before it comes here; should one come all the same, it is named.
	plan.Dependency: {node: "n01", object: "package top", message: "package base waits for package top", arrange: func(w *world) {
		w.nodeWright("tune", budgetOnly(1), pkg("base", "1.0.0"), depends(pkg("top", "1.0.0"), "base"))
		w.edit("tune", func(nw *plan.NodeWright) { nw.Desired.Packages[0] = depends(nw.Desired.Packages[0], "top") })
		w.pass()
	}},
	plan.Interrupting: {node: "n01", object: "package tuning", message: "the reboot interrupt is under way", arrange: func(w *world) {
		rebooting(w)
		w.passAndWork(6)
	}},
	plan.OtherInterrupt: {node: "n01", message: "the work of another NodeWright on this node has to end first",
		arrange: func(w *world) {
			rebooting(w)
			w.nodeWright("zz", budgetOnly(1), pkg("other", "1.0.0"))
			w.pass()
			w.jobs["foreign"] = &plan.Execution{
				ExecutionKey: plan.ExecutionKey{NodeWright: "zz", NodeUID: "uid-n01", Phase: plan.PhaseInterrupt},
				Name:         "foreign", Node: "n01", State: plan.ExecutionRunning,
			}
		}},
	plan.Uncordoning: {node: "n01", message: "all packages are done; the node is being uncordoned", arrange: func(w *world) {
		rebooting(w)
		w.until(plan.ActionUncordon)
	}},
	plan.Settling: {node: "n01", message: "the node has to stay Ready until 2026-01-05T10:00:04Z", arrange: func(w *world) {
		w.nodeWright("tune", func(nw *plan.NodeWright) {
			policy(count(1), fixed(1))(nw)
			nw.Policy.Settle = &metav1.Duration{Duration: time.Hour}
		}, pkg("tuning", "1.0.0"))
		w.passAndWork(5)
	}},
	plan.EarlierExecution: {node: "n01", message: "an execution of an earlier round is still running", arrange: func(w *world) {
		plain(w)
		w.passAndWork(2)
		w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	}},
	plan.PackageFailed: {node: "n01", object: "package tuning", message: "package tuning, stage apply, exit code 3: boom",
		arrange: func(w *world) { w.fails = failing("n01"); plain(w); w.settle() }},
	plan.StageTimeout: {node: "n01", object: "package tuning",
		message: "package tuning, stage apply: the execution did not end within 2h0m0s",
		arrange: func(w *world) {
			w.frozen = func(plan.Execution) bool { return true }
			plain(w)
			w.pass()
			w.pass()
			w.jobs[sortedKeys(w.jobs)[0]].State, w.jobs[sortedKeys(w.jobs)[0]].Stage = plan.ExecutionRunning, nwv1.StageApply
			w.in.Now = w.in.Now.Add(3 * time.Hour)
		}},
	plan.InterruptFailed: {node: "n01", object: "package tuning",
		message: "package tuning, stage interrupt: the reboot interrupt was not proven within 1h0m0s",
		arrange: func(w *world) {
			w.dies = func(string) bool { return true }
			rebooting(w)
			w.settle()
		}},
	plan.DrainTimeout: {node: "n01", message: "the drain has outlasted its timeout: web/a", arrange: func(w *world) {
		rebooting(w)
		w.edit("tune", func(nw *plan.NodeWright) {
			nw.Spec.DrainConfig = &nwv1.DrainConfig{Timeout: &metav1.Duration{Duration: time.Minute}}
		})
		w.pods = map[string][]*corev1.Pod{}
		w.addPod("n01", "web", "a", nil).DeletionTimestamp = &metav1.Time{Time: w.in.Now.Add(time.Hour)}
		w.pass()
		w.pass()
		w.in.Now = w.in.Now.Add(2 * time.Minute)
	}},
	plan.Suspended: {node: "n01", object: "nodewright tune", message: "package tuning, stage apply is suspended: NodeWright tune is paused",
		arrange: func(w *world) {
			plain(w)
			w.passAndWork(2)
			w.edit("tune", func(nw *plan.NodeWright) { nw.Paused = true })
		}},
}

// until passes and works until an action is decided, and stops before it is seen.
func (w *world) until(a plan.Action) {
	for range 100 {
		out := w.pass()
		for _, d := range out.Decisions {
			if d.Action == a {
				return
			}
		}
		w.work()
	}
	w.t.Fatalf("%s was never decided", a)
}

func depends(p desired.Package, on ...string) desired.Package {
	p.DependsOn = map[string]string{}
	for _, name := range on {
		p.DependsOn[name] = "1.0.0"
	}
	return p
}

func safetyLimit(n int32) func(*nwv1.BatchRules) {
	return func(r *nwv1.BatchRules) { r.SafetyLimit = n }
}

func TestEveryReasonHasACase(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			if plan.Code(code) != plan.NodeLost { // a node that is gone has no reason: see TestNodesThatVanishHalt
				require.Contains(t, reasonCases, plan.Code(code), "a reason without a case")
			}
		}
		return true
	})
}

// timeless are the reasons that begin with something that nobody writes down the time of.
var timeless = map[plan.Code]bool{
	plan.Ignored: true, plan.TaintNotTolerated: true, plan.Disabled: true, plan.Paused: true, plan.Standby: true, plan.Unresolved: true, plan.OutOfScope: true,
	plan.RecordUnreadable: true, plan.NotAdopted: true,
}

func TestReasons(t *testing.T) {
	for code, c := range reasonCases {
		t.Run(string(code), func(t *testing.T) {
			w := newWorld(t, 2)
			c.arrange(w)
			if code != plan.Uncordoning && code != plan.Interrupting {
				w.pass()
			}
			r := w.reason("tune", c.node)
			require.Equal(t, code, r.Code, r.Message)
			require.Equal(t, c.message, r.Message)
			require.Equal(t, c.object, r.Object)
			require.Equal(t, code == plan.Complete, r.Ends == "", "what ends it")
			require.Equal(t, timeless[code], r.Since.IsZero(), "since when")
			require.False(t, r.Since.After(w.in.Now))
		})
	}
}

// TestNodesThatVanishHalt: a node that disappears at work has failed, and is named.
func TestNodesThatVanishHalt(t *testing.T) {
	w := newWorld(t, 4)
	w.nodeWright("tune", policy(count(1), fixed(1, failureThreshold(1))), pkg("tuning", "1.0.0"))
	w.passAndWork(2)
	w.removeNode("n01")
	w.settle()
	s := w.status("tune")
	require.Equal(t, []string{"default"}, s.Halted)
	require.Equal(t, "n01: package tuning, stage apply: the node vanished while it was under way", s.Compartments[0].Halt.Message)
	require.Equal(t, string(plan.NodeLost), s.Failures[0].Reason)
	require.Empty(t, w.outOfService())
}
