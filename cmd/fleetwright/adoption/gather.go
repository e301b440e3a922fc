package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/adopt"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Source is the cluster to take over.
type Source struct {
	client    client.Client
	kube      kubernetes.Interface
	namespace string
	now       func() time.Time
	// TrustSpec: see adopt.Rollout.
	TrustSpec bool
}

// NewSource is the cluster of a configuration, whose reconciler lives, or will live, in the namespace.
func NewSource(config *rest.Config, namespace string, now func() time.Time) (*Source, error) {
	c, kube, err := cluster.Clients(config)
	if err != nil {
		return nil, err
	}
	return &Source{client: c, kube: kube, namespace: namespace, now: now}, nil
}

// ErrActive says that NVIDIA's operator still acts.
var ErrActive = errors.New("two operators must not work on the same nodes")

// Takeover is everything that adoption would do.
type Takeover struct {
	// Objects of the old group under their new kind, that do not exist yet.
	Objects []client.Object
	// Entries by NodeWright and node.
	Entries []adopt.Entry
	// Problems are what could not be read or converted.
	Problems []string

	nodes map[string]*corev1.Node
}

// Gather reads the cluster and writes nothing. It refuses while NVIDIA's operator is active.
func (s *Source) Gather(ctx context.Context) (*Takeover, error) {
	active, err := cluster.NewRivals(s.kube, s.now).Active(ctx)
	if err != nil {
		return nil, err
	}
	if active != "" {
		return nil, fmt.Errorf("%w: %s; scale its Deployment to 0 (kubectl scale deployment --replicas=0), delete its webhook configurations, "+
			"and run this again when its lease has run out", ErrActive, active)
	}
	t := &Takeover{nodes: map[string]*corev1.Node{}}
	rollouts, err := s.rollouts(ctx, t)
	if err != nil {
		return nil, err
	}
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	running, err := s.running(ctx)
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		t.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for _, r := range rollouts {
		t.plan(r, nodes.Items, running)
	}
	return t, nil
}

// rollout is one NodeWright, as the planner resolves it, and which nodes it selects.
type rollout struct {
	adopt.Rollout
	selector labels.Selector
}

func (t *Takeover) plan(r rollout, nodes []corev1.Node, running map[string]string) {
	for i := range nodes {
		n := &nodes[i]
		if !r.selector.Matches(labels.Set(n.Labels)) || !slices.Contains(adopt.Names(n.Annotations), r.Name) {
			continue
		}
		t.Entries = append(t.Entries, adopt.Plan(adopt.Node{
			Name: n.Name, UID: n.UID, Annotations: n.Annotations, Labels: n.Labels, Unschedulable: n.Spec.Unschedulable, Running: running[n.Name],
		}, r.Rollout))
	}
}

// rollouts are the NodeWrights that exist, and those that the objects of the old group become.
func (s *Source) rollouts(ctx context.Context, t *Takeover) ([]rollout, error) {
	refs := plan.References{Policies: map[string]*nwv1.DeploymentPolicy{}, Packages: map[string]*fleetv1.Package{}}
	policies, packages, list := &nwv1.DeploymentPolicyList{}, &fleetv1.PackageList{}, &nwv1.NodeWrightList{}
	for _, l := range []client.ObjectList{policies, packages, list} {
		if err := s.client.List(ctx, l); err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
	}
	for i := range policies.Items {
		refs.Policies[policies.Items[i].Name] = &policies.Items[i]
	}
	for i := range packages.Items {
		refs.Packages[packages.Items[i].Name] = &packages.Items[i]
	}
	w := &wanted{wrights: list.Items, refs: refs, updates: map[string]map[string][]string{}}
	if err := s.readUpdates(ctx, w); err != nil {
		return nil, err
	}
	if err := s.legacy(ctx, t, w); err != nil {
		return nil, err
	}
	var out []rollout
	for i := range w.wrights {
		r, problem, err := s.resolve(ctx, &w.wrights[i], refs)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			t.Problems = append(t.Problems, "nodewright "+w.wrights[i].Name+": "+problem)
			continue
		}
		updates, known := w.updates[r.Name]
		r.Updates, r.UpdatesUnknown = updates, !known
		out = append(out, r)
	}
	return out, nil
}

