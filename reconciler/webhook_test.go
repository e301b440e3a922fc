package reconciler

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// hookWorld is a receiver whose forge speaks JSON of wake.Event, with the secret in the header Secret.
type hookWorld struct {
	*Webhooks
	fleets  []fleetv1.Fleet
	secrets map[string]string // by name; "error" fails
	reads   int
	listErr error
	woken   []string
	log     bytes.Buffer
	now     time.Time

	registry *prometheus.Registry
}

func newHookWorld(fleets ...fleetv1.Fleet) *hookWorld {
	w := &hookWorld{fleets: fleets, secrets: map[string]string{"hook": "s3cret"}, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	w.registry = prometheus.NewRegistry()
	w.Webhooks = &Webhooks{
		Fleets: w, Hooks: w, Waker: w, Metrics: NewWebhookMetrics(w.registry),
		Secrets: &RememberedSecrets{Secrets: w, Now: func() time.Time { return w.now }},
		Log:     slog.New(slog.NewTextHandler(&w.log, nil)), Now: func() time.Time { return w.now },
	}
	return w
}

func (w *hookWorld) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nobody gets")
}

func (w *hookWorld) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*fleetv1.FleetList).Items = w.fleets
	return w.listErr
}

func (w *hookWorld) Wake(fleet types.NamespacedName, look wake.Look) {
	w.woken = append(w.woken, fleet.Name+": "+string(look))
}

func (w *hookWorld) HookSecret(_ context.Context, fleet *fleetv1.Fleet) ([]byte, error) {
	w.reads++
	name := fleet.Spec.Webhook.SecretRef.Name
	if name == "error" {
		return nil, errors.New("the API server is away")
	}
	if w.secrets[name] == "" {
		return nil, &wake.Refusal{Result: wake.Forbidden, Message: "Secret a/" + name + " does not exist"}
	}
	return []byte(w.secrets[name]), nil
}

func (w *hookWorld) ReadHook(header http.Header, body []byte) (Hook, error) {
	hook := Hook{Provider: fleetv1.WebhookProvider(header.Get("Provider")), Delivery: header.Get("Delivery")}
	if err := json.Unmarshal(body, &hook.Event); err != nil {
		return hook, &wake.Refusal{Result: wake.Malformed, Message: "the body is no JSON"}
	}
	if header.Get("Secret") == "" {
		return hook, &wake.Refusal{Result: wake.Unsigned, Message: "no header Secret"}
	}
	hook.Verify = func(secret []byte, _ time.Time) error {
		if string(secret) == header.Get("Secret") {
			return nil
		}
		return &wake.Refusal{Result: wake.Forbidden, Message: "header Secret does not fit"}
	}
	return hook, nil
}

func hookFleet(name string, edit ...func(*fleetv1.Fleet)) fleetv1.Fleet {
	f := fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	f.Spec.Source.URL = "https://git.example.com/acme/fleet.git"
	f.Spec.Webhook = &fleetv1.Webhook{Provider: "github"}
	f.Spec.Webhook.SecretRef.Name = "hook"
	for _, e := range edit {
		e(&f)
	}
	return f
}

func pushOf(refs ...string) wake.Event {
	return wake.Event{Kind: wake.Push, Name: "push", Repositories: []wake.Repository{{Host: "git.example.com", Path: "acme/fleet"}}, Refs: refs}
}

// send posts an event; headers come in pairs.
func (w *hookWorld) send(event any, headers ...string) *httptest.ResponseRecorder {
	data, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/webhook", bytes.NewReader(data))
	r.Header.Set("Provider", "github")
	r.Header.Set("Secret", "s3cret")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	out := httptest.NewRecorder()
	w.ServeHTTP(out, r)
	return out
}

