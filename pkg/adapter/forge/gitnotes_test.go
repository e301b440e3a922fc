package forge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

const password = "s3cret/word"

// serve starts a git server with one commit in repository fleet.
func serve(t *testing.T, opts gitserver.Options) (server *gitserver.Server, commit string) {
	server, err := gitserver.New(t.TempDir(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.CreateRepo("fleet"))
	commit, err = server.Commit("fleet", map[string]string{"a.yaml": "a: 1\n"}, "first")
	require.NoError(t, err)
	return server, commit
}

func notesOf(server *gitserver.Server) *forge.GitNotes {
	return forge.NewGitNotes(forge.GitNotesConfig{
		URL: server.URL("fleet"), CABundle: server.CA(),
		Auth: &githttp.BasicAuth{Username: "fleet", Password: password},
	})
}

func gitNote(t *testing.T, server *gitserver.Server, commit string) string {
	out, err := server.Git("fleet", "notes", "--ref=fleetwright", "show", commit)
	require.NoError(t, err)
	return out
}

func status(commit string, state forge.State, text string) forge.Status {
	return forge.Status{Commit: commit, Context: "fleetwright/us-east-1", State: state, Description: text}
}

// timeless takes off when a status was taken.
func timeless(all []forge.Status) []forge.Status {
	for i := range all {
		all[i].At = time.Time{}
	}
	return all
}

// TestGitNotesKeepTheContract: notes can be made for any hash, so no commit is unknown.
func TestGitNotesKeepTheContract(t *testing.T) {
	server, _ := serve(t, gitserver.Options{})
	n := 0
	forgetest.Contract(t, forgetest.Subject{
		Provider: notesOf(server), AnyCommit: true,
		Commit: func(*testing.T) string { n++; return fmt.Sprintf("%040x", n) },
	})
}

func TestGitNotesAreReadByGit(t *testing.T) {
	server, commit := serve(t, gitserver.Options{TLS: true, Username: "fleet", Password: password})
	notes, ctx := notesOf(server), t.Context()
	none, err := notes.Statuses(ctx, commit)
	require.NoError(t, err)
	require.Empty(t, none)

	require.NoError(t, notes.SetStatus(ctx, status(commit, forge.Pending, "0/24 nodes <a&b>")))
	final := status(commit, forge.Success, "24/24 nodes")
	final.TargetURL = "https://fleet.example/runs/1"
	require.NoError(t, notes.SetStatus(ctx, final))

	lines := strings.Split(gitNote(t, server, commit), "\n")
	require.Len(t, lines, 2)
	require.Regexp(t, `^\{"context":"fleetwright/us-east-1","state":"pending","description":"0/24 nodes <a&b>","time":"20[^"]+Z"\}$`, lines[0])
	var last struct{ State, Description, TargetURL string }
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
	require.Equal(t, "success 24/24 nodes https://fleet.example/runs/1", last.State+" "+last.Description+" "+last.TargetURL)

	got, err := notesOf(server).Statuses(ctx, commit) // another process
	require.NoError(t, err)
	require.False(t, got[0].At.IsZero())
	require.Equal(t, []forge.Status{final}, timeless(got))
	_, err = server.Git("fleet", "fsck", "--strict")
	require.NoError(t, err)
}

func TestEqualStatusWritesNothing(t *testing.T) {
	server, commit := serve(t, gitserver.Options{})
	for range 3 {
		require.NoError(t, notesOf(server).SetStatus(t.Context(), status(commit, forge.Success, "done")))
	}
	count, err := server.Git("fleet", "rev-list", "--count", "refs/notes/fleetwright")
	require.NoError(t, err)
	require.Equal(t, "1", count)
}

func TestHistoryIsShortAndForeignLinesStay(t *testing.T) {
	server, commit := serve(t, gitserver.Options{})
	_, err := server.Git("fleet", "-c", "user.name=a", "-c", "user.email=a@b", "notes", "--ref=fleetwright", "add", "-m", "a person wrote this", commit)
	require.NoError(t, err)
	notes := notesOf(server)
	other := status(commit, forge.Success, "other")
	other.Context = "ci/build"
	require.NoError(t, notes.SetStatus(t.Context(), other))
	for i := range 15 {
		require.NoError(t, notes.SetStatus(t.Context(), status(commit, forge.Pending, fmt.Sprintf("%d/15 nodes", i))))
	}
	lines := strings.Split(gitNote(t, server, commit), "\n")
	require.Equal(t, "a person wrote this", lines[0])
	require.Contains(t, lines[1], "ci/build")
	require.Len(t, lines, 12)
	require.Contains(t, lines[2], "5/15 nodes")
	got, err := notes.Statuses(t.Context(), commit)
	require.NoError(t, err)
	require.Equal(t, []forge.Status{other, status(commit, forge.Pending, "14/15 nodes")}, timeless(got))
}

// git fans notes out when there are many: both directions must meet, whatever the shape of the tree.
func TestFannedOutNotes(t *testing.T) {
	server, first := serve(t, gitserver.Options{})
	commits := manyCommits(t, server, 300)
	_, err := server.Git("fleet", "-c", "user.name=a", "-c", "user.email=a@b", "notes", "--ref=fleetwright", "add",
		"-m", `{"context":"old","state":"success"}`, first)
	require.NoError(t, err)
	var pairs strings.Builder
	for _, c := range commits[:299] {
		fmt.Fprintf(&pairs, "%s %s\n", first, c)
	}
	gitInput(t, server, pairs.String(), "notes", "--ref=fleetwright", "copy", "--stdin")
	require.NotContains(t, topLevel(t, server), commits[0], "git did not fan out: the test needs more notes")

	notes := notesOf(server)
	for _, c := range []string{commits[0], commits[299]} {
		require.NoError(t, notes.SetStatus(t.Context(), status(c, forge.Success, "done")))
		require.Contains(t, gitNote(t, server, c), "fleetwright/us-east-1")
	}
	got, err := notes.Statuses(t.Context(), commits[0])
	require.NoError(t, err)
	require.Len(t, got, 2)
	list, err := server.Git("fleet", "notes", "--ref=fleetwright", "list")
	require.NoError(t, err)
	require.Len(t, strings.Split(list, "\n"), 301, "each commit has one note")
	_, err = server.Git("fleet", "fsck", "--strict")
	require.NoError(t, err)
}

// A flat tree that has become long gets its next note in a directory; git reads the mixture.
func TestLongFlatTreeFansOut(t *testing.T) {
	server, _ := serve(t, gitserver.Options{})
	commits := manyCommits(t, server, 257)
	blob := gitInput(t, server, "a person wrote this\n", "hash-object", "-w", "--stdin")
	var entries strings.Builder
	for _, c := range commits[:256] {
		fmt.Fprintf(&entries, "100644 blob %s\t%s\n", blob, c)
	}
	tree := gitInput(t, server, entries.String(), "mktree")
	gitInput(t, server, "", "update-ref", "refs/notes/fleetwright", gitInput(t, server, "notes", "commit-tree", tree))

	notes := notesOf(server)
	for _, c := range []string{commits[0], commits[256]} {
		require.NoError(t, notes.SetStatus(t.Context(), status(c, forge.Success, "done")))
		require.Contains(t, gitNote(t, server, c), `"description":"done"`)
	}
	require.Contains(t, gitNote(t, server, commits[0]), "a person wrote this")
	require.Contains(t, topLevel(t, server), commits[0])
	require.NotContains(t, topLevel(t, server), commits[256])
	_, err := server.Git("fleet", "fsck", "--strict")
	require.NoError(t, err)
}

func topLevel(t *testing.T, server *gitserver.Server) string {
	names, err := server.Git("fleet", "ls-tree", "--name-only", "refs/notes/fleetwright")
	require.NoError(t, err)
	return names
}

// gitInput runs git in the bare repository with a standard input.
func gitInput(t *testing.T, server *gitserver.Server, input string, args ...string) string {
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir, cmd.Stdin = server.Path("fleet"), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func manyCommits(t *testing.T, server *gitserver.Server, n int) []string {
	var stream strings.Builder
	for i := range n {
		fmt.Fprintf(&stream, "commit refs/heads/many\ncommitter a <a@b> %d +0000\ndata 4\nmore\n", 1700000000+i)
	}
	gitInput(t, server, stream.String(), "fast-import", "--quiet")
	return strings.Split(gitInput(t, server, "", "rev-list", "--reverse", "many"), "\n")
}

func TestTwoWritersLoseNothing(t *testing.T) {
	server, commit := serve(t, gitserver.Options{})
	var writers sync.WaitGroup
	for _, region := range []string{"us-east-1", "eu-west-1"} {
		writers.Go(func() {
			notes := notesOf(server)
			for i := range 6 {
				s := status(commit, forge.Pending, fmt.Sprintf("%d/5 nodes", i))
				s.Context = "fleetwright/" + region
				if err := notes.SetStatus(t.Context(), s); err != nil {
					t.Errorf("%s: %v", region, err)
				}
			}
		})
	}
	writers.Wait()
	require.Len(t, strings.Split(gitNote(t, server, commit), "\n"), 12)
}

// A writer that reads an old head and pushes after somebody else must read again and keep the other's line.
func TestLostRaceIsReadAgain(t *testing.T) {
	var server *gitserver.Server
	var commit string
	var once sync.Once
	wrap := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("service") == "git-receive-pack" {
				once.Do(func() {
					_, err := server.Git("fleet", "-c", "user.name=a", "-c", "user.email=a@b", "notes", "--ref=fleetwright", "add", "-m", "I was first", commit)
					require.NoError(t, err)
				})
			}
			next.ServeHTTP(w, r)
		})
	}
	server, commit = serve(t, gitserver.Options{Wrap: wrap})
	require.NoError(t, notesOf(server).SetStatus(t.Context(), status(commit, forge.Success, "done")))
	note := gitNote(t, server, commit)
	require.Contains(t, note, "I was first")
	require.Contains(t, note, `"description":"done"`)
}

