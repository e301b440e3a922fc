package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// RolloutObserver sees the cluster.
type RolloutObserver interface {
	// Observe gathers what a plan is made from, without Ledger, Settings and eviction memory. The view is never older
	// than the Actor's last write.
	Observe(ctx context.Context, now time.Time) (plan.Input, error)
	// Pods lists the pods of one node, live.
	Pods(ctx context.Context, node string) ([]*corev1.Pod, error)
	// Occupancies reads, live, which nodes carry pods that speak against disturbing them; every query has an answer.
	Occupancies(ctx context.Context, queries []plan.OccupancyQuery) (map[string]plan.Occupancy, error)
	// Fresh returns when views are at least as new as a quorum list that began after the call.
	Fresh(ctx context.Context) error
}

// RolloutActor changes the cluster. All calls are idempotent and return at once; whether something took effect is for
// the next pass to see.
type RolloutActor interface {
	// Do carries out one decision.
	Do(ctx context.Context, d plan.Decision) (report.Outcome, error)
	// Strand keeps Jobs, by name, from running anything from now on; they stay to be seen.
	Strand(ctx context.Context, jobs []string) error
	// Discard deletes Jobs by name.
	Discard(ctx context.Context, jobs []string) error
}

// RolloutSweeper deletes what executions and records left behind.
type RolloutSweeper interface {
	// Sweep deletes stored definitions that are not used, given their hashes, and configurations that no Job mounts, once
	// they have been unused for a while.
	Sweep(ctx context.Context, used map[string]bool, now time.Time) error
	// Unused reports, from caches, whether a Sweep would find anything to do, now or later.
	Unused(ctx context.Context, used map[string]bool) (bool, error)
}

// LedgerStore is the ledger with compare-and-swap.
type LedgerStore interface {
	Get(ctx context.Context) (spec fleetv1.LedgerSpec, version string, err error)
	Put(ctx context.Context, spec fleetv1.LedgerSpec, version string) (next string, swapped bool, err error)
}

// StatusStore holds the statuses of NodeWrights.
type StatusStore interface {
	// List are the NodeWrights by name, with the statuses that are written now.
	List(ctx context.Context) (map[string]*nwv1.NodeWright, error)
	Write(ctx context.Context, old *nwv1.NodeWright, status nwv1.NodeWrightStatus) error
	// Finalize adds or removes our finalizer. gone says that the object is, or that it is being deleted without having one.
	Finalize(ctx context.Context, change plan.FinalizerChange) (gone bool, err error)
}

// EventSink takes events, without a promise.
type EventSink interface{ Emit(e report.RolloutEvent) }

// ErrDeposed says that another leader has raised the ledger's epoch: this process must stop acting.
var ErrDeposed = errors.New("another leader has taken over the ledger")

// Rollout is the rollout loop. It has one worker: a pass plans all NodeWrights and nodes at once. The fields are set
// before Run and not changed afterwards.
type Rollout struct {
	Observer RolloutObserver
	Actor    RolloutActor
	Sweeper  RolloutSweeper
	Ledger   LedgerStore
	Statuses StatusStore
	Events   EventSink
	Metrics  *RolloutMetrics
	Log      *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Settings of the planner.
	Settings plan.Settings
	// Standby says why nothing may be done now, such as that NVIDIA's operator is active; empty: act. It is asked in every
	// pass that would do something. Default nil: act.
	Standby func(ctx context.Context) (string, error)
	// Parallel is how many nodes are acted on at once. Default 16.
	Parallel int
	// Interval is the least time between the starts of two passes. Default 100ms.
	Interval time.Duration
	// Timeout bounds each call that waits for the API server. Default 30s.
	Timeout time.Duration
	// KeepSucceeded and KeepFailed are how long a finished Job stays, for its logs, once its batch has settled. Default 1h and
	// 24h.
	KeepSucceeded, KeepFailed time.Duration

	wake     chan struct{}
	wakeOnce sync.Once
	memory   memory
}