// counted is the metric with these labels.
func (w *hookWorld) counted(provider, result string) float64 {
	families, err := w.registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == provider && m.GetLabel()[1].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestAWebhookWakesWhoFollowsIt(t *testing.T) {
	w := newHookWorld(
		hookFleet("follows"), hookFleet("another-branch", func(f *fleetv1.Fleet) { f.Spec.Source.Ref = &fleetv1.GitRef{Branch: "dev"} }),
		hookFleet("over-ssh", func(f *fleetv1.Fleet) { f.Spec.Source.URL = "ssh://git@git.example.com:2222/acme/fleet" }),
		hookFleet("another-repository", func(f *fleetv1.Fleet) { f.Spec.Source.URL = "https://git.example.com/acme/fleet2" }),
		hookFleet("another-secret", func(f *fleetv1.Fleet) { f.Spec.Webhook.SecretRef.Name = "other" }),
		hookFleet("no-webhook", func(f *fleetv1.Fleet) { f.Spec.Webhook = nil }),
		hookFleet("another-forge", func(f *fleetv1.Fleet) { f.Spec.Webhook.Provider = "gitlab" }),
	)
	w.secrets["other"] = "another secret"
	out := w.send(pushOf("refs/heads/main"))
	require.Equal(t, http.StatusAccepted, out.Code)
	require.Equal(t, "accepted: 2 of the Fleets of this repository look\n", out.Body.String())
	require.Equal(t, []string{"follows: revision", "over-ssh: revision"}, w.woken)
	require.Equal(t, 1., w.counted("github", "accepted"))
}

func TestDeliveryReport_WH16_TheLogSaysWhyNobodyWoke(t *testing.T) {
	for name, c := range map[string]struct {
		fleet   fleetv1.Fleet
		headers []string
		want    string
	}{
		"no webhook":     {hookFleet("f", func(f *fleetv1.Fleet) { f.Spec.Webhook = nil }), nil, "the Fleet has no spec.webhook, so nobody may wake it"},
		"another forge":  {hookFleet("f"), []string{"Provider", "generic"}, "the request is one of generic, the Fleet accepts those of github: correct spec.webhook.provider, or the webhook"},
		"no secret":      {hookFleet("f", func(f *fleetv1.Fleet) { f.Spec.Webhook.SecretRef.Name = "x" }), nil, "Secret a/x does not exist"},
		"another secret": {hookFleet("f"), []string{"Secret", "guess"}, "header Secret does not fit"},
		"nobody": {
			hookFleet("f", func(f *fleetv1.Fleet) { f.Spec.Source.URL = "https://git.example.com/x" }), nil,
			`no Fleet has this repository as its source.url" repository=git.example.com/acme/fleet`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHookWorld(c.fleet)
			out := w.send(pushOf("refs/heads/main"), c.headers...)
			require.Equal(t, http.StatusForbidden, out.Code)
			require.Equal(t, "no Fleet accepts this request; the log of the reconciler says why\n", out.Body.String(), "strangers learn nothing")
			require.Contains(t, w.log.String(), c.want)
			require.NotContains(t, w.log.String(), "s3cret")
			require.Empty(t, w.woken)
			before := w.log.Len()
			w.send(pushOf("refs/heads/main"), c.headers...)
			require.Equal(t, before, w.log.Len(), "the same again is not logged again")
			w.now = w.now.Add(2 * hookSilence)
			w.send(pushOf("refs/heads/main"), c.headers...)
			require.Equal(t, 2*before, w.log.Len(), "later it is")
		})
	}
	w := newHookWorld(hookFleet("f"))
	out := w.send(pushOf("refs/heads/main"), "Secret", "")
	require.Equal(t, http.StatusUnauthorized, out.Code)
	require.Equal(t, "no header Secret\n", out.Body.String())
	require.Contains(t, w.log.String(), `why="no header Secret"`)
	require.Equal(t, 1., w.counted("github", "unsigned"))
}

