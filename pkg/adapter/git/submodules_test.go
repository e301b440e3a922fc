package git_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// modulesFile words a .gitmodules: path to url.
func modulesFile(urls map[string]string) string {
	var b strings.Builder
	for path, url := range urls {
		fmt.Fprintf(&b, "[submodule %q]\n\tpath = %s\n\turl = %s\n", path, path, url)
	}
	return b.String()
}

// withModule makes main of fleet hold one submodule.
func withModule(t *testing.T, server *gitserver.Server, commit, url string) {
	t.Helper()
	_, err := server.Apply("fleet", gitserver.Change{Message: "with a submodule",
		Files: map[string]string{".gitmodules": modulesFile(map[string]string{"vendor/lib": url})}, Submodules: map[string]string{"vendor/lib": commit}})
	require.NoError(t, err)
}

func newRepo(t *testing.T, server *gitserver.Server, name string, change gitserver.Change) string {
	t.Helper()
	require.NoError(t, server.CreateRepo(name))
	change.Message = "first"
	commit, err := server.Apply(name, change)
	require.NoError(t, err)
	return commit
}

func TestSubmodulesAreReadIntoTheTree(t *testing.T) {
	server, identity := sshFixture(t) // of the kind that hands out no bare commits
	inner := newRepo(t, server, "inner", gitserver.Change{Files: map[string]string{"deep.yaml": "deep: 1\n"}})
	lib := newRepo(t, server, "lib", gitserver.Change{
		Files:      map[string]string{"lib.yaml": "lib: 1\n", ".gitmodules": modulesFile(map[string]string{"inner": "../inner.git"})},
		Links:      map[string]string{"link.yaml": "lib.yaml", "up.yaml": "../../base/a.yaml"},
		Submodules: map[string]string{"inner": inner},
	})
	_, err := server.Commit("lib", map[string]string{"lib.yaml": "lib: 2\n"}, "the library goes on")
	require.NoError(t, err)
	withModule(t, server, lib, "../lib.git")
	for name, url := range map[string]string{"ssh": server.SSHURL("fleet"), "http": server.URL("fleet")} {
		t.Run(name, func(t *testing.T) {
			source := git.Source{URL: url, Ref: git.Ref{Branch: "main"}, RecurseSubmodules: true}
			if name == "ssh" {
				source.Auth = secret(t, url, map[string]string{"identity": identity, "known_hosts": knownHost(server.SSHAddress(), server.HostKeys()[0])})
			}
			_, tree := read(t, source)
			require.Subset(t, tree.Paths(), []string{"base/a.yaml", "vendor/lib/inner/deep.yaml", "vendor/lib/lib.yaml", "vendor/lib/link.yaml"})
			for path, want := range map[string]string{
				"vendor/lib/lib.yaml": "lib: 1\n", "vendor/lib/link.yaml": "lib: 1\n", "vendor/lib/inner/deep.yaml": "deep: 1\n", "vendor/lib/up.yaml": "a: 1\n",
			} {
				content, err := tree.ReadFile(path)
				require.NoError(t, err, path)
				require.Equal(t, want, string(content), path)
			}
			_, ok := tree.SubtreeHash("vendor/lib/inner")
			require.True(t, ok)
		})
	}
}

// TestDeliveryReport_GF15_SubmoduleOnAnotherHostIsNotAsked: neither with credentials nor without.
func TestDeliveryReport_GF15_SubmoduleOnAnotherHostIsNotAsked(t *testing.T) {
	elsewhere, commit := repository(t, gitserver.Options{})
	server, _ := repository(t, gitserver.Options{Username: "robot", Password: password})
	url := server.URL("fleet")
	source := git.Source{URL: url, AllowInsecureHTTP: true, RecurseSubmodules: true, Ref: git.Ref{Branch: "main"},
		Auth: secret(t, url, map[string]string{"username": "robot", "password": password})}
	host := func(url string) string { return strings.Split(url, "/fleet.git")[0] }
	cases := map[string]string{
		elsewhere.URL("fleet"): "it is at " + host(elsewhere.URL("fleet")) + ", not at " + host(url) +
			": its server is not asked, and gets no credentials; use a relative url, or commit the files themselves",
		"https://" + strings.TrimPrefix(host(url), "http://") + "/fleet.git": "it is at https://" + strings.TrimPrefix(host(url), "http://") + ", not at " + host(url) +
			": its server is not asked, and gets no credentials; use a relative url, or commit the files themselves",
		"git@github.com:acme/lib.git": "it is at ssh://github.com:22, not at " + host(url) +
			": its server is not asked, and gets no credentials; use a relative url, or commit the files themselves",
	}
	for address, problem := range cases {
		withModule(t, server, commit, address)
		revision, err := git.Resolve(t.Context(), source)
		require.NoError(t, err)
		_, err = git.Fetch(t.Context(), source, revision)
		requireFailure(t, err, git.ReasonSubmoduleElsewhere, "submodule vendor/lib: "+problem)
	}
	require.Empty(t, elsewhere.Requests())
}

