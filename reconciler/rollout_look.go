package reconciler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// podMemory are the pods of nodes that wait for them to go, by node UID. Whatever wakes the loop, such a node is not listed
// more often than a drain looks again: a hundred nodes that wait for training runs would be a thousand lists a second. A node
// that is not cordoned (new, in use, waiting for a slot) is listed far less often. It is used by the loop's one goroutine
// only.
type podMemory map[types.UID]listedPods

type listedPods struct {
	at   time.Time
	pods []*corev1.Pod
}

// plan computes, lists the pods of the nodes that the plan asks for, and computes once more. What is remembered is good
// enough to wait by and never to act by: where it would lead to an admission, an execution or an eviction, the pods are listed
// now. A node whose pods could not be listed waits; the error asks for another pass, as nothing else would.
func (r *Rollout) plan(ctx context.Context, in *plan.Input) (plan.Output, error) {
	r.forgetOccupancies(in.Now)
	recalled := map[string]plan.OccupancyQuery{}
	out, err := r.compute(ctx, in, recalled)
	if len(out.NeedPods) == 0 {
		r.memory.pods = nil
		return out, err
	}
	byName := make(map[string]*plan.Node, len(in.Nodes))
	for i := range in.Nodes {
		byName[in.Nodes[i].Name] = &in.Nodes[i]
	}
	old, remembered := r.remember(in, out.NeedPods, byName)
	again := func() {
		var failed error
		out, failed = r.compute(ctx, in, recalled)
		err = errors.Join(err, failed)
	}
	err = errors.Join(err, r.list(ctx, in.Now, old, byName))
	again()
	for {
		acting := actingOn(out.Decisions, remembered)
		if len(acting) == 0 {
			break
		}
		err = errors.Join(err, r.list(ctx, in.Now, acting, byName))
		for _, name := range acting {
			delete(remembered, name)
		}
		again() // what is seen now may let another node act
	}
	for name := range remembered {
		node := byName[name]
		out.Next = earlier(out.Next, r.memory.pods[node.UID].at.Add(r.goodFor(node)))
	}
	return out, err
}

// goodFor is how long a list of a node's pods is good enough to wait by.
func (r *Rollout) goodFor(node *plan.Node) time.Duration {
	if node.Unschedulable {
		return r.drainRetry()
	}
	return 12 * r.drainRetry()
}

func (r *Rollout) drainRetry() time.Duration { return orDefault(r.Settings.DrainRetry, 5*time.Second) }

// remember gives the nodes the pods that were listed a moment ago, forgets all others, and returns the nodes to be listed
// and those that live on what is remembered.
func (r *Rollout) remember(in *plan.Input, names []string, byName map[string]*plan.Node) (old []string, remembered map[string]bool) {
	kept := podMemory{}
	remembered = map[string]bool{}
	for _, name := range names {
		node := byName[name]
		listed, known := r.memory.pods[node.UID]
		if !known || in.Now.Sub(listed.at) >= r.goodFor(node) {
			old = append(old, name)
			continue
		}
		kept[node.UID], remembered[name] = listed, true
		node.Pods, node.PodsListed = listed.pods, true
	}
	r.memory.pods = kept
	return old, remembered
}

// list lists the pods of the nodes; one that cannot be listed has none that are known.
func (r *Rollout) list(ctx context.Context, now time.Time, names []string, byName map[string]*plan.Node) error {
	err := r.forEach(names, func(name string) error {
		ctx, cancel := r.bounded(ctx)
		defer cancel()
		pods, err := r.Observer.Pods(ctx, name)
		byName[name].Pods, byName[name].PodsListed = pods, err == nil
		return err
	})
	for _, name := range names {
		if node := byName[name]; node.PodsListed {
			r.memory.pods[node.UID] = listedPods{now, node.Pods}
		}
	}
	return err
}

// actingOn are the nodes among those that live on what is remembered where something would be admitted, started or
// evicted.
func actingOn(decisions []plan.Decision, remembered map[string]bool) []string {
	var out []string
	seen := map[string]bool{}
	for _, d := range decisions {
		if remembered[d.Node] && !seen[d.Node] && (d.Action == plan.ActionAdmit || len(d.Start)+len(d.Evict) > 0) {
			out = append(out, d.Node)
			seen[d.Node] = true
		}
	}
	return out
}