func TestAnswersOfTheReceiver(t *testing.T) {
	w := newHookWorld(hookFleet("f"))
	for _, c := range []struct {
		out    *httptest.ResponseRecorder
		code   int
		text   string
		result string
	}{
		{w.send(pushOf("refs/heads/dev")), 202, "genuine, but no Fleet follows what this event is about", "unfollowed"},
		{w.send(wake.Event{Kind: wake.Ignored, Name: "star"}), 202, `the event "star" concerns no Fleet`, "ignored"},
		{w.send(wake.Event{Kind: wake.Ping}), 200, "reached; the signature was not checked, because this ping names no repository", "ping"},
		{w.send(wake.Event{Kind: wake.Ping, Repositories: pushOf().Repositories}), 200, "reached; the signature fits", "ping"},
		{w.send(wake.Event{Kind: wake.Ping, Repositories: pushOf().Repositories}, "Secret", "x"), 403, forbidden, "forbidden"},
		{w.send("no event"), 400, "the body is no JSON", "malformed"},
		{w.send(pushOf("x"), "Content-Encoding", "gzip"), 415, "the body is compressed (allowed: no Content-Encoding)", "encoded"},
		{w.send(strings.Repeat("x", maxHookBody)), 413, "the body is too long (allowed: 1048576 bytes)", "too_large"},
	} {
		require.Equal(t, c.code, c.out.Code, c.text)
		require.Equal(t, c.text+"\n", c.out.Body.String())
		provider := "github"
		if c.result == "encoded" || c.result == "too_large" {
			provider = "unknown"
		}
		require.NotZero(t, w.counted(provider, c.result), c.result)
	}
	require.Empty(t, w.woken)

	out := httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/webhook", nil))
	require.Equal(t, http.StatusMethodNotAllowed, out.Code)
	require.Equal(t, "POST", out.Header().Get("Allow"))
	out = httptest.NewRecorder()
	w.ServeHTTP(out, httptest.NewRequest(http.MethodPost, "/", nil))
	require.Equal(t, http.StatusNotFound, out.Code)

	w = newHookWorld(hookFleet("f", func(f *fleetv1.Fleet) { f.Spec.Webhook.SecretRef.Name = "error" }))
	require.Equal(t, http.StatusServiceUnavailable, w.send(pushOf("refs/heads/main")).Code, "the forge may try again")
	w.fleets = append(w.fleets, hookFleet("g"))
	require.Equal(t, http.StatusAccepted, w.send(pushOf("refs/heads/main")).Code)
	w.listErr = errors.New("no")
	require.Equal(t, http.StatusServiceUnavailable, w.send(pushOf("refs/heads/main")).Code)
	require.Len(t, statusOfHook, 12, "every result has a status")
}

func TestDeliveryReport_WH15_TheSameDeliveryHasOneEffect(t *testing.T) {
	w := newHookWorld(hookFleet("f"))
	require.Equal(t, http.StatusForbidden, w.send(pushOf("refs/heads/main"), "Delivery", "1", "Secret", "wrong").Code, "it does not use the number up")
	require.Equal(t, "accepted: 1 of the Fleets of this repository look\n", w.send(pushOf("refs/heads/main"), "Delivery", "1").Body.String())
	again := w.send(pushOf("refs/heads/main"), "Delivery", "1")
	require.Equal(t, http.StatusAccepted, again.Code)
	require.Equal(t, "this delivery was accepted before\n", again.Body.String())
	require.Len(t, w.woken, 1)
	require.Equal(t, 1., w.counted("github", "replayed"))
	w.send(pushOf("refs/heads/main"), "Delivery", "2")
	w.send(pushOf("refs/heads/main"))
	w.send(pushOf("refs/heads/main"))
	require.Len(t, w.woken, 4, "without a number nothing is taken for a replay")
	w.now = w.now.Add(hookMemoryTime - time.Second)
	w.send(pushOf("refs/heads/main"), "Delivery", "1")
	require.Len(t, w.woken, 4)
	w.now = w.now.Add(2 * hookMemoryTime)
	w.send(pushOf("refs/heads/main"), "Delivery", "1")
	require.Len(t, w.woken, 5, "the memory ends")
}

func TestHookMemoryIsBounded(t *testing.T) {
	var m hookMemory
	now := time.Unix(1, 0)
	for i := range 10 * hookMemorySize {
		require.True(t, m.add(fmt.Sprint(i), now, hookMemoryTime))
	}
	require.LessOrEqual(t, len(m.now)+len(m.old), 2*hookMemorySize)
	require.False(t, m.add(fmt.Sprint(10*hookMemorySize-1), now, hookMemoryTime))
}

