package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/reconciler"
)

// addRollout wires the rollout half: observer, actor, ledger, statuses and events of one cluster around the loop.
func addRollout(ctx context.Context, m manager.Manager, o options, log *slog.Logger) error {
	client, err := kubernetes.NewForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	counts, err := reconciler.NewRolloutMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	observer := cluster.NewObserver(m.GetCache(), m.GetAPIReader(), client, o.namespace)
	observer.RunsAs(o.podName)
	actor := cluster.NewActor(client, observer, jobSettings(o), version)
	loop := &reconciler.Rollout{
		Observer: observer,
		Actor:    actor,
		Sweeper:  actor,
		Ledger:   cluster.NewLedger(m.GetAPIReader(), m.GetClient()),
		Statuses: cluster.NewStatuses(m.GetCache(), m.GetClient()),
		Events:   cluster.NewEvents(m.GetEventRecorder("fleetwright")),
		Metrics:  counts, Log: log.With("loop", "rollout"), Now: time.Now, Settings: planSettings(o),
		KeepSucceeded: o.keepSucceeded, KeepFailed: o.keepFailed,
		Standby: standby(ctx, client, o.adoptCRDs, log),
	}
	if err := cluster.Wake(ctx, m.GetCache(), loop.Wake); err != nil {
		return err
	}
	return m.Add(leaderOnly(loop.Run))
}

// startCheck bounds the look at the CRDs before anything else.
const startCheck = 10 * time.Second

// standby returns what says why nothing may be done: CRDs that would drop what is written, unless they are adopted as they
// are, or NVIDIA's operator. Older CRDs are logged at once: a kind that is missing keeps the caches from ever being complete.
func standby(ctx context.Context, client kubernetes.Interface, adopted bool, log *slog.Logger) func(context.Context) (string, error) {
	schemas, rivals := cluster.NewSchemas(client, time.Now), cluster.NewRivals(client, time.Now)
	first, cancel := context.WithTimeout(ctx, startCheck)
	defer cancel()
	switch problem, err := schemas.Outdated(first); {
	case err != nil:
		log.Warn("cannot compare the CRDs yet", "error", err)
	case problem != "":
		log.Error("the installed CRDs are not those of this version", "problem", problem, "adopted", adopted)
	}
	return func(ctx context.Context) (string, error) {
		if !adopted {
			if problem, err := schemas.Outdated(ctx); problem != "" || err != nil {
				return problem, err
			}
		}
		return rivals.Active(ctx)
	}
}

// leaderOnly runs while this process holds the lease.
type leaderOnly func(ctx context.Context) error

// Start implements manager.Runnable.
func (f leaderOnly) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f leaderOnly) NeedLeaderElection() bool { return true }

func jobSettings(o options) cluster.JobSettings {
	return cluster.JobSettings{
		Namespace: o.namespace, AgentImage: o.agentImage, HostRoot: o.hostRoot, ServiceAccount: o.executionAccount,
		InterruptAccount: o.interruptAccount,
	}
}

func planSettings(o options) plan.Settings {
	return plan.Settings{
		Attempts: int32(o.attempts), StageTimeout: o.stageTimeout, RetryBackoff: o.retryBackoff, PullTolerance: o.pullTolerance,
		DrainRetry: o.drainRetry, Namespace: o.namespace,
	}
}
