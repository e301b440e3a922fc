package explain

import (
	"cmp"
	"maps"
	"slices"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// NodeExplanation is why a node stands where it stands, under each NodeWright.
type NodeExplanation struct {
	Node          string `json:"node"`
	Ready         bool   `json:"ready"`
	Unschedulable bool   `json:"unschedulable"`
	// CordonedBy are the NodeWrights that own the cordon; a cordon without an owner is somebody else's.
	CordonedBy []string `json:"cordonedBy,omitempty"`
	// NodeWrights that target the node, or that it carries a record of, in the order of their priority.
	NodeWrights []Turn `json:"nodewrights"`
	// NotSelectedBy are NodeWrights that have nothing to do with the node.
	NotSelectedBy []string `json:"notSelectedBy,omitempty"`
	// Notes are what keeps the reconciler, or this answer, from being all that it could be.
	Notes []string `json:"notes,omitempty"`
}

// Turn is where a node stands under one NodeWright.
type Turn struct {
	NodeWright string `json:"nodewright"`
	// Gone says that the NodeWright does not exist any more.
	Gone bool `json:"gone,omitempty"`
	// Round, Batch, Compartment and Order are the node's last admission; Batch is 0 for a node that had none.
	Round       int64  `json:"round,omitempty"`
	Batch       int32  `json:"batch,omitempty"`
	Compartment string `json:"compartment,omitempty"`
	Order       int32  `json:"order,omitempty"`
	// CurrentRound is the NodeWright's.
	CurrentRound int64  `json:"currentRound,omitempty"`
	Reason       Reason `json:"reason"`
	// Packages that are on the host, or on their way, sorted by name.
	Packages []Package `json:"packages,omitempty"`
	// Failure is the last one.
	Failure *Failure `json:"failure,omitempty"`
}

// Reason is a plan.Reason.
type Reason struct {
	Code    plan.Code `json:"code"`
	Message string    `json:"message,omitempty"`
	// Object is what is waited for.
	Object string `json:"object,omitempty"`
	// Since is when the reason began, where that is known.
	Since *time.Time `json:"since,omitempty"`
	// Ends is what would end it.
	Ends string `json:"ends,omitempty"`
	// Reported is what the reconciler wrote last about this code, where that says more: what it could not do, say.
	Reported string `json:"reported,omitempty"`
}

// Package is one package of a node.
type Package struct {
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	Stage    nwv1.Stage `json:"stage,omitempty"`
	State    nwv1.State `json:"state,omitempty"`
	Attempt  int32      `json:"attempt,omitempty"`
	Failures int32      `json:"failures,omitempty"`
	// Job is the newest execution that is still there.
	Job string `json:"job,omitempty"`
}

// Failure is the last failure of a node under a NodeWright.
type Failure struct {
	Node     string     `json:"node"`
	Package  string     `json:"package,omitempty"`
	Stage    nwv1.Stage `json:"stage,omitempty"`
	ExitCode int32      `json:"exitCode,omitempty"`
	Reason   string     `json:"reason"`
	Message  string     `json:"message,omitempty"`
	// Job is the failed execution; Log the last lines that it said. Both are empty when it is gone.
	Job string `json:"job,omitempty"`
	Log string `json:"log,omitempty"`
}

// Node explains one node, which Gather has found to exist.
func (p Picture) Node(name string) NodeExplanation {
	i := slices.IndexFunc(p.in.Nodes, func(n plan.Node) bool { return n.Name == name })
	n := p.in.Nodes[i]
	out := NodeExplanation{
		Node: n.Name, Ready: n.Ready, Unschedulable: n.Unschedulable, CordonedBy: n.CordonOwners, NodeWrights: []Turn{}, Notes: p.notes,
	}
	for _, s := range p.out.Statuses {
		reason, targeted := p.reason(s.NodeWright, name)
		if _, recorded := n.Records[s.NodeWright]; !targeted && !recorded {
			out.NotSelectedBy = append(out.NotSelectedBy, s.NodeWright)
			continue
		}
		t := p.turn(n, s.NodeWright)
		t.CurrentRound, t.Reason = s.Round, reason
		if !targeted {
			t.Reason = Reason{Code: NotSelected, Message: "the NodeWright does not select the node any more"}
		}
		out.NodeWrights = append(out.NodeWrights, t)
	}
	for _, gone := range slices.Sorted(maps.Keys(n.Records)) {
		if !p.exists(gone) {
			t := p.turn(n, gone)
			t.Gone, t.Reason = true, Reason{Code: NotSelected, Message: "the NodeWright does not exist any more"}
			out.NodeWrights = append(out.NodeWrights, t)
		}
	}
	return out
}

// NotSelected is the code of a node that has a record of a NodeWright that does not target it.
const NotSelected plan.Code = "NotSelected"

func (p Picture) exists(nodeWright string) bool {
	return slices.ContainsFunc(p.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == nodeWright })
}

