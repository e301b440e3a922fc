package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/reconciler"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// The proportions of the program's --lease-duration, as short as a Lease can say.
const (
	leaseDuration = time.Second
	renewDeadline = 2 * leaseDuration / 3
	retryPeriod   = 2 * leaseDuration / 15
)

// candidates are several processes that compete for the reconciler's Lease, with the elector that controller-runtime's
// manager has too. One that loses the lease goes on for a while, as a process does that was not told yet.
type candidates struct {
	lane    *lane
	writes  *writes
	number  int
	linger  time.Duration
	how     setting
	mu      sync.Mutex
	leading map[int]int // loops of each candidate that run
	blocked map[int]bool
	most    int // loops that ran at once
	starts  int
	deposed int
	failed  []error
	cancel  context.CancelFunc
	idle    sync.WaitGroup
}

func (c *candidates) run() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.leading, c.blocked = cancel, map[int]int{}, map[int]bool{}
	for i := range c.number {
		c.idle.Go(func() {
			for ctx.Err() == nil {
				if err := c.candidate(ctx, i); err != nil {
					c.fail(err)
					return
				}
			}
		})
	}
}

func (c *candidates) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = append(c.failed, err)
}

// candidate competes until it has led and lost.
func (c *candidates) candidate(ctx context.Context, i int) error {
	election := c.how.gate(c.writes, func() {})
	election.reachable = func(e cluster.AuditEvent) bool {
		return c.mayRenew(i) && (c.how.reachable == nil || c.how.reachable(e))
	}
	kube, err := kubernetes.NewForConfig(behind(c.lane.config, election))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	// A loop lives on when the elector has given up.
	lives, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	led := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Name: fleetv1.LeaseName, Namespace: namespace}, Client: kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("candidate-%d", i)},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { defer close(led); c.lead(lives, i) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("make elector: %w", err)
	}
	elector.Run(ctx)
	if c.runs(i) && ctx.Err() == nil {
		wait(ctx, c.linger)
	}
	die()
	if ctx.Err() == nil || c.runs(i) {
		<-led
	}
	return nil
}

// lead runs one loop.
func (c *candidates) lead(ctx context.Context, i int) {
	c.mu.Lock()
	c.leading[i]++
	c.starts++
	n := 0
	for _, loops := range c.leading {
		n += loops
	}
	c.most = max(c.most, n)
	c.mu.Unlock()
	one, err := startLoop(behind(c.lane.config, c.how.gate(c.writes, func() {})))
	if err == nil {
		err = one.Run(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading[i]--
	if errors.Is(err, reconciler.ErrDeposed) {
		c.deposed++
	} else if err != nil && ctx.Err() == nil && c.how.reachable == nil {
		c.failed = append(c.failed, fmt.Errorf("candidate %d: %w", i, err))
	}
}

func (c *candidates) runs(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leading[i] > 0
}

func (c *candidates) mayRenew(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.blocked[i]
}

// block keeps whoever leads from the Lease for a while: another one takes it, and the old one does not know.
func (c *candidates) block(ctx context.Context, d time.Duration) {
	c.mu.Lock()
	chosen := -1
	for i, loops := range c.leading {
		if loops > 0 && !c.blocked[i] {
			chosen = i
		}
	}
	if chosen >= 0 {
		c.blocked[chosen] = true
	}
	c.mu.Unlock()
	wait(ctx, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.blocked, chosen)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (c *candidates) stop() error {
	c.cancel()
	c.idle.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.failed...)
}

func (c *candidates) started() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts
}
