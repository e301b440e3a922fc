package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Observer translates what is in the cluster into a plan.Input. It reads from caches, which it never trusts to be newer
// than they are: see Observe and Fresh.
type Observer struct {
	cached    client.Reader // see CacheOptions
	live      client.Reader
	client    kubernetes.Interface
	namespace string
	own       ownPod

	writes    expectations
	nodes     nodeViews
	jobs      jobViews
	snapshots snapshotViews
	wanted    wantedViews
}

// NewObserver returns an Observer. cached reads from caches with CacheOptions, live from the API server.
func NewObserver(cached, live client.Reader, c kubernetes.Interface, namespace string) *Observer {
	return &Observer{cached: cached, live: live, client: c, namespace: namespace}
}

// RunsAs tells the observer, before the first Observe, in which pod of its namespace this process runs; empty: in none.
func (o *Observer) RunsAs(pod string) { o.own.name = pod }

// Observe gathers what a pass decides from, without Ledger and Settings. It first waits until the caches
// have seen everything that was written through this observer's Actor.
func (o *Observer) Observe(ctx context.Context, now time.Time) (plan.Input, error) {
	if err := o.awaitWrites(ctx); err != nil {
		return plan.Input{}, err
	}
	in := plan.Input{Now: now, Own: o.own.look(ctx, o.client, o.namespace)}
	for _, read := range []func(context.Context, *plan.Input) error{
		o.readNodes, o.awaitJobsOfVanished, o.readExecutions, o.readObjects, o.readSnapshots,
	} {
		if err := read(ctx, &in); err != nil {
			return plan.Input{}, err
		}
	}
	return in, nil
}

// Pods lists the pods of one node, live. There is no cache of the pods of the cluster.
func (o *Observer) Pods(ctx context.Context, node string) ([]*corev1.Pod, error) {
	list, err := o.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of node %s: %w", node, err)
	}
	out := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

func (o *Observer) readNodes(ctx context.Context, in *plan.Input) error {
	list := &corev1.NodeList{}
	if err := o.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	in.Nodes = o.nodes.of(list.Items)
	return nil
}

// readExecutions gives each node its executions, by UID; those of other UIDs are orphans.
func (o *Observer) readExecutions(ctx context.Context, in *plan.Input) error {
	executions, changes, err := o.executions(ctx, in.Now)
	if err != nil {
		return err
	}
	in.Changes = changes
	byUID := make(map[string]int, len(in.Nodes))
	for i := range in.Nodes {
		byUID[string(in.Nodes[i].UID)] = i
	}
	for _, e := range executions {
		if i, ok := byUID[string(e.NodeUID)]; ok {
			in.Nodes[i].Executions = append(in.Nodes[i].Executions, e)
			continue
		}
		in.Orphans = append(in.Orphans, e)
	}
	return nil
}

// references are the objects that NodeWrights refer to.
type references struct {
	plan.References
	fleets map[client.ObjectKey]*fleetv1.Fleet
}

func (o *Observer) readReferences(ctx context.Context) (references, error) {
	out := references{
		References: plan.References{Policies: map[string]*nwv1.DeploymentPolicy{}, Packages: map[string]*fleetv1.Package{}},
		fleets:     map[client.ObjectKey]*fleetv1.Fleet{},
	}
	policies, packages, fleets := &nwv1.DeploymentPolicyList{}, &fleetv1.PackageList{}, &fleetv1.FleetList{}
	for _, list := range []client.ObjectList{policies, packages, fleets} {
		if err := o.cached.List(ctx, list); err != nil {
			return references{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range policies.Items {
		out.Policies[policies.Items[i].Name] = &policies.Items[i]
	}
	for i := range packages.Items {
		out.Packages[packages.Items[i].Name] = &packages.Items[i]
	}
	for i := range fleets.Items {
		out.fleets[client.ObjectKeyFromObject(&fleets.Items[i])] = &fleets.Items[i]
	}
	return out, nil
}

// resolve translates one NodeWright. What cannot be resolved becomes its Problem.
func (r references) resolve(nw *nwv1.NodeWright) plan.NodeWright {
	out := r.References.Resolve(nw)
	r.confine(&out, fleetOf(nw))
	return out
}

// confine holds a NodeWright to the scope of the Fleet that its labels name. A Fleet that is gone limits nothing: its objects were
// left behind on purpose, and go on.
func (r references) confine(nw *plan.NodeWright, owner client.ObjectKey) {
	if fleet, ok := r.fleets[owner]; ok {
		nw.Confine(owner.String(), fleet.Spec.Scope)
	}
}

// budgetOfFleet translates `spec.disruption.maxNodes`. A scope or a number that cannot be read admits nobody: a budget
// must not vanish because of a typing error.
func budgetOfFleet(fleet *fleetv1.Fleet) (plan.Budget, bool) {
	if fleet.Spec.Disruption == nil || fleet.Spec.Disruption.MaxNodes == nil {
		return plan.Budget{}, false
	}
	out := plan.Budget{Name: fleet.Namespace + "/" + fleet.Name}
	limit, percent, err := readLimit(fleet.Spec.Disruption.MaxNodes.String())
	if scope := fleet.Spec.Scope; scope != nil && scope.NodeSelector != nil {
		selector, bad := metav1.LabelSelectorAsSelector(scope.NodeSelector)
		if bad != nil {
			selector, err = nil, bad
		}
		out.Scope = selector
	}
	switch {
	case err != nil:
		out.Count = new(int32)
	case percent:
		out.Percent = &limit
	default:
		out.Count = &limit
	}
	return out, true
}

func readLimit(s string) (limit int32, percent bool, err error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0, percent, fmt.Errorf("read number of nodes %q: %w", s, err)
	}
	return int32(n), percent, nil
}