func (p Picture) turn(n plan.Node, nodeWright string) Turn {
	rec := n.Records[nodeWright]
	return Turn{
		NodeWright: nodeWright, Round: rec.Round, Batch: rec.Batch, Compartment: rec.Compartment, Order: rec.Order,
		Packages: packages(n, nodeWright, rec), Failure: failure(n, nodeWright, rec.Failure),
	}
}

func (p Picture) reason(nodeWright, node string) (Reason, bool) {
	i := slices.IndexFunc(p.out.Reasons, func(r plan.Reason) bool { return r.NodeWright == nodeWright && r.Node == node })
	if i < 0 {
		return Reason{}, false
	}
	r := p.out.Reasons[i]
	out := Reason{Code: r.Code, Message: r.Message, Object: r.Object, Since: p.since(r.Since), Ends: r.Ends}
	written := p.written[nodeWright]
	for _, c := range written.Status.Reasons {
		if c.Reason == string(r.Code) && slices.Contains(c.Nodes, node) && c.Message != r.Message {
			out.Reported = c.Message
		}
	}
	return out, true
}

// since leaves out what begins with this very look.
func (p Picture) since(t time.Time) *time.Time {
	if t.IsZero() || !t.Before(p.in.Now) {
		return nil
	}
	return &t
}

func packages(n plan.Node, nodeWright string, rec noderecord.Record) []Package {
	var out []Package
	for _, name := range slices.Sorted(maps.Keys(rec.Packages)) {
		pkg := rec.Packages[name]
		one := Package{
			Name: name, Version: pkg.Version, Stage: pkg.Stage, State: pkg.State, Attempt: pkg.Attempt, Failures: pkg.Failures,
		}
		if e, ok := newest(n, func(e plan.Execution) bool { return e.NodeWright == nodeWright && e.Package == name }); ok {
			one.Job = e.Name
		}
		out = append(out, one)
	}
	return out
}

// failure adds to a recorded failure what its execution said last; its record keeps less.
func failure(n plan.Node, nodeWright string, f *noderecord.Failure) *Failure {
	if f == nil {
		return nil
	}
	out := &Failure{Node: n.Name, Package: f.Package, Stage: f.Stage, ExitCode: f.ExitCode, Reason: f.Reason, Message: f.Message}
	e, ok := newest(n, func(e plan.Execution) bool {
		return e.NodeWright == nodeWright && e.State == plan.ExecutionFailed && (f.Package == "" || e.Package == f.Package)
	})
	if ok {
		out.Job, out.Log = e.Name, e.Message
	}
	return out
}

// newest is the execution that was created last; equal times go by name.
func newest(n plan.Node, match func(plan.Execution) bool) (found plan.Execution, ok bool) {
	for _, e := range n.Executions {
		if !match(e) {
			continue
		}
		if !ok || cmp.Or(e.Created.Compare(found.Created), cmp.Compare(e.Name, found.Name)) > 0 {
			found, ok = e, true
		}
	}
	return found, ok
}
