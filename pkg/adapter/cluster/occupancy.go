package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// unfinished selects, on the server, the pods that still run or are about to.
var unfinished = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// pageSize of lists over the whole cluster.
const pageSize = 500

// Occupancies reads, live, which nodes carry protected or budget-bound pods: one list for each query, and one for each
// PodDisruptionBudget that allows no disruption. The answer has an entry for every query.
func (o *Observer) Occupancies(ctx context.Context, queries []plan.OccupancyQuery) (map[string]plan.Occupancy, error) {
	bound, err := o.boundPods(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]plan.Occupancy, len(queries))
	for _, q := range queries {
		answer := plan.Occupancy{Bound: bound, Protected: map[string]string{}}
		if q.Protected != nil {
			if err := o.placePods(ctx, "", q.Protected, answer.Protected); err != nil {
				return nil, fmt.Errorf("list protected pods of nodewright %s: %w", q.NodeWright, err)
			}
		}
		out[q.NodeWright] = answer
	}
	return out, nil
}

// boundPods are the pods, by node, whose PodDisruptionBudget allows no disruption now.
func (o *Observer) boundPods(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := o.client.PolicyV1().PodDisruptionBudgets("").List(ctx, opts)
		if err != nil {
			return nil, fmt.Errorf("list poddisruptionbudgets: %w", err)
		}
		for _, budget := range page.Items {
			selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
			if err != nil || budget.Status.DisruptionsAllowed > 0 || budget.Status.ExpectedPods == 0 {
				continue
			}
			if err := o.placePods(ctx, budget.Namespace, selector, out); err != nil {
				return nil, fmt.Errorf("list pods of poddisruptionbudget %s/%s: %w", budget.Namespace, budget.Name, err)
			}
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

// placePods notes the first pod, by namespace and name, of each node that has one. An empty namespace stands for all.
func (o *Observer) placePods(ctx context.Context, namespace string, selector labels.Selector, into map[string]string) error {
	if _, selectable := selector.Requirements(); !selectable {
		return nil // it selects nothing, which as text would select everything
	}
	opts := metav1.ListOptions{Limit: pageSize, LabelSelector: selector.String(), FieldSelector: unfinished.String()}
	for {
		page, err := o.client.CoreV1().Pods(namespace).List(ctx, opts)
		if err != nil {
			return err
		}
		for i := range page.Items {
			pod := &page.Items[i]
			name := pod.Namespace + "/" + pod.Name
			if first, known := into[pod.Spec.NodeName]; pod.Spec.NodeName != "" && (!known || name < first) {
				into[pod.Spec.NodeName] = name
			}
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return nil
		}
	}
}
