package forge

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Kind is one of the forges that speak HTTP. Bitbucket is two: Cloud and Data Center have nothing but the name in common.
type Kind string

// Kinds of forges.
const (
	KindGitHub              Kind = "github"
	KindGitLab              Kind = "gitlab"
	KindGitea               Kind = "gitea"
	KindBitbucketCloud      Kind = "bitbucket-cloud"
	KindBitbucketDataCenter Kind = "bitbucket-data-center"
	KindAzureDevOps         Kind = "azuredevops"
)

// address is a clone URL in parts.
type address struct {
	scheme, host, port string
	parts              []string // of the path, decoded, without .git
}

// web is the server's address for browsers: of http and https with its port, otherwise https and the host.
func (a address) web() string {
	if a.scheme != "http" && a.scheme != "https" {
		return "https://" + a.host
	}
	if a.port != "" {
		return a.scheme + "://" + a.host + ":" + a.port
	}
	return a.scheme + "://" + a.host
}

// HostOf is the host of a clone URL in lower case; empty if it has none.
func HostOf(clone string) string {
	a, err := parseAddress(clone)
	if err != nil {
		return ""
	}
	return a.host
}

// parseAddress reads https://host/owner/name.git, ssh://git@host/owner/name or git@host:owner/name. Credentials are left out.
func parseAddress(clone string) (address, error) {
	u, err := url.Parse(scpToURL(strings.TrimSpace(clone)))
	if err != nil {
		return address{}, errors.New("read repository URL: not a URL (allowed: https://host/owner/name.git, ssh://git@host/owner/name.git)")
	}
	path := strings.Trim(strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), ".git"), "/")
	a := address{scheme: strings.ToLower(u.Scheme), host: strings.ToLower(u.Hostname()), port: u.Port()}
	if path != "" {
		a.parts = strings.Split(path, "/")
	}
	if a.host == "" || len(a.parts) < 2 {
		return address{}, fmt.Errorf("read repository URL: %s%s names no owner and repository (allowed: https://host/owner/name.git)", u.Host, u.Path)
	}
	return a, nil
}

// scpToURL turns git@host:owner/name into a URL.
func scpToURL(clone string) string {
	if strings.Contains(clone, "://") {
		return clone
	}
	host, path, found := strings.Cut(clone, ":")
	if !found || strings.Contains(host, "/") {
		return clone
	}
	return "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
}

// Locate finds the API, the owner and the repository behind a clone URL. Server is where the API is; where it is empty, it is
// derived from the clone URL. It may be given as people see it, or down to the API itself.
func Locate(kind Kind, clone, server string) (Config, error) {
	a, err := parseAddress(clone)
	if err != nil {
		return Config{}, err
	}
	server = strings.TrimSuffix(strings.TrimSpace(server), "/")
	switch kind {
	case KindGitHub:
		return locateGitHub(a, server)
	case KindGitea:
		return locateGitea(a, server), nil
	}
	return Config{}, fmt.Errorf("locate repository: unknown kind of forge %q", kind)
}

// locateGitHub: github.com and *.ghe.com have a host of their own for the API, GitHub Enterprise Server has a path.
func locateGitHub(a address, server string) (Config, error) {
	if len(a.parts) != 2 {
		return Config{}, fmt.Errorf("read repository URL: %s/%s is not owner/name", a.host, strings.Join(a.parts, "/"))
	}
	if a.host == "ssh.github.com" {
		a.host = "github.com"
	}
	cfg := Config{URL: server, Owner: a.parts[0], Repository: a.parts[1], Web: a.web() + "/" + strings.Join(a.parts, "/")}
	if server == "" {
		server = a.web()
	}
	u, err := url.Parse(server)
	if err != nil {
		return Config{}, errors.New("read server URL: not a URL (allowed: https://host)")
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case host == "api.github.com", strings.HasPrefix(host, "api.") && strings.HasSuffix(host, ".ghe.com"), strings.HasSuffix(u.Path, "/api/v3"):
		cfg.URL = server
	case host == "github.com", host == "www.github.com":
		cfg.URL = "https://api.github.com"
	case strings.HasSuffix(host, ".ghe.com"):
		cfg.URL = "https://api." + host
	default:
		cfg.URL = server + "/api/v3"
	}
	return cfg, nil
}

// locateGitea: the last two parts are owner and name, what is before them is the path that the server is served under.
func locateGitea(a address, server string) Config {
	n := len(a.parts)
	cfg := Config{URL: server, Owner: a.parts[n-2], Repository: a.parts[n-1]}
	if server == "" {
		cfg.URL = a.web()
		if a.scheme == "http" || a.scheme == "https" {
			cfg.URL = strings.Join(slices.Concat([]string{a.web()}, a.parts[:n-2]), "/")
		}
	}
	cfg.Web = cfg.URL + "/" + cfg.Owner + "/" + cfg.Repository
	return cfg
}

// New makes the provider of a kind.
func New(kind Kind, cfg Config) (Provider, error) {
	switch kind {
	case KindGitHub:
		return NewGitHub(cfg)
	case KindGitea:
		return NewGitea(cfg)
	}
	return nil, permanent("make provider", fmt.Sprintf("unknown kind of forge %q", kind))
}
