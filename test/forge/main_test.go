package forge

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shared is the server of all tests of this package; each test has users of its own.
var shared *Server

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fleetwright-gitea-")
	if err == nil {
		shared, err = Start(context.Background(), dir, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test forge:", err)
		os.Exit(1)
	}
	code := m.Run()
	shared.Stop()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// accounts makes names unique, for tests that run more than once.
var accounts int

func account(t *testing.T, name string, scopes ...gitea.AccessTokenScope) *Account {
	t.Helper()
	accounts++
	a, err := shared.Account(t.Context(), fmt.Sprintf("%s-%d", name, accounts), scopes...)
	require.NoError(t, err)
	return a
}

// owner is a user with a repository called fleet, whose first commit has these files.
func owner(t *testing.T, name string, files map[string]string) (*Account, *work) {
	t.Helper()
	a := account(t, name)
	_, _, err := a.API.CreateRepo(gitea.CreateRepoOption{Name: "fleet", DefaultBranch: "main"})
	require.NoError(t, err)
	w := &work{t: t, dir: t.TempDir()}
	w.git("init", "--quiet", "--initial-branch=main")
	w.git("config", "user.name", name)
	w.git("config", "user.email", name+"@example.com")
	w.git("remote", "add", "origin", a.URL+"/"+a.Name+"/fleet.git")
	w.push("main", files)
	return a, w
}

// work is a work tree.
type work struct {
	t   *testing.T
	dir string
	env []string
}

func (w *work) try(args ...string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir = w.dir
	cmd.Env = append(append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0"), w.env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (w *work) git(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	require.NoError(w.t, err, "git %v: %s", args, out)
	return out
}

// push commits files onto what is checked out and pushes it to a branch.
func (w *work) push(branch string, files map[string]string) string {
	w.t.Helper()
	for name, content := range files {
		path := filepath.Join(w.dir, name)
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(w.t, os.WriteFile(path, []byte(content), 0o644))
	}
	w.git("add", "--all")
	w.git("commit", "--quiet", "--message", "change")
	w.git("push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	return w.git("rev-parse", "HEAD")
}

// pull opens a pull request. The server learns of a pushed branch a moment after the push has ended.
func pull(t *testing.T, a *Account, owner string, o gitea.CreatePullRequestOption) *gitea.PullRequest {
	t.Helper()
	var made *gitea.PullRequest
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		made, _, err = a.API.CreatePullRequest(owner, "fleet", o)
		require.NoError(c, err)
	}, patience, poll)
	return made
}

const patience = 30 * time.Second
