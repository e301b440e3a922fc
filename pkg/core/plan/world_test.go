package plan_test

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// tb is what the world needs of a test, ordinary or of random input.
type tb interface {
	require.TestingT
	Helper()
	Fatalf(format string, args ...any)
}

// world is a cluster in memory that carries out what the planner decides, and watches the invariants with its own eyes.
type world struct {
	// walked are the changes of state that happened, where somebody asks.
	walked map[change]bool
	t      tb
	in     plan.Input
	nodes  map[string]*plan.Node
	pods   map[string][]*corev1.Pod
	// bound are pods that a PodDisruptionBudget holds, by node name.
	bound map[string]string
	jobs  map[string]*plan.Execution
	specs map[string]plan.ExecutionSpec
	// fails gives the exit code of a stage on a node; nil and 0 succeed.
	fails func(node, pkg string, stage nwv1.Stage) int32
	// satisfied says that the checks of a package find the wanted state before it is installed; nil: never.
	satisfied func(node string, def desired.Package) bool
	// dies says that a node does not come back from its reboot.
	dies func(node string) bool
	// frozen says that an execution makes no progress.
	frozen func(e plan.Execution) bool
	// ceiling is checked against the nodes that are out of service or at work, after every pass; 0 is unchecked.
	ceiling int
	// ceilings and compartmentOf, where given, are what checkAdmissions counts with.
	ceilings      func(nodeWright, compartment string) (int, bool)
	compartmentOf func(nodeWright string, n *plan.Node) string
	// occupancyOf, where given, answers for the pods of the cluster, or not.
	occupancyOf func(q plan.OccupancyQuery) (plan.Occupancy, bool)
	// leaves says whether a pod goes at once when it is asked to; nil: all do.
	leaves func(e plan.Eviction) bool
	// lost says that the write of a decision is refused.
	lost func(d plan.Decision) bool

	// drift is the package that the host of a node does not match any more, by node.
	drift map[string]string
	// mends says that a package that runs again ends the drift.
	mends  bool
	last   plan.Output
	passes int
	// stale says that the decisions being carried out were made from an older view.
	stale bool
	// succeeded are the stages that ended well, to see that none does twice in a round.
	succeeded map[string]int
	log       []string
	// ran are the stages that ended well, by node, in their order: `tuning apply`, `interrupt reboot`.
	ran map[string][]string
}

func newWorld(t tb, nodes int) *world {
	w := &world{
		t: t, nodes: map[string]*plan.Node{}, pods: map[string][]*corev1.Pod{}, jobs: map[string]*plan.Execution{},
		specs: map[string]plan.ExecutionSpec{}, succeeded: map[string]int{}, ran: map[string][]string{},
	}
	w.in.Now = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	w.in.Snapshots = map[string]desired.Package{}
	w.in.Settings = plan.Settings{Namespace: "fleetwright", StageTimeout: time.Hour}
	for i := range nodes {
		w.addNode(fmt.Sprintf("n%02d", i+1), nil)
	}
	return w
}

func (w *world) addNode(name string, labels map[string]string) *plan.Node {
	n := &plan.Node{
		Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"pool": "gpu"}, Ready: true,
		BootID: "boot-1", Records: map[string]noderecord.Record{},
	}
	for k, v := range labels {
		n.Labels[k] = v
	}
	w.nodes[name] = n
	return n
}

// removeNode takes the node away; its jobs become orphans.
func (w *world) removeNode(name string) { delete(w.nodes, name) }

// nodeWright adds or replaces a NodeWright with packages as `name:version` (an `!` at the end adds a reboot).
func (w *world) nodeWright(name string, mutate func(*plan.NodeWright), packages ...desired.Package) {
	nw := plan.NodeWright{
		Name: name, UID: types.UID("uid-" + name), Generation: 1,
		Spec: nwv1.NodeWrightSpec{
			NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
			Priority:      nwv1.DefaultPriority,
		},
	}
	i := slices.IndexFunc(w.in.NodeWrights, func(o plan.NodeWright) bool { return o.Name == name })
	if i >= 0 {
		nw = w.in.NodeWrights[i]
		nw.Generation++
	}
	obj := &nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{}}}
	for _, p := range packages {
		obj.Spec.Packages[p.Name] = entryOf(p)
	}
	set, problems := desired.Resolve(obj, nil)
	require.Empty(w.t, problems)
	nw.Desired = set
	if mutate != nil {
		mutate(&nw)
	}
	if i >= 0 {
		w.in.NodeWrights[i] = nw
		return
	}
	w.in.NodeWrights = append(w.in.NodeWrights, nw)
}

