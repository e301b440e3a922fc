package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
	"github.com/fleetwright/fleetwright/test/lab"
)

const (
	fleetName = "us-east-1"
	repoName  = "acme-fleet"
	nodeCount = 24
)

// stage is everything that runs: control plane, nodes, git server, reconciler and witness.
type stage struct {
	lab.Cluster
	git     *gitserver.Server
	clone   *lab.Clone
	process *lab.Process
	witness *witness
	watch   context.CancelFunc
}

// openStage starts everything in order. While the control plane is built for the first time, it shows what needs none.
func openStage(ctx context.Context, o options, s *screen) (*stage, error) {
	dir, err := os.MkdirTemp("", "fleetwright-demo-")
	if err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w", err)
	}
	l := &stage{Cluster: lab.Cluster{Dir: dir}, watch: func() {}}
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

func (l *stage) startControlPlane(ctx context.Context, o options, s *screen) error {
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
	return l.Start(ctx)
}

func (l *stage) installChart(ctx context.Context, _ options) error { return l.InstallChart(ctx, nil) }

func (l *stage) addNodes(ctx context.Context, _ options) error {
	if err := l.AddNodes(ctx, tiers); err != nil {
		return err
	}
	if err := lab.AddWorkloads(ctx, l.Client, lab.NodeName(nodeCount-1)); err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(l.Admin)
	if err != nil {
		return err
	}
	ctx, l.watch = context.WithCancel(context.WithoutCancel(ctx))
	l.witness = watchCluster(ctx, clientset, l.Plane.Audit())
	return nil
}

func (l *stage) serveGit(ctx context.Context, o options) error {
	var err error
	if l.git, err = gitserver.New(filepath.Join(l.Dir, "git"), gitserver.Options{}); err != nil {
		return fmt.Errorf("start the git server: %w", err)
	}
	if err := l.git.CreateRepo(repoName); err != nil {
		return err
	}
	files, err := lab.ReadRepository(o.repository)
	if err != nil {
		return err
	}
	l.clone, err = lab.NewClone(ctx, filepath.Join(l.Dir, "clone"), l.git.URL(repoName), files)
	return err
}

func (l *stage) startReconciler(ctx context.Context, o options) error {
	kubeconfig, err := l.Kubeconfig(ctx, chart.ReconcilerAccount)
	if err != nil {
		return err
	}
	logs := o.logs
	if logs == "" {
		logs = filepath.Join(l.Dir, "reconciler.log")
	}
	l.process = &lab.Process{
		Name: "the reconciler", Binary: o.reconciler, Log: logs, Chaos: o.chaos, Seed: o.seed, Args: lab.ReconcilerArgs(kubeconfig),
	}
	return l.process.Start()
}

func (l *stage) kills() int {
	if l.process == nil {
		return 0
	}
	return l.process.Killed()
}

// quoteLog shows the end of the reconciler's log: what a person would look at first.
func (l *stage) quoteLog(out *os.File) {
	if l.process != nil {
		l.process.Quote(out)
	}
}

// close stops everything in the reverse order.
func (l *stage) close() {
	if l.process != nil {
		l.process.Stop()
	}
	if l.git != nil {
		_ = l.git.Close()
	}
	l.watch()
	l.Close()
	_ = os.RemoveAll(l.Dir)
}
