package wake

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// forms are the addresses of one repository each. Every one is the same as every other of its row, and none of another row's.
var forms = map[string][]string{
	"github": {
		"https://github.com/acme/fleet.git", "https://github.com/acme/fleet", "https://github.com/acme/fleet/", "http://github.com/acme/fleet.git/",
		"https://GitHub.com/Acme/Fleet", "https://bot@github.com/acme/fleet", "https://x-access-token:secret@github.com/acme/fleet.git",
		"https://github.com:443/acme/fleet", "git@github.com:acme/fleet.git", "git@github.com:/acme/fleet", "ssh://git@github.com/acme/fleet.git",
		"ssh://git@github.com:22/acme/fleet", "ssh://git@ssh.github.com:443/acme/fleet.git", "git@ssh.github.com:acme/fleet.git",
		"git://github.com/acme/fleet.git", "git+ssh://git@github.com/acme/fleet", "https://www.github.com/acme//fleet", "https://github.com./acme/fleet",
		" https://github.com/acme/fleet ", "https://github.com/acme/fleet?x=1#readme",
	},
	"another owner":       {"https://github.com/acme2/fleet"},
	"a longer name":       {"https://github.com/acme/fleet2", "git@github.com:acme/fleet2"},
	"a shorter name":      {"https://github.com/acme/flee"},
	"a directory of it":   {"https://github.com/acme/fleet/fleet"},
	"another host":        {"https://github.com.example.com/acme/fleet"},
	"the host in a user":  {"https://github.com@evil.example.com/acme/fleet", "https://github.com:x@evil.example.com/acme/fleet"},
	"the host in a path":  {"https://evil.example.com/github.com/acme/fleet"},
	"a pattern, no match": {"https://github.com/acme/flee."},
	"gitlab": {
		"https://gitlab.com/group/sub/fleet.git", "git@gitlab.com:group/sub/fleet.git", "ssh://git@altssh.gitlab.com:443/group/sub/fleet.git",
		"https://oauth2:token@gitlab.com/Group/Sub/Fleet",
	},
	"gitea": {
		"http://git.example.com:3000/acme/fleet.git", "ssh://git@git.example.com:2222/acme/fleet.git", "git@git.example.com:acme/fleet.git",
		"https://git.example.com/acme/fleet",
	},
	"ipv6": {"http://[fd00::1]:3000/acme/fleet", "ssh://git@[FD00::1]/acme/fleet", "git@[fd00::1]:acme/fleet.git"},
	"bitbucket cloud": {
		"https://bitbucket.org/acme/fleet", "https://jane@bitbucket.org/acme/fleet.git", "git@bitbucket.org:acme/fleet.git",
		"ssh://git@altssh.bitbucket.org:443/acme/fleet.git",
	},
	"bitbucket data center": {
		"https://bitbucket.example.com/scm/PLAT/fleet.git", "https://bitbucket.example.com/scm/plat/fleet", "ssh://git@bitbucket.example.com:7999/plat/fleet.git",
		"https://bitbucket.example.com/projects/PLAT/repos/fleet/browse", "https://bitbucket.example.com/projects/PLAT/repos/fleet",
		"https://jane@bitbucket.example.com/scm/plat/fleet.git", "https://bitbucket.example.com/context/scm/plat/fleet.git",
	},
	"somebody's own there": {
		"https://bitbucket.example.com/scm/~jane/fleet.git", "ssh://git@bitbucket.example.com:7999/~jane/fleet.git",
		"https://bitbucket.example.com/users/jane/repos/fleet/browse", "https://bitbucket.example.com/scm/%7Ejane/fleet.git",
	},
	"azure devops": {
		"https://dev.azure.com/acme/My%20Platform/_git/fleet", "https://acme@dev.azure.com/acme/My%20Platform/_git/fleet",
		"git@ssh.dev.azure.com:v3/acme/My%20Platform/fleet", "ssh://git@ssh.dev.azure.com:22/v3/acme/My%20Platform/fleet",
		"ssh://git@ssh.dev.azure.com/v3/acme/My Platform/fleet", "https://acme.visualstudio.com/My%20Platform/_git/fleet",
		"https://acme.visualstudio.com/DefaultCollection/My%20Platform/_git/fleet", "acme@vs-ssh.visualstudio.com:v3/acme/My%20Platform/fleet",
		"https://dev.azure.com/acme/My%20Platform/_git/_full/fleet", "https://dev.azure.com/acme/My%20Platform/_git/_optimized/fleet",
	},
	"azure devops, named as its project": {
		"https://dev.azure.com/acme/_git/fleet", "https://dev.azure.com/acme/fleet/_git/fleet", "git@ssh.dev.azure.com:v3/acme/fleet/fleet",
		"https://acme.visualstudio.com/_git/fleet", "https://acme.visualstudio.com/DefaultCollection/_git/fleet",
	},
	"azure devops server": {"https://tfs.example.com/tfs/Main/plat/_git/fleet", "ssh://tfs.example.com:22/tfs/Main/plat/_git/fleet"},
}