func entryOf(p desired.Package) nwv1.Package {
	out := nwv1.Package{
		Version: p.Version, Image: p.Image, ContainerSHA: p.Digest, Env: p.Env, ConfigMap: p.ConfigMap, Interrupt: p.Interrupt,
		ConfigInterrupts: p.ConfigInterrupts, DependsOn: p.DependsOn,
	}
	if p.SkipIfSatisfied {
		out.SkipIfSatisfied = new(true)
	}
	if p.UninstallOnRemoval {
		out.Uninstall = &nwv1.Uninstall{Enabled: true, Apply: p.Absent}
	}
	return out
}

func pkg(name, version string) desired.Package {
	return desired.Package{Name: name, Version: version, Image: "example.com/" + name}
}

func reboot(p desired.Package) desired.Package {
	p.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptReboot}
	return p
}

func service(p desired.Package, services ...string) desired.Package {
	p.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptService, Services: services}
	return p
}

// input is what a reader with a fresh view would see.
func (w *world) input() plan.Input {
	in := w.in
	in.Nodes, in.Orphans = nil, nil
	byUID := map[types.UID]*plan.Node{}
	for _, name := range sortedKeys(w.nodes) {
		n := *w.nodes[name]
		n.Executions, n.Pods, n.PodsListed = nil, nil, false
		n.Records = map[string]noderecord.Record{}
		for k, r := range w.nodes[name].Records {
			n.Records[k] = r.Clone()
		}
		in.Nodes = append(in.Nodes, n)
		byUID[n.UID] = &n
	}
	for _, name := range sortedKeys(w.jobs) {
		e := *w.jobs[name]
		if i := slices.IndexFunc(in.Nodes, func(n plan.Node) bool { return n.UID == e.NodeUID }); i >= 0 {
			in.Nodes[i].Executions = append(in.Nodes[i].Executions, e)
		} else {
			in.Orphans = append(in.Orphans, e)
		}
	}
	return in
}

// pass computes and carries out one pass, as the reconciler does.
func (w *world) pass() plan.Output {
	w.passes++
	out := w.compute(w.input())
	if out.Ledger != nil {
		w.checkAdmissions(*out.Ledger)
		w.in.Ledger = *out.Ledger.DeepCopy()
	}
	for _, f := range out.Finalizers {
		w.finalize(f)
	}
	for _, d := range out.Decisions {
		if w.lost != nil && w.lost(d) {
			continue
		}
		w.do(d)
	}
	w.last = out
	w.checkCeiling()
	return out
}

// do carries out one decision and checks the invariants that one decision can break.
func (w *world) do(d plan.Decision) {
	n, ok := w.nodes[d.Node]
	if !ok || n.UID != d.NodeUID {
		return
	}
	w.logf("%s %s/%s", d.Action, d.NodeWright, d.Node)
	before, had := n.Records[d.NodeWright]
	same := had == (d.Before != nil) && (!had || noderecord.Encode(before) == noderecord.Encode(*d.Before))
	if w.stale && !same {
		return // refused by the test of the whole old record
	}
	require.True(w.t, same, "the decision was made on another record than the node has")
	for _, s := range d.Snapshots {
		w.in.Snapshots[s.SnapshotHash] = s
	}
	if d.Record != nil {
		require.True(w.t, d.Record.Reached(before.Round, before.Order), "a record went back: %s", noderecord.Encode(*d.Record))
		w.checkTransition(before, *d.Record)
		n.Records[d.NodeWright] = d.Record.Clone()
		delete(n.Malformed, d.NodeWright)
	}
	word(n, d)
	w.cordon(n, d)
	n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t corev1.Taint) bool { return slices.Contains(d.Untaint, t) })
	if d.Taint != nil {
		n.Taints, n.Touched, n.AutoTainted = append(n.Taints, *d.Taint), true, true
	}
	n.Touched = n.Touched || len(n.Records) > 0
	for _, name := range d.Stop {
		delete(w.jobs, name)
	}
	for _, name := range d.Suspend {
		w.jobs[name].Suspended = true
	}
	for _, name := range d.Unsuspend {
		w.jobs[name].Suspended = false
	}
	for _, s := range d.Start {
		w.start(n, s, d.CheckEarlier)
	}
	for _, e := range d.Evict {
		require.True(w.t, w.stale || n.Unschedulable, "an eviction on a node that is not cordoned")
		if w.leaves == nil || w.leaves(e) {
			w.removePod(d.Node, e.UID)
		}
	}
}

