package explain

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// budgets finds the pods of a node whose eviction a PodDisruptionBudget would refuse now. The reconciler learns it from
// the refusals that it gets and keeps in memory; here nothing is evicted to find out.
func (s *Source) budgets(ctx context.Context, n *plan.Node, notes *[]string) {
	n.Refusals = map[types.UID]plan.Refusal{}
	byNamespace := map[string][]policyv1.PodDisruptionBudget{}
	for _, pod := range n.Pods {
		list, known := byNamespace[pod.Namespace]
		if !known {
			got, err := s.kube.PolicyV1().PodDisruptionBudgets(pod.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				note(notes, "PodDisruptionBudgets are not considered: "+Word(err).Error())
				return
			}
			list = got.Items
			byNamespace[pod.Namespace] = list
		}
		if r, refused := refusalOf(pod, list); refused {
			n.Refusals[pod.UID] = r
		}
	}
}

// Refusals are the answers that pods would get if they were asked to leave now, by UID, as far as budgets say.
func Refusals(pods []*corev1.Pod, budgets []policyv1.PodDisruptionBudget) map[types.UID]plan.Refusal {
	byNamespace, out := map[string][]policyv1.PodDisruptionBudget{}, map[types.UID]plan.Refusal{}
	for _, b := range budgets {
		byNamespace[b.Namespace] = append(byNamespace[b.Namespace], b)
	}
	for _, pod := range pods {
		if r, refused := refusalOf(pod, byNamespace[pod.Namespace]); refused {
			out[pod.UID] = r
		}
	}
	return out
}

// refusalOf is the answer to a pod that a budget of its namespace would refuse to disrupt.
func refusalOf(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) (plan.Refusal, bool) {
	i := slices.IndexFunc(budgets, func(b policyv1.PodDisruptionBudget) bool { return refuses(b, pod) })
	if i < 0 {
		return plan.Refusal{}, false
	}
	return report.EvictionOutcome{
		Namespace: pod.Namespace, Name: pod.Name, Result: report.EvictionRefused, Budget: budgets[i].Name,
		Message: fmt.Sprintf("it needs %d healthy pods and has %d currently", budgets[i].Status.DesiredHealthy, budgets[i].Status.CurrentHealthy),
	}.Refusal()
}

// refuses follows the eviction API: a pod that is not Ready may go if its budget says so.
func refuses(b policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	always := b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
	switch {
	case err != nil || !selector.Matches(labels.Set(pod.Labels)) || b.Status.DisruptionsAllowed > 0:
		return false
	case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning:
		return false // no budget is asked
	case ready(pod):
		return true
	}
	return !always && (b.Status.CurrentHealthy < b.Status.DesiredHealthy || b.Status.DesiredHealthy == 0)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// note adds a note once.
func note(notes *[]string, text string) {
	if !slices.Contains(*notes, text) {
		*notes = append(*notes, text)
	}
}
