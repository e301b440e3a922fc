package forge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
)

func TestLocate(t *testing.T) {
	for _, c := range []struct {
		kind          forge.Kind
		clone, server string
		want          string
	}{
		{forge.KindGitea, "https://git.example.com/acme/fleet.git", "", "https://git.example.com acme fleet"},
		{forge.KindGitea, "https://user:pw@git.example.com:3000/acme/fleet", "", "https://git.example.com:3000 acme fleet"},
		{forge.KindGitea, "http://git.example.com/forge/acme/fleet.git/", "", "http://git.example.com/forge acme fleet"},
		{forge.KindGitea, "ssh://git@git.example.com:2222/acme/fleet.git", "", "https://git.example.com acme fleet"},
		{forge.KindGitea, "git@git.example.com:acme/fleet.git", "", "https://git.example.com acme fleet"},
		{forge.KindGitea, "git@git.example.com:acme/fleet.git", "https://git.example.com:3000/", "https://git.example.com:3000 acme fleet"},
		{forge.KindGitHub, "https://github.com/acme/fleet.git", "", "https://api.github.com acme fleet"},
		{forge.KindGitHub, "ssh://git@ssh.github.com:443/acme/fleet.git", "", "https://api.github.com acme fleet"},
		{forge.KindGitHub, "git@github.com:acme/fleet", "https://github.com", "https://api.github.com acme fleet"},
		{forge.KindGitHub, "https://acme.ghe.com/acme/fleet", "", "https://api.acme.ghe.com acme fleet"},
		{forge.KindGitHub, "https://ghe.example.com/acme/fleet", "", "https://ghe.example.com/api/v3 acme fleet"},
		{forge.KindGitHub, "https://ghe.example.com/acme/fleet", "https://ghe.example.com/api/v3", "https://ghe.example.com/api/v3 acme fleet"},
		{forge.KindGitLab, "https://gitlab.com/acme/infra/fleet.git", "", "https://gitlab.com/api/v4 acme/infra fleet"},
		{forge.KindGitLab, "git@altssh.gitlab.com:acme/fleet.git", "", "https://gitlab.com/api/v4 acme fleet"},
		{forge.KindGitLab, "https://example.com/gitlab/acme/fleet.git", "https://example.com/gitlab", "https://example.com/gitlab/api/v4 acme fleet"},
		{forge.KindGitLab, "git@git.example.com:acme/fleet.git", "https://git.example.com/api/v4/", "https://git.example.com/api/v4 acme fleet"},
		{forge.KindBitbucketCloud, "git@bitbucket.org:acme/fleet.git", "", "https://api.bitbucket.org/2.0 acme fleet"},
		{forge.KindBitbucketDataCenter, "https://git.example.com/bb/scm/ACME/fleet.git", "", "https://git.example.com/bb ACME fleet"},
		{forge.KindBitbucketDataCenter, "https://git.example.com/scm/~jane/fleet.git", "", "https://git.example.com ~jane fleet"},
		{forge.KindBitbucketDataCenter, "ssh://git@git.example.com:7999/acme/fleet.git", "", "https://git.example.com acme fleet"},
		{forge.KindAzureDevOps, "https://dev.azure.com/acme/my%20project/_git/fleet", "", "https://dev.azure.com/acme my project fleet"},
		{forge.KindAzureDevOps, "https://acme@dev.azure.com/acme/infra/_git/fleet", "", "https://dev.azure.com/acme infra fleet"},
		{forge.KindAzureDevOps, "https://dev.azure.com/acme/_git/fleet", "", "https://dev.azure.com/acme fleet fleet"},
		{forge.KindAzureDevOps, "https://acme.visualstudio.com/DefaultCollection/infra/_git/fleet", "", "https://dev.azure.com/acme infra fleet"},
		{forge.KindAzureDevOps, "https://acme.visualstudio.com/_git/fleet", "", "https://dev.azure.com/acme fleet fleet"},
		{forge.KindAzureDevOps, "git@ssh.dev.azure.com:v3/acme/infra/fleet", "", "https://dev.azure.com/acme infra fleet"},
		{forge.KindAzureDevOps, "acme@vs-ssh.visualstudio.com:v3/acme/infra/fleet", "", "https://dev.azure.com/acme infra fleet"},
		{forge.KindAzureDevOps, "https://tfs.example.com/tfs/Collection/infra/_git/fleet", "", "https://tfs.example.com/tfs/Collection infra fleet"},
	} {
		got, err := forge.Locate(c.kind, c.clone, c.server)
		require.NoError(t, err, c.clone)
		require.Equal(t, c.want, got.URL+" "+got.Owner+" "+got.Repository, "%s %s", c.kind, c.clone)
	}
	for clone, kind := range map[string]forge.Kind{
		"https://github.com/acme/infra/fleet": forge.KindGitHub, "https://bitbucket.org/acme/infra/fleet": forge.KindBitbucketCloud,
	} {
		_, err := forge.Locate(kind, clone, "")
		require.ErrorContains(t, err, "acme/infra/fleet is not owner/name")
	}
	_, err := forge.Locate(forge.KindAzureDevOps, "https://dev.azure.com/acme/infra/fleet", "")
	require.EqualError(t, err, "read repository URL: dev.azure.com/acme/infra/fleet has no _git/name at its end")
	for clone, want := range map[string]string{
		"https://u:p@git.example.com/fleet.git":    "read repository URL: git.example.com/fleet.git names no owner and repository (allowed: https://host/owner/name.git)",
		"https://u:p@git.example.com:x/acme/fleet": "read repository URL: not a URL (allowed: https://host/owner/name.git, ssh://git@host/owner/name.git)",
	} {
		_, err := forge.Locate(forge.KindGitea, clone, "")
		require.EqualError(t, err, want)
	}
}

func TestSameRepository(t *testing.T) {
	const web = "https://git.example.com/Acme/fleet.git"
	for _, other := range []string{web, "git@git.example.com:acme/fleet", "ssh://git@git.example.com:2222/acme/fleet.git", "https://u:p@git.example.com/scm/acme/fleet/"} {
		require.True(t, forge.SameRepository(web, other), other)
	}
	for _, other := range []string{"https://git.example.com/acme/fleet2", "https://git.example.org/acme/fleet", "file:///srv/fleet"} {
		require.False(t, forge.SameRepository(web, other), other)
	}
}
