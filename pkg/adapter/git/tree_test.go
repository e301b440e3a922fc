package git

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeliveryReport_GF22_NamesThatGitRefuses(t *testing.T) {
	for _, name := range []string{"", ".", "..", ".git", ".GIT", "git~1", "GIT~1", "a/b", "a\x00b"} {
		require.False(t, validName(name), "%q", name)
	}
	for _, name := range []string{".gitignore", "a", "..a", "git"} {
		require.True(t, validName(name), "%q", name)
	}
}
