package loop

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/chart"
)

// Loop is one process's rollout loop. The fields of Rollout may be changed before Run, and RunsAs called on Observer.
type Loop struct {
	Rollout     *reconciler.Rollout
	Observer    *adapter.Observer
	caches      cache.Cache
	broadcaster events.EventBroadcaster
}

// New wires a loop that works in namespace as the caller of config, and logs to out.
func New(config *rest.Config, namespace string, out io.Writer) (*Loop, error) {
	scheme, err := adapter.Scheme()
	if err != nil {
		return nil, err
	}
	options := adapter.CacheOptions(namespace)
	options.Scheme = scheme
	caches, err := cache.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("make caches: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	observer := adapter.NewObserver(caches, live, kube, namespace)
	actor := adapter.NewActor(kube, observer, adapter.JobSettings{
		Namespace: namespace, AgentImage: "agent:1", HostRoot: "/", ServiceAccount: chart.ExecutionAccount, InterruptAccount: chart.InterruptAccount,
	}, "test")
	loop := &reconciler.Rollout{
		Observer: observer, Actor: actor, Sweeper: actor,
		Ledger: adapter.NewLedger(live, live), Statuses: adapter.NewStatuses(caches, live),
		Events: adapter.NewEvents(broadcaster.NewRecorder(scheme, "fleetwright")),
		Log:    slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})), Now: time.Now,
		Interval: 20 * time.Millisecond,
		Settings: plan.Settings{
			Attempts: 2, RetryBackoff: 50 * time.Millisecond, PullTolerance: 300 * time.Millisecond, StageTimeout: time.Minute,
			RebootGrace: 5 * time.Second, DrainRetry: 100 * time.Millisecond, Namespace: namespace,
		},
	}
	return &Loop{Rollout: loop, Observer: observer, caches: caches, broadcaster: broadcaster}, nil
}

// Cached reads what the loop keeps of the cluster, once Run runs.
func (l *Loop) Cached() client.Reader { return l.caches }

// Run leads until ctx ends or another loop takes over the ledger, which is an error. A Loop runs once.
func (l *Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := l.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("start events: %w", err)
	}
	defer l.broadcaster.Shutdown()
	if err := adapter.Wake(ctx, l.caches, l.Rollout.Wake); err != nil {
		return err
	}
	synced := make(chan error, 1)
	go func() { synced <- l.caches.Start(ctx) }()
	err := l.Rollout.Run(ctx)
	cancel()
	<-synced
	return err
}
