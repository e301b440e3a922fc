package gitserver

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"
)

// Proxy is an HTTP proxy: CONNECT for https, forwarding for http.
type Proxy struct {
	login    string // what Proxy-Authorization has to be; empty: nothing
	listener net.Listener
	server   *http.Server

	mu      sync.Mutex
	targets []string
}

// NewProxy starts a proxy on loopback, which demands a user where username is set. The caller closes it.
func NewProxy(username, password string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &Proxy{listener: listener}
	if username != "" {
		p.login = "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, ErrorLog: discardLog()}
	go func() { _ = p.server.Serve(listener) }() // ends with Close
	return p, nil
}

// URL of the proxy.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Targets are the hosts that were asked for, in order.
func (p *Proxy) Targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.targets...)
}

// Close stops the proxy.
func (p *Proxy) Close() error { return p.server.Close() }

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.login != "" && !same(r.Header.Get("Proxy-Authorization"), p.login) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
		http.Error(w, "credentials needed", http.StatusProxyAuthRequired)
		return
	}
	p.mu.Lock()
	p.targets = append(p.targets, r.Host)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, ErrorLog: discardLog()}).ServeHTTP(w, r)
		return
	}
	p.connect(w, r)
}

func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	target, err := net.DialTimeout("tcp", r.Host, 10*time.Second)
	if err != nil {
		http.Error(w, "cannot connect", http.StatusBadGateway)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = target.Close()
		return
	}
	_, _ = client.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")) // a client that is gone ends the pipes
	go pipe(target, client)
	go pipe(client, target)
}

// pipe ends both ways when one ends.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
}