// word writes the status label of a NodeWright, as the adapter does.
func word(n *plan.Node, d plan.Decision) {
	key := nwv1.StatusKey(d.NodeWright)
	switch {
	case d.Erase || d.Record != nil && d.Status == "":
		delete(n.Labels, key)
	case d.Record != nil:
		n.Labels[key] = string(d.Status)
	}
}

// finalize writes a finalizer. A deleted object without one is gone.
func (w *world) finalize(f plan.FinalizerChange) {
	i := slices.IndexFunc(w.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.UID == f.UID })
	w.in.NodeWrights[i].Finalizer = f.Wanted
	if w.in.NodeWrights[i].Deleting && !f.Wanted {
		w.in.NodeWrights = slices.Delete(slices.Clone(w.in.NodeWrights), i, i+1)
	}
}

// deleteNodeWright deletes the object as the API does: with our finalizer it stays, marked.
func (w *world) deleteNodeWright(name string) {
	i := slices.IndexFunc(w.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == name })
	w.in.NodeWrights = slices.Clone(w.in.NodeWrights)
	w.in.NodeWrights[i].Deleting = true
	w.in.NodeWrights[i].Generation++
	if !w.in.NodeWrights[i].Finalizer {
		w.in.NodeWrights = slices.Delete(w.in.NodeWrights, i, i+1)
	}
}

func (w *world) hasNodeWright(name string) bool {
	return slices.ContainsFunc(w.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == name })
}

func (w *world) cordon(n *plan.Node, d plan.Decision) {
	switch d.Cordon {
	case plan.CordonTake:
		n.Unschedulable = true
		if !slices.Contains(n.CordonOwners, d.NodeWright) {
			n.CordonOwners = append(n.CordonOwners, d.NodeWright)
		}
	case plan.CordonDrop:
		require.Contains(w.t, n.CordonOwners, d.NodeWright, "released a cordon that it does not own")
		n.CordonOwners = slices.DeleteFunc(slices.Clone(n.CordonOwners), func(o string) bool { return o == d.NodeWright })
		n.Unschedulable = len(n.CordonOwners) > 0
	}
	if d.Erase && d.Record == nil {
		delete(n.Records, d.NodeWright)
		delete(n.Malformed, d.NodeWright)
	}
}

func (w *world) start(n *plan.Node, s plan.ExecutionSpec, checkEarlier bool) {
	name := jobName(s.ExecutionKey)
	if _, exists := w.jobs[name]; exists || n.UID != s.NodeUID {
		return
	}
	for _, j := range w.jobs {
		if checkEarlier && j.NodeUID == n.UID && j.NodeWright == s.NodeWright && j.Round < s.Round && !j.Ended() {
			return
		}
	}
	if s.Phase == plan.PhaseInterrupt {
		w.checkInterrupt(n, s)
	}
	w.checkMayStart(n, s)
	for _, j := range w.jobs {
		require.False(w.t, !j.Ended() && j.NodeUID == s.NodeUID && j.NodeWright == s.NodeWright && j.Package == s.Package,
			"two executions of package %q on %s", s.Package, n.Name)
		require.False(w.t, !j.Ended() && j.NodeUID == s.NodeUID && j.Phase == plan.PhaseInterrupt && mayRun(j),
			"%s/%s starts on %s beside the interrupt %s", s.NodeWright, s.Package, n.Name, j.Name)
	}
	w.specs[name] = s
	w.jobs[name] = &plan.Execution{
		ExecutionKey: s.ExecutionKey, Name: name, Node: n.Name, Compartment: s.Compartment, Batch: s.Batch, Order: &s.Order,
		State: plan.ExecutionPending, Created: w.in.Now,
	}
}

