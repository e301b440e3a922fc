package git

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

var errProxyAuth = errors.New("proxy wants credentials")

// proxyRefusal is the answer of a proxy that does not connect.
type proxyRefusal struct{ status int }

func (e *proxyRefusal) Error() string {
	return fmt.Sprintf("proxy refused with HTTP status %d", e.status)
}

func isProxyRefusal(err error) bool {
	var refusal *proxyRefusal
	return errors.As(err, &refusal)
}

// Proxy is how to reach servers over https and http. It comes from ProxyFromSecret and prints without its credentials; the zero
// value follows HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the environment.
type Proxy struct{ url *url.URL }

// ProxyFromSecret reads the keys address (http://host:port or https://host:port), and optionally username and password, as Flux
// names them. An error is an *Error with ReasonInvalidSecret that holds no value.
func ProxyFromSecret(data map[string][]byte) (Proxy, error) {
	address, username, password := text(data["address"]), text(data["username"]), text(data["password"])
	if address == "" {
		return Proxy{}, invalidProxy("has no key address")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		return Proxy{}, invalidProxy("has an address that is not a URL (allowed: http://host:port, https://host:port)")
	case u.User != nil:
		return Proxy{}, invalidProxy("has an address with a user; put username and password into keys of their own")
	case password != "" && username == "":
		return Proxy{}, invalidProxy("has password without username")
	}
	if username != "" {
		u.User = url.UserPassword(username, password)
	}
	return Proxy{url: u}, nil
}

func invalidProxy(problem string) *Error {
	return failure(ReasonInvalidSecret, "the Secret of proxySecretRef %s", problem)
}

// String names the proxy only.
func (p Proxy) String() string {
	if p.url == nil {
		return "the proxy of the environment"
	}
	return "the proxy " + p.url.Scheme + "://" + p.url.Host
}

// GoString names the proxy only.
func (p Proxy) GoString() string { return p.String() }

func (p Proxy) choose() func(*http.Request) (*url.URL, error) {
	if p.url == nil {
		return http.ProxyFromEnvironment
	}
	return http.ProxyURL(p.url)
}

func (r *remote) proxy() string { return r.source.Proxy.String() }

// refusedByProxy reads the answer to a CONNECT, of which net/http would keep only the words.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
	switch res.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusProxyAuthRequired:
		return errProxyAuth
	}
	return &proxyRefusal{res.StatusCode}
}
