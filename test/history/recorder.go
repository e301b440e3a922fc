package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Change is one version of one object.
type Change struct {
	// Version is the resource version: the place in the order of all changes of the cluster.
	Version int64
	Object  client.Object
	// Deleted says that the object is gone with this change; Object is its last state.
	Deleted bool
}

// Recorder watches. It is safe for concurrent use.
type Recorder struct {
	client client.WithWatch

	mu      sync.Mutex
	changes []Change
	newest  map[types.UID]int64
	lost    error
}

var kinds = []func() client.ObjectList{
	func() client.ObjectList { return &corev1.NodeList{} },
	func() client.ObjectList { return &corev1.PodList{} },
	func() client.ObjectList { return &batchv1.JobList{} },
	func() client.ObjectList { return &nwv1.NodeWrightList{} },
	func() client.ObjectList { return &fleetv1.LedgerList{} },
}

// Record begins to record, from the state of now on, until ctx ends.
func Record(ctx context.Context, admin *rest.Config) (*Recorder, error) {
	scheme, err := adapter.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(admin, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	r := &Recorder{client: c, newest: map[types.UID]int64{}}
	for _, kind := range kinds {
		if err := r.record(ctx, kind()); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Recorder) record(ctx context.Context, list client.ObjectList) error {
	if err := r.client.List(ctx, list); err != nil {
		return fmt.Errorf("list for the record: %w", err)
	}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		r.add(o.DeepCopyObject().(client.Object), false)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the list for the record: %w", err)
	}
	return r.follow(ctx, list, list.GetResourceVersion())
}

// follow watches from a version on. A watch that breaks, as at a restart of the API server, goes on where it was; where the
// server does not know that place any more, with a list.
func (r *Recorder) follow(ctx context.Context, list client.ObjectList, from string) error {
	events, err := r.watch(ctx, list, from)
	if err != nil {
		return fmt.Errorf("watch for the record: %w", err)
	}
	go func() {
		for ctx.Err() == nil {
			from = r.take(events, from)
			events.Stop()
			for ctx.Err() == nil {
				if from == "" {
					from = r.again(ctx, list)
				}
				if events, err = r.watch(ctx, list, from); err == nil {
					break
				}
				from = ""
				time.Sleep(20 * time.Millisecond)
			}
		}
		if events != nil {
			events.Stop()
		}
	}()
	return nil
}

func (r *Recorder) watch(ctx context.Context, list client.ObjectList, from string) (watch.Interface, error) {
	return r.client.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}})
}

// take records events until the watch ends, and says up to where; empty if the server has lost the place.
func (r *Recorder) take(events watch.Interface, from string) string {
	for e := range events.ResultChan() {
		o, ok := e.Object.(client.Object)
		if !ok {
			return ""
		}
		from = o.GetResourceVersion()
		r.add(o, e.Type == watch.Deleted)
	}
	return from
}

// again records what the server holds now, and what is gone. What was between is lost: the record shows less, never more.
func (r *Recorder) again(ctx context.Context, list client.ObjectList) string {
	if err := r.client.List(ctx, list); err != nil {
		return ""
	}
	here := map[types.UID]bool{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		o := item.DeepCopyObject().(client.Object)
		here[o.GetUID()] = true
		if r.behind(o) {
			r.add(o, false)
		}
		return nil
	})
	if err != nil {
		r.fail(fmt.Errorf("read the list for the record: %w", err))
	}
	r.bury(list, here)
	return list.GetResourceVersion()
}

// bury records the end of what was there and is not.
func (r *Recorder) bury(list client.ObjectList, here map[types.UID]bool) {
	version, err := strconv.ParseInt(list.GetResourceVersion(), 10, 64)
	if err != nil {
		r.fail(fmt.Errorf("the version of a list is no number: %w", err))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := map[types.UID]Change{}
	for _, c := range r.changes {
		if kindOf(c.Object) == kindOf(list) {
			last[c.Object.GetUID()] = c
		}
	}
	for uid, c := range last {
		if !here[uid] && !c.Deleted {
			r.changes = append(r.changes, Change{Version: version, Object: c.Object, Deleted: true})
		}
	}
}

// kindOf is the Go type of an object, or of the objects of a list.
func kindOf(o any) string { return strings.TrimSuffix(fmt.Sprintf("%T", o), "List") }

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = err
}

func (r *Recorder) add(o client.Object, deleted bool) {
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		r.fail(fmt.Errorf("the version of %s is no number: %w", o.GetName(), err))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, Change{Version: version, Object: o, Deleted: deleted})
	r.newest[o.GetUID()] = max(version, r.newest[o.GetUID()])
}

// Changes are those up to now, in the order in which they were made. It waits until the watches have delivered what the API
// server holds.
func (r *Recorder) Changes(ctx context.Context) ([]Change, error) {
	for _, kind := range kinds {
		if err := r.catchUp(ctx, kind()); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.changes)
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(a.Version, b.Version) })
	return out, r.lost
}

func (r *Recorder) catchUp(ctx context.Context, list client.ObjectList) error {
	if err := r.client.List(ctx, list); err != nil {
		return fmt.Errorf("list for the record: %w", err)
	}
	for ctx.Err() == nil {
		behind := false
		err := meta.EachListItem(list, func(o runtime.Object) error {
			behind = behind || r.behind(o.(client.Object))
			return nil
		})
		if err != nil || !behind {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return fmt.Errorf("wait for the record to be complete: %w", ctx.Err())
}

func (r *Recorder) behind(o client.Object) bool {
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	return err == nil && r.newest[o.GetUID()] < version && r.lost == nil
}
