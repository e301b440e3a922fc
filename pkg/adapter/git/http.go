package git

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// openHTTP prepares a session; nothing is sent yet. Redirects are followed for the first request only, never from https to
// http, and credentials stay behind when one leaves the origin (scheme, host and port).
func (r *remote) openHTTP() (session, error) {
	pool, err := r.certificates()
	if err != nil {
		return nil, err
	}
	base := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	client := githttp.NewClientWithOptions(&http.Client{Transport: &meteredTransport{remote: r, next: base}},
		&githttp.ClientOptions{RedirectPolicy: githttp.FollowInitialRedirects})
	s, err := client.NewUploadPackSession(r.httpEndpoint(), r.httpAuth())
	if err != nil {
		base.CloseIdleConnections()
		return nil, err
	}
	return &httpSession{session: s, transport: base}, nil
}

func (r *remote) certificates() (*x509.CertPool, error) {
	if r.source.Auth.ca == nil {
		return nil, nil // the system's
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image without certificates still has ca.crt
	}
	if !pool.AppendCertsFromPEM(r.source.Auth.ca) {
		return nil, invalid("has a ca.crt that holds no PEM certificate")
	}
	return pool, nil
}

func (r *remote) httpEndpoint() *transport.Endpoint {
	port, _ := strconv.Atoi(r.endpoint.port) // url.Parse has checked that it is a number; empty is 0
	return &transport.Endpoint{Protocol: r.endpoint.scheme, Host: r.endpoint.host, Port: port, Path: r.endpoint.path}
}

func (r *remote) httpAuth() transport.AuthMethod {
	auth := r.source.Auth
	switch {
	case auth.bearer != "":
		return &githttp.TokenAuth{Token: auth.bearer}
	case auth.username != "":
		return &githttp.BasicAuth{Username: auth.username, Password: auth.password}
	}
	return nil
}

// httpSession closes what go-git leaves open: the connections that a later request might have used.
type httpSession struct {
	session
	transport *http.Transport
}

func (s *httpSession) Close() error {
	defer s.transport.CloseIdleConnections()
	return s.session.Close()
}

// meteredTransport counts what bodies deliver and notes what is going on, for errors.
type meteredTransport struct {
	remote *remote
	next   http.RoundTripper
}

func (t *meteredTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { t.remote.enter("looking up the host") },
		ConnectStart:      func(string, string) { t.remote.enter("connecting") },
		TLSHandshakeStart: func() { t.remote.enter("agreeing on TLS") },
		GotConn:           func(httptrace.GotConnInfo) { t.remote.enter(task(req)) },
	}
	res, err := t.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return nil, err
	}
	res.Body = &meteredBody{Reader: t.remote.meter.wrap(res.Body), Closer: res.Body}
	return res, nil
}

type meteredBody struct {
	io.Reader
	io.Closer
}

func task(req *http.Request) string {
	if req.Method == http.MethodPost {
		return "fetching the commit"
	}
	return "listing the refs"
}
