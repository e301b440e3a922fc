package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// Namespace of the reconciler.
const Namespace = "fleetwright"

// Cluster is a control plane with simulated nodes. Its methods are called in the order in which they stand here.
type Cluster struct {
	// Dir for its files. Required.
	Dir string

	// Plane, Admin and Client are there after Start, Nodes after AddNodes.
	Plane  *cluster.Cluster
	Admin  *rest.Config
	Client client.Client
	Nodes  *simnode.Fleet

	stop context.CancelFunc
	done chan error
}

// Start runs etcd, kube-apiserver, kube-scheduler and the controllers.
func (c *Cluster) Start(ctx context.Context) error {
	plane, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(c.Dir, "cluster"), Controllers: true, Scheduler: true})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	c.Plane, c.Admin = plane, plane.Config()
	c.Client, err = client.New(c.Admin, client.Options{Scheme: Scheme()})
	return err
}

// InstallChart installs the chart without running its Deployments: the programs run as processes under its accounts.
func (c *Cluster) InstallChart(ctx context.Context, values map[string]any) error {
	all := map[string]any{"replicas": 0}
	for k, v := range values {
		all[k] = v
	}
	return chart.Apply(ctx, c.Admin, Namespace, all)
}

// AddNodes adds simulated nodes, one for each of the tiers' places, and runs their kubelets.
func (c *Cluster) AddNodes(ctx context.Context, tiers []Tier) error {
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.done = make(chan error, 1)
	nodes, err := simnode.New(c.Admin, simnode.Options{
		Duration: 150 * time.Millisecond, RebootDuration: 1500 * time.Millisecond, Outcome: Outcome,
		Termination: func(*corev1.Pod) time.Duration { return 300 * time.Millisecond },
	})
	if err != nil {
		return err
	}
	c.Nodes = nodes
	i := 0
	for _, t := range tiers {
		for range t.Count {
			if _, err := nodes.AddNode(ctx, NodeName(i), NodeLabels(tiers, i), simnode.NodeOptions{}); err != nil {
				return fmt.Errorf("add node: %w", err)
			}
			i++
		}
	}
	go func() { c.done <- nodes.Run(ctx) }()
	return nil
}

// Kubeconfig writes a file for one of the chart's service accounts, by its name.
func (c *Cluster) Kubeconfig(ctx context.Context, account string) (string, error) {
	config, err := chart.AccountConfig(ctx, c.Admin, Namespace, account)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.Dir, account+".kubeconfig")
	return path, cluster.WriteKubeconfig(path, config)
}

// ReconcilerArgs are the flags of a reconciler that acts as the account of the kubeconfig, at the pace of simulated nodes.
func ReconcilerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig", kubeconfig, "--namespace", Namespace, "--agent-image", "ghcr.io/fleetwright/agent:demo",
		"--metrics-address", "0", "--probe-address", "0", "--retry-backoff", "1s", "--drain-retry", "500ms",
		"--lease-duration", "4s",
	}
}

// Close stops nodes and control plane.
func (c *Cluster) Close() {
	if c.stop != nil {
		c.stop()
	}
	if c.Nodes != nil {
		if err := <-c.done; err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "simulated nodes:", err)
		}
	}
	if c.Plane != nil {
		c.Plane.Stop()
	}
}
