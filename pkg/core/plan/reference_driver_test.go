package plan_test

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// driver is the least that carries the planner's decisions out: it checks nothing, and has the pods of every node listed, so
// that very many histories are cheap.
// world_test.go has the world that watches the invariants.
type driver struct {
	in  plan.Input
	out plan.Output
	// sets are the resolved contents, so that they are resolved once.
	sets map[refContent]desired.Set
}

// refSets are the resolved contents of a history with and without interrupt and uninstall.
var refSets = map[[2]bool]map[refContent]desired.Set{
	{false, false}: setsOf(false, false), {false, true}: setsOf(false, true),
	{true, false}: setsOf(true, false), {true, true}: setsOf(true, true),
}

func setsOf(interrupt, uninstall bool) map[refContent]desired.Set {
	out := map[refContent]desired.Set{{}: {}}
	for version := range 3 {
		for conf := range 2 {
			out[refContent{version, conf}] = setOf(version, conf, interrupt, uninstall)
		}
	}
	return out
}

func setOf(version, conf int, interrupt, uninstall bool) desired.Set {
	obj := &nwv1.NodeWright{}
	if version > 0 {
		p := config(pkg("tuning", fmt.Sprintf("%d.0.0", version)), "conf", fmt.Sprint(conf))
		if interrupt {
			p = service(p, "sshd")
		}
		p.UninstallOnRemoval = uninstall
		obj.Spec.Packages = map[string]nwv1.Package{"tuning": entryOf(p)}
	}
	set, problems := desired.Resolve(obj, nil)
	if len(problems) > 0 {
		panic(problems)
	}
	return set
}

func newDriver(r *reference) *driver {
	d := &driver{sets: refSets[[2]bool{r.interrupt, r.uninstall}]}
	d.in.Now = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	d.in.Snapshots = map[string]desired.Package{}
	d.in.Settings = plan.Settings{Namespace: "fleetwright", Attempts: 1}
	d.in.Occupancies = map[string]plan.Occupancy{"tune": {}} // there are no pods
	d.in.NodeWrights = []plan.NodeWright{{Name: "tune", UID: "uid-tune", Generation: 1, Spec: nwv1.NodeWrightSpec{
		NodeSelectors:         metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
		PodNonInterruptLabels: metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "true"}},
		Priority:              nwv1.DefaultPriority,
	}}}
	return d
}

func (d *driver) nw() *plan.NodeWright { return &d.in.NodeWrights[0] }

func (d *driver) node(name string) *plan.Node {
	i := slices.IndexFunc(d.in.Nodes, func(n plan.Node) bool { return n.Name == name })
	return &d.in.Nodes[i]
}

func (d *driver) join(n *refNode, uid int) {
	d.in.Nodes = append(d.in.Nodes, plan.Node{
		Name: n.name, UID: types.UID(fmt.Sprint("uid-", uid)), Ready: true, BootID: "boot", Labels: map[string]string{"pool": "gpu", "zone": n.zone},
		PodsListed: true,
	})
}

func (d *driver) leave(name string) {
	gone := d.node(name)
	d.in.Orphans = append(d.in.Orphans, gone.Executions...)
	d.in.Nodes = slices.DeleteFunc(d.in.Nodes, func(n plan.Node) bool { return n.Name == name })
}

// guarded puts a protected pod on a node, or takes it away.
func (d *driver) guarded(name string, is bool) {
	d.node(name).Pods = nil
	if is {
		d.node(name).Pods = []*corev1.Pod{guardedPod}
	}
}

