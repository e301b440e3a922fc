package wake

import (
	"regexp"
	"slices"
	"strings"
)

// Repository is a repository whichever way leads to it: over https or ssh, with or without a user, a port or `.git`. Two are
// the same if they are equal. Host and path are in lower case, because the forges that tell cases apart are rare, and the
// price of taking two repositories for one is a look.
type Repository struct {
	// Host without user and port. Empty: the sender does not tell (older versions of Bitbucket Data Center).
	Host string
	// Path without leading and trailing slash and without `.git`.
	Path string
}

// scp is the short form of an ssh URL.
var scp = regexp.MustCompile(`^(?:[^/@:\s]+@)?(\[[0-9A-Fa-f:.]+\]|[^/@:\s\[\]]+):([^\s]*)$`)

// RepositoryOf reads a URL in any form that git takes over a network. It fails for local paths and for what is no URL.
func RepositoryOf(url string) (Repository, bool) {
	scheme, rest, isURL := strings.Cut(strings.TrimSpace(url), "://")
	if !isURL {
		m := scp.FindStringSubmatch(strings.TrimSpace(url))
		if m == nil {
			return Repository{}, false
		}
		return repository(m[1], m[2])
	}
	if strings.EqualFold(scheme, "file") {
		return Repository{}, false
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	return repository(withoutPort(authority), path)
}

// withoutPort: a port is how one gets to a host, not which repository it is. Clones over https and ssh never share one.
func withoutPort(authority string) string {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.HasSuffix(authority, "]") {
		return authority
	}
	return authority[:colon]
}

func repository(host, path string) (Repository, bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	host, segments := oneHost(host, segmentsOf(path))
	if host == "" || len(segments) == 0 {
		return Repository{}, false
	}
	return Repository{Host: host, Path: strings.Join(segments, "/")}, true
}

// PathOnly is a repository of which the sender tells no host.
func PathOnly(path string) (Repository, bool) {
	segments := segmentsOf(path)
	return Repository{Path: strings.Join(segments, "/")}, len(segments) > 0
}

func segmentsOf(path string) []string {
	segments := slices.DeleteFunc(strings.Split(strings.ToLower(unescape(path)), "/"), func(s string) bool { return s == "" })
	if last := len(segments) - 1; last >= 0 {
		if segments[last] = strings.TrimSuffix(segments[last], ".git"); segments[last] == "" {
			segments = segments[:last]
		}
	}
	return segments
}

// unescape undoes percent encoding; what is none stays.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := nibble(s[i+1]), nibble(s[i+2])
			if high >= 0 && low >= 0 {
				b.WriteByte(byte(high<<4 | low))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func nibble(c byte) int { return strings.IndexByte("0123456789abcdef", lower(c)) }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// sshHosts are hosts of the big forges that serve ssh on port 443, and the hosts that they stand for.
var sshHosts = map[string]string{
	"ssh.github.com": "github.com", "www.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org",
}

const (
	azure         = "dev.azure.com"
	azureSSH      = "ssh.dev.azure.com"
	visualStudio  = ".visualstudio.com"
	visualStudioS = "vs-ssh.visualstudio.com"
)

// oneHost gives the forms of one forge the same host and path.
func oneHost(host string, path []string) (string, []string) {
	if known, ok := sshHosts[host]; ok {
		return known, path
	}
	switch {
	case host == azure:
		return azure, azurePath(path)
	case (host == azureSSH || host == visualStudioS) && len(path) > 0 && path[0] == "v3":
		return azure, azurePath(path[1:])
	case strings.HasSuffix(host, visualStudio) && host != visualStudioS:
		return azure, azurePath(append([]string{strings.TrimSuffix(host, visualStudio)}, path...))
	}
	return host, dataCenterPath(path)
}

// azurePath is organisation/project/repository from: organisation/project/_git/repository, organisation/_git/repository for
// the repository that is named as its project, and the ssh form organisation/project/repository.
func azurePath(path []string) []string {
	path = slices.DeleteFunc(slices.Clone(path), func(s string) bool { return s == "_git" || s == "_full" || s == "_optimized" })
	if len(path) > 1 && path[1] == "defaultcollection" {
		path = slices.Delete(path, 1, 2)
	}
	if len(path) == 2 {
		path = append(path, path[1])
	}
	return path
}

// dataCenterPath is project/repository from Bitbucket Data Center's forms: [context/]scm/project/repository over https,
// project/repository over ssh, [context/]projects/project/repos/repository[/browse] for people.
func dataCenterPath(path []string) []string {
	if n := len(path); n >= 3 && path[n-3] == "scm" {
		return path[n-2:]
	}
	if n := len(path); n > 4 && path[n-1] == "browse" {
		path = path[:n-1]
	}
	n := len(path)
	if n < 4 || path[n-2] != "repos" {
		return path
	}
	switch path[n-4] {
	case "projects":
		return []string{path[n-3], path[n-1]}
	case "users":
		return []string{"~" + path[n-3], path[n-1]}
	}
	return path
}
