package crash

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// TestEveryWrite plays the story once for each chosen point, or for so many at a time as FLEETWRIGHT_CRASH_PER_RUN says.
func TestEveryWrite(t *testing.T) {
	first := baseline(t)
	points := chosen(t, first)
	runs := dealt(points, number(t, "FLEETWRIGHT_CRASH_PER_RUN", 1))
	lanes, err := someLanes(t.Context(), min(len(runs), number(t, "FLEETWRIGHT_CRASH_LANES", 1)))
	require.NoError(t, err)
	work := make(chan []point)
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
	for _, p := range runs {
		work <- p
	}
	close(work)
	wg.Wait()
	took := time.Since(begin)
	fmt.Printf("crash suite: %d points (%s) in %d runs, %s, %s each; %d did not come up in their run, %d runs failed\n",
		len(points), kindsOfPoints(points), len(runs), took.Round(time.Second),
		(took / time.Duration(len(runs))).Round(time.Millisecond), tally.missed, tally.failed)
}

// dealt deals points out to runs like cards, so that those of one run are far from each other in the story.
func dealt(points []point, perRun int) [][]point {
	runs := make([][]point, (len(points)+perRun-1)/max(perRun, 1))
	for i, p := range points {
		runs[i%len(runs)] = append(runs[i%len(runs)], p)
	}
	return runs
}

// chosen are the points that this test plays.
func chosen(t *testing.T, first *ending) []point {
	t.Helper()
	if texts := strings.Fields(os.Getenv("FLEETWRIGHT_CRASH_POINT")); len(texts) > 0 {
		out := make([]point, len(texts))
		for i, text := range texts {
			var err error
			out[i], err = parsePoint(text)
			require.NoError(t, err)
		}
		return out
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

// result is what the points of one run came to.
type result struct {
	points []point
	end    *ending
	faults []string
}

func (l *lane) attempt(ctx context.Context, points []point, first *ending) result {
	end, err := l.play(ctx, first, setting{points: points})
	if err != nil {
		return result{points, end, append(end.broken, err.Error())}
	}
	return result{points, end, end.faultsOf(first)}
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
	missed := r.end.writes.missed()
	y.missed += len(missed)
	if len(r.faults) == 0 {
		y.t.Logf("%s: %s, %d starts, missed %v", r.points, r.end.took.Round(time.Millisecond), r.end.starts, missed)
		return
	}
	y.failed++
	y.t.Errorf("make crash POINT='%s'", strings.Trim(fmt.Sprint(r.points), "[]"))
	for _, f := range r.faults {
		y.t.Errorf("  %s", f)
	}
}
