package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// world is the imagined cluster. Its state is the planner's input: every view is fresh, every write succeeds.
type world struct {
	clock
	in        plan.Input
	byName    map[string]int
	running   map[string]*job
	durations Durations
	chance    chance
	// imaginesPods: nodes whose pods are not known have one that leaves when asked to.
	imaginesPods bool
	watch        *recorder
}

func newWorld(sc Scenario) *world {
	w := &world{
		clock: clock{now: sc.Start}, byName: map[string]int{}, running: map[string]*job{},
		durations: sc.Durations.withDefaults(), chance: newChance(sc.Seed, sc.Failures), watch: newRecorder(sc),
	}
	w.in = plan.Input{
		Now: sc.Start, Ledger: *sc.Ledger.DeepCopy(), NodeWrights: sc.NodeWrights, Nodes: slices.Clone(sc.Nodes),
		Snapshots: map[string]desired.Package{}, Budgets: sc.Budgets, Settings: sc.Settings,
	}
	maps.Copy(w.in.Snapshots, sc.Snapshots)
	slices.SortFunc(w.in.Nodes, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) }) // sorting them again costs little
	drain := w.durations[StepDrain]
	w.in.Settings.DrainRetry = max(w.in.Settings.DrainRetry, drain) // nobody looks in between
	w.imaginesPods = drain > 0 && !slices.ContainsFunc(sc.NodeWrights, protectsEveryPod)
	for i := range w.in.Nodes {
		w.settleIn(i)
	}
	return w
}

// protectsEveryPod: a selector that matches a pod without labels protects the imagined pod, which would never leave.
func protectsEveryPod(nw plan.NodeWright) bool {
	s := nw.Spec.PodNonInterruptLabels
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&s)
	return err == nil && selector.Matches(labels.Set{})
}

// settleIn makes a node of the scenario part of the world.
func (w *world) settleIn(i int) {
	n := &w.in.Nodes[i]
	w.byName[n.Name] = i
	if n.BootID == "" {
		n.BootID = "boot-0"
	}
	if !n.PodsListed {
		n.PodsListed, n.Pods = true, w.imaginedPods(n.Name)
	}
	w.leave(n, leavingPods(n.Pods))
	n.Executions = slices.Clone(n.Executions)
	for _, e := range n.Executions {
		if !e.Ended() {
			w.resume(n, e)
		}
	}
	w.watch.outOfService(w.now, nil, n.CordonOwners)
}

// imaginedPods is the pod of a node of which nothing is known.
func (w *world) imaginedPods(node string) []*corev1.Pod {
	if !w.imaginesPods {
		return nil
	}
	return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{
		Namespace: "imagined", Name: "workload", UID: types.UID("imagined-pod-" + node),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "workload", Controller: new(true)}},
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}}
}

// node returns a node that is still the one that a decision is about.
func (w *world) node(name string, uid types.UID) (*plan.Node, bool) {
	i, ok := w.byName[name]
	if !ok || w.in.Nodes[i].UID != uid {
		return nil, false
	}
	return &w.in.Nodes[i], true
}

// carryOut does what a plan says. It reports whether that is anything.
func (w *world) carryOut(out plan.Output) bool {
	if out.Ledger != nil {
		w.watch.ledger(w.now, w.in.Ledger, *out.Ledger)
		w.in.Ledger = *out.Ledger
	}
	for _, d := range out.Decisions {
		if n, ok := w.node(d.Node, d.NodeUID); ok {
			w.do(n, d)
		}
	}
	return out.Ledger != nil || len(out.Decisions) > 0
}

// do carries out one decision, its parts in the order of their fields.
func (w *world) do(n *plan.Node, d plan.Decision) {
	for _, s := range d.Snapshots {
		w.in.Snapshots[s.SnapshotHash] = s
	}
	w.record(n, d)
	w.cordon(n, d)
	for _, name := range d.Stop {
		w.stop(n, name)
	}
	w.suspend(n, d.Suspend, true)
	w.suspend(n, d.Unsuspend, false)
	for _, spec := range d.Start {
		w.start(n, spec)
	}
	w.evict(n, d.Evict)
}

