package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Kind is what can be explained.
type Kind string

const (
	// Node is a node, under every NodeWright.
	Node Kind = "node"
	// NodeWright is a NodeWright, over all its nodes.
	NodeWright Kind = "nodewright"
)

// Target is one object to explain.
type Target struct {
	Kind Kind
	Name string
}

// Source is the cluster that is asked. All reads are live.
type Source struct {
	reader    client.Client
	kube      kubernetes.Interface
	namespace string
	now       func() time.Time
}

// NewSource asks the cluster of a configuration, whose reconciler lives in the namespace.
func NewSource(config *rest.Config, namespace string, now func() time.Time) (*Source, error) {
	reader, kube, err := cluster.Clients(config)
	if err != nil {
		return nil, err
	}
	return &Source{reader: reader, kube: kube, namespace: namespace, now: now}, nil
}

// Picture is what is seen of the cluster and what the planner makes of it.
type Picture struct {
	in  plan.Input
	out plan.Output
	// written are the NodeWrights with the statuses that the reconciler wrote last, by name.
	written map[string]nwv1.NodeWright
	// notes are what keeps the reconciler, or this answer, from being all that it could be.
	notes []string
	// blind says that the pods of the cluster, or their budgets, cannot be read.
	blind bool
}

// Gather observes and plans once, as a pass of the reconciler does, and lists the pods of the nodes that the target needs.
// A target that does not exist is a NotFoundError.
func (s *Source) Gather(ctx context.Context, target Target) (Picture, error) {
	observer := cluster.NewObserver(newNarrowed(s.reader, s.namespace), s.reader, s.kube, s.namespace)
	in, err := observer.Observe(ctx, s.now())
	if err != nil {
		return Picture{}, err
	}
	if err := exists(target, in); err != nil {
		return Picture{}, err
	}
	p := Picture{in: in, written: map[string]nwv1.NodeWright{}}
	if p.in.Ledger, err = s.ledger(ctx); err != nil {
		return Picture{}, err
	}
	p.in.Settings = s.settings(ctx, &p.notes)
	s.leader(ctx, &p)
	list := &nwv1.NodeWrightList{}
	if err := s.reader.List(ctx, list); err != nil {
		return Picture{}, fmt.Errorf("list nodewrights: %w", err)
	}
	for _, nw := range list.Items {
		p.written[nw.Name] = nw
	}
	return p, s.plan(ctx, observer, target, &p)
}

// ledger reads the ledger, which is never created here.
func (s *Source) ledger(ctx context.Context) (fleetv1.LedgerSpec, error) {
	ledger := &fleetv1.Ledger{}
	err := s.reader.Get(ctx, client.ObjectKey{Name: fleetv1.LedgerName}, ledger)
	if err != nil && !apierrors.IsNotFound(err) {
		return fleetv1.LedgerSpec{}, fmt.Errorf("get ledger: %w", err)
	}
	return ledger.Spec, nil
}

// plan computes, and reads what the plan asks for, until it asks for nothing more.
func (s *Source) plan(ctx context.Context, observer *cluster.Observer, target Target, p *Picture) error {
	for {
		p.out = plan.Compute(p.in)
		looked := s.occupancies(ctx, observer, p)
		listed, err := s.pods(ctx, observer, target, p)
		if err != nil || !looked && !listed {
			return err
		}
	}
}

// occupancies reads, once for each NodeWright, which nodes have pods that speak against disturbing them. Where that is not
// allowed the nodes wait, and a note says why.
func (s *Source) occupancies(ctx context.Context, observer *cluster.Observer, p *Picture) (looked bool) {
	if len(p.out.NeedOccupancy) == 0 || p.blind {
		return false
	}
	answers, err := observer.Occupancies(ctx, p.out.NeedOccupancy)
	if err != nil {
		p.blind = true
		note(&p.notes, "who is admitted next is not known: "+Word(err).Error())
		return false
	}
	if p.in.Occupancies == nil {
		p.in.Occupancies = map[string]plan.Occupancy{}
	}
	maps.Copy(p.in.Occupancies, answers)
	return true
}

// pods lists the pods of the nodes that the target's reasons need.
func (s *Source) pods(ctx context.Context, observer *cluster.Observer, target Target, p *Picture) (listed bool, err error) {
	for i := range p.in.Nodes {
		n := &p.in.Nodes[i]
		if n.PodsListed || !slices.Contains(p.out.NeedPods, n.Name) || !concerns(target, p.out, n.Name) {
			continue
		}
		pods, err := observer.Pods(ctx, n.Name)
		if err != nil {
			return false, err
		}
		n.Pods, n.PodsListed, listed = pods, true, true
		s.budgets(ctx, n, &p.notes)
	}
	return listed, nil
}

// concerns reports whether the target's explanation speaks of the node.
func concerns(target Target, out plan.Output, node string) bool {
	if target.Kind == Node {
		return target.Name == node
	}
	return slices.ContainsFunc(out.Reasons, func(r plan.Reason) bool { return r.NodeWright == target.Name && r.Node == node })
}

func exists(target Target, in plan.Input) error {
	var names []string
	if target.Kind == Node {
		for i := range in.Nodes {
			names = append(names, in.Nodes[i].Name)
		}
	} else {
		for i := range in.NodeWrights {
			names = append(names, in.NodeWrights[i].Name)
		}
	}
	if slices.Contains(names, target.Name) {
		return nil
	}
	return &NotFoundError{Target: target, Close: closest(target.Name, names), Existing: len(names)}
}

// Input is what is seen of the cluster, for who wants to plan what would follow.
func (p Picture) Input() plan.Input { return p.in }

// Output is what the planner makes of it.
func (p Picture) Output() plan.Output { return p.out }
