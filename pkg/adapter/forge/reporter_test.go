package forge

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// memoryForge is a forge in memory: rows in the order of their arrival, and answers that a test prescribes.
type memoryForge struct {
	mu     sync.Mutex // guards all of it, and what answer looks at
	limits Capabilities
	fixed  bool // the text of a state cannot be changed
	rows   []Status
	posts  int
	reads  int
	// answer, where set, decides about a post; stored says whether the row is kept in spite of an error.
	answer func(s Status) (stored bool, err error)
	// slow, where set, delays a post; the row arrives even if the caller gave up.
	slow func(s Status) time.Duration
}

func (f *memoryForge) Capabilities() Capabilities {
	limits := f.limits
	limits.LiveText = !f.fixed
	return limits
}

func (f *memoryForge) Statuses(_ context.Context, commit string) ([]Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	byContext := map[string]Status{}
	for _, row := range f.rows {
		if row.Commit == commit {
			byContext[row.Context] = row
		}
	}
	return sortedStatuses(byContext), nil
}

func (f *memoryForge) SetStatus(ctx context.Context, s Status) error {
	f.locked(func() { f.posts++ })
	delay := time.Duration(0)
	if f.slow != nil {
		delay = f.slow(s)
	}
	if delay > 0 {
		arrived := make(chan struct{})
		time.AfterFunc(delay, func() { f.add(s); close(arrived) })
		select {
		case <-arrived:
			return nil
		case <-ctx.Done():
			return redactor{}.fail(Retry, "post", ctx.Err())
		}
	}
	stored, err := true, error(nil)
	if f.answer != nil {
		f.locked(func() { stored, err = f.answer(s) })
	}
	if stored {
		f.add(s)
	}
	return err
}

func (f *memoryForge) add(s Status) { f.locked(func() { f.rows = append(f.rows, s) }) }

func (f *memoryForge) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *memoryForge) postCount() (n int) {
	f.locked(func() { n = f.posts })
	return n
}

func (f *memoryForge) texts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, row := range f.rows {
		all = append(all, fmt.Sprintf("%s %s", row.State, row.Description))
	}
	return all
}

func want(state State, text string) Status {
	return Status{Commit: sha, Context: "fleetwright/a", State: state, Description: text}
}

// bubble runs the reporter in a bubble of fake time, and fails if a goroutine outlives it.
func bubble(t *testing.T, f *memoryForge, opts ReporterOptions, story func(r *Reporter, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReporter(f, opts)
		stop := start(t, r)
		story(r, stop)
		stop()
	})
}

func start(t *testing.T, r *Reporter) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx); close(ended) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func after(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}

func TestReporterPostsChangesOnly(t *testing.T) {
	f := &memoryForge{}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		for range 50 {
			require.NoError(t, r.Want(want(Pending, "1/4 nodes")))
			after(time.Minute)
		}
		require.NoError(t, r.Want(want(Success, "4/4 nodes")))
		after(time.Second)
	})
	require.Equal(t, []string{"pending 1/4 nodes", "success 4/4 nodes"}, f.texts())
	require.Equal(t, 2, f.reads, "before the first post, and a minute later: a call of the process before may have been under way")
}

func TestDeliveryReport_CS04_RestartPostsNothingTwice(t *testing.T) {
	f := &memoryForge{rows: []Status{want(Success, "4/4 nodes")}}
	for range 3 { // three processes, one after the other
		bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
			require.NoError(t, r.Want(want(Success, "4/4 nodes")))
			after(time.Hour)
		})
	}
	require.Zero(t, f.postCount())
}

func TestReporterComparesWhatTheForgeCanShow(t *testing.T) {
	f := &memoryForge{limits: Capabilities{DescriptionLimit: 5}}
	for range 2 {
		bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
			require.NoError(t, r.Want(want(Failure, "a long text")))
			after(time.Second)
		})
	}
	require.Equal(t, []string{"failure a lo…"}, f.texts())
}

func TestReporterCoalescesProgressButNotTheEnd(t *testing.T) {
	f := &memoryForge{}
	bubble(t, f, ReporterOptions{MinInterval: 30 * time.Second}, func(r *Reporter, _ func()) {
		for i := range 35 {
			require.NoError(t, r.Want(want(Pending, fmt.Sprintf("second %d", i))))
			after(time.Second)
		}
		require.NoError(t, r.Want(want(Success, "done")))
		synctest.Wait()
		require.Equal(t, []string{"pending second 0", "pending second 29", "success done"}, f.texts())
	})
}

