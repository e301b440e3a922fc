package forge

import (
	"os"
	"regexp"
	"testing"

	"code.gitea.io/sdk/gitea"
	"github.com/stretchr/testify/require"
)

func TestVersionIsThatOfTheModule(t *testing.T) {
	b, err := os.ReadFile("gitea/go.mod")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^(?:require |\t)code\.gitea\.io/gitea (\S+)`).FindSubmatch(b)
	require.NotNil(t, found)
	require.Equal(t, giteaVersion, string(found[1]))
}

func TestTokensHaveTheirScopesOnly(t *testing.T) {
	narrow := account(t, "narrow", "write:repository")
	_, _, err := narrow.API.AdminCreateUser(gitea.CreateUserOption{Username: "eve", Password: narrow.Password, Email: "eve@example.com"})
	require.Error(t, err)
	_, _, err = narrow.API.ListMyRepos(gitea.ListReposOptions{})
	require.Error(t, err, "that would need read:user")
}
