package explain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Observe reads what the reconciler would read for a pass, without pods, and notes what could not be read.
func (s *Source) Observe(ctx context.Context) (in plan.Input, notes []string, err error) {
	observer := cluster.NewObserver(newNarrowed(s.reader, s.namespace), s.reader, s.kube, s.namespace)
	if in, err = observer.Observe(ctx, s.now()); err != nil {
		return plan.Input{}, nil, err
	}
	if in.Ledger, err = s.ledger(ctx); err != nil {
		return plan.Input{}, nil, err
	}
	in.Settings = s.settings(ctx, &notes)
	return in, notes, nil
}

// podsAtOnce is the size of a page of pods.
const podsAtOnce = 500

// AddPods lists the pods of the cluster, page by page, and puts those of the named nodes on them, with what their budgets say.
func (s *Source) AddPods(ctx context.Context, nodes []plan.Node, names []string) error {
	wanted := map[string][]*corev1.Pod{}
	for _, n := range names {
		wanted[n] = []*corev1.Pod{}
	}
	for next := ""; ; {
		page, err := s.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: podsAtOnce, Continue: next})
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for i := range page.Items {
			pod := &page.Items[i]
			if _, needed := wanted[pod.Spec.NodeName]; needed {
				wanted[pod.Spec.NodeName] = append(wanted[pod.Spec.NodeName], pod.DeepCopy()) // not the whole page
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	budgets, err := s.allBudgets(ctx)
	if err != nil {
		return err
	}
	for i := range nodes {
		if pods, needed := wanted[nodes[i].Name]; needed {
			nodes[i].Pods, nodes[i].PodsListed, nodes[i].Refusals = pods, true, Refusals(pods, budgets)
		}
	}
	return nil
}

func (s *Source) allBudgets(ctx context.Context) ([]policyv1.PodDisruptionBudget, error) {
	list, err := s.kube.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list poddisruptionbudgets: %w", err)
	}
	return list.Items, nil
}