func TestRefusedByHookIsPermanent(t *testing.T) {
	server, commit := serve(t, gitserver.Options{})
	hook := filepath.Join(server.Path("fleet"), "hooks", "update")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	err := notesOf(server).SetStatus(t.Context(), status(commit, forge.Success, "done"))
	require.EqualError(t, err, "push status to git notes: command error on refs/notes/fleetwright: hook declined")
	require.Equal(t, forge.Permanent, forge.ClassOf(err))
}

// TestLockedRefIsARace: a push of another cluster that holds the ref for a moment is no refusal, which would be held for an hour.
func TestLockedRefIsARace(t *testing.T) {
	server, commit := serve(t, gitserver.Options{})
	require.NoError(t, notesOf(server).SetStatus(t.Context(), status(commit, forge.Pending, "0/24 nodes")))
	lock := filepath.Join(server.Path("fleet"), "refs", "notes", "fleetwright.lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o644))
	tries := 0
	notes := forge.NewGitNotes(forge.GitNotesConfig{URL: server.URL("fleet"), Pause: func(context.Context, time.Duration) {
		if tries++; tries == 5 {
			require.NoError(t, os.Remove(lock))
		}
	}})
	require.NoError(t, notes.SetStatus(t.Context(), status(commit, forge.Success, "24/24 nodes")))
	require.Equal(t, 5, tries)
}

// TestSilentSSHServerHoldsUpNobody: go-git's SSH transport does not end with its context while it shakes hands.
func TestSilentSSHServerHoldsUpNobody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel and never answers
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	notes := forge.NewGitNotes(forge.GitNotesConfig{
		URL: "ssh://git@" + listener.Addr().String() + "/fleet.git",
		Auth: &gitssh.Password{User: "git", Password: "x", HostKeyCallbackHelper: gitssh.HostKeyCallbackHelper{
			HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // nobody answers
		}},
	})
	for range 10 { // more often than calls may be left alone
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = notes.Statuses(ctx, strings.Repeat("ab", 20))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, forge.Retry, forge.ClassOf(err))
	}
}