func TestDeliveryReport_WH07_AFloodOfForgedRequestsIsAFewReads(t *testing.T) {
	w := newHookWorld(hookFleet("f"))
	codes := map[int]int{}
	for range 1000 { // within one second
		codes[w.send(pushOf("refs/heads/main"), "Secret", "forged").Code]++
		w.now = w.now.Add(time.Millisecond)
	}
	require.Empty(t, w.woken)
	require.Equal(t, 1, w.reads, "the Secret is read once in two seconds")
	require.InDelta(t, peerBurst+peerRate, codes[http.StatusForbidden], 2)
	require.Equal(t, 1000-codes[http.StatusForbidden], codes[http.StatusTooManyRequests])
	w.now = w.now.Add(10 * time.Second)
	require.Equal(t, http.StatusAccepted, w.send(pushOf("refs/heads/main")).Code)
	require.Equal(t, 2, w.reads)
}

func TestPeersAreLimitedOneByOne(t *testing.T) {
	var l peerLimits
	now := time.Unix(1, 0)
	for range peerBurst {
		require.True(t, l.allow("192.0.2.1:1000", now))
	}
	require.False(t, l.allow("192.0.2.1:2000", now), "whatever the port")
	require.True(t, l.allow("192.0.2.2:1000", now))
	for range peerBurst {
		require.True(t, l.allow("[2001:db8::1]:1", now))
	}
	require.False(t, l.allow("[2001:db8::ffff]:1", now), "one network of IPv6 is one peer")
	require.True(t, l.allow("192.0.2.1:1000", now.Add(time.Second)))
	require.True(t, l.allow("not an address", now))
	for i := range 3 * maxPeers {
		l.allow(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), now)
	}
	require.LessOrEqual(t, len(l.peers), maxPeers)
}

func TestDeliveryReport_WH07_WakesAreSpreadAndTheLastIsNotLost(t *testing.T) {
	var q wakeQueue
	now := time.Unix(100, 0)
	f, g := types.NamespacedName{Namespace: "a", Name: "f"}, types.NamespacedName{Namespace: "a", Name: "g"}
	q.add(f, wake.Revision)
	q.add(g, wake.Reviews)
	q.add(f, wake.Reviews)
	q.add(f, wake.Revision)
	require.Zero(t, q.wait(now))
	require.Equal(t, []dueWake{{f, []wake.Look{wake.Revision, wake.Reviews}}, {g, []wake.Look{wake.Reviews}}}, q.take(now), "at once, and both looks in one")
	require.Empty(t, q.take(now))
	sent := 0
	for i := range 1000 { // one each ten milliseconds, for ten seconds
		at := now.Add(time.Duration(i) * 10 * time.Millisecond)
		q.add(f, wake.Revision)
		sent += len(q.take(at))
	}
	require.Equal(t, 4, sent, "at 2, 4, 6 and 8 seconds")
	last := now.Add(10 * time.Second)
	require.Equal(t, 10*time.Millisecond, q.wait(last.Add(-10*time.Millisecond)))
	require.Equal(t, []dueWake{{f, []wake.Look{wake.Revision}}}, q.take(last), "the trailing edge")
	require.Empty(t, q.take(last.Add(time.Hour)))
	require.Empty(t, q.waiting, "nothing is kept of Fleets that are quiet")
	require.Equal(t, time.Minute, q.wait(last))
}

// patches records what is written to Fleets; the first fail writes are refused.
type patches struct {
	client.Client
	mu      sync.Mutex
	fail    int
	written []string
}

func (p *patches) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail > 0 {
		p.fail--
		return errors.New("the API server is away")
	}
	data, err := patch.Data(o)
	p.written = append(p.written, o.GetName()+" "+string(data))
	return err
}

func (p *patches) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.written)
}

// serve starts a server around the world's receiver and returns its address.
func (w *hookWorld) serve(t *testing.T, s *HookServer) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Listener, s.Webhooks = listener, w.Webhooks
	if s.Waker == nil {
		s.Waker = &HookWaker{Client: &patches{}, Log: w.Log, Now: time.Now}
	}
	require.False(t, s.NeedLeaderElection())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