func TestDeliveryReport_WH12_EveryFormOfAnAddressIsTheSameRepository(t *testing.T) {
	seen := map[Repository]string{}
	for name, urls := range forms {
		one, ok := RepositoryOf(urls[0])
		require.True(t, ok, urls[0])
		require.Empty(t, seen[one], "%s and %s are told apart", name, seen[one])
		seen[one] = name
		for _, u := range urls {
			other, ok := RepositoryOf(u)
			require.True(t, ok, u)
			require.Equal(t, one, other, u)
			fleet := &fleetv1.Fleet{Spec: fleetv1.FleetSpec{Source: fleetv1.Source{URL: u}}}
			require.True(t, Names(fleet, Event{Repositories: []Repository{one}}), u)
			require.False(t, Names(fleet, Event{Repositories: []Repository{{Host: one.Host, Path: one.Path + "x"}, {Host: "x" + one.Host, Path: one.Path}}}), u)
		}
	}
}

func TestLocalPathsAreNoRepositories(t *testing.T) {
	for _, u := range []string{"", "file:///srv/fleet", "/srv/fleet", "./fleet", "https://", "https://git.example.com", "https://git.example.com/", "git@git.example.com:",
		"https:///fleet", "https://git.example.com/.git", "fleet"} {
		_, ok := RepositoryOf(u)
		require.False(t, ok, u)
		require.False(t, Names(&fleetv1.Fleet{Spec: fleetv1.FleetSpec{Source: fleetv1.Source{URL: u}}}, Event{Repositories: []Repository{{}}}), u)
	}
}

// TestRepositoryOfAgreesWithTheStandardLibrary: whatever the user, port and escaping, the host is the one that a client connects to.
func TestRepositoryOfAgreesWithTheStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const alphabet = "ab/@:.%20[]-_~?#G "
	valid := 0
	for range 200_000 {
		text := "https://"
		for range 1 + rng.IntN(24) {
			text += string(alphabet[rng.IntN(len(alphabet))])
		}
		got, ok := RepositoryOf(text)
		if ok {
			require.Equal(t, strings.Trim(got.Path, "/"), got.Path, text)
			require.NotContains(t, got.Path, "//", text)
		}
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Hostname() == "" || !ok || strings.Contains(got.Host, "%") { // no host that is real is escaped
			continue
		}
		valid++
		host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		require.Equal(t, host, got.Host, text)
	}
	require.Greater(t, valid, 5_000)
}

func fleetAt(ref *fleetv1.GitRef) *fleetv1.Fleet {
	return &fleetv1.Fleet{Spec: fleetv1.FleetSpec{Source: fleetv1.Source{URL: "https://git.example.com/acme/fleet", Ref: ref}}}
}

func TestDeliveryReport_WH10_EverySpellingOfARefIsTheSame(t *testing.T) {
	for _, c := range []struct {
		ref   *fleetv1.GitRef
		moved string
		want  Look
	}{
		{nil, "refs/heads/main", Revision},
		{&fleetv1.GitRef{}, "refs/heads/main", Revision},
		{&fleetv1.GitRef{Branch: "main"}, "refs/heads/main", Revision},
		{&fleetv1.GitRef{Branch: "main"}, "main", Revision},
		{&fleetv1.GitRef{Branch: "refs/heads/main"}, "refs/heads/main", Revision},
		{&fleetv1.GitRef{Branch: "refs/heads/main"}, "main", Revision},
		{&fleetv1.GitRef{Branch: "main"}, "HEAD", Revision},
		{&fleetv1.GitRef{Branch: "HEAD"}, "refs/heads/main", Revision},
		{&fleetv1.GitRef{Branch: "HEAD"}, "HEAD", Revision},
		{&fleetv1.GitRef{Branch: "HEAD"}, "refs/heads/dev", Nothing},
		{&fleetv1.GitRef{Branch: "a/b"}, "refs/heads/a/b", Revision},
		{&fleetv1.GitRef{Branch: "v1"}, "refs/tags/v1", Nothing},
		{&fleetv1.GitRef{Branch: "Main"}, "refs/heads/main", Nothing},
		{&fleetv1.GitRef{Branch: "main"}, "refs/heads/main2", Nothing},
		{&fleetv1.GitRef{Branch: "main"}, "refs/heads/x/main", Nothing},
		{&fleetv1.GitRef{Branch: "main"}, "refs/pull/1/head", Nothing},
		{&fleetv1.GitRef{Branch: "main"}, "refs/heads/", Nothing},
		{&fleetv1.GitRef{Tag: "v1"}, "refs/tags/v1", Revision},
		{&fleetv1.GitRef{Tag: "refs/tags/v1"}, "refs/tags/v1", Revision},
		{&fleetv1.GitRef{Tag: "refs/tags/v1"}, "v1", Revision},
		{&fleetv1.GitRef{Tag: "v1"}, "refs/heads/v1", Nothing},
		{&fleetv1.GitRef{Tag: "v1"}, "refs/tags/v10", Nothing},
		{&fleetv1.GitRef{SemVer: ">=1.0.0"}, "refs/tags/v1", Revision},
		{&fleetv1.GitRef{SemVer: ">=1.0.0", Branch: "main"}, "refs/heads/main", Nothing},
		{&fleetv1.GitRef{Tag: "v1", Branch: "main"}, "refs/heads/main", Nothing},
		{&fleetv1.GitRef{Commit: strings.Repeat("a", 40), Branch: "main"}, "refs/heads/main", Nothing},
	} {
		e := Event{Kind: Push, Refs: []string{"refs/heads/other", c.moved}, DefaultBranch: "main"}
		require.Equal(t, c.want, For(fleetAt(c.ref), e), "%+v, %s moved", c.ref, c.moved)
	}
	unknown := Event{Kind: Push, Refs: []string{"refs/heads/dev"}}
	require.Equal(t, Revision, For(fleetAt(&fleetv1.GitRef{Branch: "HEAD"}), unknown), "any branch may be the default one")
}

