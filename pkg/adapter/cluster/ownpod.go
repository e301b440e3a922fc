package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// ownPod finds out on which node this process runs: a pod stays on one node for all its life, so one look is enough.
type ownPod struct {
	name  string
	found plan.OwnPod
}

// look asks until there is an answer. Where none can be had, the process counts as running outside of the cluster for this
// pass: that costs the order of the nodes, and no more.
func (p *ownPod) look(ctx context.Context, c kubernetes.Interface, namespace string) plan.OwnPod {
	if p.name == "" || p.found.Node != "" {
		return p.found
	}
	pod, err := c.CoreV1().Pods(namespace).Get(ctx, p.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		p.name = "" // not in this cluster
	case err == nil:
		p.found = plan.OwnPod{Namespace: namespace, Name: p.name, Node: pod.Spec.NodeName}
	}
	return p.found
}
