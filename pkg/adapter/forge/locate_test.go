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
	} {
		got, err := forge.Locate(c.kind, c.clone, c.server)
		require.NoError(t, err, c.clone)
		require.Equal(t, c.want, got.URL+" "+got.Owner+" "+got.Repository, "%s %s", c.kind, c.clone)
	}
	for clone, want := range map[string]string{
		"https://u:p@git.example.com/fleet.git":    "read repository URL: git.example.com/fleet.git names no owner and repository (allowed: https://host/owner/name.git)",
		"https://u:p@git.example.com:x/acme/fleet": "read repository URL: not a URL (allowed: https://host/owner/name.git, ssh://git@host/owner/name.git)",
	} {
		_, err := forge.Locate(forge.KindGitea, clone, "")
		require.EqualError(t, err, want)
	}
}