func TestDeliveryReport_WH09_OnlyWhoFollowsTheRefLooks(t *testing.T) {
	follower := fleetAt(&fleetv1.GitRef{Branch: "main"})
	require.Equal(t, Nothing, For(follower, Event{Kind: Push, Refs: []string{"refs/heads/dev", "refs/tags/main"}}))
	require.Equal(t, Revision, For(follower, Event{Kind: Push, Refs: []string{"refs/heads/dev", "refs/heads/main"}}), "one of many refs")
	for _, kind := range []Kind{Ping, Ignored, ""} {
		require.Equal(t, Nothing, For(follower, Event{Kind: kind, Refs: []string{"refs/heads/main"}, Bases: []string{"main"}}))
	}
	pull := Event{Kind: PullRequest, Bases: []string{"main"}}
	require.Equal(t, Nothing, For(follower, pull), "it reviews none")
	for _, checks := range []fleetv1.PullRequestChecks{{Plan: true}, {Comment: true}} {
		follower.Spec.Checks = &fleetv1.Checks{PullRequests: &checks}
		require.Equal(t, Reviews, For(follower, pull))
	}
	require.Equal(t, Nothing, For(follower, Event{Kind: PullRequest, Bases: []string{"dev"}}))
	require.Equal(t, Reviews, For(follower, Event{Kind: PullRequest, Bases: []string{"dev", "main"}}), "it was for main until now")
	require.Equal(t, Reviews, For(follower, Event{Kind: PullRequest, Bases: []string{"dev"}, Retargeted: true}), "it may have been")
	follower.Spec.Checks.PullRequests = &fleetv1.PullRequestChecks{}
	require.Equal(t, Nothing, For(follower, pull))
	follower.Spec.Suspend = true
	require.Equal(t, Nothing, For(follower, Event{Kind: Push, Refs: []string{"refs/heads/main"}}), "suspended")
}

func TestNoHostIsEveryHost(t *testing.T) {
	only, ok := PathOnly("PLAT/fleet")
	require.True(t, ok)
	e := Event{Repositories: []Repository{only}}
	for u, want := range map[string]bool{
		"https://bitbucket.example.com/scm/plat/fleet.git": true, "ssh://git@bitbucket.example.com:7999/plat/fleet.git": true,
		"https://bitbucket.example.com/scm/plat/fleet2.git": false, "https://bitbucket.example.com/scm/x/plat/fleet.git": false,
	} {
		require.Equal(t, want, Names(&fleetv1.Fleet{Spec: fleetv1.FleetSpec{Source: fleetv1.Source{URL: u}}}, e), u)
	}
}

func TestProviderOf(t *testing.T) {
	for _, c := range []struct {
		webhook fleetv1.WebhookProvider
		checks  fleetv1.ForgeProvider
		want    fleetv1.WebhookProvider
	}{
		{"", "", "generic"}, {"", "gitnotes", "generic"}, {"", "github", "github"}, {"", "azuredevops", "azuredevops"},
		{"generic", "github", "generic"}, {"gitlab", "gitnotes", "gitlab"},
	} {
		spec := fleetv1.FleetSpec{Webhook: &fleetv1.Webhook{Provider: c.webhook}}
		if c.checks != "" {
			spec.Checks = &fleetv1.Checks{Provider: c.checks}
		}
		require.Equal(t, c.want, ProviderOf(spec), fmt.Sprintf("%+v", c))
	}
}