func TestGitNotesErrors(t *testing.T) {
	readOnly := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.String(), "git-receive-pack") {
				http.Error(w, "no write access with "+password, http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	answer := func(code int, header http.Header) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range header {
					w.Header()[k] = v
				}
				http.Error(w, password, code)
			})
		}
	}
	for name, c := range map[string]struct {
		opts  gitserver.Options
		want  string
		class forge.Class
		wait  time.Duration
	}{
		"read-only credential": {gitserver.Options{Wrap: readOnly},
			"push status to git notes: the credential may not do this (needed: read and write access to refs/notes/fleetwright)", forge.Permanent, 0},
		"wrong credential": {gitserver.Options{Username: "fleet", Password: "other"},
			"read git notes: the server asks for a credential, or does not accept the given one", forge.Permanent, 0},
		"missing repository": {gitserver.Options{Wrap: answer(404, nil)},
			"read git notes: repository not found, or the credential may not see it", forge.Permanent, 0},
		"bad gateway": {gitserver.Options{Wrap: answer(502, nil)}, "read git notes: server answered 502 Bad Gateway", forge.Retry, 0},
		"too many": {gitserver.Options{Wrap: answer(429, http.Header{"Retry-After": {"7"}})},
			"read git notes: server answered 429 Too Many Requests", forge.Wait, 7 * time.Second},
		"maintenance": {gitserver.Options{Wrap: answer(503, http.Header{"Retry-After": {"120"}})},
			"read git notes: server answered 503 Service Unavailable", forge.Wait, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			server, commit := serve(t, c.opts)
			err := notesOf(server).SetStatus(t.Context(), status(commit, forge.Success, "done"))
			require.EqualError(t, err, c.want)
			require.Equal(t, c.class, forge.ClassOf(err))
			var perr *forge.ProviderError
			require.ErrorAs(t, err, &perr)
			require.Equal(t, c.wait, perr.RetryAfter)
		})
	}
}

func TestUnreachableServerHidesTheCredential(t *testing.T) {
	notes := forge.NewGitNotes(forge.GitNotesConfig{URL: "http://user:" + "hunter2" + "@127.0.0.1:1/fleet.git"})
	_, err := notes.Statuses(t.Context(), strings.Repeat("ab", 20))
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "user")
	require.Equal(t, forge.Retry, forge.ClassOf(err))
}

func TestGitNotesEndWithTheContext(t *testing.T) {
	server, commit := serve(t, gitserver.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := notesOf(server).SetStatus(ctx, status(commit, forge.Success, "done"))
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
}

func TestEmptyRepositoryHasNoStatuses(t *testing.T) {
	server, _ := serve(t, gitserver.Options{})
	require.NoError(t, server.CreateRepo("empty"))
	notes := forge.NewGitNotes(forge.GitNotesConfig{URL: server.URL("empty")})
	got, err := notes.Statuses(t.Context(), strings.Repeat("ab", 20))
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestMain(m *testing.M) {
	if _, err := exec.LookPath("git"); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need the git binary: install git")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
