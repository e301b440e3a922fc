package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

const (
	nodeWright  = "tuning"
	packageName = "kernel"
	compartment = nwv1.DefaultCompartment
)

// now is the only moment there is: what happens is a matter of order, not of time.
var now = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// model is one world with everything that its states refer to by number.
type model struct {
	world     world
	uids      map[types.UID]uid
	contents  []desired.Set
	snapshots map[string]desired.Package

	records   table[recordValue]
	specs     table[jobSpec]
	ledgers   table[fleetv1.LedgerSpec]
	plans     table[*planned]
	nodeLists values[nodeList]
	jobLists  values[jobList]
	wishList  values[objectives]
	names     values[string]

	computed map[view]uint16 // plans
	calm     map[state]string
	telling  bool // moves carry their sentence
	moves    []move
}

// view is what a pass decides from.
type view struct{ nodes, jobs, wishes, ledger uint16 }

// planned is a plan as the loop carries it out.
type planned struct {
	ledger uint16 // to be written first; 0: unchanged
	duties [maxNodes]*duty
}

// duty is one decision, as the requests that Actor.Do makes of it.
type duty struct {
	decision plan.Decision
	uid      uid
	first    bool // of the admissions and cordons, which come before everything else
	steps    []step
	before   uint16 // record that was seen; 0: none
	after    uint16 // record to write; 0: unchanged
}

type stepKind uint8

const (
	patchNode stepKind = iota
	deleteJob
	confirmNode // read the node from the API server
	listEarlier // read the node's Jobs from the API server
	createJob
)

type step struct {
	kind stepKind
	job  uint16 // name of the Job to delete, or content of the Job to create
}

func newModel(w world) *model {
	m := &model{world: w, uids: map[types.UID]uid{}, snapshots: map[string]desired.Package{}, computed: map[view]uint16{},
		calm: map[state]string{}}
	for name := range maxNodes {
		for incarnation := range 2 {
			for home := range incarnation + 1 {
				u := newUID(name, incarnation, home)
				m.uids[u.apiUID()] = u
			}
		}
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		entry := nwv1.Package{Version: version, Image: "example.com/kernel"}
		if w.interrupt {
			entry.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptService, Services: []string{"chrony"}}
		}
		set, problems := desired.Resolve(&nwv1.NodeWright{
			Spec: nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{packageName: entry}},
		}, nil)
		if len(problems) > 0 {
			panic(problems)
		}
		m.contents = append(m.contents, set)
		for _, p := range set.Packages {
			m.snapshots[p.SnapshotHash] = p
		}
	}
	return m
}

// planFor is the plan that a pass makes from a view.
func (m *model) planFor(v view) uint16 {
	if id, known := m.computed[v]; known {
		return id
	}
	id := m.planID(plan.Compute(m.input(v)))
	m.computed[v] = id
	return id
}

func (m *model) input(v view) plan.Input {
	in := plan.Input{
		Now: now, Ledger: m.ledgerCopy(v.ledger), Snapshots: m.snapshots,
		NodeWrights: []plan.NodeWright{m.nodeWright(m.wishList.at(v.wishes))},
		Occupancies: map[string]plan.Occupancy{nodeWright: {}}, // there are no pods
		// A negative back-off is over at once: retries are a matter of order, too.
		Settings: plan.Settings{Namespace: "fleetwright", Attempts: m.world.attempts, RetryBackoff: -1},
	}
	if m.world.broken.noGeneration {
		for name, r := range in.Ledger.Rollouts {
			r.Generation = 0
			in.Ledger.Rollouts[name] = r
		}
	}
	for _, n := range m.nodeLists.at(v.nodes) {
		if n.uid != 0 {
			in.Nodes = append(in.Nodes, m.nodeView(n))
		}
	}
	for _, j := range m.jobLists.at(v.jobs) {
		if j.name == 0 {
			continue
		}
		e := m.execution(j)
		i := slices.IndexFunc(in.Nodes, func(n plan.Node) bool { return n.UID == e.NodeUID })
		switch {
		case i >= 0:
			in.Nodes[i].Executions = append(in.Nodes[i].Executions, e)
		case !m.world.broken.noOrphans:
			in.Orphans = append(in.Orphans, e)
		}
	}
	return in
}

