package forge

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Meter counts what is asked of forges. Its methods must not block.
type Meter interface {
	// Request tells of one answer; code 0 means that there was none. Kind and op are short constants.
	Request(kind, op string, code int)
	// Remaining tells how many requests a server says are left of its limit.
	Remaining(host string, n int)
}

type noMeter struct{}

func (noMeter) Request(string, string, int) {}
func (noMeter) Remaining(string, int)       {}

// Pace is how fast may be written to one server: Burst at once, then one for each Every. The zero value means no limit.
type Pace struct {
	Burst int
	Every time.Duration
}

// GitHubPace keeps the reconciler and the reviewer together at GitHub's 80 writes a minute and 500 an hour: 30 and 225 more for
// each of the two. DefaultPace is for servers that publish no such limit.
var (
	GitHubPace  = Pace{Burst: 30, Every: 16 * time.Second}
	DefaultPace = Pace{Burst: 60, Every: time.Second}
)

// HostOptions describe a server.
type HostOptions struct {
	// Name of it in metrics, for example github.com.
	Name string
	// Pace of writing. Default: no limit.
	Pace Pace
	// Meter counts requests. Optional.
	Meter Meter
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Host is the budget of one server, shared by all providers that speak to it: writes are paced over all repositories, and who
// was asked to wait stays silent in all of them.
type Host struct {
	opts HostOptions

	mu     sync.Mutex
	left   float64 // writes that may be made at once
	at     time.Time
	silent map[string]*silence // by credential: limits belong to a user
}

type silence struct {
	until   time.Time
	strikes int // refusals in a row
}

// maxSilence bounds pauses, those that the server names and those that double because it names none.
const maxSilence = time.Hour

// NewHost prepares a budget that is full.
func NewHost(o HostOptions) *Host {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	return &Host{opts: o, left: float64(o.Pace.Burst), at: o.Now(), silent: map[string]*silence{}}
}

// admit says how long a request has to wait; 0 takes it from the budget.
func (h *Host) admit(who string, write bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.opts.Now()
	if s := h.silent[who]; s != nil && s.until.After(now) {
		return s.until.Sub(now)
	}
	if !write || h.opts.Pace.Burst == 0 {
		return 0
	}
	every := h.opts.Pace.Every
	h.left = min(float64(h.opts.Pace.Burst), h.left+float64(now.Sub(h.at))/float64(every))
	h.at = now
	if h.left < 1 {
		return time.Duration((1-h.left)*float64(every)) + time.Millisecond
	}
	h.left--
	return 0
}

// refused notes that the server asked for silence, and returns for how long: as it says, else a minute that doubles, because
// going on to call makes a ban longer.
func (h *Host) refused(who string, wait time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.silent[who]
	if s == nil {
		s = &silence{}
		h.silent[who] = s
	}
	if wait <= 0 {
		wait = min(maxSilence, defaultWait<<min(s.strikes, 10))
		s.strikes++
	}
	s.until = h.opts.Now().Add(wait)
	return wait
}

// accepted ends the doubling.
func (h *Host) accepted(who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.silent, who)
}

type opKey struct{}

// withOp names what a request is for; the name goes into metrics.
func withOp(ctx context.Context, op string) context.Context {
	return context.WithValue(ctx, opKey{}, op)
}

func opOf(ctx context.Context) string {
	op, _ := ctx.Value(opKey{}).(string)
	return op
}

// budgeted is the transport of every provider: it asks the budget, counts, and notes what the server says about its limits.
type budgeted struct {
	next      http.RoundTripper
	host      *Host
	kind, who string
}

// RoundTrip sends the request unless the budget forbids it; then its error is a [*ProviderError] of class Wait.
func (b *budgeted) RoundTrip(req *http.Request) (*http.Response, error) {
	write := req.Method != http.MethodGet && req.Method != http.MethodHead
	if wait := b.host.admit(b.who, write); wait > 0 {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, &ProviderError{
			Class: Wait, Op: "pace requests", RetryAfter: wait, quiet: true,
			Message: fmt.Sprintf("%s gets the next request in %s", req.URL.Hostname(), wait.Round(time.Second)),
		}
	}
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		b.host.opts.Meter.Request(b.kind, opOf(req.Context()), 0)
		return nil, err
	}
	b.host.opts.Meter.Request(b.kind, opOf(req.Context()), resp.StatusCode)
	b.note(resp)
	return resp, nil
}

func (b *budgeted) note(resp *http.Response) {
	for _, name := range []string{"X-RateLimit-Remaining", "RateLimit-Remaining"} {
		if n, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get(name))); err == nil {
			b.host.opts.Meter.Remaining(b.host.opts.Name, n)
		}
	}
	now := b.host.opts.Now()
	switch {
	case resp.StatusCode < http.StatusBadRequest:
		b.host.accepted(b.who)
	case limited(resp):
		setWait(resp.Header, b.host.refused(b.who, pauseOf(resp.Header, now)))
	}
}

// limited recognises a limit by code and headers. GitHub uses 403 as well, and names some limits in the body only.
func limited(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0"
	case http.StatusServiceUnavailable:
		return resp.Header.Get("Retry-After") != ""
	}
	return false
}

// pauseOf is what the server asks for: Retry-After, else the time at which an exhausted limit is full again (Unix seconds); 0 if
// it says nothing.
func pauseOf(h http.Header, now time.Time) time.Duration {
	if wait := retryAfter(h, now); wait > 0 {
		return wait
	}
	for _, prefix := range []string{"X-", ""} {
		reset, err := strconv.ParseInt(h.Get(prefix+"RateLimit-Reset"), 10, 64)
		if err == nil && h.Get(prefix+"RateLimit-Remaining") == "0" {
			return min(max(time.Second, time.Unix(reset, 0).Sub(now)), maxSilence)
		}
	}
	return 0
}

// waitHeader carries the pause that was agreed on from the transport to whoever words the error.
const waitHeader = "Fleetwright-Wait"

func setWait(h http.Header, wait time.Duration) { h.Set(waitHeader, wait.String()) }

func waitOf(h http.Header) time.Duration {
	wait, _ := time.ParseDuration(h.Get(waitHeader))
	return wait
}