// TestSubmodulesOfAPullRequestGetNoCredentials: who opens it must not read other private repositories through it.
func TestSubmodulesOfAPullRequestGetNoCredentials(t *testing.T) {
	server, _ := repository(t, gitserver.Options{Username: "robot", Password: password})
	private := newRepo(t, server, "private", gitserver.Change{Files: map[string]string{"secret.yaml": "s3cret"}})
	withModule(t, server, private, "../private.git")
	url := server.URL("fleet")
	source := git.Source{URL: url, AllowInsecureHTTP: true, RecurseSubmodules: true, AnonymousSubmodules: true,
		Auth: secret(t, url, map[string]string{"username": "robot", "password": password})}
	head, err := server.Git("fleet", "rev-parse", "main")
	require.NoError(t, err)
	_, err = git.FetchAt(t.Context(), source, "refs/heads/main", head)
	requireFailure(t, err, git.ReasonAuthenticationFailed,
		"submodule vendor/lib: "+server.URL("private")+" asks for credentials and none are given; name a Secret in secretRef")
	for _, request := range server.Requests() {
		require.False(t, request.Authorization && strings.Contains(request.Path, "private"), request)
	}
	source.AnonymousSubmodules = false
	_, err = git.FetchAt(t.Context(), source, "refs/heads/main", head)
	require.NoError(t, err)
}

func TestSubmodulesThatAreRefused(t *testing.T) {
	server, commit := repository(t, gitserver.Options{})
	noise := make([]byte, 600<<10)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	large := newRepo(t, server, "large", gitserver.Change{Files: map[string]string{"noise": string(noise)}})
	_, err = server.Commit("fleet", map[string]string{"noise": string(noise[:500<<10])}, "half")
	require.NoError(t, err)
	many := map[string]string{}
	links := map[string]string{}
	for i := range 40 {
		path := fmt.Sprintf("vendor/m%d", i)
		many[path], links[path] = "./", commit
	}
	missing := strings.Repeat("1", 40)
	url := server.URL("fleet")
	cases := map[string]struct {
		change  gitserver.Change
		limits  git.Limits
		reason  git.Reason
		message string
	}{
		"no url": {gitserver.Change{Submodules: map[string]string{"vendor/lib": commit}}, git.Limits{}, git.ReasonSubmoduleInvalid,
			"vendor/lib is a git submodule for which .gitmodules names no url"},
		"a commit that is gone": {gitserver.Change{Submodules: map[string]string{"vendor/lib": missing},
			Files: map[string]string{".gitmodules": modulesFile(map[string]string{"vendor/lib": "../fleet.git"})}}, git.Limits{}, git.ReasonCommitNotFound,
			"submodule vendor/lib: " + url + " does not hand out commit " + missing + ", and it is not among the newest 200 of HEAD"},
		"limits hold for the sum": {gitserver.Change{Submodules: map[string]string{"vendor/lib": large},
			Files: map[string]string{".gitmodules": modulesFile(map[string]string{"vendor/lib": "../large.git"})}}, git.Limits{Unpacked: 1 << 20}, git.ReasonTooLarge,
			"submodule vendor/lib: the commit of " + server.URL("large") + " unpacks to more than 1 MiB; split the repository or raise the limit"},
		"many": {gitserver.Change{Submodules: links, Files: map[string]string{".gitmodules": modulesFile(many)}}, git.Limits{}, git.ReasonTooLarge,
			"the repository has more than 32 submodules, or more than 4 in one another; commit the files themselves"},
		"a local path": {gitserver.Change{Submodules: map[string]string{"vendor/lib": commit},
			Files: map[string]string{".gitmodules": modulesFile(map[string]string{"vendor/lib": "/srv/fleet.git"})}}, git.Limits{}, git.ReasonUnsupportedURL,
			"submodule vendor/lib: the source's url is a local path, which works only on the command line and in the demo (allowed: https://…, ssh://…)"},
		"a large .gitmodules": {gitserver.Change{Submodules: map[string]string{"vendor/lib": commit},
			Files: map[string]string{".gitmodules": strings.Repeat("#", 70000)}}, git.Limits{}, git.ReasonTooLarge, ".gitmodules has 70000 bytes (allowed: 65536)"},
		"a broken .gitmodules": {gitserver.Change{Submodules: map[string]string{"vendor/lib": commit},
			Files: map[string]string{".gitmodules": "[submodule"}}, git.Limits{}, git.ReasonSubmoduleInvalid, ".gitmodules cannot be read as git reads it"},
		"a link as .gitmodules": {gitserver.Change{Submodules: map[string]string{"vendor/lib": commit}, Links: map[string]string{".gitmodules": "base/a.yaml"}},
			git.Limits{}, git.ReasonSubmoduleInvalid, "vendor/lib is a git submodule for which .gitmodules names no url"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			branch := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ".", "")
			tc.change.Branch, tc.change.Message = branch, name
			tc.change.Parent, err = server.Git("fleet", "rev-parse", "main")
			require.NoError(t, err)
			_, err := server.Apply("fleet", tc.change)
			require.NoError(t, err)
			source := git.Source{URL: url, Ref: git.Ref{Branch: branch}, RecurseSubmodules: true, Limits: tc.limits}
			revision, err := git.Resolve(t.Context(), source)
			require.NoError(t, err)
			_, err = git.Fetch(t.Context(), source, revision)
			requireFailure(t, err, tc.reason, tc.message)
		})
	}
}
