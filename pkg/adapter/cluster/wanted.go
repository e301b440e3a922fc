package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// What a NodeWright wants is spread over several objects, whose watches know nothing of one another, and a delivery writes
// them one after the other. A round that begins with half of a change puts on hosts what nobody ever asked for. So a change
// is taken over only
//
//   - from a view that is as new as a quorum list that began after the change was first seen, and
//   - when no delivery of the NodeWright's Fleet is half done: what it refers to comes from the same revision.
//
// Until then the NodeWright stays as it was taken over last.

// wantedPatience is how long a pass waits for such a view; after that the others go on, and the passes that follow look
// again and wait less.
const (
	wantedPatience = 5 * time.Second
	wantedAgain    = time.Second
)

// wantedViews are the NodeWrights as they were taken over last. It is safe for concurrent use.
type wantedViews struct {
	mu   sync.Mutex
	seen map[types.UID]plan.NodeWright
	// waiting are changes that were seen in a fresh view and wait for their delivery to go on.
	waiting map[types.UID]change
	// late says that the last pass waited in vain.
	late bool
}

// change is what tells one wish from another.
type change struct {
	generation    int64
	hash, problem string
}

func changeOf(nw plan.NodeWright) change {
	return change{nw.Generation, nw.Desired.Hash, nw.Problem + nw.OutOfScope}
}

// wish is a NodeWright as the caches show it.
type wish struct {
	view plan.NodeWright
	// half says why it may not be taken over; empty if it may.
	half string
}

// readObjects resolves NodeWrights with everything that they refer to, and the Fleets' budgets.
func (o *Observer) readObjects(ctx context.Context, in *plan.Input) error {
	refs, wishes, err := o.readWanted(ctx)
	if err != nil {
		return err
	}
	late := map[types.UID]bool{}
	if changed := o.wanted.changed(wishes); len(changed) > 0 {
		inTime, err := o.freshWanted(ctx)
		if err != nil {
			return err
		}
		if !inTime {
			late = changed
		}
		if refs, wishes, err = o.readWanted(ctx); err != nil {
			return err
		}
	}
	in.NodeWrights = o.wanted.take(wishes, late)
	for _, fleet := range refs.fleets {
		if budget, ok := budgetOfFleet(fleet); ok {
			in.Budgets = append(in.Budgets, budget)
		}
	}
	return nil
}

func (o *Observer) readWanted(ctx context.Context) (references, []wish, error) {
	refs, err := o.readReferences(ctx)
	if err != nil {
		return references{}, nil, err
	}
	list := &nwv1.NodeWrightList{}
	if err := o.cached.List(ctx, list); err != nil {
		return references{}, nil, fmt.Errorf("list nodewrights: %w", err)
	}
	wishes := make([]wish, 0, len(list.Items))
	for i := range list.Items {
		wishes = append(wishes, wish{refs.resolve(&list.Items[i]), refs.halfDelivered(&list.Items[i])})
	}
	return refs, wishes, nil
}

// freshWanted waits for the caches of what is wanted. inTime is false if they lag for longer than a pass can wait.
func (o *Observer) freshWanted(ctx context.Context) (inTime bool, err error) {
	limited, cancel := context.WithTimeout(ctx, o.wanted.patience())
	defer cancel()
	for _, kind := range freshKinds {
		if !kind.wanted {
			continue
		}
		err := o.awaitList(limited, kind)
		if limited.Err() != nil && ctx.Err() == nil {
			o.wanted.lags(true)
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("wait for a fresh view of %s objects: %w", kind.Kind, err)
		}
	}
	o.wanted.lags(false)
	return true, nil
}

func (v *wantedViews) patience() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.late {
		return wantedAgain
	}
	return wantedPatience
}

func (v *wantedViews) lags(late bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.late = late
}