// memory is what the loop keeps between passes. All of it can be lost: it is read again, or only costs a repetition.
type memory struct {
	ledger  fleetv1.LedgerSpec
	version string // of the ledger; empty: to be read again
	unsure  bool   // a write of the ledger was not answered, and none was since: it may still take effect
	epoch   int64
	evict   evictionMemory
	resting restingMemory
	pods    podMemory
	// standby is the last answer of Standby, once it was looked for.
	standby string
	looked  bool
	// occupancy of the NodeWrights that asked for it in the last pass.
	occupancy occupancyMemory
	reasons   map[reasonKey]plan.Code
	refused   map[plan.RefusedRequest]bool
	swept     time.Time // Jobs
	tidied    time.Time // stored definitions and configurations
}

// Wake asks for a pass. Many calls are one pass. It never blocks.
func (r *Rollout) Wake() {
	select {
	case r.wakes() <- struct{}{}:
	default:
	}
}

func (r *Rollout) wakes() chan struct{} {
	r.wakeOnce.Do(func() { r.wake = make(chan struct{}, 1) })
	return r.wake
}

// Run leads: it raises the ledger's epoch, waits for a view that is no older, and makes passes until ctx ends. It must
// run in one process at a time; two during a failover do no harm. It returns ErrDeposed when another leader took over.
func (r *Rollout) Run(ctx context.Context) error {
	for {
		err := r.lead(ctx)
		if err == nil {
			break
		}
		r.Log.Error("cannot take the lead", "error", err)
		if !r.sleep(ctx, retryAfterError) {
			return nil
		}
	}
	r.Log.Info("leading", "epoch", r.memory.epoch)
	for failures := 0; ctx.Err() == nil; {
		wait, err := r.timedPass(ctx)
		if errors.Is(err, ErrDeposed) {
			return err
		}
		failures++
		if err == nil {
			failures = 0
		}
		if err != nil && ctx.Err() == nil {
			r.Log.Error("pass had errors", "error", err)
			wait = min(wait, retryAfterError*time.Duration(min(failures, 10)))
		}
		r.rest(ctx, wait)
	}
	return nil
}

const (
	// retryAfterError is the wait after a pass with errors; it grows tenfold at most.
	retryAfterError = time.Second
	// standbyAgain is how often a process that must not act looks whether it may.
	standbyAgain = 30 * time.Second
	// idle is the longest sleep: a pass without a cause, in case a cause was missed.
	idle = 5 * time.Minute
)

// lead makes this process the leader: first the epoch, so that no write of an earlier leader succeeds from now on, then
// the view.
func (r *Rollout) lead(ctx context.Context) error {
	spec, version, err := r.getLedger(ctx)
	if err != nil {
		return err
	}
	spec.Epoch++
	next, swapped, err := r.putLedger(ctx, spec, version)
	if err != nil {
		return err
	}
	if !swapped {
		return errors.New("the ledger changed while its epoch was raised")
	}
	r.memory.ledger, r.memory.version, r.memory.epoch = spec, next, spec.Epoch
	return r.Observer.Fresh(ctx)
}

// timedPass makes a pass and says how long to rest at most.
func (r *Rollout) timedPass(ctx context.Context) (time.Duration, error) {
	start := r.Now()
	next, err := r.Pass(ctx)
	r.Metrics.pass(r.Now().Sub(start), err)
	if next.IsZero() {
		return idle, err
	}
	return max(0, min(idle, next.Sub(r.Now()))), err
}

// Pass gathers, plans, writes the ledger, acts and reports. It returns the next instant at which time alone changes the
// answer; zero: never.
func (r *Rollout) Pass(ctx context.Context) (time.Time, error) {
	in, err := r.gather(ctx)
	if err != nil {
		return time.Time{}, err
	}
	out, podsErr, err := r.decide(ctx, &in)
	if err != nil {
		return time.Time{}, err
	}
	if written, err := r.commit(ctx, out.Ledger); err != nil || !written {
		return in.Now, err // decide anew: nothing of this plan may be done
	}
	actErr := errors.Join(r.strand(ctx, in), r.finalize(ctx, &out), r.act(ctx, out))
	r.explain(&out, in.Nodes)
	reportErr := r.report(ctx, in, out)
	next := earlier(out.Next, r.memory.resting.next())
	if in.Standby != "" {
		next = earlier(next, in.Now.Add(standbyAgain))
	}
	return next, errors.Join(podsErr, actErr, reportErr, r.discard(ctx, in), r.sweep(ctx, in))
}

