package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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
	base, err := transportFor(r.source)
	if err != nil {
		return nil, err
	}
	base.TLSClientConfig.GetClientCertificate = r.certificate
	client := githttp.NewClientWithOptions(&http.Client{Transport: &meteredTransport{remote: r, next: base}},
		&githttp.ClientOptions{RedirectPolicy: githttp.FollowInitialRedirects})
	s, err := client.NewUploadPackSession(r.httpEndpoint(), r.httpAuth())
	if err != nil {
		base.CloseIdleConnections()
		return nil, err
	}
	return &httpSession{session: s, transport: base}, nil
}

// transportFor knows the proxy, the authorities to trust and the certificate to show.
func transportFor(source Source) (*http.Transport, error) {
	pool, err := source.Auth.authorities()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if source.Auth.client != nil {
		config.Certificates = []tls.Certificate{*source.Auth.client}
	}
	return &http.Transport{
		Proxy: source.Proxy.choose(), OnProxyConnectResponse: refusedByProxy, TLSClientConfig: config, ForceAttemptHTTP2: true,
	}, nil
}

// APITransport speaks with the HTTP API that belongs to a source's server, through the source's proxy, with ca.crt, tls.crt and
// tls.key of its Secret's data. The caller closes idle connections. The error is an *Error.
func APITransport(source Source, data map[string][]byte) (*http.Transport, error) {
	var err error
	if source.Auth, err = certificates(data); err != nil {
		return nil, err
	}
	return transportFor(source)
}

func (a Auth) authorities() (*x509.CertPool, error) {
	if a.ca == nil {
		return nil, nil // the system's
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image without certificates still has ca.crt
	}
	if !pool.AppendCertsFromPEM(a.ca) {
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
	trace := t.remote.dialTrace()
	trace.GotConn = func(httptrace.GotConnInfo) { t.remote.enter(task(req)) }
	res, err := t.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return nil, t.remote.withoutAnswer(err)
	}
	t.remote.certificateAsked.Store(false)              // it does without
	if res.StatusCode == http.StatusProxyAuthRequired { // of a plain request; a CONNECT is answered to refusedByProxy
		_ = res.Body.Close()
		return nil, errProxyAuth
	}
	res.Body = &meteredBody{Reader: t.remote.meter.wrap(res.Body), Closer: res.Body}
	return res, nil
}

// What a server that asked for a client certificate means when it ends the connection.
var (
	errNoCertificate      = errors.New("tls: certificate required")
	errCertificateRefused = errors.New("remote error: tls: bad certificate")
)

// withoutAnswer words what became of a request. A server that wants another certificate, or any, says so in an alert after the
// handshake: the connection may be gone before it is read.
func (r *remote) withoutAnswer(err error) error {
	switch {
	case !r.certificateAsked.Load(), isTimeout(err), errors.Is(err, context.Canceled):
		return err
	case r.source.Auth.client == nil:
		return errors.Join(errNoCertificate, err)
	}
	return errors.Join(errCertificateRefused, err)
}

// certificate answers a server that asks for one; an empty one is none.
func (r *remote) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	r.certificateAsked.Store(true)
	if client := r.source.Auth.client; client != nil {
		return client, nil
	}
	return &tls.Certificate{}, nil
}

// dialTrace notes how far a connection is.
func (r *remote) dialTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { r.enter("looking up the host") },
		ConnectStart:      func(string, string) { r.enter("connecting") },
		TLSHandshakeStart: func() { r.enter("agreeing on TLS") },
	}
}

type meteredBody struct {
	io.Reader
	io.Closer
}

func task(req *http.Request) string {
	if req.Method == http.MethodPost {
		return stageFetch
	}
	return "listing the refs"
}