func (s *Source) resolve(ctx context.Context, nw *nwv1.NodeWright, refs plan.References) (rollout, string, error) {
	resolved := refs.Resolve(nw)
	selector, err := metav1.LabelSelectorAsSelector(&nw.Spec.NodeSelectors)
	if err != nil {
		return rollout{}, err.Error(), nil
	}
	r := rollout{adopt.Rollout{Name: nw.Name, UID: nw.UID, Set: resolved.Desired, TrustSpec: s.TrustSpec}, selector}
	r.Configs, err = s.configs(ctx, nw)
	return r, resolved.Problem, err
}

// wanted are the objects of the new group with what those of the old one become, and the changes that are not complete.
type wanted struct {
	wrights []nwv1.NodeWright
	refs    plan.References
	updates map[string]map[string][]string
}

// readUpdates reads `status.configUpdates` of the objects of the new group. Only NVIDIA's CRD keeps it: it is gone once ours is
// installed.
func (s *Source) readUpdates(ctx context.Context, w *wanted) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nwv1.GroupVersion.WithKind(nwv1.KindNodeWright + "List"))
	if err := s.client.List(ctx, list); err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	for i := range list.Items {
		if updates := updatesOf(&list.Items[i]); len(updates) > 0 {
			w.updates[list.Items[i].GetName()] = updates
		}
	}
	return nil
}

// legacy reads the objects of the old group. The CRDs of that group need not be there.
func (s *Source) legacy(ctx context.Context, t *Takeover, w *wanted) error {
	for _, kind := range []string{nwv1.KindDeploymentPolicy, legacyKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: nwv1.LegacyGroup, Version: "v1alpha1", Kind: kind + "List"})
		err := s.client.List(ctx, list)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list %s objects of %s: %w", kind, nwv1.LegacyGroup, err)
		}
		for i := range list.Items {
			t.convert(&list.Items[i], w)
		}
	}
	return nil
}

// convert takes up an object of the old group, if there is none of its name in the new one.
func (t *Takeover) convert(old *unstructured.Unstructured, w *wanted) {
	converted, err := Convert(old)
	if err != nil {
		t.Problems = append(t.Problems, err.Error())
		return
	}
	switch o := converted.(type) {
	case *nwv1.DeploymentPolicy:
		if w.refs.Policies[o.Name] == nil {
			w.refs.Policies[o.Name] = o
			t.Objects = append(t.Objects, o)
		}
	case *nwv1.NodeWright:
		w.updates[o.Name] = updatesOf(old)
		if !slices.ContainsFunc(w.wrights, func(nw nwv1.NodeWright) bool { return nw.Name == o.Name }) {
			w.wrights = append(w.wrights, *o)
			t.Objects = append(t.Objects, o)
		}
	}
}

// configs are the data of the operator's ConfigMaps of a NodeWright, by `package|version`.
func (s *Source) configs(ctx context.Context, nw *nwv1.NodeWright) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	for _, prefix := range []string{nwv1.LegacyGroup, nwv1.Group} {
		list, err := s.kube.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: prefix + "/name=" + nw.Name})
		if err != nil {
			return nil, fmt.Errorf("list configmaps: %w", err)
		}
		for _, cm := range list.Items {
			for name, p := range nw.Spec.Packages {
				if cm.Name == strings.ToLower(nw.Name+"-"+name+"-"+p.Version) {
					out[nwv1.NodeStateEntry(name, p.Version)] = cm.Data
				}
			}
		}
	}
	return out, nil
}

// running names a pod of NVIDIA's operator that has not ended, by node.
func (s *Source) running(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, prefix := range []string{nwv1.LegacyGroup, nwv1.Group} {
		list, err := s.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{
			LabelSelector: prefix + "/name," + prefix + "/package," + fleetv1.ManagedByLabel + "!=" + fleetv1.FieldManager,
		})
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				out[p.Spec.NodeName] = p.Namespace + "/" + p.Name
			}
		}
	}
	return out, nil
}
