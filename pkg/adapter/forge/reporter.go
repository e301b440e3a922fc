package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// Clock is the time as the Reporter sees it. k8s.io/utils/clock and its fake satisfy it.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// ReporterOptions tune a [Reporter]. Zero values mean the defaults.
type ReporterOptions struct {
	// Clock is the source of time. Default: the system's.
	Clock Clock
	// MinInterval is the least time between two posts of one context that differ in text only. A change of state is posted at
	// once. Default 30s.
	MinInterval time.Duration
	// CallTimeout bounds one call of the provider. Default 30s.
	CallTimeout time.Duration
	// BackoffBase is the pause after the first failure; it doubles up to BackoffMax. Defaults 2s and 5m.
	BackoffBase, BackoffMax time.Duration
	// PermanentHold is the pause after an error that only a person can cure, unless the wanted state changes. Default 1h.
	PermanentHold time.Duration
	// DrainTimeout is how long Run goes on posting what is due after its context ended. Default 5s.
	DrainTimeout time.Duration
	// Observe is told of each posted status (nil error) and of each failure whose text is new for its context. It is called
	// from Run's goroutine and must not block. Optional.
	Observe func(s Status, err error)
}

const (
	// unknownCommitTries is how often a commit that the forge does not have is tried before the error counts as permanent.
	unknownCommitTries = 5
	// verifyDelay is when a status is read back after a post whose predecessor may still be under way to the server: one that
	// timed out, or one of the process that was killed before this one started.
	verifyDelay = time.Minute
	// keepEntries is how many settled statuses are remembered; a forgotten one costs one read when it is wanted again.
	// The reviewer wants those of a thousand open pull requests again and again.
	keepEntries = 4096
)

func (o ReporterOptions) withDefaults() ReporterOptions {
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Observe == nil {
		o.Observe = func(Status, error) {}
	}
	o.MinInterval = cmp.Or(o.MinInterval, 30*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, 30*time.Second)
	o.BackoffBase = cmp.Or(o.BackoffBase, 2*time.Second)
	o.BackoffMax = cmp.Or(o.BackoffMax, 5*time.Minute)
	o.PermanentHold = cmp.Or(o.PermanentHold, time.Hour)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	return o
}

// Reporter makes a forge show what its caller wants, and is the only writer to that forge in the process. It is level-triggered:
// [Reporter.Want] replaces the wanted status of a (commit, context), [Reporter.Run] compares it with what the forge has and posts
// on change. Calls are made one after the other, so a value can never overtake a newer one; one that fails does not hold up others.
type Reporter struct {
	opts ReporterOptions
	wake chan struct{}

	mu       sync.Mutex
	provider Provider
	entries  map[key]*entry
	seq      uint64    // grows with each change of a wanted value
	hostOff  time.Time // the forge asked for silence until then
	running  bool
	started  time.Time // of Run: a call of the process before may be under way until some time after it
}

type key struct{ commit, context string }

// NewReporter prepares a Reporter; nothing is sent before Run.
func NewReporter(p Provider, opts ReporterOptions) *Reporter {
	return &Reporter{opts: opts.withDefaults(), wake: make(chan struct{}, 1), provider: p, entries: map[key]*entry{}}
}

// SetProvider replaces the provider, for example after a credential was renewed. Everything on hold is tried again at once.
func (r *Reporter) SetProvider(p Provider) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.provider, r.hostOff = p, time.Time{}
	for _, e := range r.entries {
		e.release()
	}
	r.poke()
}

// Want sets what the commit shall show under the context, and returns at once. An equal value changes nothing. The error is a
// permanent [*ProviderError] for a status that no forge can take.
func (r *Reporter) Want(s Status) error {
	if err := s.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	limits := r.provider.Capabilities()
	if length := utf8.RuneCountInString(s.Context); limits.ContextLimit > 0 && length > limits.ContextLimit {
		return permanent("check status", fmt.Sprintf("context %q has %d characters (allowed: %d)", s.Context, length, limits.ContextLimit))
	}
	s = limits.Fit(s)
	k := key{s.Commit, s.Context}
	e := r.entries[k]
	if e == nil {
		r.evict()
		e = &entry{}
		r.entries[k] = e
	}
	e.fixedText = !limits.LiveText
	if e.wanted.Same(s) {
		return nil
	}
	r.seq++
	e.want(s, r.seq)
	r.poke()
	return nil
}

// Pending is how many statuses are wanted and not yet known to be shown.
func (r *Reporter) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.entries {
		if e.differs() {
			n++
		}
	}
	return n
}

// Forget drops what is wanted under a context: another Reporter takes over. A call that is under way may still take effect.
func (r *Reporter) Forget(context string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.entries {
		if k.context == context {
			delete(r.entries, k)
		}
	}
}

// evict makes room by forgetting the settled statuses that were wanted longest ago.
func (r *Reporter) evict() {
	if len(r.entries) < keepEntries {
		return
	}
	var settled []key
	for k, e := range r.entries {
		if !e.needed() {
			settled = append(settled, k)
		}
	}
	slices.SortFunc(settled, func(a, b key) int { return cmp.Compare(r.entries[a].seq, r.entries[b].seq) })
	for _, k := range settled[:min(len(settled), keepEntries/4)] {
		delete(r.entries, k)
	}
}

