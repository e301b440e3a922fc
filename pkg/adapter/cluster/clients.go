package cluster

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Clients reads and writes live, without a cache: one client for our kinds, one for those of Kubernetes.
func Clients(config *rest.Config) (client.Client, kubernetes.Interface, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, nil, err
	}
	ours, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, fmt.Errorf("make client: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make client: %w", err)
	}
	return ours, kube, nil
}
