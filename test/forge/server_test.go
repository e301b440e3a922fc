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

func TestServerStartsStopsAndKnowsItsUsers(t *testing.T) {
	s, err := Start(t.Context(), t.TempDir(), os.Stderr)
	require.NoError(t, err)
	defer s.Stop()
	ada, err := s.Account(t.Context(), "ada", "write:repository", "write:user")
	require.NoError(t, err)
	repo, _, err := ada.API.CreateRepo(gitea.CreateRepoOption{Name: "fleet", AutoInit: true})
	require.NoError(t, err)
	require.Equal(t, "ada/fleet", repo.FullName)
	_, _, err = ada.API.AdminCreateUser(gitea.CreateUserOption{Username: "eve", Password: s.Password, Email: "eve@example.com"})
	require.Error(t, err, "a token has only its scopes")
}
