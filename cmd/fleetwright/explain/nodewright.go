package explain

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// NodeWrightExplanation is why a NodeWright stands where it stands.
type NodeWrightExplanation struct {
	NodeWright  string      `json:"nodewright"`
	Status      nwv1.Status `json:"status"`
	Generation  int64       `json:"generation"`
	Round       int64       `json:"round"`
	ContentHash string      `json:"contentHash,omitempty"`
	// LateJoiners says that the round is for nodes that joined a completed rollout.
	LateJoiners bool     `json:"lateJoiners,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Problem says why the object cannot be resolved.
	Problem string `json:"problem,omitempty"`
	// Total and the others count the targeted nodes; Excluded those that are selected and not targeted.
	Total        int32         `json:"total"`
	Complete     int32         `json:"complete"`
	InProgress   int32         `json:"inProgress"`
	Failed       int32         `json:"failed"`
	Waiting      int32         `json:"waiting"`
	Blocked      int32         `json:"blocked"`
	Excluded     int32         `json:"excluded,omitempty"`
	Compartments []Compartment `json:"compartments,omitempty"`
	// Reasons of the nodes that are not complete, grouped by code.
	Reasons  []Group   `json:"reasons,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
}

// Compartment is the state of one compartment.
type Compartment struct {
	Name      string `json:"name"`
	Strategy  string `json:"strategy,omitempty"`
	Nodes     int32  `json:"nodes"`
	Ceiling   int32  `json:"ceiling"`
	InUse     int32  `json:"inUse"`
	Complete  int32  `json:"complete"`
	Failed    int32  `json:"failed"`
	Batch     int32  `json:"batch"`
	BatchSize int32  `json:"batchSize"`
	Halt      *Halt  `json:"halt,omitempty"`
}

// Halt is why and since when a compartment admits nobody.
type Halt struct {
	Batch   int32       `json:"batch"`
	At      metav1.Time `json:"at"`
	Message string      `json:"message"`
}

// Group is how many nodes have a reason; the rest of it is the first node's.
type Group struct {
	Reason
	Count int32 `json:"count"`
	// Nodes are the first ones.
	Nodes []string `json:"nodes"`
}

// NodeWright explains one NodeWright, which Gather has found to exist.
func (p Picture) NodeWright(name string) NodeWrightExplanation {
	i := slices.IndexFunc(p.out.Statuses, func(s plan.Status) bool { return s.NodeWright == name })
	s := p.out.Statuses[i]
	out := NodeWrightExplanation{
		NodeWright: s.NodeWright, Status: s.Status, Generation: s.Generation, Round: s.Round, ContentHash: s.ContentHash,
		LateJoiners: s.LateJoiners, Packages: s.PackageList, Problem: strings.TrimPrefix(strings.TrimSuffix(s.Problem+"; "+s.OutOfScope, "; "), "; "),
		Total: s.Total, Complete: s.Complete, InProgress: s.InProgress, Failed: s.Failed, Waiting: s.Waiting, Blocked: s.Blocked,
		Excluded: s.Excluded, Notes: p.notes,
	}
	for _, c := range s.Compartments {
		out.Compartments = append(out.Compartments, compartment(c))
	}
	for _, r := range s.Reasons {
		first, _ := p.reason(name, r.Nodes[0])
		out.Reasons = append(out.Reasons, Group{Reason: first, Count: r.Count, Nodes: r.Nodes})
	}
	for _, f := range s.Failures {
		out.Failures = append(out.Failures, p.failureOf(name, f))
	}
	return out
}

func compartment(c plan.CompartmentStatus) Compartment {
	out := Compartment{
		Name: c.Name, Strategy: c.Strategy, Nodes: c.Matched, Ceiling: c.Ceiling, InUse: c.InUse, Complete: c.Complete,
		Failed: c.Failed, Batch: c.Batch, BatchSize: c.BatchSize,
	}
	if c.Halt != nil {
		out.Halt = &Halt{Batch: c.Halt.Batch, At: c.Halt.At, Message: c.Halt.Message}
	}
	return out
}

// failureOf is the failure of a node that may be gone.
func (p Picture) failureOf(nodeWright string, f plan.NodeFailure) Failure {
	i := slices.IndexFunc(p.in.Nodes, func(n plan.Node) bool { return n.Name == f.Node })
	if i < 0 {
		return Failure{Node: f.Node, Package: f.Package, Stage: f.Stage, ExitCode: f.ExitCode, Reason: f.Reason, Message: f.Message}
	}
	return *failure(p.in.Nodes[i], nodeWright, &f.Failure)
}
