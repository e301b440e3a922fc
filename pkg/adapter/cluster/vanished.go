package cluster

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// vanishedAtOnce is how many nodes one list asks for: a selector is part of a URL.
const vanishedAtOnce = 50

// awaitJobsOfVanished returns when the cache shows every Job of the nodes that were there at the last view, or at the list
// of a new leader, and are not any more. Nodes and Jobs come through different caches: else a batch could be judged
// without a node that vanished at work, whose Job is not seen yet. A Job that is created later cannot begin.
func (o *Observer) awaitJobsOfVanished(ctx context.Context, _ *plan.Input) error {
	gone := o.nodes.vanished()
	if len(gone) == 0 {
		return nil
	}
	for chunk := range slices.Chunk(gone, vanishedAtOnce) {
		if err := o.expectJobsOf(ctx, chunk); err != nil {
			return err
		}
	}
	if err := o.awaitWrites(ctx); err != nil {
		return err
	}
	o.nodes.forget(len(gone))
	return nil
}

func (o *Observer) expectJobsOf(ctx context.Context, nodes []types.UID) error {
	var values []string
	for _, uid := range nodes {
		values = append(values, string(uid))
	}
	of, err := labels.NewRequirement(fleetv1.NodeUIDLabel, selection.In, values)
	if err != nil {
		return fmt.Errorf("select jobs of nodes that vanished: %w", err)
	}
	jobs, err := o.client.BatchV1().Jobs(o.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.NewSelector().Add(*of).String(),
	})
	if err != nil {
		return fmt.Errorf("list jobs of nodes that vanished: %w", err)
	}
	for i := range jobs.Items {
		if job := &jobs.Items[i]; isOurs(job) { // the cache holds no other
			o.wroteJob(job.Name, job.ResourceVersion)
		}
	}
	return nil
}

// meet notes the nodes of a list, so that it is noticed when one of them is not in the next view.
func (v *nodeViews) meet(nodes []metav1.PartialObjectMetadata) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range nodes {
		if _, known := v.seen[nodes[i].UID]; !known {
			v.seen = put(v.seen, nodes[i].UID, nodeView{})
		}
	}
}

// vanished are the nodes that were seen and are gone, until forget.
func (v *nodeViews) vanished() []types.UID {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.gone)
}

func (v *nodeViews) forget(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = v.gone[n:]
}
