package main

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
)

// addPod takes a Pod or a PodDisruptionBudget.
func (s *clusterState) addPod(kind string, doc json.RawMessage) error {
	switch kind {
	case "Pod":
		pod := &corev1.Pod{}
		if err := json.Unmarshal(doc, pod); err != nil {
			return fmt.Errorf("read Pod: %w", err)
		}
		s.pods = append(s.pods, pod)
	case "PodDisruptionBudget":
		budget := policyv1.PodDisruptionBudget{}
		if err := json.Unmarshal(doc, &budget); err != nil {
			return fmt.Errorf("read PodDisruptionBudget: %w", err)
		}
		s.budgets = append(s.budgets, budget)
	default:
		return fmt.Errorf("kind %q is not expected (allowed: Node, Ledger, Pod, PodDisruptionBudget, or a List of these)", kind)
	}
	return nil
}

// podsKnown reports whether the pods of the nodes are known: a list with one pod is taken for a list of all.
func (s *clusterState) podsKnown() bool { return len(s.pods) > 0 }

// placePods puts pods on their nodes, with what their budgets say.
func (s *clusterState) placePods() {
	if !s.podsKnown() {
		return
	}
	on := map[string][]*corev1.Pod{}
	for _, p := range s.pods {
		on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		n.Pods, n.PodsListed = on[n.Name], true
		n.Refusals = explain.Refusals(n.Pods, s.budgets)
	}
}
