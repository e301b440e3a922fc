package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/simnode"
)

const (
	tuning, kernel = "gpu-tuning", "gpu-kernel"
	trainingPod    = "train-0"
	// brokenVersion of the kernel arguments fails on every node, as push 4 finds out.
	brokenVersion = "1.2.0"
)

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nwv1.AddToScheme, fleetv1.AddToScheme} {
		if err := add(s); err != nil { // types that were compiled in always register
			panic(err)
		}
	}
	return s
}

func nodeName(i int) string { return fmt.Sprintf("gpu-%02d", i+1) }

// tiers and how many nodes each has.
var tiers = []struct {
	name  string
	count int
}{{"canary", 2}, {"serving", 8}, {"training", 14}}

func nodeLabels(i int) map[string]string {
	for _, t := range tiers {
		if i < t.count {
			return map[string]string{"pool": "gpu", "tier": t.name, "rack": fmt.Sprintf("r%d", i/4+1)}
		}
		i -= t.count
	}
	return map[string]string{"pool": "gpu"}
}

// outcome plays the hosts: the broken version fails while it is applied, and a reboot takes the machine down.
func outcome(pod *corev1.Pod, container string) simnode.Result {
	switch {
	case container == "interrupt" && pod.Labels[nwv1.NameLabel] == kernel:
		return simnode.Result{Reboot: simnode.RebootKills}
	case container == "kernel-args-config" && strings.HasSuffix(pod.Labels[nwv1.PackageLabel], brokenVersion):
		return simnode.Result{Exit: 3, Log: "grub2-mkconfig: syntax error near 'pci=realloc'"}
	}
	return simnode.Result{}
}

// addWorkloads puts a protected training pod on the last node, a web service with a disruption budget on the serving
// nodes, and batch pods on the training nodes.
func addWorkloads(ctx context.Context, c client.Client) error {
	training := pod(trainingPod, map[string]string{protectedLabel: protectedValue})
	training.Spec.NodeName = nodeName(nodeCount - 1)
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

// fleetManifest is the one object that a person creates by hand: where the repository is, and what it may do here.
const fleetManifest = `apiVersion: fleetwright.dev/v1alpha1
kind: Fleet
metadata:
  name: ` + fleetName + `
  namespace: ` + namespace + `
spec:
  source:
    url: %s
    ref: {branch: main}
  path: ./` + overlayPath + `
  interval: 10s
  scope:
    nodeSelector: {matchLabels: {pool: gpu}}
  checks:
    provider: gitnotes
`

// fleet is the manifest for a repository.
func fleet(url string) (*unstructured.Unstructured, string, error) {
	manifest := fmt.Sprintf(fleetManifest, url)
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), object); err != nil {
		return nil, "", fmt.Errorf("read the Fleet's manifest: %w", err)
	}
	return object, manifest, nil
}
