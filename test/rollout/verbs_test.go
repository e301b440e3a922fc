package rollout

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// operator asks with the command line, and may write whatever it asks.
const operator = "operator"

// ran notes which containers ran on which node: `<node> <container>`.
type ran struct {
	mu  sync.Mutex
	all []string
}

// note lets every container run; those for which fails is true exit with 1.
func (w *world) note(fails func(what string) bool) *ran {
	r := &ran{}
	w.result.set(func(pod *corev1.Pod, container string) simnode.Result {
		what := pod.Spec.NodeName + " " + container
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, what)
		if fails(what) {
			return simnode.Result{Exit: 1, Log: "device busy"}
		}
		return simnode.Result{}
	})
	return r
}

// since are the stages that ran on one node since the last call.
func (r *ran) since(node string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, what := range r.all {
		name, container, _ := strings.Cut(what, " ")
		if _, stage, _ := strings.Cut(container, "-"); name == node && stage != "init" && stage != "" && !strings.HasSuffix(stage, "check") {
			out = append(out, container)
		}
	}
	r.all = nil
	return out
}

// writesOf counts what a user wrote.
func (w *world) writesOf(user string) int {
	w.t.Helper()
	require.NoError(w.t, w.c.Audit().Sync(w.ctx()))
	events, err := w.c.Audit().Events(cluster.Match{User: user})
	require.NoError(w.t, err)
	return len(slices.DeleteFunc(events, func(e cluster.AuditEvent) bool { return !writing(e) || e.Received.Before(w.began) }))
}

// awaitHandled waits until the NodeWright is complete and echoes the token of a request.
func (w *world) awaitHandled(name, verb, token string) {
	w.t.Helper()
	w.awaitStatus(name, verb+" "+token+" is handled", func(nw *nwv1.NodeWright) bool {
		return complete(nw) && nw.Status.HandledRequests[verb] == token
	})
}

// What can be asked for again, through the program and in the order in which an operator would: a halt ends, the node that
// failed is tried again, one node runs again from a stage on, another one from nothing. What is told and echoed is right,
// and so is what ran.
func TestVerbsLetThingsRunAgain(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	broken := newSwitch()
	ran := w.note(func(what string) bool { return what == nodes[0]+" tuning-apply" && broken.on() })
	c := w.newCommandLine().as(w, operator, "system:masters")
	policy, once := fixedPolicy("verbs", 2), int32(1) // of two slots the node that failed keeps one
	policy.Spec.Default.Strategy.Fixed.BatchRules = nwv1.BatchRules{InitialBatch: 1, FailureThreshold: &once, SafetyLimit: 100}
	w.create(policy)
	w.start()
	w.create(w.nodeWright("verbs", func(nw *nwv1.NodeWright) { nw.Spec.DeploymentPolicy = "verbs" }))
	w.awaitStatus("verbs", "halted by the first node", func(nw *nwv1.NodeWright) bool {
		state := nw.Status.CompartmentStatuses["default"].BatchState
		return nw.Status.NodesFailed == 1 && state != nil && state.ShouldStop
	})
	w.requireDryRuns(c, nodes[0])
	w.requireRefused(c, nodes[1])

	broken.off()
	require.Contains(t, c.must("resume", "nodewright/verbs", "--id", "r1"), "halts end: compartment default")
	w.awaitStatus("verbs", "the halt has ended, the failed node needs more", func(nw *nwv1.NodeWright) bool {
		return nw.Status.CompleteNodes == "1/2" && nw.Status.NodesFailed == 1 && nw.Status.HandledRequests["resume"] == "r1"
	})
	require.Contains(t, c.must("retry", "node/"+nodes[0], "--id", "t1"), `"fleetwright.dev/retry":"t1"`)
	w.awaitComplete("verbs")
	require.Equal(t, "t1", w.record("verbs", nodes[0]).Asked["node/retry"])
	require.Empty(t, w.eventsAbout(nodes[0], report.EventAskedFor), "a retry is no repetition")

	ran.since("")
	said := c.must("rerun", "nodewright/verbs", "--package", "tuning", "--stage", "config", "--node", nodes[0], "--id", "a1")
	require.Contains(t, said, "nodes that are meant: "+nodes[0]+"\n")
	w.awaitHandled("verbs", "rerun", "a1")
	require.Equal(t, int32(1), w.record("verbs", nodes[0]).Reruns)
	require.Zero(t, w.record("verbs", nodes[1]).Reruns, "the other node is not meant")
	require.Equal(t, []string{"tuning-config"}, ran.since(nodes[0]))
	require.Equal(t, "nodewright verbs: rerun a1: package tuning runs again from stage config", w.awaitEvent(nodes[0], report.EventAskedFor).Note)

	c.must("reset", "node", nodes[1], "--nodewright", "verbs", "--id", "n1")
	require.Eventually(t, func() bool {
		return w.record("verbs", nodes[1]).Asked["node/reset"] == "n1" && complete(w.get("verbs"))
	},
		patience, pause, "it ran again")
	require.Equal(t, []string{"tuning-apply", "tuning-config"}, ran.since(nodes[1]))
	require.Equal(t, "nodewright verbs: reset n1: every package runs again from stage apply", w.awaitEvent(nodes[1], report.EventAskedFor).Note)

	w.edit("verbs", func(nw *nwv1.NodeWright) { nw.Spec.RuntimeRequired = true })
	require.Contains(t, c.must("regate", "node/"+nodes[1], "--id", "g1"), `"fleetwright.dev/regate":"g1"`)
	require.Eventually(t, func() bool {
		return w.record("verbs", nodes[1]).Asked["node/regate"] == "g1" && complete(w.get("verbs")) && len(w.node(nodes[1]).Spec.Taints) == 0
	}, patience, pause, "it ran again behind the taint, which is gone")
	require.Equal(t, []string{"tuning-apply", "tuning-config"}, ran.since(nodes[1]))
	require.Contains(t, w.awaitEvent(nodes[1], report.EventGated).Note, "runtime-required:NoSchedule")
	require.Equal(t, 5, w.writesOf(operator), "each wish is one patch")
}

