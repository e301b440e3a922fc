package foreign

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func keyer(t *testing.T, p Program) (dir string, write func(name, content string) string) {
	dir = t.TempDir()
	return dir, func(name, content string) string {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		key, err := p.key(t.Context(), dir)
		require.NoError(t, err)
		return key
	}
}

func TestKeyFollowsTheSources(t *testing.T) {
	_, write := keyer(t, Program{Name: "p", Version: "v1"})
	first := write("go.mod", "module m\n\ngo 1.26.0\n")
	second := write("main.go", "package main")
	require.NotEqual(t, first, second)
	require.Equal(t, second, write("main_test.go", "package main"), "tests are no part of the program")
	require.NotEqual(t, second, write("audit-policy.yaml", "x"), "what is embedded is")
}

func TestKeyFollowsTheInputsThatAreNamed(t *testing.T) {
	dir, write := keyer(t, Program{Name: "p", Version: "v1", Inputs: []string{"go.mod", "go.sum", "part"}})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "part"), 0o700))
	first := write("go.mod", "module m\n\ngo 1.26.0\n")
	require.Equal(t, first, write("main.go", "package main"), "another program's sources are no part of it")
	second := write("part/main.go", "package main")
	require.NotEqual(t, first, second)
	require.NotEqual(t, second, write("go.mod", "module m\n\ngo 1.26.1\n"), "its dependencies are")
}

func TestKeyFollowsTheVersion(t *testing.T) {
	dir, write := keyer(t, Program{Version: "v1"})
	first := write("go.mod", "module m\n\ngo 1.26.0\n")
	second, err := Program{Version: "v2"}.key(t.Context(), dir)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

func TestBuildReturnsAtOnceWhatIsInTheCache(t *testing.T) {
	p := Program{Name: "p", Module: "test/cluster/controlplane", Version: "v1"}
	source, err := p.Source()
	require.NoError(t, err)
	key, err := p.key(t.Context(), source)
	require.NoError(t, err)
	cache := t.TempDir()
	t.Setenv(CacheEnv, cache)
	want := filepath.Join(cache, "p-"+key, "p")
	require.NoError(t, os.MkdirAll(filepath.Dir(want), 0o700))
	require.NoError(t, os.WriteFile(want, nil, 0o700))
	var log bytes.Buffer
	got, err := p.Build(t.Context(), &log)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Empty(t, log.String())
}

func TestSourceNamesWhatIsMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Program{Name: "p", Module: "test/nowhere"}.Source()
	require.ErrorContains(t, err, "find sources of p: no test/nowhere in or above")
}