func TestDeliveryReport_CS22_LostAnswerMakesNoDuplicate(t *testing.T) {
	f := &memoryForge{}
	answers := []error{
		&ProviderError{Class: Retry, Op: "post", Message: "server answered 502 Bad Gateway"},
		&ProviderError{Class: Retry, Op: "post", Message: "connection reset"}, // after the row was stored
	}
	f.answer = func(Status) (bool, error) {
		err := answers[0]
		answers = answers[1:]
		return len(answers) == 0, err
	}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		require.NoError(t, r.Want(want(Success, "done")))
		after(time.Hour)
	})
	require.Equal(t, []string{"success done"}, f.texts())
	require.Equal(t, 2, f.postCount())
}

func TestDeliveryReport_CS01_FinalFailureArrivesAfterAnOutage(t *testing.T) {
	f := &memoryForge{}
	down := true
	f.answer = func(Status) (bool, error) {
		if down {
			return false, &ProviderError{Class: Retry, Op: "post", Message: "no route to host"}
		}
		return true, nil
	}
	var seen []string
	opts := ReporterOptions{Observe: func(s Status, err error) { seen = append(seen, fmt.Sprint(s.State, " ", err)) }}
	bubble(t, f, opts, func(r *Reporter, _ func()) {
		require.NoError(t, r.Want(want(Pending, "begins")))
		after(90 * time.Second)
		require.NoError(t, r.Want(want(Failure, "halted")))
		after(90 * time.Second)
		f.locked(func() { down = false })
		after(10 * time.Minute)
	})
	require.Equal(t, []string{"failure halted"}, f.texts(), "what was superseded during the outage is not posted")
	require.Equal(t, []string{"pending post: no route to host", "failure <nil>"}, seen, "one event for one kind of failure")
	require.LessOrEqual(t, f.postCount(), 9, "2s, 4s, 8s ... between tries")
}

func TestReporterHonoursRetryAfterForTheWholeForge(t *testing.T) {
	f := &memoryForge{}
	first := true
	f.answer = func(Status) (bool, error) {
		if first {
			first = false
			return false, &ProviderError{Class: Wait, Op: "post", Message: "429", RetryAfter: 10 * time.Minute}
		}
		return true, nil
	}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		require.NoError(t, r.Want(want(Success, "a")))
		synctest.Wait()
		other := want(Success, "b")
		other.Context = "fleetwright/b"
		require.NoError(t, r.Want(other))
		after(10*time.Minute - time.Second)
		require.Equal(t, 1, f.postCount())
		after(2 * time.Second)
		require.Equal(t, []string{"success a", "success b"}, f.texts())
	})
}

func TestDeliveryReport_CS12_OneBadContextDoesNotHoldUpOthers(t *testing.T) {
	f := &memoryForge{}
	bad := 0
	f.answer = func(s Status) (bool, error) {
		if s.Context == "fleetwright/0" {
			bad++
			return false, permanent("post", "422: too many statuses")
		}
		return true, nil
	}
	events := 0
	opts := ReporterOptions{Observe: func(_ Status, err error) {
		if err != nil {
			events++
		}
	}}
	bubble(t, f, opts, func(r *Reporter, _ func()) {
		for minute := range 170 {
			for i := range 5 {
				s := want(Pending, fmt.Sprintf("minute %d", minute))
				s.Context = fmt.Sprintf("fleetwright/%d", i)
				require.NoError(t, r.Want(s))
			}
			after(time.Minute)
		}
	})
	require.Len(t, f.rows, 4*170)
	require.Equal(t, 3, bad, "once an hour")
	require.Equal(t, 1, events)
}

func TestPermanentErrorIsTriedAgainWhenTheStateChanges(t *testing.T) {
	f := &memoryForge{}
	f.answer = func(s Status) (bool, error) {
		return s.State == Failure, errIf(s.State != Failure, permanent("post", "no"))
	}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		require.NoError(t, r.Want(want(Pending, "1")))
		after(time.Minute)
		require.NoError(t, r.Want(want(Failure, "2")))
		after(time.Second)
		require.Equal(t, []string{"failure 2"}, f.texts())
	})
}

