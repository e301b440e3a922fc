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

// SameRepository says whether two clone URLs name one repository, over https or ssh, with or without credentials and .git.
func SameRepository(a, b string) bool { return a == b || repositoryKey(a) == repositoryKey(b) }

func repositoryKey(clone string) string {
	a, err := parseAddress(clone)
	if err != nil {
		return clone
	}
	parts := slices.DeleteFunc(slices.Clone(a.parts), func(p string) bool { return p == "scm" })
	return strings.ToLower(a.host + "/" + strings.Join(parts, "/"))
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
	case KindGitLab:
		return locateGitLab(a, server)
	case KindBitbucketCloud:
		return locateBitbucketCloud(a)
	case KindBitbucketDataCenter:
		return locateDataCenter(a, server), nil
	case KindAzureDevOps:
		return locateAzure(a, server)
	}
	return Config{}, fmt.Errorf("locate repository: unknown kind of forge %q", kind)
}

// locateGitHub: github.com and *.ghe.com have a host of their own for the API, GitHub Enterprise Server has a path.
func locateGitHub(a address, server string) (Config, error) {
	if len(a.parts) != 2 {
		return Config{}, a.notOwnerName()
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

func (a address) notOwnerName() error {
	return fmt.Errorf("read repository URL: %s/%s is not owner/name", a.host, strings.Join(a.parts, "/"))
}

// locateGitLab: the last part is the name, what is before it are groups, but for the path that the server is served under: only
// the server's address tells it.
func locateGitLab(a address, server string) (Config, error) {
	server = strings.TrimSuffix(server, "/api/v4")
	if server == "" {
		if a.host == "altssh.gitlab.com" {
			a.host = "gitlab.com"
		}
		server = a.web()
	}
	u, err := url.Parse(server)
	if err != nil {
		return Config{}, errors.New("read server URL: not a URL (allowed: https://host)")
	}
	parts := a.parts
	if under := strings.Trim(u.Path, "/"); under != "" && strings.HasPrefix(strings.Join(parts, "/"), under+"/") {
		parts = parts[strings.Count(under, "/")+1:]
	}
	n := len(parts)
	if n < 2 {
		return Config{}, a.notOwnerName()
	}
	cfg := Config{URL: server + "/api/v4", Owner: strings.Join(parts[:n-1], "/"), Repository: parts[n-1]}
	cfg.Web = server + "/" + strings.Join(parts, "/") + "/-"
	return cfg, nil
}

func locateBitbucketCloud(a address) (Config, error) {
	if len(a.parts) != 2 {
		return Config{}, a.notOwnerName()
	}
	return Config{
		URL: "https://api.bitbucket.org/2.0", Owner: a.parts[0], Repository: a.parts[1],
		Web: "https://bitbucket.org/" + strings.Join(a.parts, "/"),
	}, nil
}

// locateDataCenter: clone addresses over https have /scm/ behind the path that the server is served under.
func locateDataCenter(a address, server string) Config {
	n := len(a.parts)
	project, name := a.parts[n-2], a.parts[n-1]
	if server == "" {
		server = a.web()
		if scm := slices.Index(a.parts, "scm"); scm > 0 && scm == n-3 {
			server += "/" + strings.Join(a.parts[:scm], "/")
		}
	}
	cfg := Config{URL: server, Owner: project, Repository: name, Web: server + "/projects/" + project + "/repos/" + name}
	if user, personal := strings.CutPrefix(project, "~"); personal {
		cfg.Web = server + "/users/" + user + "/repos/" + name
	}
	return cfg
}

// locateAzure reads the forms that Azure DevOps has had: https://dev.azure.com/ORG/PROJECT/_git/NAME,
// https://ORG.visualstudio.com/PROJECT/_git/NAME, git@ssh.dev.azure.com:v3/ORG/PROJECT/NAME, and those of Azure DevOps Server.
// Where project and repository have one name, PROJECT may be missing.
func locateAzure(a address, server string) (Config, error) {
	parts := a.parts
	cfg := Config{URL: server}
	organisation, old := strings.CutSuffix(a.host, ".visualstudio.com")
	switch {
	case a.host == "ssh.dev.azure.com" || a.host == "vs-ssh.visualstudio.com":
		if len(parts) != 4 || parts[0] != "v3" {
			return Config{}, fmt.Errorf("read repository URL: %s/%s is not v3/organisation/project/name", a.host, strings.Join(parts, "/"))
		}
		a.host, organisation, old, parts = "dev.azure.com", parts[1], true, []string{parts[2], "_git", parts[3]}
	case a.host == "dev.azure.com":
		organisation, old, parts = parts[0], true, parts[1:]
	}
	git := slices.Index(parts, "_git")
	if git < 0 || git != len(parts)-2 {
		return Config{}, fmt.Errorf("read repository URL: %s/%s has no _git/name at its end", a.host, strings.Join(a.parts, "/"))
	}
	cfg.Repository, cfg.Owner = parts[git+1], parts[git+1]
	above := parts[:git]
	if git > 0 && !(old && above[git-1] == "DefaultCollection") {
		cfg.Owner, above = parts[git-1], parts[:git-1]
	}
	if cfg.URL == "" {
		cfg.URL = strings.Join(slices.Concat([]string{a.web()}, above), "/")
		if old {
			cfg.URL = "https://dev.azure.com/" + url.PathEscape(organisation)
		}
	}
	cfg.Web = cfg.URL + escaped(cfg.Owner, "_git", cfg.Repository)
	return cfg, nil
}
