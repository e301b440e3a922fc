package lab

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// The fleet of the imaginary company Acme, whose repository is fleet-example.
const (
	// Tuning and Kernel are NodeWrights of the repository.
	Tuning, Kernel = "gpu-tuning", "gpu-kernel"
	// TrainingPod is the protected pod, on the last node; ProtectedLabel and ProtectedValue protect it.
	TrainingPod                    = "train-0"
	ProtectedLabel, ProtectedValue = "workload", "training"
	// BrokenVersion of the kernel arguments fails on every node.
	BrokenVersion = "1.2.0"
)

// Scheme has the kinds that the lab reads and writes.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nwv1.AddToScheme, fleetv1.AddToScheme} {
		if err := add(s); err != nil { // types that were compiled in always register
			panic(err)
		}
	}
	return s
}

// Tier is a part of Acme's nodes.
type Tier struct {
	Name  string
	Count int
}

// NodeName of the i-th node, from 0.
func NodeName(i int) string { return fmt.Sprintf("gpu-%02d", i+1) }

// NodeLabels of the i-th node of a fleet with these tiers.
func NodeLabels(tiers []Tier, i int) map[string]string {
	for _, t := range tiers {
		if i < t.Count {
			return map[string]string{"pool": "gpu", "tier": t.Name, "rack": fmt.Sprintf("r%d", i/4+1)}
		}
		i -= t.Count
	}
	return map[string]string{"pool": "gpu"}
}

// Outcome plays the hosts: the broken version fails while it is applied, and a reboot takes the machine down.
func Outcome(pod *corev1.Pod, container string) simnode.Result {
	switch {
	case container == "interrupt" && pod.Labels[nwv1.NameLabel] == Kernel:
		return simnode.Result{Reboot: simnode.RebootKills}
	case container == "kernel-args-config" && strings.HasSuffix(pod.Labels[nwv1.PackageLabel], BrokenVersion):
		return simnode.Result{Exit: 3, Log: "grub2-mkconfig: syntax error near 'pci=realloc'"}
	}
	return simnode.Result{}
}

// AddWorkloads puts a protected training pod on the last node, a web service with a disruption budget on the serving
// nodes, and batch pods on the training nodes.
func AddWorkloads(ctx context.Context, c client.Client, last string) error {
	training := pod(TrainingPod, map[string]string{ProtectedLabel: ProtectedValue})
	training.Spec.NodeName = last
	one := intstr.FromInt32(1)
	objects := []client.Object{
		training,
		deployment("web", 6, "serving"),
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: metav1.NamespaceDefault},
			Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
		deployment("batch", 10, "training"),
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("create workload %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: labels},
		Spec:       podSpec(),
	}
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/work:1"}}}
}

func deployment(name string, replicas int32, tier string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	spec := podSpec()
	spec.NodeSelector = map[string]string{"tier": tier}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}
