package git

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// scpLike is the short form of an SSH URL: user@host:path.
var scpLike = regexp.MustCompile(`^([A-Za-z0-9._-]+)@([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):([^/:][^:]*)$`)

// endpoint is a URL that was understood.
type endpoint struct {
	scheme string // https, http, ssh or file
	user   string
	host   string
	port   string
	path   string
}

// parseURL understands a URL. Its errors show no more of it than scheme and host, because people paste passwords into URLs.
func parseURL(source Source) (endpoint, error) {
	if m := scpLike.FindStringSubmatch(source.URL); m != nil {
		return throughProxy(source, endpoint{scheme: "ssh", user: m[1], host: strings.Trim(m[2], "[]"), path: m[3]})
	}
	if isPath(source.URL) {
		return localEndpoint(source, source.URL)
	}
	u, err := url.Parse(source.URL)
	if err != nil {
		return endpoint{}, failure(ReasonUnsupportedURL, "the source's url is not a URL (allowed: https://…, ssh://…, user@host:path)")
	}
	if u.Scheme == "file" {
		return localEndpoint(source, u.Path)
	}
	return remoteEndpoint(source, u)
}

func remoteEndpoint(source Source, u *url.URL) (endpoint, error) {
	e := endpoint{scheme: strings.ToLower(u.Scheme), user: u.User.Username(), host: u.Hostname(), port: u.Port(), path: u.Path}
	_, password := u.User.Password()
	switch {
	case e.scheme != "https" && e.scheme != "http" && e.scheme != "ssh":
		return e, failure(ReasonUnsupportedURL, "the source's url has scheme %q (allowed: https, http, ssh)", e.scheme)
	case e.host == "" || strings.Trim(e.path, "/") == "":
		return e, failure(ReasonUnsupportedURL, "the source's url names no host or no repository (allowed: %s://host/path)", e.scheme)
	case password:
		return e, failure(ReasonUnsupportedURL, "the source's url for %s holds a password; put it into the Secret of secretRef", e.host)
	case e.scheme == "http" && !source.Auth.empty() && !source.AllowInsecureHTTP:
		return e, failure(ReasonInsecureURL, "credentials for %s would go over http without TLS; use https", e.host)
	case u.RawQuery != "" || u.Fragment != "":
		return e, failure(ReasonUnsupportedURL, "the source's url for %s has a query or a fragment; remove it", e.host)
	}
	return throughProxy(source, e)
}

// throughProxy refuses what a proxy cannot carry, rather than to go around it.
func throughProxy(source Source, e endpoint) (endpoint, error) {
	if e.scheme == "ssh" && source.Proxy.url != nil {
		return e, failure(ReasonUnsupportedURL, "the proxy of proxySecretRef carries https, not ssh; use the https url of the repository, or no proxy")
	}
	return e, nil
}

func localEndpoint(source Source, path string) (endpoint, error) {
	if !source.AllowLocal {
		return endpoint{}, failure(ReasonUnsupportedURL,
			"the source's url is a local path, which works only on the command line and in the demo (allowed: https://…, ssh://…)")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return endpoint{}, failure(ReasonUnsupportedURL, "the source's path cannot be resolved").because(err)
	}
	return endpoint{scheme: "file", path: abs}, nil
}

func isPath(s string) bool {
	return s != "" && !strings.Contains(s, "://") && (filepath.IsAbs(s) || strings.HasPrefix(s, ".") || !strings.Contains(s, ":"))
}

// name is what a sentence calls the repository. It holds no user and no password.
func (e endpoint) name() string {
	if e.scheme == "file" {
		return e.path
	}
	host := e.host
	if e.port != "" {
		host = net.JoinHostPort(e.host, e.port)
	}
	return fmt.Sprintf("%s://%s/%s", e.scheme, host, strings.TrimLeft(e.path, "/"))
}

// origin is scheme, host and port: what credentials are for.
func (e endpoint) origin() string {
	port := e.port
	if port == "" {
		port = map[string]string{"https": "443", "http": "80", "ssh": "22"}[e.scheme]
	}
	return e.scheme + "://" + net.JoinHostPort(strings.ToLower(e.host), port)
}

// address is host:port of an SSH server.
func (e endpoint) address() string {
	port := e.port
	if port == "" {
		port = "22"
	}
	return net.JoinHostPort(e.host, port)
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