// requireDryRuns asks for everything with --dry-run: the patch is printed, and nothing is written.
func (w *world) requireDryRuns(c commandLine, node string) {
	w.t.Helper()
	for _, args := range [][]string{
		{"retry", "nodewright/verbs"}, {"retry", "node/" + node}, {"rerun", "nodewright/verbs", "--stage", "config"}, {"rerun", "node/" + node},
		{"reset", "nodewright/verbs"}, {"reset", "node/" + node}, {"resume", "nodewright/verbs"}, {"pause", "nodewright/verbs"},
		{"disable", "nodewright/verbs"}, {"ignore", "node/" + node}, {"abandon-uninstall", "nodewright/verbs"},
	} {
		require.Contains(w.t, c.must(append(args, "--dry-run")...), ` would be patched: {"metadata":{"`, args)
	}
	require.Zero(w.t, w.writesOf(operator))
}

// requireRefused asks for what there is not: the program writes nothing, and what came from elsewhere is answered on the
// object until it is mended.
func (w *world) requireRefused(c commandLine, node string) {
	w.t.Helper()
	problem := `fleetwright.dev/rerun: NodeWright verbs has no package "tunning"; it has tuning`
	require.Equal(w.t, "fleetwright: "+problem+"\n", c.run("rerun", "nodewright/verbs", "--package", "tunning"))
	require.Equal(w.t, "fleetwright: pause is asked of a nodewright, not of a node\n", c.run("pause", "node/"+node))
	require.Zero(w.t, w.writesOf(operator))

	w.edit("verbs", annotated(fleetv1.VerbKey(fleetv1.VerbRerun), "x1 package=tunning"))
	w.patchNode(node, `{"metadata":{"annotations":{"fleetwright.dev/reset":"x2 stage=config"}}}`)
	refused := func(nw *nwv1.NodeWright) bool {
		return apimeta.IsStatusConditionTrue(nw.Status.Conditions, report.ConditionRequestRefused)
	}
	nw := w.awaitStatus("verbs", "refused", refused)
	require.Equal(w.t, problem, apimeta.FindStatusCondition(nw.Status.Conditions, report.ConditionRequestRefused).Message)
	require.Equal(w.t, problem, w.awaitEvent("verbs", report.EventRequestRefused).Note)
	require.Equal(w.t, `fleetwright.dev/reset: "stage=config" is not one of package=…, nodewright=…`, w.awaitEvent(node, report.EventRequestRefused).Note)
	w.edit("verbs", annotated(fleetv1.VerbKey(fleetv1.VerbRerun), ""))
	w.patchNode(node, `{"metadata":{"annotations":{"fleetwright.dev/reset":null}}}`)
	nw = w.awaitStatus("verbs", "mended", func(nw *nwv1.NodeWright) bool { return !refused(nw) })
	require.NotContains(w.t, nw.Status.HandledRequests, "rerun", "what was refused was not handled")
}

