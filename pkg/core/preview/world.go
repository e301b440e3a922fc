package preview

import (
	"maps"
	"slices"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// Input is what a plan is made from. Nothing in it is changed.
type Input struct {
	// Base and Head are the objects before and after the change, validated and defaulted.
	Base, Head simulate.Objects
	// Compared, Path, Tool, Files and Notes are repeated in the plan.
	Compared   Comparison
	Path, Tool string
	Files      []string
	Notes      []string
	// Findings of the new state. With an error among them nothing else is looked at.
	Findings []finding.Finding
	// Source of the nodes; with NoNodes there are none.
	Source Source
	Nodes  []plan.Node
	// PodsKnown says that Pods of the nodes that matter are listed.
	PodsKnown bool
	// Ledger and Snapshots of the cluster, where they are known.
	Ledger    fleetv1.LedgerSpec
	Snapshots map[string]desired.Package
	// Live are the NodeWrights of the cluster by name.
	Live map[string]plan.NodeWright
	// Fleet that delivers the objects (`namespace/name`), and its Limits: nothing outside is touched. Empty: that of each live
	// NodeWright, if there is one.
	Fleet  string
	Limits *fleetv1.Scope
	// Budgets of Fleets, and the reconciler's settings.
	Budgets  []plan.Budget
	Settings plan.Settings
	// Start is the clock, which matters to maintenance windows.
	Start time.Time
	// Visits bounds the prediction, in nodes looked at by the planner. Default 20 million: half a minute at most, where fleets are large.
	Visits int
}

// work is the memory of one Make.
type work struct {
	in         Input
	base, head state
	nodes      []plan.Node
	snapshots  map[string]desired.Package
	assumed    bool
	plan       Plan
	// affected are the nodes with something to do because of the change, by NodeWright.
	affected map[string]map[string]bool
	// worst is what happens to each of them, under all NodeWrights.
	worst map[string]*Tally
	// due says which NodeWrights have anything to do at all.
	due map[string]bool
	// after is what is left to do at the new state.
	after []plan.Outlook
}

// state is one of the two.
type state struct {
	objects     map[string]*nwv1.NodeWright
	nodeWrights []plan.NodeWright
	byName      map[string]*plan.NodeWright
}

func newWork(in Input) *work {
	w := &work{in: in, snapshots: map[string]desired.Package{}, affected: map[string]map[string]bool{}, due: map[string]bool{}, worst: map[string]*Tally{}}
	w.base, w.head = w.stateOf(in.Base), w.stateOf(in.Head)
	for _, nw := range w.base.nodeWrights {
		for _, p := range nw.Desired.Packages {
			w.snapshots[p.SnapshotHash] = p
		}
	}
	maps.Copy(w.snapshots, in.Snapshots)
	w.nodes = in.Nodes
	w.assumeComplete()
	return w
}

func (w *work) stateOf(objects simulate.Objects) state {
	s := state{byName: map[string]*plan.NodeWright{}}
	s.objects = index(objects.NodeWrights)
	s.nodeWrights = simulate.NodeWrights(objects, w.in.Ledger, w.in.Nodes)
	for i := range s.nodeWrights {
		nw := &s.nodeWrights[i]
		if live, known := w.in.Live[nw.Name]; known {
			nw.UID, nw.Created, nw.Generation = live.UID, live.Created, live.Generation+1
			nw.Paused, nw.Disabled = nw.Paused || live.Paused, nw.Disabled || live.Disabled
			nw.Confine(live.Fleet, live.Limits)
		}
		if w.in.Fleet != "" {
			nw.Confine(w.in.Fleet, w.in.Limits)
		}
		s.byName[nw.Name] = nw
	}
	return s
}

// assumeComplete gives nodes of a list without any record the records of the old state: somebody saved the list without
// them, or nothing has ever been rolled out, and the question is what the change adds.
func (w *work) assumeComplete() {
	if w.in.Source != Saved || len(w.in.Ledger.Rollouts) > 0 || len(w.base.nodeWrights) == 0 || slices.ContainsFunc(w.nodes, recorded) {
		return
	}
	w.assumed = true
	w.nodes = slices.Clone(w.nodes)
	at := map[string]int{}
	for i := range w.nodes {
		at[w.nodes[i].Name], w.nodes[i].Records = i, map[string]noderecord.Record{}
	}
	ready := map[string]noderecord.Record{}
	for i, nw := range w.base.nodeWrights {
		ready[nw.Name] = completeRecord(nw, uint32(i+1))
	}
	for _, o := range plan.Survey(w.inputOf(w.base.nodeWrights)) {
		if o.Excluded == "" {
			n := &w.nodes[at[o.Node]]
			rec := ready[o.NodeWright]
			rec.Node, rec.Compartment = n.UID, o.Compartment
			n.Records[o.NodeWright] = rec
		}
	}
}

func recorded(n plan.Node) bool { return len(n.Records)+len(n.Malformed)+len(n.Unadopted) > 0 }

// completeRecord is that of a node on which the NodeWright is complete. Its packages are shared by all of them.
func completeRecord(nw plan.NodeWright, number uint32) noderecord.Record {
	rec := noderecord.Record{
		NodeWright: nw.UID, Round: 1, Batch: 1, Started: true, Outcome: noderecord.Succeeded, Shared: number,
		Packages: map[string]noderecord.Package{},
	}
	for _, p := range nw.Desired.Packages {
		if p.Absent {
			continue
		}
		rec.Packages[p.Name] = noderecord.Package{
			Version: p.Version, Image: p.Image, Digest: p.Digest, Snapshot: p.SnapshotHash,
			Attempted: p.InstallHash, AttemptedConfig: p.ConfigHash, Applied: p.InstallHash, Configured: p.ConfigHash,
			Keys: p.KeyHashes, Stage: nwv1.StageConfig, State: nwv1.StateComplete, Attempt: 1,
		}
	}
	return rec
}

// inputOf is what the planner would see with these NodeWrights.
func (w *work) inputOf(nodeWrights []plan.NodeWright) plan.Input {
	return plan.Input{
		Now: w.in.Start, Ledger: w.in.Ledger, NodeWrights: nodeWrights, Nodes: w.nodes, Snapshots: w.snapshots,
		Budgets: w.in.Budgets, Settings: w.in.Settings,
	}
}

// wanted are the NodeWrights of the new state, and those that it deletes: what has to be uninstalled holds them up.
func (w *work) wanted() []plan.NodeWright {
	out := slices.Clone(w.head.nodeWrights)
	for _, nw := range w.base.nodeWrights {
		if w.head.byName[nw.Name] == nil {
			nw.Deleting, nw.Finalizer = true, true
			out = append(out, nw)
		}
	}
	return out
}