func errIf(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

func TestUnknownCommitIsGivenUpAfterAFewTries(t *testing.T) {
	f := &memoryForge{}
	f.answer = func(Status) (bool, error) {
		return false, &ProviderError{Class: UnknownCommit, Op: "post", Message: "no commit"}
	}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		require.NoError(t, r.Want(want(Pending, "1")))
		after(59 * time.Minute)
		require.Equal(t, unknownCommitTries, f.postCount())
	})
}

func TestNewProviderEndsAHold(t *testing.T) {
	f, renewed := &memoryForge{}, &memoryForge{}
	f.answer = func(Status) (bool, error) { return false, permanent("post", "the server does not accept the token") }
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		require.NoError(t, r.Want(want(Success, "done")))
		after(time.Minute)
		r.SetProvider(renewed)
		after(time.Second)
	})
	require.Equal(t, []string{"success done"}, renewed.texts())
}

// A post that the client gave up on arrives at the server after the newer one: the reporter reads back and puts it right.
func TestOlderValueThatArrivesLateIsPutRight(t *testing.T) {
	f := &memoryForge{}
	f.slow = func(s Status) time.Duration {
		if s.State == Pending {
			return 50 * time.Second
		}
		return 0
	}
	bubble(t, f, ReporterOptions{CallTimeout: 30 * time.Second}, func(r *Reporter, _ func()) {
		require.NoError(t, r.Want(want(Pending, "begins")))
		after(time.Second)
		require.NoError(t, r.Want(want(Success, "done")))
		after(40 * time.Second)
		require.Equal(t, []string{"success done"}, f.texts())
		after(15 * time.Second)
		require.Equal(t, []string{"success done", "pending begins"}, f.texts())
		after(2 * time.Minute)
		require.Equal(t, []string{"success done", "pending begins", "success done"}, f.texts())
	})
}

func TestDeliveryReport_CS06_StopDrainsWhatIsDue(t *testing.T) {
	f := &memoryForge{}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, stop func()) {
		require.NoError(t, r.Want(want(Pending, "1")))
		after(time.Second)
		require.NoError(t, r.Want(want(Pending, "2"))) // would wait for its interval
		synctest.Wait()
		stop()
	})
	require.Equal(t, []string{"pending 1", "pending 2"}, f.texts())
}

func TestStopDuringACallStillPostsTheValue(t *testing.T) {
	f := &memoryForge{}
	f.slow = func(Status) time.Duration { return 3 * time.Second }
	bubble(t, f, ReporterOptions{DrainTimeout: 5 * time.Second}, func(r *Reporter, stop func()) {
		require.NoError(t, r.Want(want(Success, "done")))
		after(time.Second)
		stop()
	})
	require.NotEmpty(t, f.texts())
	require.Equal(t, "success done", f.texts()[len(f.texts())-1])
}

func TestSecondRunIsRefused(t *testing.T) {
	f := &memoryForge{}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		synctest.Wait()
		require.ErrorIs(t, r.Run(t.Context()), ErrRunning)
	})
}

func TestWantRefusesWhatNoForgeTakes(t *testing.T) {
	r := NewReporter(&memoryForge{limits: Capabilities{ContextLimit: 10}}, ReporterOptions{})
	require.EqualError(t, r.Want(want(Pending, "")), `check status: context "fleetwright/a" has 13 characters (allowed: 10)`)
	require.EqualError(t, r.Want(Status{}), "check status: no commit: the revision is not known yet")
}

func TestReporterForgetsSettledStatuses(t *testing.T) {
	f := &memoryForge{}
	bubble(t, f, ReporterOptions{}, func(r *Reporter, _ func()) {
		after(verifyDelay)
		for i := range 3 * keepEntries {
			s := want(Success, "done")
			s.Commit = fmt.Sprintf("%040x", i)
			require.NoError(t, r.Want(s))
			synctest.Wait()
		}
		require.LessOrEqual(t, len(r.entries), keepEntries)
	})
	require.Equal(t, 3*keepEntries, f.postCount())
}

func TestBackoffIsBounded(t *testing.T) {
	r := NewReporter(&memoryForge{}, ReporterOptions{})
	var got []string
	for _, failures := range []int{1, 2, 3, 8, 9, 64} {
		got = append(got, r.backoff(failures).String())
	}
	require.Equal(t, "2s 4s 8s 4m16s 5m0s 5m0s", strings.Join(got, " "))
}
