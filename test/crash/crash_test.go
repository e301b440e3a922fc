package crash

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// number reads an environment variable.
func number(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// undisturbed is the end to which every other one is held. It is played once.
var undisturbed struct {
	once sync.Once
	end  *ending
	err  error
}

func baseline(t *testing.T) *ending {
	t.Helper()
	undisturbed.once.Do(func() {
		all, err := someLanes(t.Context(), 1)
		if err != nil {
			undisturbed.err = err
			return
		}
		undisturbed.end, undisturbed.err = all[0].play(t.Context(), nil, setting{})
	})
	require.NoError(t, undisturbed.err, "the story without a disturbance")
	t.Logf("undisturbed: %s, %v, %d writes", undisturbed.end.took, undisturbed.end.parts, len(undisturbed.end.writes.order))
	require.Empty(t, undisturbed.end.broken, "the story without a disturbance")
	return undisturbed.end
}

// TestTheEndIsTheSame plays the story twice without a disturbance: what follows compares with it.
func TestTheEndIsTheSame(t *testing.T) {
	first := baseline(t)
	all, err := someLanes(t.Context(), 1)
	require.NoError(t, err)
	second, err := all[0].play(t.Context(), first, setting{})
	require.NoError(t, err)
	require.Empty(t, second.faultsOf(first))
	t.Logf("undisturbed: %s %v and %s %v, %d writes", first.took, first.parts, second.took, second.parts, len(first.writes.order))
}

// TestEveryWrite plays the story once for each chosen point.
func TestEveryWrite(t *testing.T) {
	first := baseline(t)
	points := chosen(t, first)
	lanes, err := someLanes(t.Context(), min(len(points), number(t, "FLEETWRIGHT_CRASH_LANES", 1)))
	require.NoError(t, err)
	work := make(chan point)
	var wg sync.WaitGroup
	tally := &tally{t: t}
	begin := time.Now()
	for _, l := range lanes {
		wg.Go(func() {
			for p := range work {
				tally.add(l.attempt(t.Context(), p, first))
			}
		})
	}
	for _, p := range points {
		work <- p
	}
	close(work)
	wg.Wait()
	took := time.Since(begin)
	fmt.Printf("crash suite: %d points (%s) in %s, %s each; %d did not come up in their run, %d failed\n",
		len(points), kindsOfPoints(points), took.Round(time.Second), (took / time.Duration(len(points))).Round(time.Millisecond),
		tally.missed, tally.failed)
}

// chosen are the points that this test plays.
func chosen(t *testing.T, first *ending) []point {
	t.Helper()
	if text := os.Getenv("FLEETWRIGHT_CRASH_POINT"); text != "" {
		p, err := parsePoint(text)
		require.NoError(t, err)
		return []point{p}
	}
	all := first.writes.points()
	every, seed := number(t, "FLEETWRIGHT_CRASH_EVERY", 97), number(t, "FLEETWRIGHT_CRASH_SEED", 0)
	require.Positive(t, every, "FLEETWRIGHT_CRASH_EVERY")
	var out []point
	for i := seed % every; i < len(all); i += every {
		out = append(out, all[i])
	}
	fmt.Printf("crash suite: %d writes, %d points; every %d. from %d on: %d points\n",
		len(first.writes.order), len(all), every, seed%every, len(out))
	return out
}

// result is what one point came to.
type result struct {
	point  point
	end    *ending
	faults []string
}

func (l *lane) attempt(ctx context.Context, p point, first *ending) result {
	end, err := l.play(ctx, first, setting{points: []point{p}})
	if err != nil {
		return result{p, end, append(end.broken, err.Error())}
	}
	return result{p, end, end.faultsOf(first)}
}

// tally gathers results. It is safe for concurrent use.
type tally struct {
	t              *testing.T
	mu             sync.Mutex
	missed, failed int
}

func (y *tally) add(r result) {
	y.mu.Lock()
	defer y.mu.Unlock()
	missed := len(r.end.writes.missed()) > 0
	if missed {
		y.missed++
	}
	if len(r.faults) == 0 {
		y.t.Logf("%s: %s, %d starts, missed %t", r.point, r.end.took.Round(time.Millisecond), r.end.starts, missed)
		return
	}
	y.failed++
	y.t.Errorf("make crash POINT=%s", r.point)
	for _, f := range r.faults {
		y.t.Errorf("  %s: %s", r.point, f)
	}
}
