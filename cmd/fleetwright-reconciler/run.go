package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
)

// gracefulStop is how long a pass may go on after the process was told to stop.
const gracefulStop = 20 * time.Second

// run wires the two halves to one manager and runs it until ctx ends or the lease is lost.
func run(ctx context.Context, o options) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: o.logLevel}))
	slog.SetDefault(log)
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	m, err := newManager(o)
	if err != nil {
		return err
	}
	if err := addLoops(ctx, m, o, log); err != nil {
		return err
	}
	log.Info("starting", "version", version, "namespace", o.namespace)
	return m.Start(ctx)
}

// addLoops wires what this process does: the two halves, or the review of pull requests.
func addLoops(ctx context.Context, m manager.Manager, o options, log *slog.Logger) error {
	if o.review {
		return addReview(m, o)
	}
	if err := addRollout(ctx, m, o, log); err != nil {
		return fmt.Errorf("set up the rollout: %w", err)
	}
	if err := addDelivery(ctx, m, o, log); err != nil {
		return fmt.Errorf("set up the delivery: %w", err)
	}
	return nil
}

func restConfig(o options) (*rest.Config, error) {
	var c *rest.Config
	var err error
	if o.kubeconfig != "" {
		c, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		c, err = config.GetConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	c.QPS = -1 // the API server's priority and fairness paces us, not a guess of ours
	c.UserAgent = o.lease() + "/" + version
	return c, nil
}

func newManager(o options) (manager.Manager, error) {
	c, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		return nil, err
	}
	grace := gracefulStop
	lease := o.leaseDuration
	renew, retry := lease*2/3, lease*2/15 // the proportions of client-go's defaults: 15s, 10s, 2s
	m, err := manager.New(c, manager.Options{
		Scheme: scheme, Cache: cluster.CacheOptions(o.namespace),
		LeaderElection: o.leaderElection, LeaderElectionID: o.lease(), LeaderElectionNamespace: o.namespace,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		// Handing the lease over is safe: the next leader raises the ledger's epoch before it reads anything.
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.probeAddress,
		GracefulShutdownTimeout:       &grace,
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add health check: %w", err)
	}
	if err := m.AddReadyzCheck("caches", cachesSynced(m)); err != nil {
		return nil, fmt.Errorf("add readiness check: %w", err)
	}
	return m, nil
}

// cachesSynced is ready when this process could take over at once.
func cachesSynced(m manager.Manager) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !m.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("the caches are not synchronised")
		}
		return nil
	}
}