func TestWhatWasAcceptedIsWrittenBeforeTheProcessEnds(t *testing.T) {
	out := &patches{fail: 1}
	w := newHookWorld(hookFleet("f"))
	waker := &HookWaker{Client: out, Log: w.Log, Now: func() time.Time { return w.now }}
	w.Webhooks.Waker = waker
	require.Equal(t, http.StatusAccepted, w.send(pushOf("refs/heads/main")).Code)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { waker.Run(ctx); close(ended) }()
	require.Eventually(t, func() bool { out.mu.Lock(); defer out.mu.Unlock(); return out.fail == 0 }, 10*time.Second, time.Millisecond)
	require.Zero(t, out.count(), "refused, and to be tried again in two seconds that do not pass")
	cancel()
	<-ended
	require.Equal(t, []string{`f {"metadata":{"annotations":{"fleetwright.dev/pushed-at":"2026-11-30T12:00:00Z"}}}`}, out.written)
}

func TestDeliveryReport_WH06_AHugeBodyIsCutOff(t *testing.T) {
	w := newHookWorld(hookFleet("f"))
	address := w.serve(t, &HookServer{})
	zeros := &countingReader{}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/webhook", io.LimitReader(zeros, 1<<30))
	require.NoError(t, err)
	request.Header.Set("Provider", "github")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response, err := http.DefaultClient.Do(request)
	runtime.ReadMemStats(&after)
	if err == nil { // the server may also close the connection while we still write
		require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
		require.NoError(t, response.Body.Close())
	}
	require.Equal(t, 1., w.counted("unknown", "too_large"))
	require.Less(t, zeros.n, int64(64<<20), "the rest of the gigabyte is not taken")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
}

type countingReader struct{ n int64 }

func (c *countingReader) Read(p []byte) (int, error) {
	clear(p)
	c.n += int64(len(p))
	return len(p), nil
}

func TestDeliveryReport_WH06_ACompressedBodyIsNotUnpacked(t *testing.T) {
	w := newHookWorld(hookFleet("f"))
	address := w.serve(t, &HookServer{})
	for _, encoding := range []string{"gzip", "deflate", "br", "zstd", "identity, gzip"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/webhook", strings.NewReader("\x1f\x8b bomb"))
		require.NoError(t, err)
		request.Header.Set("Content-Encoding", encoding)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnsupportedMediaType, response.StatusCode, encoding)
		require.NoError(t, response.Body.Close())
	}
}

// TestDeliveryReport_WH06_SlowSendersHoldNobodyUp: connections that send a byte now and then are cut off, and others are
// answered meanwhile.
func TestDeliveryReport_WH06_SlowSendersHoldNobodyUp(t *testing.T) {
	w := newHookWorld(hookFleet("f"))
	address := w.serve(t, &HookServer{HeaderTimeout: 300 * time.Millisecond, ReadTimeout: 600 * time.Millisecond, Connections: 8})
	slow := map[string]string{
		"headers": "POST /webhook HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"body":    "POST /webhook HTTP/1.1\r\nHost: x\r\nSecret: x\r\nContent-Length: 1000\r\n\r\n{",
	}
	var all []net.Conn
	for range 10 { // more than there are places
		for _, start := range slow {
			c, err := net.Dial("tcp", address)
			require.NoError(t, err)
			_, err = io.WriteString(c, start)
			require.NoError(t, err)
			all = append(all, c)
		}
	}
	data, err := json.Marshal(pushOf("refs/heads/dev"))
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/webhook", bytes.NewReader(data))
	require.NoError(t, err)
	request.Header.Set("Provider", "github")
	request.Header.Set("Secret", "s3cret")
	response, err := (&http.Client{Timeout: 30 * time.Second}).Do(request)
	require.NoError(t, err, "an honest sender gets its turn")
	require.Equal(t, http.StatusAccepted, response.StatusCode)
	require.NoError(t, response.Body.Close())
	for _, c := range all {
		require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
		_, err := io.Copy(io.Discard, bufio.NewReader(c))
		require.NoError(t, err, "the server hangs up")
		require.NoError(t, c.Close())
	}
}

func TestMoreRequestsThanPlacesAreTurnedAway(t *testing.T) {
	w := newHookWorld(hookFleet("f"))
	address := w.serve(t, &HookServer{Requests: 1})
	busy, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { require.NoError(t, busy.Close()) }()
	_, err = io.WriteString(busy, "POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		response, err := http.Post("http://"+address+"/webhook", "application/json", strings.NewReader("{"))
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode == http.StatusTooManyRequests
	}, 9*time.Second, 10*time.Millisecond)
	require.NotZero(t, w.counted("unknown", "limited"))
}
