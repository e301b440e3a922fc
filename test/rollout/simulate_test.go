package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// TestSimulationMatchesTheCluster rolls out the NodeWrights of fleet-example, each with its policy and packages, and finds
// in the records of the nodes exactly the batches that a simulation of the same manifests over the same nodes foretold.
func TestSimulationMatchesTheCluster(t *testing.T) {
	for _, c := range []struct {
		name, nodeWright, policy string
		tiers                    []string
		fails                    []int // nodes on which every apply fails
		outcome                  simulate.Outcome
		batches                  map[string][]int // their sizes, so that both cannot be wrong together
	}{
		{name: "linear", nodeWright: "gpu-tuning", policy: "linear", tiers: repeat("any", 9), outcome: simulate.Complete,
			batches: map[string][]int{"default": {1, 3, 4, 1}}},
		{name: "fixed", nodeWright: "gpu-services", policy: "fixed", tiers: repeat("any", 5), outcome: simulate.Complete,
			batches: map[string][]int{"default": {2, 2, 1}}},
		{name: "exponential by tier", nodeWright: "gpu-kernel", policy: "by-tier", outcome: simulate.Complete,
			tiers:   slices.Concat(repeat("canary", 2), repeat("serving", 3), repeat("training", 7), repeat("any", 1)),
			batches: map[string][]int{"canary": {1, 1}, "serving": {1, 2}, "training": {1, 2, 3, 1}, "default": {1}}},
		{name: "fixed with a halt", nodeWright: "gpu-services", policy: "fixed", tiers: repeat("any", 9), fails: []int{3},
			outcome: simulate.Halted, batches: map[string][]int{"default": {2, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			objects := exampleObjects(t, "us-east-1", c.nodeWright)
			require.Equal(t, c.policy, objects.NodeWrights[0].Spec.DeploymentPolicy)
			var fails []string
			for i, tier := range c.tiers {
				name := w.addNode(map[string]string{"pool": "gpu", "tier": tier})
				if slices.Contains(c.fails, i) {
					fails = append(fails, name)
				}
			}
			foretold := w.simulate(objects, fails)
			require.Equal(t, c.outcome, foretold.Outcome)
			require.Equal(t, c.batches, sizesOf(foretold))
			happened := w.rollOut(objects, fails)
			require.Equal(t, foretold.Outcome == simulate.Complete, happened.Status.Status == nwv1.StatusComplete)
			require.Equal(t, batchesOf(foretold), w.batches(c.nodeWright))
			require.Equal(t, haltsOf(foretold), w.halts(c.nodeWright))
		})
	}
}

func repeat(s string, n int) []string { return slices.Repeat([]string{s}, n) }

// exampleObjects are the objects of an overlay of fleet-example, with one of its NodeWrights.
func exampleObjects(t *testing.T, name, nodeWright string) simulate.Objects {
	t.Helper()
	files, err := git.Worktree("../../fleet-example")
	require.NoError(t, err)
	built, findings := overlay.Build(files, "overlays/"+name)
	require.Empty(t, findings)
	validator, err := manifest.New()
	require.NoError(t, err)
	var documents []manifest.Object
	for _, o := range built.Objects {
		documents = append(documents, manifest.Object{
			Key: o.Kind + "/" + o.Name, APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, JSON: o.JSON, File: o.Origin,
		})
	}
	set, findings := validator.Validate(documents, nil, manifest.Options{})
	require.Empty(t, findings)
	chosen := slices.DeleteFunc(set.NodeWrights, func(nw *nwv1.NodeWright) bool { return nw.Name != nodeWright })
	require.Len(t, chosen, 1)
	return simulate.Objects{NodeWrights: chosen, Policies: set.DeploymentPolicies, Packages: set.Packages}
}

// simulate foretells the rollout from the manifests and the nodes as they are now.
func (w *world) simulate(objects simulate.Objects, fails []string) simulate.Rollout {
	w.t.Helper()
	list, err := w.kube.CoreV1().Nodes().List(w.ctx(), metav1.ListOptions{LabelSelector: "test=" + w.prefix})
	require.NoError(w.t, err)
	sc := simulate.Scenario{
		Start: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), Failures: simulate.Failures{Nodes: fails},
		Settings: plan.Settings{Attempts: 2, StageTimeout: time.Minute},
	}
	for i := range list.Items {
		sc.Nodes = append(sc.Nodes, adapter.NodeView(&list.Items[i]))
	}
	sc.NodeWrights = simulate.NodeWrights(objects, sc.Ledger, sc.Nodes)
	r := simulate.Run(sc)
	require.Empty(w.t, r.Problem)
	require.Len(w.t, r.Rollouts, 1)
	return r.Rollouts[0]
}