// annotated sets an annotation, or removes it.
func annotated(key, value string) func(*nwv1.NodeWright) {
	return func(nw *nwv1.NodeWright) {
		if value == "" {
			delete(nw.Annotations, key)
			return
		}
		if nw.Annotations == nil {
			nw.Annotations = map[string]string{}
		}
		nw.Annotations[key] = value
	}
}

// The switches, through the program: what is paused, disabled or ignored does nothing, and goes on when it is switched back.
// An uninstall that fails is given up.
func TestVerbsThatSwitch(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2, nil)
	w.note(func(what string) bool { return strings.HasSuffix(what, " tuning-uninstall") })
	c := w.newCommandLine().as(w, operator, "system:masters")
	w.start()
	w.create(w.nodeWright("switched", withUninstall))
	w.awaitComplete("switched")
	began := len(w.created())
	rests := func(status nwv1.Status) func(*nwv1.NodeWright) bool {
		return func(nw *nwv1.NodeWright) bool {
			return nw.Status.Status == status && nw.Status.ObservedGeneration == nw.Generation && nw.Status.CompleteNodes == "0/2"
		}
	}
	require.Contains(t, c.must("pause", "nodewright/switched"), "nothing new starts")
	w.edit("switched", setVersion("1.1.0"))
	w.awaitStatus("switched", "paused with a new version", rests(nwv1.StatusPaused))
	require.Contains(t, c.must("disable", "nodewright/switched"), "nothing new starts")
	require.Contains(t, c.must("resume", "nodewright/switched"), "the pause is taken off")
	w.awaitStatus("switched", "disabled", rests(nwv1.StatusDisabled))
	require.Len(t, w.created(), began, "nothing started")
	require.Contains(t, c.must("disable", "nodewright/switched"), "stays as it is")

	require.Contains(t, c.must("ignore", "node/"+nodes[0]), "no NodeWright starts anything on the node")
	require.Contains(t, c.must("enable", "nodewright/switched"), "it goes on where it was")
	w.awaitStatus("switched", "the other node is complete", func(nw *nwv1.NodeWright) bool { return complete(nw) && nw.Status.CompleteNodes == "1/1" })
	require.Equal(t, "1.0.0", w.record("switched", nodes[0]).Packages["tuning"].Version)
	require.Contains(t, c.must("unignore", "node/"+nodes[0]), "works on it again")
	w.awaitStatus("switched", "both are complete", func(nw *nwv1.NodeWright) bool { return complete(nw) && nw.Status.CompleteNodes == "2/2" })
	require.Equal(t, "1.1.0", w.record("switched", nodes[0]).Packages["tuning"].Version)

	require.NoError(t, w.admin.Delete(w.ctx(), w.get("switched")))
	w.awaitStatus("switched", "the uninstall failed", func(nw *nwv1.NodeWright) bool { return nw.Status.NodesFailed == 2 })
	require.Contains(t, c.must("abandon-uninstall", "nodewright/switched"), "the files stay")
	require.Eventually(t, func() bool { return w.gone("switched") }, patience, pause, "the object goes")
}