// record writes the record. Executions whose end it holds have served their purpose.
func (w *world) record(n *plan.Node, d plan.Decision) {
	switch {
	case d.Record != nil:
		w.watch.record(w.now, d)
		n.Records = with(n.Records, d.NodeWright, *d.Record)
		if !tracksExecutions(*d.Record) {
			w.discardEnded(n, d.NodeWright)
		}
	case d.Erase:
		n.Records = maps.Clone(n.Records)
		delete(n.Records, d.NodeWright)
	}
	w.statusLabel(n, d)
}

// statusLabel takes NVIDIA's label off where the decision does: the planner sweeps what a NodeWright that is gone has left until it is.
func (w *world) statusLabel(n *plan.Node, d plan.Decision) {
	key := nwv1.StatusKey(d.NodeWright)
	if _, has := n.Labels[key]; !has || !d.Erase && (d.Record == nil || d.Status != "") {
		return
	}
	n.Labels = maps.Clone(n.Labels)
	delete(n.Labels, key)
}

// with is the map with another value: maps and slices of nodes are replaced, never changed, as a planner may keep them.
func with(records map[string]noderecord.Record, name string, r noderecord.Record) map[string]noderecord.Record {
	out := make(map[string]noderecord.Record, len(records)+1)
	maps.Copy(out, records)
	out[name] = r
	return out
}

// tracksExecutions reports whether the record waits for the end of an execution.
func tracksExecutions(r noderecord.Record) bool {
	for _, p := range r.Packages {
		if p.Running != "" {
			return true
		}
	}
	return r.Interrupt != nil
}

func (w *world) cordon(n *plan.Node, d plan.Decision) {
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t corev1.Taint) bool { return slices.Contains(d.Untaint, t) })
	if d.Taint != nil {
		n.Taints, n.Touched, n.AutoTainted = append(n.Taints, *d.Taint), true, true
	}
	before := n.CordonOwners
	switch d.Cordon {
	case plan.CordonTake:
		n.Unschedulable = true
		if !slices.Contains(before, d.NodeWright) {
			n.CordonOwners = append(slices.Clone(before), d.NodeWright)
			slices.Sort(n.CordonOwners)
		}
	case plan.CordonDrop:
		n.CordonOwners = slices.DeleteFunc(slices.Clone(before), func(o string) bool { return o == d.NodeWright })
		n.Unschedulable = len(n.CordonOwners) > 0
		if !n.Unschedulable && len(n.Pods) == 0 {
			n.Pods = w.imaginedPods(n.Name) // the scheduler puts pods on it again
		}
	case plan.CordonKeep:
		return
	}
	w.watch.outOfService(w.now, before, n.CordonOwners)
}

// evict asks pods to leave: they do, after their time. No PodDisruptionBudget refuses.
func (w *world) evict(n *plan.Node, evictions []plan.Eviction) {
	if len(evictions) == 0 {
		return
	}
	leaving := map[types.UID]bool{}
	pods := slices.Clone(n.Pods)
	for _, e := range evictions {
		leaving[e.UID] = true
	}
	for i, p := range pods {
		if leaving[p.UID] && p.DeletionTimestamp == nil {
			p = p.DeepCopy()
			p.DeletionTimestamp = &metav1.Time{Time: w.now}
			pods[i] = p
		}
	}
	n.Pods = pods
	w.leave(n, leaving)
}

// leave lets pods that were asked to leave be gone after their time.
func (w *world) leave(n *plan.Node, leaving map[types.UID]bool) {
	if len(leaving) == 0 {
		return
	}
	w.after(w.durations[StepDrain], func() {
		n.Pods = slices.DeleteFunc(slices.Clone(n.Pods), func(p *corev1.Pod) bool { return leaving[p.UID] })
	})
}

func leavingPods(pods []*corev1.Pod) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			out[p.UID] = true
		}
	}
	return out
}

// reboots takes a node down for as long as its reboot lasts, or for good, and calls back when it is up again.
func (w *world) reboots(n *plan.Node, forGood bool, up func()) {
	n.Ready = false
	if forGood {
		return
	}
	w.after(w.durations[StepReboot], func() {
		n.Ready, n.BootID = true, nextBootID(n.BootID)
		up()
	})
}

// nextBootID is another one than before.
func nextBootID(before string) string {
	var boots int
	if _, err := fmt.Sscanf(before, "boot-%d", &boots); err != nil {
		boots = 0
	}
	return fmt.Sprintf("boot-%d", boots+1)
}

// interruptStep is the step that an interrupt is.
func interruptStep(t nwv1.InterruptType) Step { return Step(t) }
