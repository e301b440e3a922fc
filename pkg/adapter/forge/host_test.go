package forge_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
)

// meter counts as the metrics do.
type meter struct {
	requests  map[string]int
	remaining map[string]int
}

func newMeter() *meter { return &meter{map[string]int{}, map[string]int{}} }

func (m *meter) Request(kind, op string, code int) { m.requests[kind+" "+op+" "+strconv.Itoa(code)]++ }
func (m *meter) Remaining(host string, n int)      { m.remaining[host] = n }

// budget is a host with a clock that a test sets, and two providers of two repositories that share it.
type budget struct {
	server   *forgetest.Server
	now      time.Time
	meter    *meter
	one, two forge.Provider
}

func newBudget(t *testing.T, kind forge.Kind, pace forge.Pace) *budget {
	b := &budget{server: forgetest.NewServer(t, kind), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), meter: newMeter()}
	clock := func() time.Time { return b.now }
	host := forge.NewHost(forge.HostOptions{Name: "git.example.com", Pace: pace, Meter: b.meter, Now: clock})
	share := func(c *forge.Config) { c.Host, c.Now = host, clock }
	b.one, b.two = provider(t, kind, b.server, share), provider(t, kind, b.server, share)
	return b
}

// post posts a status to a commit of its own.
func (b *budget) post(t *testing.T, p forge.Provider) *forge.ProviderError {
	err := p.SetStatus(t.Context(), forge.Status{Commit: b.server.AddCommit(), Context: "fleetwright/a", State: forge.Success})
	if err == nil {
		return nil
	}
	var perr *forge.ProviderError
	require.ErrorAs(t, err, &perr)
	return perr
}

func TestWritesArePacedOverAllRepositoriesOfAServer(t *testing.T) {
	for _, kind := range []forge.Kind{forge.KindGitHub, forge.KindGitea} {
		b := newBudget(t, kind, forge.Pace{Burst: 3, Every: 10 * time.Second})
		require.Nil(t, b.post(t, b.one))
		require.Nil(t, b.post(t, b.two))
		require.Nil(t, b.post(t, b.one))
		refused := b.post(t, b.two)
		require.Equal(t, forge.Wait, refused.Class)
		require.Contains(t, refused.Error(), "127.0.0.1 gets the next request in 10s")
		require.InDelta(t, 10*time.Second, refused.RetryAfter, float64(10*time.Millisecond))
		_, err := b.one.Statuses(t.Context(), b.server.AddCommit())
		require.NoError(t, err, "reading costs nothing")
		b.now = b.now.Add(refused.RetryAfter)
		require.Nil(t, b.post(t, b.two))
		require.Equal(t, 4, b.meter.requests[string(kind)+" status_set 201"])
	}
}

// TestPacedStatusesAllArrive: the pause is no failure that anybody hears of.
func TestPacedStatusesAllArrive(t *testing.T) {
	server, heard := forgetest.NewServer(t, forge.KindGitHub), &said{}
	host := forge.NewHost(forge.HostOptions{Pace: forge.Pace{Burst: 1, Every: 5 * time.Millisecond}})
	r, _ := reporter(t, provider(t, forge.KindGitHub, server, func(c *forge.Config) { c.Host = host }), heard)
	for range 5 {
		require.NoError(t, r.Want(forge.Status{Commit: server.AddCommit(), Context: "fleetwright/a", State: forge.Success}))
	}
	settled(t, r)
	require.Equal(t, []string{"posted", "posted", "posted", "posted", "posted"}, heard.all())
}

func TestGitHubLimits(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		header map[string]string
		body   string
		waits  []time.Duration // of refusals in a row
	}{
		"secondary limit without a time": {403, nil, `{"message":"You have exceeded a secondary rate limit."}`, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute}},
		"secondary limit with a time":    {403, map[string]string{"Retry-After": "90"}, `{"message":"x"}`, []time.Duration{90 * time.Second, 90 * time.Second}},
		"429 without a time":             {429, nil, `{}`, []time.Duration{time.Minute, 2 * time.Minute}},
		"primary limit": {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767226200"},
			`{"message":"API rate limit exceeded"}`, []time.Duration{10 * time.Minute}}, // 00:10:00
	} {
		t.Run(name, func(t *testing.T) {
			b := newBudget(t, forge.KindGitHub, forge.Pace{})
			refuse := true
			b.server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				if refuse {
					w.WriteHeader(c.code)
					_, _ = w.Write([]byte(c.body))
				}
				return refuse
			})
			for i, want := range c.waits {
				got := b.post(t, b.one)
				require.Equal(t, forge.Wait, got.Class)
				require.Equal(t, want, got.RetryAfter, "refusal %d", i+1)
				require.Equal(t, forge.Wait, b.post(t, b.two).Class, "others of this host are silent too")
				require.Len(t, b.server.Calls(), i+1, "and send nothing")
				b.now = b.now.Add(want)
			}
			refuse = false
			require.Nil(t, b.post(t, b.two))
		})
	}
}

func TestForbiddenIsNoLimit(t *testing.T) {
	b := newBudget(t, forge.KindGitHub, forge.Pace{})
	b.server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-RateLimit-Remaining", "4321")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message":"Resource not accessible by personal access token"}`))
		return true
	})
	got := b.post(t, b.one)
	require.Equal(t, forge.Permanent, got.Class)
	require.EqualError(t, got, "post status (github): the token may not do this (needed: statuses:write, for plans also pull_requests:write): "+
		"Resource not accessible by personal access token")
	require.Equal(t, map[string]int{"git.example.com": 4321}, b.meter.remaining)
	require.Equal(t, map[string]int{"github status_set 403": 1}, b.meter.requests)
}
