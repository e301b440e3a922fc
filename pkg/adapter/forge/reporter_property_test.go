package forge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// adversity answers posts at random: taken, lost on the way, taken with the answer lost, told to wait, refused for good, late.
type adversity struct {
	random *rand.Rand
	calm   bool
}

func (a *adversity) answer(Status) (bool, error) {
	if a.calm {
		return true, nil
	}
	switch a.random.IntN(8) {
	case 0:
		return false, &ProviderError{Class: Retry, Op: "post", Message: "502"}
	case 1:
		return true, &ProviderError{Class: Retry, Op: "post", Message: "the answer was lost"}
	case 2:
		return false, &ProviderError{Class: Wait, Op: "post", Message: "429", RetryAfter: time.Minute}
	case 3:
		return false, &ProviderError{Class: Permanent, Op: "post", Message: "403"}
	case 4:
		return false, &ProviderError{Class: UnknownCommit, Op: "post", Message: "404"}
	case 5:
		return true, errors.New("something odd")
	}
	return true, nil
}

// commitStory is what one commit is wanted to show, in order: progress, then its one end.
func commitStory(random *rand.Rand, commit string) []Status {
	var out []Status
	for i := range 1 + random.IntN(4) {
		out = append(out, Status{Commit: commit, Context: "fleetwright/a", State: Pending, Description: fmt.Sprintf("%d/4 nodes", i)})
	}
	ends := []State{Success, Failure, Error}
	return append(out, Status{Commit: commit, Context: "fleetwright/a", State: ends[random.IntN(3)], Description: "the end"})
}

// TestReporterTellsOneEndWhateverHappens: with failures of every kind, calls that arrive late, and processes that are killed and
// started, no commit ever shows an end before it was wanted or another than the one that was wanted, and in the end each shows it.
func TestReporterTellsOneEndWhateverHappens(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) { oneHistory(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func oneHistory(t *testing.T, random *rand.Rand) {
	trouble := &adversity{random: rand.New(rand.NewPCG(random.Uint64(), 1))} // of its own: it is asked from the Reporter's goroutine
	f := &memoryForge{answer: trouble.answer, fixed: random.IntN(2) == 0}
	f.slow = func(Status) time.Duration {
		late := time.Duration(0)
		f.locked(func() {
			if !trouble.calm && trouble.random.IntN(6) == 0 {
				late = time.Duration(trouble.random.IntN(45)) * time.Second
			}
		})
		return late
	}
	options := ReporterOptions{DrainTimeout: time.Nanosecond}
	r, wanted := NewReporter(f, options), map[string]Status{}
	stop := start(t, r)
	check := func() {
		f.locked(func() {
			for _, row := range f.rows {
				last := wanted[row.Commit]
				require.False(t, row.State.Final() && row.State != last.State, "%s shows %s, wanted is %s", row.Commit[:4], row.State, last.State)
			}
		})
	}
	for n := range 4 {
		commit := fmt.Sprintf("%040x", n+1)
		for _, s := range commitStory(random, commit) {
			wanted[commit] = s
			require.NoError(t, r.Want(s))
			after(time.Duration(random.IntN(90)) * time.Second)
			check()
			if random.IntN(4) == 0 { // killed; the next process is told what is wanted now
				stop()
				r = NewReporter(f, options)
				stop = start(t, r)
				for _, s := range wanted {
					require.NoError(t, r.Want(s))
				}
			}
		}
	}
	f.locked(func() { trouble.calm = true })
	after(3 * time.Hour)
	stop()
	check()
	for commit, want := range wanted {
		all, err := f.Statuses(t.Context(), commit)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, want.State, all[0].State)
	}
	require.Zero(t, r.Pending())
}