// changed are the NodeWrights that want something that was not looked at yet.
func (v *wantedViews) changed(wishes []wish) map[types.UID]bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := map[types.UID]bool{}
	for _, w := range wishes {
		last, known := v.seen[w.view.UID]
		waits, waiting := v.waiting[w.view.UID]
		now := changeOf(w.view)
		if !(known && changeOf(last) == now) && !(waiting && waits == now && w.half != "") {
			out[w.view.UID] = true
		}
	}
	return out
}

// take takes over what may be, and forgets NodeWrights that are gone.
func (v *wantedViews) take(wishes []wish, late map[types.UID]bool) []plan.NodeWright {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, waiting := make(map[types.UID]plan.NodeWright, len(wishes)), map[types.UID]change{}
	out := make([]plan.NodeWright, 0, len(wishes))
	for _, w := range wishes {
		uid, why := w.view.UID, w.half
		if late[uid] {
			why = "what it refers to is not seen as the API server has it now"
		} else if why != "" {
			waiting[uid] = changeOf(w.view)
		}
		now := w.view
		switch last, known := v.seen[uid]; {
		case why == "":
			seen[uid] = now
		case known:
			now, seen[uid] = withRequests(last, now), last
		default:
			now.Problem = strings.TrimPrefix(now.Problem+"; "+why, "; ")
		}
		out = append(out, now)
	}
	v.seen, v.waiting = seen, waiting
	return out
}

// withRequests is the NodeWright as it was, with what people ask of it now.
func withRequests(was, now plan.NodeWright) plan.NodeWright {
	was.Paused, was.Disabled, was.Deleting, was.Finalizer, was.Abandon = now.Paused, now.Disabled, now.Deleting, now.Finalizer, now.Abandon
	was.Retry, was.Rerun, was.Reset, was.Resume = now.Retry, now.Rerun, now.Reset, now.Resume
	was.Confine(now.Fleet, now.Limits) // a narrower scope waits for no delivery
	return was
}

// halfDelivered says which object that the NodeWright refers to comes from another revision of the same Fleet; empty if
// none does. One that left the repository and was kept is not the Fleet's any more.
func (r references) halfDelivered(nw *nwv1.NodeWright) string {
	fleet, ok := r.fleets[fleetOf(nw)]
	if !ok {
		return ""
	}
	for _, o := range r.referredBy(nw) {
		kind, group := nwv1.KindDeploymentPolicy, nwv1.Group
		if _, isPackage := o.(*fleetv1.Package); isPackage {
			kind, group = fleetv1.KindPackage, fleetv1.Group
		}
		theirs, ours := o.GetAnnotations()[fleetv1.RevisionAnnotation], nw.Annotations[fleetv1.RevisionAnnotation]
		if fleetOf(o) != fleetOf(nw) || theirs == ours || !inInventory(fleet, report.EntryID("", o.GetName(), group, kind)) {
			continue
		}
		return fmt.Sprintf("%s %s is at revision %s and this object at %s: the delivery of Fleet %s is not finished",
			kind, o.GetName(), theirs, ours, fleetOf(nw))
	}
	return ""
}

// referredBy are the Packages, by name, and the policy of a NodeWright.
func (r references) referredBy(nw *nwv1.NodeWright) []client.Object {
	var names []string
	for _, entry := range nw.Spec.Packages {
		if entry.PackageRef != nil {
			names = append(names, entry.PackageRef.Name)
		}
	}
	slices.Sort(names)
	var out []client.Object
	for _, name := range names {
		if p, ok := r.Packages[name]; ok {
			out = append(out, p)
		}
	}
	if p, ok := r.Policies[nw.Spec.DeploymentPolicy]; ok {
		out = append(out, p)
	}
	return out
}

func fleetOf(o client.Object) client.ObjectKey {
	return client.ObjectKey{
		Namespace: o.GetLabels()[fleetv1.FleetNamespaceLabel], Name: o.GetLabels()[fleetv1.FleetNameLabel],
	}
}
