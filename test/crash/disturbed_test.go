package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/test/cluster"
)

// disturbed plays the story once and holds the end to the undisturbed one.
func disturbed(t *testing.T, how setting) *ending {
	t.Helper()
	first := baseline(t)
	all, err := someLanes(t.Context(), 1)
	require.NoError(t, err)
	end, err := all[0].play(t.Context(), first, how)
	if err != nil {
		end.broken = append(end.broken, err.Error())
		require.NoError(t, err, end.broken)
	}
	require.Empty(t, end.faultsOf(first))
	fmt.Printf("crash suite: %s: %s, %d starts\n", t.Name(), end.took.Round(time.Millisecond), end.starts)
	return end
}

// cached are the resources that the reconciler watches while it works.
var cached = []string{"nodes", "jobs", "pods", "configmaps", "nodewrights"}

// TestWatchesThatLag holds the events of some resources back, each for another time, so that the caches disagree: a Job is
// seen as ended while its node is not seen as cordoned, and the other way round.
func TestWatchesThatLag(t *testing.T) {
	seed := uint64(number(t, "FLEETWRIGHT_CRASH_SEED", 0))
	random := rand.New(rand.NewPCG(seed, 2))
	lag := map[string]time.Duration{}
	for _, resource := range cached {
		lag[resource] = []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond}[random.IntN(3)]
	}
	slowest := cached[random.IntN(len(cached))]
	lag[slowest] = 1500 * time.Millisecond
	t.Logf("seed %d: %v", seed, lag)
	watch := newWatchFaults(seed)
	watch.lag = func(resource string) time.Duration { return lag[resource] }
	disturbed(t, setting{watch: watch})
}

// cuts is how often watches are cut: client-go's reflectors wait longer after each time, up to half a minute.
const cuts = 8

// TestWatchesThatBreak cuts watches, in the middle of an event too, and answers many new ones with 410, so that everything
// is listed anew.
func TestWatchesThatBreak(t *testing.T) {
	seed := uint64(number(t, "FLEETWRIGHT_CRASH_SEED", 0))
	watch := newWatchFaults(seed)
	watch.gone = 0.3
	end := disturbed(t, setting{watch: watch, disturb: func(ctx context.Context, _ *story) {
		random := rand.New(rand.NewPCG(seed, 3))
		for range cuts {
			wait(ctx, time.Duration(200+random.IntN(1000))*time.Millisecond)
			watch.cut()
		}
	}})
	require.Equal(t, 1, end.starts)
	require.NotZero(t, watch.cuts)
	require.NotZero(t, watch.lists)
	t.Logf("seed %d: %d watches cut, %d answered by 410", seed, watch.cuts, watch.lists)
}

// TestLeadersOverlap lets three processes compete for the Lease and keeps each one that leads from it after a while: the
// next one begins while the old one still works, and goes on working until it finds itself deposed.
func TestLeadersOverlap(t *testing.T) {
	var all *candidates
	end := disturbed(t, setting{
		leaders: func(l *lane, w *writes) reconcilers {
			all = &candidates{lane: l, writes: w, number: 3, linger: leaseDuration}
			return all
		},
		disturb: func(ctx context.Context, _ *story) {
			for ctx.Err() == nil {
				wait(ctx, leaseDuration)
				all.block(ctx, 2*leaseDuration)
			}
		},
	})
	require.GreaterOrEqual(t, end.starts, 2, "the lead went from one to another")
	require.GreaterOrEqual(t, all.most, 2, "two worked at once")
	require.NotZero(t, all.deposed, "an old leader found itself deposed")
	t.Logf("%d times somebody led, %d of them were deposed by the ledger", end.starts, all.deposed)
}

// stages are the writes after which the API server goes away: in apply, in a drain, after the request of a reboot, and
// with the uncordon.
func stages(f fault) []point {
	return []point{
		{f, "create:jobs/alpha.kernel.install.r1.a1@c0", 1},
		{f, "create:pods/eviction/slow", 1},
		{f, "create:jobs/alpha.wave1.interrupt.r1.a1@c3", 1},
		{f, "patch:nodes/c3+uncordon", 1},
	}
}

// TestFieldReport_AC08_AnOutageInEachStageRepeatsNothing takes the API server away from the reconciler for longer than the
// lease lasts: after the first Job, an eviction, the request of a reboot and an uncordon. The process ends and another
// begins. Everything is done once.
func TestFieldReport_AC08_AnOutageInEachStageRepeatsNothing(t *testing.T) {
	var until atomic.Int64
	watch := newWatchFaults(0)
	how := setting{
		points: stages(outage), watch: watch,
		reachable: func(cluster.AuditEvent) bool { return time.Now().UnixNano() > until.Load() },
		onOutage: func() {
			until.Store(time.Now().Add(2 * leaseDuration).UnixNano())
			watch.cut()
		},
	}
	lead := how
	how.leaders = func(l *lane, w *writes) reconcilers {
		return &candidates{lane: l, writes: w, number: 1, how: lead}
	}
	end := disturbed(t, how)
	require.Empty(t, end.writes.missed(), "each outage came")
	require.Greater(t, end.starts, 1, "the lease was lost")
	require.Equal(t, 1, end.evicted["slow"], "the pod was asked to leave once")
}

// sampled are two of the stages, by the seed, where the suite only takes a sample: a restart takes 5 to 20 seconds.
func sampled(t *testing.T, points []point) []point {
	t.Helper()
	if number(t, "FLEETWRIGHT_CRASH_EVERY", 97) == 1 {
		return points
	}
	seed := number(t, "FLEETWRIGHT_CRASH_SEED", 0)
	return []point{points[seed%4], points[(seed+2)%4]}
}

// TestFieldReport_D04_ARestartOfTheAPIServerInEachStageRepeatsNothing kills the real API server, with all watches, in the
// same places. The same process goes on. Memory is not measured here.
func TestFieldReport_D04_ARestartOfTheAPIServerInEachStageRepeatsNothing(t *testing.T) {
	all, err := someLanes(t.Context(), 1)
	require.NoError(t, err)
	failed := make(chan error, 8)
	end := disturbed(t, setting{points: sampled(t, stages(restart)), onRestart: func() {
		all[0].cluster.Kill()
		failed <- all[0].cluster.Restart(t.Context())
	}})
	require.Empty(t, end.writes.missed(), "each restart came")
	require.Equal(t, 1, end.starts, "the process never ended")
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, end.evicted["slow"], 1, "the pod was asked to leave once; the request log may have lost it with the server")
}