// rollOut applies the same manifests to the cluster and waits until the rollout is complete, or halted with all turns ended.
func (w *world) rollOut(objects simulate.Objects, fails []string) *nwv1.NodeWright {
	w.t.Helper()
	w.result.set(func(pod *corev1.Pod, container string) simnode.Result {
		if slices.Contains(fails, pod.Spec.NodeName) && strings.HasSuffix(container, "-apply") {
			return simnode.Result{Exit: 1, Log: "simulated failure"}
		}
		return simnode.Result{}
	})
	for _, p := range objects.Packages {
		w.create(p)
		w.t.Cleanup(func() { _ = w.admin.Delete(w.ctx(), &fleetv1.Package{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}) })
	}
	for _, p := range objects.Policies {
		w.create(p)
	}
	w.start()
	w.create(objects.NodeWrights[0])
	return w.awaitStatus(objects.NodeWrights[0].Name, "complete or halted", func(nw *nwv1.NodeWright) bool {
		return complete(nw) || len(w.halts(nw.Name)) > 0 && nw.Status.Status != nwv1.StatusInProgress
	})
}

// batchesOf are the names of the nodes of each batch, by compartment.
func batchesOf(r simulate.Rollout) map[string][][]string {
	out := map[string][][]string{}
	for _, c := range r.Compartments {
		for _, b := range c.Batches {
			out[c.Name] = append(out[c.Name], b.Nodes)
		}
	}
	return out
}

func sizesOf(r simulate.Rollout) map[string][]int {
	out := map[string][]int{}
	for name, batches := range batchesOf(r) {
		for _, nodes := range batches {
			out[name] = append(out[name], len(nodes))
		}
	}
	return out
}

func haltsOf(r simulate.Rollout) map[string]string {
	out := map[string]string{}
	for _, c := range r.Compartments {
		if c.Halt != nil {
			out[c.Name] = c.Halt.Message
		}
	}
	return out
}

// batches are read from the records of the nodes: in each batch the nodes in the order of their admission.
func (w *world) batches(nodeWright string) map[string][][]string {
	w.t.Helper()
	list, err := w.kube.CoreV1().Nodes().List(w.ctx(), metav1.ListOptions{LabelSelector: "test=" + w.prefix})
	require.NoError(w.t, err)
	records := map[string]noderecord.Record{}
	var admitted []string
	for i := range list.Items {
		if r, ok := adapter.NodeView(&list.Items[i]).Records[nodeWright]; ok && r.Batch > 0 {
			records[list.Items[i].Name] = r
			admitted = append(admitted, list.Items[i].Name)
		}
	}
	slices.SortFunc(admitted, func(a, b string) int { return int(records[a].Order - records[b].Order) })
	out := map[string][][]string{}
	for _, name := range admitted {
		r := records[name]
		for len(out[r.Compartment]) < int(r.Batch) {
			out[r.Compartment] = append(out[r.Compartment], nil)
		}
		out[r.Compartment][r.Batch-1] = append(out[r.Compartment][r.Batch-1], name)
	}
	return out
}

// halts are the messages of the halted compartments in the ledger.
func (w *world) halts(nodeWright string) map[string]string {
	w.t.Helper()
	list := &fleetv1.LedgerList{}
	require.NoError(w.t, w.admin.List(w.ctx(), list, &client.ListOptions{}))
	out := map[string]string{}
	for _, ledger := range list.Items {
		for name, c := range ledger.Spec.Rollouts[nodeWright].Compartments {
			if c.Halt != nil {
				out[name] = c.Halt.Message
			}
		}
	}
	return out
}