func (r *Reporter) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // a wake-up is waiting already
	}
}

// ErrRunning is returned by a second Run: two writers could overtake each other.
var ErrRunning = errors.New("run status reporter: it runs already")

// Run posts until ctx ends, then posts what is due within DrainTimeout and returns nil. It leaves no goroutine behind.
func (r *Reporter) Run(ctx context.Context) error {
	if !r.start() {
		return ErrRunning
	}
	defer r.stop()
	for ctx.Err() == nil {
		step, at := r.next(true)
		now := r.opts.Clock.Now()
		if step != nil && !at.After(now) {
			r.do(ctx, step)
			continue
		}
		var timer <-chan time.Time
		if step != nil {
			timer = r.opts.Clock.After(at.Sub(now))
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer:
		}
	}
	r.drain(ctx)
	return nil
}

func (r *Reporter) start() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		return false
	}
	r.running, r.started = true, r.opts.Clock.Now()
	return true
}

func (r *Reporter) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
}

// drain gives every status that is due one more try; what waits for a back-off or the forge stays for the next start.
func (r *Reporter) drain(ended context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), r.opts.DrainTimeout)
	defer cancel()
	for ctx.Err() == nil {
		step, at := r.next(false)
		if step == nil || at.After(r.opts.Clock.Now()) {
			return
		}
		r.do(ctx, step)
	}
}

// next is the entry that is due first, and when; nil if everything is settled. Without pacing MinInterval is ignored.
func (r *Reporter) next(pacing bool) (*step, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *entry
	var bestAt time.Time
	for _, e := range r.entries {
		if !e.needed() {
			continue
		}
		at := e.due(r.opts.MinInterval, pacing)
		if at.Before(r.hostOff) {
			at = r.hostOff
		}
		if best == nil || earlier(e, at, best, bestAt) {
			best, bestAt = e, at
		}
	}
	if best == nil {
		return nil, time.Time{}
	}
	return &step{entry: best, provider: r.provider, value: best.wanted, read: !best.known || best.verifying()}, bestAt
}

// earlier orders by time, then final states first, then as they were wanted.
func earlier(a *entry, at time.Time, b *entry, bt time.Time) bool {
	if !at.Equal(bt) {
		return at.Before(bt)
	}
	if a.wanted.State.Final() != b.wanted.State.Final() {
		return a.wanted.State.Final()
	}
	return a.seq < b.seq
}

// step is one call to make: a read or a post of the value that was wanted when the step was chosen.
type step struct {
	entry    *entry
	provider Provider
	value    Status
	read     bool
}

// do makes the call without holding the lock, then notes the outcome.
func (r *Reporter) do(ctx context.Context, s *step) {
	call, cancel := context.WithTimeout(ctx, r.opts.CallTimeout)
	defer cancel()
	var found Status
	var err error
	if s.read {
		found, err = s.lookUp(call)
	} else {
		err = s.provider.SetStatus(call, s.value)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		r.note(func(now time.Time) bool { s.entry.lostSight(now); return false })
		return
	}
	if r.note(func(now time.Time) bool { return r.outcome(s, found, err, now) }) {
		r.opts.Observe(s.value, err)
	}
}

func (s *step) lookUp(ctx context.Context) (Status, error) {
	all, err := s.provider.Statuses(ctx, s.value.Commit)
	if err != nil {
		return Status{}, err
	}
	i := slices.IndexFunc(all, func(have Status) bool { return have.Context == s.value.Context })
	if i < 0 {
		return Status{}, nil
	}
	return all[i], nil
}

func (r *Reporter) note(change func(now time.Time) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return change(r.opts.Clock.Now())
}

// outcome writes down what a call meant, and says whether the observer shall know.
func (r *Reporter) outcome(s *step, found Status, err error, now time.Time) bool {
	e := s.entry
	if err != nil && ClassOf(err) != AlreadyThere {
		return r.failed(e, err, now)
	}
	e.doubt(r.started)
	if s.read {
		e.seen(found, now)
		return false
	}
	e.posted(s.value, now)
	return true
}

func (r *Reporter) failed(e *entry, err error, now time.Time) bool {
	class := ClassOf(err)
	e.failures++
	switch {
	case class == Wait:
		e.failures = 0
		var perr *ProviderError
		errors.As(err, &perr)
		r.hostOff = now.Add(perr.RetryAfter)
	case class == Permanent, class == UnknownCommit && e.failures >= unknownCommitTries:
		e.hold(now.Add(r.opts.PermanentHold))
	case class == UnknownCommit:
		e.notBefore = now.Add(r.backoff(e.failures))
	default:
		e.lostSight(now)
		e.notBefore = now.Add(r.backoff(e.failures))
	}
	var perr *ProviderError
	if errors.As(err, &perr) && perr.quiet {
		return false
	}
	return e.newFailure(err.Error())
}

// backoff doubles from BackoffBase with each failure: 2s, 4s, 8s ... up to BackoffMax.
func (r *Reporter) backoff(failures int) time.Duration {
	shift := min(failures-1, 30)
	d := r.opts.BackoffBase << shift
	if d <= 0 || d > r.opts.BackoffMax {
		return r.opts.BackoffMax
	}
	return d
}