// ledgerCopy is a ledger that may be changed.
func (m *model) ledgerCopy(id uint16) fleetv1.LedgerSpec {
	l := m.ledgers.at(id)
	return *l.DeepCopy()
}

func (m *model) nodeWright(o objectives) plan.NodeWright {
	out := plan.NodeWright{
		Name: nodeWright, UID: "uid-" + nodeWright, Generation: int64(o.generation), Desired: m.contents[o.content],
		Policy: &m.world.policy,
		Spec: nwv1.NodeWrightSpec{
			NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}, Priority: nwv1.DefaultPriority,
		},
	}
	if o.resume > 0 {
		out.Resume = fmt.Sprint(o.resume)
	}
	if o.retry > 0 {
		out.Retry = fmt.Sprint(o.retry)
	}
	return out
}

func (m *model) nodeView(n nodeObject) plan.Node {
	out := plan.Node{
		Name: nodeName(n.uid.name()), UID: n.uid.apiUID(), Labels: map[string]string{"pool": "gpu"}, Ready: true, BootID: "boot",
		Unschedulable: n.cordoned, Records: map[string]noderecord.Record{}, PodsListed: true,
	}
	if n.cordoned {
		out.CordonOwners = []string{nodeWright}
	}
	if r, ok := m.visible(n); ok {
		out.Records[nodeWright] = r
	}
	return out
}

func (m *model) execution(j jobObject) plan.Execution {
	s := m.specs.at(j.spec)
	out := plan.Execution{
		ExecutionKey: s.ExecutionKey, Name: s.name, Node: s.Node, Compartment: s.Compartment, Batch: s.Batch, Order: &s.Order, Created: now,
		Done: s.Stages[:j.reached],
	}
	if int(j.reached) < len(s.Stages) && j.state != pending {
		out.Stage = s.Stages[j.reached]
	}
	switch j.state {
	case pending:
		out.State = plan.ExecutionPending
	case running:
		out.State = plan.ExecutionRunning
	case succeeded:
		out.State, out.Finished = plan.ExecutionSucceeded, now
	case failed, refused:
		out.State, out.Finished, out.ExitCode = plan.ExecutionFailed, now, 1
	}
	return out
}

// planID keeps a plan; equal plans are one.
func (m *model) planID(out plan.Output) uint16 {
	p := &planned{}
	if out.Ledger != nil {
		p.ledger = m.ledgerID(*out.Ledger)
	}
	for _, d := range out.Decisions {
		u := m.uids[d.NodeUID]
		p.duties[u.name()] = m.duty(d, u)
	}
	data, err := json.Marshal(struct {
		Ledger    uint16
		Decisions []plan.Decision
	}{p.ledger, out.Decisions})
	if err != nil {
		panic(err)
	}
	return m.plans.id(string(data), func() *planned { return p })
}

// duty orders the requests of a decision as Actor.Do makes them.
func (m *model) duty(d plan.Decision, u uid) *duty {
	out := &duty{decision: d, uid: u, first: d.Action == plan.ActionAdmit || d.Action == plan.ActionCordon}
	if d.Before != nil {
		out.before = m.recordID(*d.Before)
	}
	if d.Record != nil {
		out.after = m.recordID(*d.Record)
	}
	var patch []step
	if d.Record != nil || d.Cordon != plan.CordonKeep {
		patch = []step{{kind: patchNode}}
	}
	if !m.world.broken.startFirst {
		out.steps = append(out.steps, patch...)
	}
	for _, name := range d.Stop {
		out.steps = append(out.steps, step{deleteJob, m.nameID(name)})
	}
	if len(d.Start) > 0 && (len(patch) == 0 || m.world.broken.startFirst) && !m.world.broken.noConfirm {
		out.steps = append(out.steps, step{kind: confirmNode})
	}
	if d.CheckEarlier && !m.world.broken.noEarlierList {
		out.steps = append(out.steps, step{kind: listEarlier})
	}
	for _, s := range d.Start {
		out.steps = append(out.steps, step{createJob, m.specID(s)})
	}
	if m.world.broken.startFirst {
		out.steps = append(out.steps, patch...)
	}
	return out
}
