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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/window"
)

// Observer translates what is in the cluster into a plan.Input. It reads from caches, which it never trusts to be newer
// than they are: see Observe and Fresh.
type Observer struct {
	cached    client.Reader // see CacheOptions
	live      client.Reader
	client    kubernetes.Interface
	namespace string

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

// Observe gathers what a pass decides from, without Ledger and Settings. It first waits until the caches
// have seen everything that was written through this observer's Actor.
func (o *Observer) Observe(ctx context.Context, now time.Time) (plan.Input, error) {
	if err := o.awaitWrites(ctx); err != nil {
		return plan.Input{}, err
	}
	in := plan.Input{Now: now}
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
	executions, err := o.executions(ctx, in.Now)
	if err != nil {
		return err
	}
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
	policies map[string]*nwv1.DeploymentPolicy
	packages map[string]*fleetv1.Package
	fleets   map[client.ObjectKey]*fleetv1.Fleet
}

func (o *Observer) readReferences(ctx context.Context) (references, error) {
	out := references{
		policies: map[string]*nwv1.DeploymentPolicy{}, packages: map[string]*fleetv1.Package{},
		fleets: map[client.ObjectKey]*fleetv1.Fleet{},
	}
	policies, packages, fleets := &nwv1.DeploymentPolicyList{}, &fleetv1.PackageList{}, &fleetv1.FleetList{}
	for _, list := range []client.ObjectList{policies, packages, fleets} {
		if err := o.cached.List(ctx, list); err != nil {
			return references{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range policies.Items {
		out.policies[policies.Items[i].Name] = &policies.Items[i]
	}
	for i := range packages.Items {
		out.packages[packages.Items[i].Name] = &packages.Items[i]
	}
	for i := range fleets.Items {
		out.fleets[client.ObjectKeyFromObject(&fleets.Items[i])] = &fleets.Items[i]
	}
	return out, nil
}

// resolve translates one NodeWright. What cannot be resolved becomes its Problem, in one sentence.
func (r references) resolve(nw *nwv1.NodeWright) plan.NodeWright {
	set, unresolved := desired.Resolve(nw, r.packages)
	out := plan.NodeWright{
		Name: nw.Name, UID: nw.UID, Generation: nw.Generation, Spec: nw.Spec, Desired: set,
		Paused: nw.Paused(), Disabled: nw.Disabled(), Deleting: nw.DeletionTimestamp != nil,
		Retry: nw.Annotations[fleetv1.VerbKey(fleetv1.VerbRetry)], Resume: nw.Annotations[fleetv1.VerbKey(fleetv1.VerbResume)],
	}
	var problems []string
	for _, p := range unresolved {
		problems = append(problems, p.Field+": "+p.Message)
	}
	if name := nw.Spec.DeploymentPolicy; name != "" {
		if policy, ok := r.policies[name]; ok {
			out.Policy = &policy.Spec
			windows, bad := window.ParseAll(policy.Spec.Windows)
			out.Windows = windows
			problems = append(problems, prefixed("DeploymentPolicy "+name+": ", bad)...)
		} else {
			problems = append(problems, fmt.Sprintf("spec.deploymentPolicy: DeploymentPolicy %q does not exist", name))
		}
	}
	problems = append(problems, gaps(desired.GapsOfNodeWright(nw.Spec))...)
	scope, err := r.scope(nw)
	if err != nil {
		problems = append(problems, err.Error())
	}
	out.Scope = scope
	out.Problem = strings.Join(append(problems, selectorProblems(nw)...), "; ")
	return out
}

func prefixed(prefix string, sentences []string) []string {
	out := make([]string, 0, len(sentences))
	for _, s := range sentences {
		out = append(out, prefix+s)
	}
	return out
}

// gaps words fields that this version does not act on: an object that sets one is left alone.
func gaps(found []desired.Gap) []string {
	var out []string
	for _, g := range found {
		out = append(out, g.Field()+": "+g.Message)
	}
	return out
}

// scope is what the Fleet that delivers the object may touch. A Fleet that is gone limits nothing: its objects were
// left behind on purpose.
func (r references) scope(nw *nwv1.NodeWright) (labels.Selector, error) {
	key := fleetOf(nw)
	fleet, ok := r.fleets[key]
	if !ok || fleet.Spec.Scope == nil || fleet.Spec.Scope.NodeSelector == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(fleet.Spec.Scope.NodeSelector)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("fleet %s: spec.scope.nodeSelector: %w", key, err)
	}
	return selector, nil
}

func selectorProblems(nw *nwv1.NodeWright) []string {
	var out []string
	for _, s := range []struct {
		field    string
		selector *metav1.LabelSelector
	}{{"spec.nodeSelectors", &nw.Spec.NodeSelectors}, {"spec.podNonInterruptLabels", &nw.Spec.PodNonInterruptLabels}} {
		if _, err := metav1.LabelSelectorAsSelector(s.selector); err != nil {
			out = append(out, s.field+": "+err.Error())
		}
	}
	return out
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
