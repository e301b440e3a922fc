package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
	"github.com/fleetwright/fleetwright/test/simnode"
)

const (
	namespace = "fleetwright"
	fleetName = "us-east-1"
	repoName  = "acme-fleet"
	nodeCount = 24
)

// lab is everything that runs: control plane, nodes, git server, reconciler and witness.
type lab struct {
	dir     string
	cluster *cluster.Cluster
	client  client.Client
	admin   *rest.Config
	nodes   *simnode.Fleet
	git     *gitserver.Server
	clone   *clone
	process *supervisor
	witness *witness
	stop    context.CancelFunc
	done    chan error
}

// openLab starts everything in order. While the control plane is built for the first time, it shows what needs none.
func openLab(ctx context.Context, o options, s *screen) (*lab, error) {
	dir, err := os.MkdirTemp("", "fleetwright-demo-")
	if err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w", err)
	}
	l := &lab{dir: dir, done: make(chan error, 1)}
	if err := l.startControlPlane(ctx, o, s); err != nil {
		return l, err
	}
	for _, step := range []struct {
		say string
		do  func(context.Context, options) error
	}{
		{"installing the Helm chart: CRDs, roles, admission policies", l.installChart},
		{fmt.Sprintf("adding %d simulated nodes and their workloads", nodeCount), l.addNodes},
		{"serving a git repository over HTTP", l.serveGit},
		{"starting the reconciler under the chart's service account", l.startReconciler},
	} {
		s.say("%s", step.say)
		if err := step.do(ctx, o); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *lab) startControlPlane(ctx context.Context, o options, s *screen) error {
	s.chapter("The lab")
	built := make(chan error, 1)
	go func() {
		_, err := cluster.Build(ctx, os.Stdout)
		built <- err
	}()
	select {
	case err := <-built:
		if err != nil {
			return fmt.Errorf("build the control plane: %w", err)
		}
	case <-time.After(2 * time.Second): // nothing to wait for: the build is cached
		s.say("The control plane is built once. Meanwhile, what needs no cluster:")
		if err := showOffline(ctx, o, s); err != nil {
			return err
		}
		if err := <-built; err != nil {
			return fmt.Errorf("build the control plane: %w", err)
		}
	}
	s.say("starting etcd, kube-apiserver, kube-scheduler and the controllers")
	c, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(l.dir, "cluster"), Controllers: true, Scheduler: true})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	l.cluster, l.admin = c, c.Config()
	l.client, err = client.New(l.admin, client.Options{Scheme: scheme()})
	return err
}

func (l *lab) installChart(ctx context.Context, _ options) error {
	return chart.Apply(ctx, l.admin, namespace, map[string]any{"replicas": 0})
}

func (l *lab) addNodes(ctx context.Context, _ options) error {
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	nodes, err := simnode.New(l.admin, simnode.Options{
		Duration: 150 * time.Millisecond, RebootDuration: 1500 * time.Millisecond, Outcome: outcome,
		Termination: func(*corev1.Pod) time.Duration { return 300 * time.Millisecond },
	})
	if err != nil {
		return err
	}
	l.nodes = nodes
	for i := range nodeCount {
		if _, err := l.nodes.AddNode(ctx, nodeName(i), nodeLabels(i), simnode.NodeOptions{}); err != nil {
			return fmt.Errorf("add node: %w", err)
		}
	}
	go func() { l.done <- l.nodes.Run(ctx) }()
	if err := addWorkloads(ctx, l.client); err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(l.admin)
	if err != nil {
		return err
	}
	l.witness = watchCluster(ctx, clientset, l.cluster.Audit())
	return nil
}

func (l *lab) serveGit(ctx context.Context, o options) error {
	var err error
	if l.git, err = gitserver.New(filepath.Join(l.dir, "git"), gitserver.Options{}); err != nil {
		return fmt.Errorf("start the git server: %w", err)
	}
	if err := l.git.CreateRepo(repoName); err != nil {
		return err
	}
	files, err := readRepository(o.repository)
	if err != nil {
		return err
	}
	l.clone, err = newClone(ctx, filepath.Join(l.dir, "clone"), l.git.URL(repoName), files)
	return err
}

func (l *lab) startReconciler(ctx context.Context, o options) error {
	account, err := chart.ReconcilerConfig(ctx, l.admin, namespace)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(l.dir, "reconciler.kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig, account); err != nil {
		return err
	}
	logs := o.logs
	if logs == "" {
		logs = filepath.Join(l.dir, "reconciler.log")
	}
	l.process = newSupervisor(o, logs, kubeconfig)
	return l.process.start()
}

func (l *lab) kills() int {
	if l.process == nil {
		return 0
	}
	return l.process.killed()
}

// quoteLog shows the end of the reconciler's log: what a person would look at first.
func (l *lab) quoteLog(out *os.File) {
	if l.process != nil {
		l.process.quote(out)
	}
}

// close stops everything in the reverse order.
func (l *lab) close() {
	if l.process != nil {
		l.process.stop()
	}
	if l.git != nil {
		_ = l.git.Close()
	}
	if l.stop != nil {
		l.stop()
		if err := <-l.done; err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "simulated nodes:", err)
		}
	}
	if l.cluster != nil {
		l.cluster.Stop()
	}
	_ = os.RemoveAll(l.dir)
}