// checkInterrupt: drained and cordoned, nothing else running.
func (w *world) checkInterrupt(n *plan.Node, s plan.ExecutionSpec) {
	require.True(w.t, n.Unschedulable, "an interrupt on a node that is not cordoned")
	require.Empty(w.t, w.pods[n.Name], "an interrupt with pods on the node")
	for _, j := range w.jobs {
		require.False(w.t, j.NodeUID == n.UID && !j.Ended() && mayRun(j), "an interrupt while %s runs", j.Name)
	}
	require.NotEmpty(w.t, s.Interrupt.Packages)
}

// mayRun: its pod runs, or does as soon as there is room for it.
func mayRun(j *plan.Execution) bool {
	return j.Trouble == "" || j.Trouble == plan.InsufficientResources
}

// work lets every execution make one step: a stage begins, or ends.
func (w *world) work() {
	w.in.Now = w.in.Now.Add(time.Second)
	for _, name := range sortedKeys(w.jobs) {
		e := w.jobs[name]
		n := w.nodes[e.Node]
		if e.Ended() || n == nil || n.UID != e.NodeUID || e.Trouble != "" || e.Suspended || w.frozen != nil && w.frozen(*e) {
			continue
		}
		w.progress(n, e, w.specs[name])
	}
}

func (w *world) progress(n *plan.Node, e *plan.Execution, s plan.ExecutionSpec) {
	if e.State == plan.ExecutionPending {
		e.State, e.Stage = plan.ExecutionRunning, s.Stages[0]
		return
	}
	if s.Phase == plan.PhaseInterrupt && s.Interrupt.Type == nwv1.InterruptReboot {
		w.reboot(n, e)
		return
	}
	if s.Phase.OnlyChecks() {
		w.check(n, e, s)
		return
	}
	if w.fails != nil {
		if code := w.fails(n.Name, e.Package, e.Stage); code != 0 {
			e.State, e.ExitCode, e.Message, e.Finished = plan.ExecutionFailed, code, "boom", w.in.Now
			return
		}
	}
	key := fmt.Sprintf("%s/%d/%s/%s/%s/%d", e.NodeWrightUID, e.Round, e.NodeUID, e.Package, e.Stage, e.Wave)
	w.succeeded[key]++
	require.Equal(w.t, 1, w.succeeded[key], "stage ran twice in a round: %s", key)
	e.Done = append(e.Done, e.Stage)
	w.note(n.Name, e, s)
	if len(e.Done) == len(s.Stages) {
		e.State, e.Stage, e.Finished = plan.ExecutionSucceeded, "", w.in.Now
		return
	}
	e.Stage = s.Stages[len(e.Done)]
}

// check ends the checks of a package that run first.
func (w *world) check(n *plan.Node, e *plan.Execution, s plan.ExecutionSpec) {
	w.ran[n.Name] = append(w.ran[n.Name], fmt.Sprintf("%s %s %v", e.Package, s.Phase, s.Stages))
	e.State, e.Finished = plan.ExecutionFailed, w.in.Now
	e.ExitCode = 1
	if s.Phase == plan.PhaseVerify && w.drift[n.Name] != e.Package || w.satisfied != nil && w.satisfied(n.Name, s.Definition) {
		e.State, e.ExitCode, e.Stage, e.Done = plan.ExecutionSucceeded, 0, "", s.Stages
	}
}

func (w *world) note(node string, e *plan.Execution, s plan.ExecutionSpec) {
	if w.mends && w.drift[node] == e.Package {
		delete(w.drift, node)
	}
	what := e.Package + " " + string(e.Stage)
	if s.Interrupt != nil {
		what = strings.Join(append([]string{"interrupt", string(s.Interrupt.Type)}, s.Interrupt.Services...), " ")
	}
	if s.Fresh && e.Stage != nwv1.StageConfig {
		what += " (fresh)"
	}
	if e.Stage == nwv1.StageUninstall {
		what += " " + s.Definition.Version
	}
	w.ran[node] = append(w.ran[node], what)
}

