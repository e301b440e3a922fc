package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

const (
	// cachePoll is how often a lagging cache is looked at again.
	cachePoll = 5 * time.Millisecond
	// cachePatience is after how long a write that the cache does not show is looked up live.
	cachePatience = 2 * time.Second
	// cacheLimit is how long a pass waits for the caches before it gives up.
	cacheLimit = 30 * time.Second
)

// expectations are our own writes that a cache may not have seen yet. It is safe for concurrent use.
type expectations struct {
	mu    sync.Mutex
	nodes map[types.UID]*corev1.Node // as written, in full
	named map[string]expectation     // Jobs and snapshots by name; the prefixes of their names differ
}

// expectation is one object in our namespace that exists in that version or a later one.
type expectation struct {
	empty   func() client.Object
	version string
	// selected reports whether the cache holds such an object at all: somebody may have taken its label off.
	selected func(client.Object) bool
}

// isOurs reports whether an object carries the label by which the caches find what is ours.
func isOurs(o client.Object) bool {
	return o.GetLabels()[fleetv1.ManagedByLabel] == fleetv1.FieldManager
}

func (o *Observer) wroteNode(node *corev1.Node) {
	o.writes.mu.Lock()
	defer o.writes.mu.Unlock()
	o.writes.nodes = put(o.writes.nodes, node.UID, node)
}

func (o *Observer) wroteJob(name, version string) {
	o.expect(name, expectation{func() client.Object { return &batchv1.Job{} }, version, isOurs})
}

func (o *Observer) wroteConfigMap(name, version string) {
	o.expect(name, expectation{func() client.Object { return &corev1.ConfigMap{} }, version, isOurs})
}

// expects reports whether a write of the object is not seen yet.
func (o *Observer) expects(name string) bool {
	o.writes.mu.Lock()
	defer o.writes.mu.Unlock()
	_, waiting := o.writes.named[name]
	return waiting
}

func (o *Observer) expect(name string, e expectation) {
	o.writes.mu.Lock()
	defer o.writes.mu.Unlock()
	o.writes.named = put(o.writes.named, name, e)
}

// latestNode is the newest view of a node that this process has: our own last write, or the cache. nil if the node is
// gone or another one has its name.
func (o *Observer) latestNode(ctx context.Context, name string, uid types.UID) (*corev1.Node, error) {
	cached := &corev1.Node{}
	err := o.cached.Get(ctx, client.ObjectKey{Name: name}, cached)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get node %s: %w", name, err)
	}
	if cached.UID != uid {
		return nil, nil
	}
	o.writes.mu.Lock()
	defer o.writes.mu.Unlock()
	if written := o.writes.nodes[uid]; written != nil && older(cached.ResourceVersion, written.ResourceVersion) {
		return written, nil
	}
	return cached, nil
}

// older compares resource versions, which the API server counts up. One that cannot be read counts as older.
func older(a, b string) bool {
	n, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || n < 0
}

