package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"encoding/pem"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Always as a fault's number of times: until it is removed.
const Always = 0

// Proxy is a TLS server in front of the API server that can fail on purpose. Identities pass through: callers
// authenticate by token or impersonation, both of which are headers. It is safe for concurrent use.
type Proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy
	config  *rest.Config

	mu      sync.Mutex
	faults  []*Fault // in the order in which they were set; the first that matches is taken
	watches map[int]context.CancelFunc
	nextID  int
	closed  bool
}

// Fault is one programmed failure.
type Fault struct {
	match Match
	left  int // how many more times; Always while negative
	serve func(p *Proxy, w http.ResponseWriter, r *http.Request, e AuditEvent)
	gone  chan struct{}
	proxy *Proxy
	hits  int
}

// Proxy starts a proxy. It serves until Close or the cluster's Stop, also while the API server is down: it answers 502
// then.
func (c *Cluster) Proxy() (*Proxy, error) {
	target, err := url.Parse(c.config.Host)
	if err != nil {
		return nil, fmt.Errorf("parse API server address: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(c.config))
	if err != nil {
		return nil, fmt.Errorf("make transport to API server: %w", err)
	}
	quiet := log.New(io.Discard, "", 0) // each programmed fault would be reported
	p := &Proxy{watches: map[int]context.CancelFunc{}}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // a watch event must not wait in a buffer
		ErrorLog:      quiet,
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = true
	p.server.Config.ErrorLog = quiet
	p.server.StartTLS()
	p.config = c.Config()
	p.config.Host = p.server.URL
	p.config.TLSClientConfig = rest.TLSClientConfig{CAData: pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})}
	c.mu.Lock()
	c.proxies = append(c.proxies, p)
	c.mu.Unlock()
	return p, nil
}

// Config is the administrator's configuration through the proxy.
func (p *Proxy) Config() *rest.Config { return rest.CopyConfig(p.config) }

// ConfigFor sends the caller of another configuration of this cluster through the proxy.
func (p *Proxy) ConfigFor(c *rest.Config) *rest.Config {
	out := rest.CopyConfig(c)
	out.Host, out.TLSClientConfig = p.config.Host, p.config.TLSClientConfig
	return out
}

// Fail answers matching requests with an HTTP status code and a Kubernetes Status; the API server never sees them.
func (p *Proxy) Fail(m Match, code, times int) *Fault {
	return p.add(m, times, func(_ *Proxy, w http.ResponseWriter, _ *http.Request, e AuditEvent) {
		gr := schema.GroupResource{Group: e.Group, Resource: e.Resource}
		status := apierrors.NewGenericServerResponse(code, e.Verb, gr, e.Name, "failed by the test's proxy", 0, true).Status()
		status.Kind, status.APIVersion = "Status", "v1"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(status)
	})
}

// FailAfter lets matching requests take effect and loses the answer: the caller sees a broken connection.
func (p *Proxy) FailAfter(m Match, times int) *Fault {
	return p.add(m, times, func(p *Proxy, _ http.ResponseWriter, r *http.Request, _ AuditEvent) {
		// The caller may give up and the request must still take effect.
		r = r.WithContext(context.WithoutCancel(r.Context()))
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
}

// Abort breaks the connection of matching requests before the API server sees them.
func (p *Proxy) Abort(m Match, times int) *Fault {
	return p.add(m, times, func(*Proxy, http.ResponseWriter, *http.Request, AuditEvent) { panic(http.ErrAbortHandler) })
}

// Delay holds matching requests back for d of real time, or until the fault is removed, and then forwards them.
func (p *Proxy) Delay(m Match, d time.Duration, times int) *Fault {
	var f *Fault
	f = p.add(m, times, func(p *Proxy, w http.ResponseWriter, r *http.Request, e AuditEvent) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		f.wait(r.Context(), timer.C)
		p.pass(w, r, e)
	})
	return f
}

// Hold holds matching requests back until the fault is removed, and then forwards them: to act in exactly that moment.
func (p *Proxy) Hold(m Match, times int) *Fault {
	var f *Fault
	f = p.add(m, times, func(p *Proxy, w http.ResponseWriter, r *http.Request, e AuditEvent) {
		f.wait(r.Context(), nil)
		p.pass(w, r, e)
	})
	return f
}

func (p *Proxy) add(m Match, times int, serve func(*Proxy, http.ResponseWriter, *http.Request, AuditEvent)) *Fault {
	if times <= Always {
		times = -1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &Fault{match: m, left: times, serve: serve, gone: make(chan struct{}), proxy: p}
	p.faults = append(p.faults, f)
	return f
}

func (f *Fault) wait(ctx context.Context, timer <-chan time.Time) {
	select {
	case <-f.gone:
	case <-timer:
	case <-ctx.Done():
	}
}

// Hits says how many requests the fault has met.
func (f *Fault) Hits() int {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	return f.hits
}

// Remove ends the fault and lets go of requests that it holds back. Removing twice does no harm.
func (f *Fault) Remove() {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.left = 0
	select {
	case <-f.gone:
	default:
		close(f.gone)
	}
}

// Clear removes every fault.
func (p *Proxy) Clear() {
	p.mu.Lock()
	faults := p.faults
	p.faults = nil
	p.mu.Unlock()
	for _, f := range faults {
		f.Remove()
	}
}

// DropWatches ends every watch that is open now and says how many there were. Clients open new ones at once, unless a
// fault for the verb "watch" is set first.
func (p *Proxy) DropWatches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.watches)
	for id, cancel := range p.watches {
		cancel()
		delete(p.watches, id)
	}
	return n
}

// KillConnections closes every client connection now, with whatever is under way on it.
func (p *Proxy) KillConnections() { p.server.CloseClientConnections() }

// Close ends the proxy. Closing twice does no harm.
func (p *Proxy) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.mu.Unlock()
	p.Clear()
	p.DropWatches()
	p.KillConnections()
	p.server.Close()
}

// ServeHTTP meets the first fault that matches, or forwards.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := describe(r)
	if f := p.take(e); f != nil {
		f.serve(p, w, r, e)
		return
	}
	p.pass(w, r, e)
}

func (p *Proxy) take(e AuditEvent) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.left == 0 || !f.match.matches(e) {
			continue
		}
		if f.left > 0 {
			f.left--
		}
		f.hits++
		return f
	}
	return nil
}

func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, e AuditEvent) {
	if e.Verb == "watch" {
		ctx, done := p.trackWatch(r.Context())
		defer done()
		r = r.WithContext(ctx)
	}
	p.forward.ServeHTTP(w, r)
}

func (p *Proxy) trackWatch(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.nextID
	p.nextID++
	p.watches[id] = cancel
	return ctx, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, id)
	}
}