// reboot: the machine takes the execution down with it, and comes back with another boot ID, or not at all.
func (w *world) reboot(n *plan.Node, e *plan.Execution) {
	if n.Ready {
		n.Ready = false
		return
	}
	if w.dies != nil && w.dies(n.Name) {
		return
	}
	n.Ready, n.BootID = true, n.BootID+"+"
	w.note(n.Name, e, w.specs[e.Name])
	e.State, e.ExitCode, e.Finished = plan.ExecutionFailed, 137, w.in.Now
}

// settle passes and works until nothing changes any more, and fails if that does not happen.
func (w *world) settle() {
	w.t.Helper()
	for range 3000 {
		out := w.pass()
		busy := w.busy()
		w.work()
		if len(out.Decisions)+len(out.Finalizers) == 0 && out.Ledger == nil && !busy {
			if out.Next.IsZero() {
				return
			}
			if out.Next.After(w.in.Now) {
				w.in.Now = out.Next
			}
		}
		if w.passes > 3000 {
			break
		}
	}
	w.t.Fatalf("the rollout did not come to rest: %+v; log ends with %v", w.last.Reasons, w.log[max(0, len(w.log)-20):])
}

func (w *world) busy() bool {
	for _, j := range w.jobs {
		n := w.nodes[j.Node]
		if !j.Ended() && !j.Suspended && n != nil && n.UID == j.NodeUID && j.Trouble == "" && !(w.dies != nil && w.dies(j.Node) && !n.Ready) &&
			(w.frozen == nil || !w.frozen(*j)) {
			return true
		}
	}
	return false
}

// checkCeiling counts for itself: nodes with an open record, with one of our cordons, or with an unfinished job.
func (w *world) checkCeiling() {
	if w.ceiling == 0 {
		return
	}
	require.LessOrEqual(w.t, len(w.outOfService()), w.ceiling, "more nodes at work than the ceiling: %v", w.outOfService())
}

func (w *world) outOfService() []string {
	out := map[string]bool{}
	for name, n := range w.nodes {
		open := len(n.CordonOwners) > 0
		for _, r := range n.Records {
			open = open || r.IsOpen()
		}
		if open {
			out[name] = true
		}
	}
	for _, j := range w.jobs {
		if n := w.nodes[j.Node]; n != nil && n.UID == j.NodeUID && !j.Ended() && j.Trouble == "" {
			out[j.Node] = true
		}
	}
	return sortedKeys(out)
}

// sizes are the numbers of nodes in the batches of the newest round, by the records on the nodes.
func (w *world) sizes(nodeWright string) []int {
	count := map[int32]int{}
	for _, n := range w.nodes {
		if r := n.Records[nodeWright]; r.Round == w.in.Ledger.Rollouts[nodeWright].Round && r.Outcome != noderecord.Released {
			count[r.Batch]++
		}
	}
	var out []int
	for b := int32(1); int(b) <= len(count) || count[b] > 0; b++ {
		out = append(out, count[b])
	}
	return out
}

func (w *world) status(nodeWright string) plan.Status {
	for _, s := range w.last.Statuses {
		if s.NodeWright == nodeWright {
			return s
		}
	}
	w.t.Fatalf("no status of %s", nodeWright)
	return plan.Status{}
}

func (w *world) reason(nodeWright, node string) plan.Reason {
	for _, r := range w.last.Reasons {
		if r.NodeWright == nodeWright && r.Node == node {
			return r
		}
	}
	w.t.Fatalf("no reason for %s under %s", node, nodeWright)
	return plan.Reason{}
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func jobName(k plan.ExecutionKey) string {
	return fmt.Sprintf("%s-%s-%d-%s-%s-%d-%d", k.NodeWrightUID, k.NodeUID, k.Round, k.Package, k.Phase, k.Wave, k.Attempt)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func scopeOf(s string) labels.Selector {
	sel, err := labels.Parse(s)
	if err != nil {
		panic(err)
	}
	return sel
}