// awaitWrites returns when the caches show every write of ours, or something newer, or that the object is gone.
func (o *Observer) awaitWrites(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cacheLimit)
	defer cancel()
	for start := time.Now(); ; {
		waiting, err := o.unseen(ctx, time.Since(start) > cachePatience)
		if err != nil || waiting == "" {
			return err
		}
		if err := pause(ctx, cachePoll); err != nil {
			return fmt.Errorf("wait for the cache to show %s: %w", waiting, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// unseen drops what the caches have seen and names something that they have not. With askLive, what is gone from the
// API server is dropped too: it was deleted before the cache saw it.
func (o *Observer) unseen(ctx context.Context, askLive bool) (string, error) {
	o.writes.mu.Lock()
	defer o.writes.mu.Unlock()
	for uid, node := range o.writes.nodes {
		e := expectation{func() client.Object { return &corev1.Node{} }, node.ResourceVersion, always}
		seen, err := o.seen(ctx, client.ObjectKey{Name: node.Name}, e, askLive)
		if err != nil || !seen {
			return "node " + node.Name, err
		}
		delete(o.writes.nodes, uid)
	}
	for name, e := range o.writes.named {
		seen, err := o.seen(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, e, askLive)
		if err != nil || !seen {
			return name, err
		}
		delete(o.writes.named, name)
	}
	return "", nil
}

func always(client.Object) bool { return true }

// seen reports whether the cache shows the object in its version, or never will.
func (o *Observer) seen(ctx context.Context, key client.ObjectKey, e expectation, askLive bool) (bool, error) {
	have := e.empty()
	err := o.cached.Get(ctx, key, have)
	if err == nil {
		return !older(have.GetResourceVersion(), e.version), nil
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read cache: %w", err)
	}
	if !askLive {
		return false, nil
	}
	err = o.live.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s: %w", key.Name, err)
	}
	return !e.selected(have), nil
}

// freshKind is a kind of which a new leader must not take a view from before its time.
type freshKind struct {
	schema.GroupVersionKind
	newList func() client.ObjectList
	// wanted says that the kind is a part of what people want.
	wanted bool
}

var freshKinds = []freshKind{
	{corev1.SchemeGroupVersion.WithKind("Node"), func() client.ObjectList { return &corev1.NodeList{} }, false},
	{batchv1.SchemeGroupVersion.WithKind("Job"), func() client.ObjectList { return &batchv1.JobList{} }, false},
	{corev1.SchemeGroupVersion.WithKind("ConfigMap"), func() client.ObjectList { return &corev1.ConfigMapList{} }, false},
	{nwv1.GroupVersion.WithKind(nwv1.KindNodeWright), func() client.ObjectList { return &nwv1.NodeWrightList{} }, true},
	{nwv1.GroupVersion.WithKind(nwv1.KindDeploymentPolicy), func() client.ObjectList { return &nwv1.DeploymentPolicyList{} }, true},
	{fleetv1.GroupVersion.WithKind(fleetv1.KindPackage), func() client.ObjectList { return &fleetv1.PackageList{} }, true},
	{fleetv1.GroupVersion.WithKind(fleetv1.KindFleet), func() client.ObjectList { return &fleetv1.FleetList{} }, true},
}

// Fresh returns when every cache is at least as new as a quorum list that began after the call. Only names and versions
// are listed.
func (o *Observer) Fresh(ctx context.Context) error {
	for _, kind := range freshKinds {
		if err := o.awaitList(ctx, kind); err != nil {
			return fmt.Errorf("wait for a fresh view of %s objects: %w", kind.Kind, err)
		}
	}
	return nil
}

func (o *Observer) awaitList(ctx context.Context, kind freshKind) error {
	ctx, cancel := context.WithTimeout(ctx, 4*cacheLimit)
	defer cancel()
	for {
		floor, err := o.quorumList(ctx, kind)
		if err != nil {
			return err
		}
		// An object that was deleted after the list would be waited for in vain: list again after a while.
		for start := time.Now(); time.Since(start) < cachePatience; {
			reached, err := o.reached(ctx, kind, floor)
			if err == nil && reached && kind.Kind == "Node" {
				o.nodes.meet(floor.Items)
			}
			if err != nil || reached {
				return err
			}
			if err := pause(ctx, cachePoll); err != nil {
				return err
			}
		}
	}
}

func (o *Observer) quorumList(ctx context.Context, kind freshKind) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := o.live.List(ctx, list, o.inNamespace(kind)...); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return list, nil
}

// inNamespace narrows the list to what the cache holds.
func (o *Observer) inNamespace(kind freshKind) []client.ListOption {
	here := client.InNamespace(o.namespace)
	switch kind.Kind {
	case "Job", "ConfigMap":
		return []client.ListOption{here, client.MatchingLabels{fleetv1.ManagedByLabel: fleetv1.FieldManager}}
	}
	return nil
}

// reached reports whether the cache shows each listed object at its version or later, and no object that was gone when
// the list was made.
func (o *Observer) reached(
	ctx context.Context, kind freshKind, floor *metav1.PartialObjectMetadataList,
) (bool, error) {
	have, err := o.cachedVersions(ctx, kind)
	if err != nil {
		return false, err
	}
	for i := range floor.Items {
		version, ok := have[floor.Items[i].UID]
		if !ok || older(version, floor.Items[i].ResourceVersion) {
			return false, nil
		}
		delete(have, floor.Items[i].UID)
	}
	for _, version := range have {
		if older(version, floor.ResourceVersion) {
			return false, nil
		}
	}
	return true, nil
}

func (o *Observer) cachedVersions(ctx context.Context, kind freshKind) (map[types.UID]string, error) {
	list := kind.newList()
	if err := o.cached.List(ctx, list, append(o.inNamespace(kind), client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list cache: %w", err)
	}
	out := map[types.UID]string{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			out[object.GetUID()] = object.GetResourceVersion()
		}
		return err
	})
	return out, err
}