// rest passes until the planner decides nothing any more.
func (d *driver) rest() error {
	d.in.Now = d.in.Now.Add(time.Minute)
	for range 50 {
		d.pass()
		if d.out.Ledger == nil && len(d.out.Decisions) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the planner does not come to rest: %+v", d.out.Decisions)
}

func (d *driver) pass() {
	d.out = plan.Compute(d.in)
	if d.out.Ledger != nil {
		d.in.Ledger = *d.out.Ledger
	}
	for i := range d.out.Decisions {
		d.do(&d.out.Decisions[i])
	}
}

var guardedPod = &corev1.Pod{
	ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train", UID: "train", Labels: map[string]string{"guarded": "true"}},
	Status:     corev1.PodStatus{Phase: corev1.PodRunning},
}

func (d *driver) do(decision *plan.Decision) {
	n := d.node(decision.Node)
	for _, s := range decision.Snapshots {
		d.in.Snapshots[s.SnapshotHash] = s
	}
	if decision.Record != nil {
		n.Records = map[string]noderecord.Record{"tune": *decision.Record}
	}
	switch decision.Cordon {
	case plan.CordonTake:
		n.Unschedulable, n.CordonOwners = true, []string{"tune"}
	case plan.CordonDrop:
		n.Unschedulable, n.CordonOwners = false, nil
	}
	n.Executions = slices.DeleteFunc(slices.Clone(n.Executions), func(e plan.Execution) bool { return slices.Contains(decision.Stop, e.Name) })
	for _, s := range decision.Start {
		n.Executions = append(n.Executions, plan.Execution{
			ExecutionKey: s.ExecutionKey, Name: jobName(s.ExecutionKey), Node: n.Name, Compartment: s.Compartment, Batch: s.Batch, Order: &s.Order,
			State: plan.ExecutionRunning, Stage: stageOf(s), Created: d.in.Now,
		})
	}
}

func stageOf(s plan.ExecutionSpec) nwv1.Stage {
	if len(s.Stages) == 0 {
		return nwv1.StageInterrupt
	}
	return s.Stages[0]
}

// ran ends what runs on a node.
func (d *driver) ran(name string, ok bool) error {
	n := d.node(name)
	i := slices.IndexFunc(n.Executions, func(e plan.Execution) bool { return !e.Ended() })
	if i < 0 {
		return fmt.Errorf("the reference has something running on %s, and the planner nothing", name)
	}
	n.Executions = slices.Clone(n.Executions)
	e := &n.Executions[i]
	e.Finished = d.in.Now
	if !ok {
		e.State, e.ExitCode = plan.ExecutionFailed, 1
		return nil
	}
	e.State, e.Done = plan.ExecutionSucceeded, doneStages(*e)
	e.Stage = ""
	return nil
}

func doneStages(e plan.Execution) []nwv1.Stage {
	if e.Phase == plan.PhaseInstall {
		return []nwv1.Stage{e.Stage, nwv1.StageConfig}
	}
	return []nwv1.Stage{e.Stage}
}

// policy writes the rules of the reference as the API has them.
func (d *driver) policy(r *reference) {
	if rules := r.rules["default"]; rules.kind == "budget" {
		d.nw().Spec.InterruptionBudget = &nwv1.InterruptionBudget{Count: refPointer(rules.count), Percent: refPointer(rules.percent)}
		return
	}
	p := &nwv1.DeploymentPolicySpec{ResetBatchStateOnCompletion: &r.reset}
	if r.byLabel {
		p.Order, p.OrderBy = nwv1.OrderLabel, "zone"
	}
	p.Default.Budget, p.Default.Strategy = refPolicy(r.rules["default"])
	zone := nwv1.Compartment{Name: "zone-a", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}}
	zone.Budget, zone.Strategy = refPolicy(r.rules["zone-a"])
	p.Compartments = []nwv1.Compartment{zone}
	d.nw().Policy = p
}

func refPointer(n int) *int32 {
	if n < 0 {
		return nil
	}
	return new(int32(n))
}

func refPolicy(r refRules) (nwv1.DeploymentBudget, *nwv1.DeploymentStrategy) {
	budget := nwv1.DeploymentBudget{Count: refPointer(r.count), Percent: refPointer(r.percent), CountUnavailable: r.countUnavailable}
	b := nwv1.BatchRules{InitialBatch: int32(r.initial), BatchThreshold: int32(r.threshold), SafetyLimit: int32(r.limit)}
	if r.max > 0 {
		b.FailureThreshold = new(int32(r.max))
	}
	switch r.kind {
	case "fixed":
		s := &nwv1.FixedStrategy{BatchRules: b}
		if r.rolling {
			s.Advance = nwv1.AdvanceRolling
		}
		return budget, &nwv1.DeploymentStrategy{Fixed: s}
	case "linear":
		return budget, &nwv1.DeploymentStrategy{Linear: &nwv1.LinearStrategy{BatchRules: b, Delta: int32(r.step)}}
	case "exponential":
		return budget, &nwv1.DeploymentStrategy{Exponential: &nwv1.ExponentialStrategy{BatchRules: b, GrowthFactor: int32(r.step)}}
	}
	return budget, nil
}