// earlier is the earlier of two instants, of which a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (r *Rollout) gather(ctx context.Context) (plan.Input, error) {
	if err := r.readLedger(ctx); err != nil {
		return plan.Input{}, err
	}
	in, err := r.Observer.Observe(ctx, r.Now())
	if err != nil {
		return plan.Input{}, fmt.Errorf("observe cluster: %w", err)
	}
	in.Ledger, in.Settings = r.memory.ledger, r.Settings
	if r.memory.standby != "" || !r.memory.looked {
		if in.Standby, err = r.standby(ctx); err != nil {
			return plan.Input{}, err
		}
	}
	r.memory.evict.apply(in.Nodes, in.Now, r.drainRetry())
	return in, nil
}

// standby looks whether another owner is active: at first, before anything is done, and while one is. A cluster at rest is
// not asked.
func (r *Rollout) standby(ctx context.Context) (string, error) {
	if r.Standby == nil {
		return "", nil
	}
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	reason, err := r.Standby(ctx)
	if err != nil {
		return "", fmt.Errorf("look whether anything may be done: %w", err)
	}
	switch {
	case reason != "" && reason != r.memory.standby:
		r.Log.Warn("standing by: nothing is done", "reason", reason)
	case reason == "" && r.memory.standby != "":
		r.Log.Info("acting again")
	}
	r.memory.standby, r.memory.looked = reason, true
	return reason, nil
}

// mayAct asks once more, for what is done beside the plan.
func (r *Rollout) mayAct(ctx context.Context, in plan.Input) (bool, error) {
	if in.Standby != "" {
		return false, nil
	}
	reason, err := r.standby(ctx)
	return err == nil && reason == "", err
}

// decide plans, and plans to do nothing if it turns out that another owner is active.
func (r *Rollout) decide(ctx context.Context, in *plan.Input) (out plan.Output, podsErr, err error) {
	out, podsErr = r.plan(ctx, in)
	if in.Standby != "" || out.Ledger == nil && len(out.Decisions) == 0 {
		return out, podsErr, nil
	}
	if in.Standby, err = r.standby(ctx); err != nil || in.Standby == "" {
		return out, podsErr, err
	}
	return plan.Compute(*in), podsErr, nil
}

// bounded is a context for one call that waits for the API server.
func (r *Rollout) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, orDefault(r.Timeout, 30*time.Second))
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

func (r *Rollout) getLedger(ctx context.Context) (fleetv1.LedgerSpec, string, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	return r.Ledger.Get(ctx)
}

func (r *Rollout) putLedger(ctx context.Context, spec fleetv1.LedgerSpec, version string) (string, bool, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	return r.Ledger.Put(ctx, spec, version)
}

// readLedger reads the ledger again when a write of it was refused, and, when an answer was lost, in each pass until a
// write is answered: the lost one may take effect after the first look.
func (r *Rollout) readLedger(ctx context.Context) error {
	if r.memory.version != "" && !r.memory.unsure {
		return nil
	}
	spec, version, err := r.getLedger(ctx)
	if err != nil {
		return err
	}
	if spec.Epoch != r.memory.epoch {
		return ErrDeposed
	}
	r.memory.ledger, r.memory.version = spec, version
	return nil
}

// commit swaps the ledger. written is false if somebody else wrote it.
func (r *Rollout) commit(ctx context.Context, spec *fleetv1.LedgerSpec) (written bool, err error) {
	if spec == nil {
		return true, nil
	}
	next, swapped, err := r.putLedger(ctx, *spec, r.memory.version)
	if err != nil || !swapped {
		r.memory.version, r.memory.unsure = "", r.memory.unsure || err != nil
		return false, err
	}
	r.memory.ledger, r.memory.version, r.memory.unsure = *spec, next, false
	return true, nil
}

// rest sleeps until something changed or the wait is over, and at least Interval.
func (r *Rollout) rest(ctx context.Context, wait time.Duration) {
	interval := orDefault(r.Interval, 100*time.Millisecond)
	if !r.sleep(ctx, interval) || wait <= interval {
		return
	}
	timer := time.NewTimer(wait - interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wakes():
	case <-timer.C:
	}
}

// sleep reports false if ctx ended.
func (r *Rollout) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
