package soak

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	foreignTaint = foreign + "/taint"
	// trainingPrefix starts the names of protected pods.
	trainingPrefix = "train-"
	podPrefix      = "app-"
	budgetName     = "soak"
)

func withTaint(taints []corev1.Taint, want bool) []corev1.Taint {
	taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == foreignTaint })
	if want {
		taints = append(taints, corev1.Taint{Key: foreignTaint, Value: "x", Effect: corev1.TaintEffectPreferNoSchedule})
	}
	return taints
}

func (s *stage) stepPod() {
	s.addPod(podPrefix, map[string]string{"app": []string{"web", "batch"}[s.random.IntN(2)]})
}

func (s *stage) stepTraining() {
	running := 0
	for _, p := range s.model.pods {
		if p.training {
			running++
		}
	}
	if running < s.o.nodes/5 {
		s.addPod(trainingPrefix, map[string]string{"workload": training})
	}
}

// populate puts one pod on every node, so that whatever interrupts it from now on has something to drain.
func (s *stage) populate() {
	for _, name := range s.model.nodes {
		s.addPodOn(name, podPrefix, map[string]string{"app": "batch"})
	}
}

func (s *stage) addPod(prefix string, labels map[string]string) {
	s.addPodOn(s.pick(s.running()), prefix, labels)
}

// addPodOn binds a pod to a node where the scheduler could: one that is schedulable now.
func (s *stage) addPodOn(name, prefix string, labels map[string]string) {
	s.model.podsNo++
	ctx, cancel := s.ctx()
	defer cancel()
	node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	require.NoError(s.t, err)
	if node.Spec.Unschedulable || len(s.model.pods) > 3*s.o.nodes {
		return
	}
	grace := int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s%d", prefix, s.model.podsNo), Namespace: metav1.NamespaceDefault, Labels: labels,
		},
		Spec: corev1.PodSpec{
			NodeName: name, Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}},
			TerminationGracePeriodSeconds: &grace,
		},
	}
	require.NoError(s.t, s.admin.Create(ctx, pod))
	made := appPod{pod.Name, name, s.model.podsNo, prefix == trainingPrefix}
	s.witness.born(made, pod.CreationTimestamp)
	s.model.pods = append(s.model.pods, made)
}

// stepPodEnds ends the first pod from a chosen number on.
func (s *stage) stepPodEnds() {
	from := s.random.IntN(s.model.podsNo + 1)
	for i, p := range s.model.pods {
		if p.number >= from {
			s.endPod(i)
			return
		}
	}
}

// endPod deletes a pod at once: a training run ends by itself.
func (s *stage) endPod(i int) {
	name := s.model.pods[i].name
	s.model.pods = slices.Delete(s.model.pods, i, i+1)
	ctx, cancel := s.ctx()
	defer cancel()
	err := s.kube.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, *metav1.NewDeleteOptions(0))
	if !apierrors.IsNotFound(err) {
		require.NoError(s.t, err)
	}
}

// stepBudget turns a PodDisruptionBudget over the web pods on or off; it allows none of them to go.
func (s *stage) stepBudget() {
	all := intstr.FromString("100%")
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: budgetName, Namespace: metav1.NamespaceDefault},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	s.model.pdb = !s.model.pdb
	ctx, cancel := s.ctx()
	defer cancel()
	if s.model.pdb {
		require.NoError(s.t, s.admin.Create(ctx, pdb))
		return
	}
	require.NoError(s.t, client.IgnoreNotFound(s.admin.Delete(ctx, pdb)))
}
