package git_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

var files = map[string]string{"base/a.yaml": "a: 1\n", "overlays/us/kustomization.yaml": "resources: [../../base]\n"}

func start(t *testing.T, options gitserver.Options) *gitserver.Server {
	server, err := gitserver.New(t.TempDir(), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	require.NoError(t, server.CreateRepo("fleet"))
	return server
}

// repository is a server with one commit on main.
func repository(t *testing.T, options gitserver.Options) (*gitserver.Server, string) {
	server := start(t, options)
	commit, err := server.Commit("fleet", files, "first")
	require.NoError(t, err)
	return server, commit
}

func requireFailure(t *testing.T, err error, reason git.Reason, message string) {
	t.Helper()
	require.Error(t, err)
	var failure *git.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, message, failure.Error())
	require.Equal(t, reason, failure.Reason)
}

func read(t *testing.T, source git.Source) (git.Revision, *git.Tree) {
	t.Helper()
	revision, err := git.Resolve(t.Context(), source)
	require.NoError(t, err)
	tree, err := git.Fetch(t.Context(), source, revision)
	require.NoError(t, err)
	require.Equal(t, revision.Commit, tree.Commit)
	return revision, tree
}

func secret(t *testing.T, url string, data map[string]string) git.Auth {
	t.Helper()
	raw := map[string][]byte{}
	for key, value := range data {
		raw[key] = []byte(value)
	}
	auth, err := git.AuthFromSecret(raw, url)
	require.NoError(t, err)
	return auth
}

func TestEveryKindOfRef(t *testing.T) {
	server, first := repository(t, gitserver.Options{})
	require.NoError(t, server.Tag("fleet", "v1.0.0", first, ""))
	second, err := server.Commit("fleet", map[string]string{"base/a.yaml": "a: 2\n"}, "second")
	require.NoError(t, err)
	require.NoError(t, server.Tag("fleet", "v1.2.0", second, "annotated"))
	require.NoError(t, server.Tag("fleet", "v2.0.0-rc.1", second, ""))
	_, err = server.Git("fleet", "update-ref", "refs/pull/7/head", first)
	require.NoError(t, err)
	cases := map[string]struct {
		ref     git.Ref
		want    string
		content string
	}{
		"branch":          {git.Ref{Branch: "main"}, "main@sha1:" + second, "a: 2\n"},
		"HEAD":            {git.Ref{}, "main@sha1:" + second, "a: 2\n"},
		"lightweight tag": {git.Ref{Tag: "v1.0.0"}, "v1.0.0@sha1:" + first, "a: 1\n"},
		"annotated tag":   {git.Ref{Tag: "v1.2.0"}, "v1.2.0@sha1:" + second, "a: 2\n"},
		"version range":   {git.Ref{SemVer: ">=1.0.0 <2.0.0"}, "v1.2.0@sha1:" + second, "a: 2\n"},
		"exact version":   {git.Ref{SemVer: "1.0.0"}, "v1.0.0@sha1:" + first, "a: 1\n"},
		"full name":       {git.Ref{Name: "refs/pull/7/head"}, "refs/pull/7/head@sha1:" + first, "a: 1\n"},
		"commit":          {git.Ref{Commit: second}, "sha1:" + second, "a: 2\n"},
		"older commit":    {git.Ref{Commit: first}, "sha1:" + first, "a: 1\n"},
		"commit wins":     {git.Ref{Commit: first, Branch: "main"}, "main@sha1:" + first, "a: 1\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			revision, tree := read(t, git.Source{URL: server.URL("fleet"), Ref: tc.ref})
			require.Equal(t, tc.want, revision.String())
			content, err := tree.ReadFile("base/a.yaml")
			require.NoError(t, err)
			require.Equal(t, tc.content, string(content))
			require.Contains(t, string(tree.RawCommit), "author ")
			if tc.ref.Tag == "v1.2.0" {
				require.Contains(t, string(tree.RawTag), "tag v1.2.0\n")
			} else if tc.ref.SemVer == "" {
				require.Nil(t, tree.RawTag)
			}
		})
	}
}

func TestRefsThatDoNotExist(t *testing.T) {
	server, commit := repository(t, gitserver.Options{})
	require.NoError(t, server.Tag("fleet", "v1.0.0", commit, ""))
	url := server.URL("fleet")
	cases := map[string]struct {
		ref     git.Ref
		reason  git.Reason
		message string
	}{
		"branch":    {git.Ref{Branch: "nope"}, git.ReasonRefNotFound, `branch "nope" does not exist in ` + url + `; its branches: main`},
		"tag":       {git.Ref{Tag: "v9"}, git.ReasonRefNotFound, `tag "v9" does not exist in ` + url + `; its tags: v1.0.0`},
		"range":     {git.Ref{SemVer: ">=2"}, git.ReasonRefNotFound, `version range ">=2" does not exist in ` + url + `; its tags: v1.0.0`},
		"bad range": {git.Ref{SemVer: "latest"}, git.ReasonInvalidRef, `the source's semver "latest" is not a version range (allowed: for example >=1.2.0 <2.0.0)`},
		"name":      {git.Ref{Name: "refs/pull/1/head"}, git.ReasonRefNotFound, `ref "refs/pull/1/head" does not exist in ` + url},
		"short commit": {git.Ref{Commit: "abc123"}, git.ReasonInvalidRef,
			`the source's commit "abc123" is not a full SHA-1 (allowed: 40 characters 0-9 a-f)`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := git.Resolve(t.Context(), git.Source{URL: url, Ref: tc.ref})
			requireFailure(t, err, tc.reason, tc.message)
		})
	}
	t.Run("unknown commit", func(t *testing.T) {
		missing := strings.Repeat("1", 40)
		source := git.Source{URL: url, Ref: git.Ref{Commit: missing}}
		revision, err := git.Resolve(t.Context(), source)
		require.NoError(t, err)
		_, err = git.Fetch(t.Context(), source, revision)
		requireFailure(t, err, git.ReasonCommitNotFound,
			url+" has no commit "+missing+", or does not hand it out; set a branch that contains it")
	})
}

func TestDeletedBranch(t *testing.T) {
	server, commit := repository(t, gitserver.Options{})
	require.NoError(t, server.ForcePush("fleet", "other", commit))
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
	revision, err := git.Resolve(t.Context(), source)
	require.NoError(t, err)
	require.NoError(t, server.DeleteBranch("fleet", "main"))
	_, err = git.Resolve(t.Context(), source)
	requireFailure(t, err, git.ReasonRefNotFound, `branch "main" does not exist in `+server.URL("fleet")+`; its branches: other`)
	_, err = git.Fetch(t.Context(), source, revision)
	require.NoError(t, err, "the commit is still there, on another branch")
}

func TestDeliveryReport_GF04_ForcePushIsFollowed(t *testing.T) {
	server, first := repository(t, gitserver.Options{})
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
	revision, _ := read(t, source)
	require.Equal(t, first, revision.Commit)
	second, err := server.Apply("fleet", gitserver.Change{Files: map[string]string{"b.yaml": "b"}, Message: "rewritten", Orphan: true})
	require.NoError(t, err)
	now, tree := read(t, source)
	require.Equal(t, second, now.Commit)
	require.Equal(t, []string{"b.yaml"}, tree.Paths())

	_, err = git.Fetch(t.Context(), source, revision) // resolved before the push
	requireFailure(t, err, git.ReasonRefMoved,
		"main of "+server.URL("fleet")+" moved away from "+first+" while it was read; the next attempt takes the new commit")
}

func TestDeliveryReport_GF09_EmptyRepository(t *testing.T) {
	server := start(t, gitserver.Options{})
	_, err := git.Resolve(t.Context(), git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}})
	requireFailure(t, err, git.ReasonEmptyRepository, "repository "+server.URL("fleet")+" has no commit yet")
	_, err = git.Resolve(t.Context(), git.Source{URL: server.Path("fleet"), AllowLocal: true})
	requireFailure(t, err, git.ReasonEmptyRepository, "repository "+server.Path("fleet")+" has no commit yet")
}

func TestResolveOnlyListsRefs(t *testing.T) {
	server, _ := repository(t, gitserver.Options{})
	for range 3 {
		_, err := git.Resolve(t.Context(), git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}})
		require.NoError(t, err)
	}
	list := gitserver.Request{Method: "GET", Path: "/fleet.git/info/refs", Service: "git-upload-pack"}
	require.Equal(t, []gitserver.Request{list, list, list}, server.Requests())
}

func TestFetchTransfersOneCommit(t *testing.T) {
	server, _ := repository(t, gitserver.Options{})
	noise := make([]byte, 3<<20)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	_, err = server.Commit("fleet", map[string]string{"noise.bin": string(noise)}, "large")
	require.NoError(t, err)
	_, err = server.Apply("fleet", gitserver.Change{Delete: []string{"noise.bin"}, Message: "small again"})
	require.NoError(t, err)
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}, Limits: git.Limits{Transfer: 1 << 20}}
	_, tree := read(t, source)
	require.Equal(t, []string{"base/a.yaml", "overlays/us/kustomization.yaml"}, tree.Paths())
}

func TestTooLarge(t *testing.T) {
	server, _ := repository(t, gitserver.Options{})
	url := server.URL("fleet")
	noise := make([]byte, 2<<20)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	_, err = server.Apply("fleet", gitserver.Change{Branch: "noise", Files: map[string]string{"x": string(noise)}, Message: "x"})
	require.NoError(t, err)
	_, err = server.Apply("fleet", gitserver.Change{Branch: "bomb", Files: map[string]string{"x": strings.Repeat("0", 8<<20)}, Message: "x"})
	require.NoError(t, err)
	_, err = server.Apply("fleet", gitserver.Change{Branch: "giant", Files: map[string]string{"x": strings.Repeat("0", 65<<20)}, Message: "x"})
	require.NoError(t, err)
	cases := map[string]struct {
		branch  string
		limits  git.Limits
		message string
	}{
		"giant":    {"giant", git.Limits{}, "the commit of " + url + " holds a file of more than 64 MiB; take it out of the repository"},
		"transfer": {"noise", git.Limits{Transfer: 1 << 20}, url + " sent more than 1 MiB for one commit; split the repository or raise the limit"},
		"bomb":     {"bomb", git.Limits{Unpacked: 4 << 20}, "the commit of " + url + " unpacks to more than 4 MiB; split the repository or raise the limit"},
		"files":    {"main", git.Limits{Files: 1}, "the repository has more than 1 files; split it or raise the limit"},
		"depth":    {"main", git.Limits{Depth: 1}, "overlays/us is nested deeper than 1 directories"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			source := git.Source{URL: url, Ref: git.Ref{Branch: tc.branch}, Limits: tc.limits}
			revision, err := git.Resolve(t.Context(), source)
			require.NoError(t, err)
			_, err = git.Fetch(t.Context(), source, revision)
			requireFailure(t, err, git.ReasonTooLarge, tc.message)
		})
	}
	t.Run("one file, only when it is read", func(t *testing.T) {
		_, tree := read(t, git.Source{URL: url, Ref: git.Ref{Branch: "noise"}, Limits: git.Limits{File: 1 << 20}})
		_, err := tree.ReadFile("x")
		requireFailure(t, err, git.ReasonTooLarge, "x has 2097152 bytes, more than the 1 MiB that one file may have")
	})
}

func TestManySmallObjectsAreCounted(t *testing.T) {
	server := start(t, gitserver.Options{})
	files := map[string]string{}
	for i := range 1100 {
		files[fmt.Sprintf("d/%d", i)] = fmt.Sprint(i)
	}
	_, err := server.Commit("fleet", files, "many")
	require.NoError(t, err)
	source := git.Source{URL: server.URL("fleet"), Limits: git.Limits{Files: 10}}
	revision, err := git.Resolve(t.Context(), source)
	require.NoError(t, err)
	_, err = git.Fetch(t.Context(), source, revision)
	requireFailure(t, err, git.ReasonTooLarge,
		"the commit of "+source.URL+" consists of more than 1040 objects; split the repository or raise the limit")
}

func TestSizesOfDeltasAreCounted(t *testing.T) {
	server := start(t, gitserver.Options{})
	noise := make([]byte, 512<<10)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	_, err = server.Commit("fleet", map[string]string{"a": string(noise), "b": string(noise) + "b", "c": string(noise) + "c"}, "alike")
	require.NoError(t, err)
	_, err = server.Git("fleet", "repack", "-adfq", "--depth=10", "--window=10")
	require.NoError(t, err)
	source := git.Source{URL: server.URL("fleet"), Limits: git.Limits{Transfer: 1 << 20}} // the pack holds the noise once
	_, tree := read(t, source)
	content, err := tree.ReadFile("c")
	require.NoError(t, err)
	require.Equal(t, string(noise)+"c", string(content))

	source.Limits.Unpacked = 1 << 20
	revision, err := git.Resolve(t.Context(), source)
	require.NoError(t, err)
	_, err = git.Fetch(t.Context(), source, revision)
	requireFailure(t, err, git.ReasonTooLarge, "the commit of "+source.URL+" unpacks to more than 1 MiB; split the repository or raise the limit")
}

func TestDeliveryReport_GF31_RefThatMovesDuringTheFetchIsTriedOnceMore(t *testing.T) {
	var server *gitserver.Server
	var first string
	posts := 0
	meddle := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost { // after the first listing the branch goes away, and comes back
				if posts++; posts == 1 {
					_ = server.DeleteBranch("fleet", "main")
				}
			} else if posts == 1 {
				_ = server.ForcePush("fleet", "main", first)
			}
			next.ServeHTTP(w, r)
		})
	}
	server, first = repository(t, gitserver.Options{Wrap: meddle})
	require.NoError(t, server.ForcePush("fleet", "other", first))
	_, err := server.Apply("fleet", gitserver.Change{Branch: "other", Files: files, Message: "unrelated", Orphan: true})
	require.NoError(t, err)
	read(t, git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}})
	require.Equal(t, 2, posts)
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	_, err = git.Resolve(t.Context(), git.Source{URL: "https://" + address + "/fleet.git"})
	requireFailure(t, err, git.ReasonUnreachable,
		"cannot reach https://"+address+"/fleet.git, while connecting: connect: connection refused")
}

func TestDeliveryReport_GF12_SilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel and never answers
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	address := listener.Addr().String()
	_, identity, err := gitserver.NewKey("")
	require.NoError(t, err)
	known := "[127.0.0.1]:" + address[strings.LastIndex(address, ":")+1:] + " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBXdYSmrUmL4KzxKkpqQCDyRmE6Vn1nmNYhDuLzfnYkY\n"
	cases := map[string]string{"http": "listing the refs", "https": "agreeing on TLS", "ssh": "agreeing on SSH"}
	for scheme, stage := range cases {
		t.Run(scheme, func(t *testing.T) {
			source := git.Source{URL: scheme + "://" + address + "/fleet.git", Timeout: 50 * time.Millisecond}
			if scheme == "ssh" {
				source.Auth = secret(t, source.URL, map[string]string{"identity": string(identity), "known_hosts": known})
			}
			_, err := git.Resolve(t.Context(), source)
			requireFailure(t, err, git.ReasonTimeout, source.URL+" did not finish within 50ms, while "+stage)
		})
	}
	t.Run("canceled by the caller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := git.Resolve(ctx, git.Source{URL: "http://" + address + "/fleet.git"})
		require.ErrorIs(t, err, context.Canceled)
		var failure *git.Error
		require.True(t, errors.As(err, &failure))
		require.Equal(t, git.ReasonCanceled, failure.Reason)
	})
}

func TestNotAGitServer(t *testing.T) {
	page := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/page.git/info/refs":
				fmt.Fprint(w, "<html>sign in</html>")
			case "/broken.git/info/refs":
				http.Error(w, "s3cret-in-body", http.StatusBadGateway)
			default:
				http.NotFound(w, r)
			}
		})
	}
	server := start(t, gitserver.Options{Wrap: page})
	url := server.URL("page")
	_, err := git.Resolve(t.Context(), git.Source{URL: url})
	requireFailure(t, err, git.ReasonUnexpectedAnswer,
		url+" did not answer as a git server does, while listing the refs; check the URL")
	url = server.URL("broken")
	_, err = git.Resolve(t.Context(), git.Source{URL: url})
	requireFailure(t, err, git.ReasonUnreachable, url+" answered with HTTP status 502, while listing the refs")
	url = server.URL("missing")
	_, err = git.Resolve(t.Context(), git.Source{URL: url})
	requireFailure(t, err, git.ReasonRepositoryNotFound, url+" does not know this repository, or the credentials may not read it")
}

func TestLinksSubmodulesAndLFS(t *testing.T) {
	server, commit := repository(t, gitserver.Options{})
	_, err := server.Apply("fleet", gitserver.Change{
		Message: "odd entries",
		Files:   map[string]string{"big.yaml": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"},
		Links: map[string]string{
			"good": "base/a.yaml", "overlays/up": "../good", "out": "../../etc/passwd", "abs": "/etc/passwd",
			"dir": "base", "loop": "loop", "dangling": "nothing",
		},
		Submodules: map[string]string{"vendor/lib": commit},
	})
	require.NoError(t, err)
	_, tree := read(t, git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}})
	require.Equal(t, []string{"base/a.yaml", "big.yaml", "good", "overlays/up", "overlays/us/kustomization.yaml"}, tree.Paths())
	for _, path := range []string{"good", "overlays/up"} {
		content, err := tree.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "a: 1\n", string(content))
	}
	cases := map[string]struct {
		reason  git.Reason
		message string
	}{
		"out":               {git.ReasonFileIsLink, `out is a symbolic link out of the repository (to "../../etc/passwd"); replace it by the file`},
		"abs":               {git.ReasonFileIsLink, `abs is a symbolic link out of the repository (to "/etc/passwd"); replace it by the file`},
		"dir":               {git.ReasonFileIsLink, `dir is a symbolic link to the directory base; write that path instead`},
		"dir/a.yaml":        {git.ReasonFileIsLink, `dir is a symbolic link to the directory base; write that path instead`},
		"loop":              {git.ReasonFileIsLink, `loop is a symbolic link that leads over more than 8 links`},
		"vendor/lib/x.yaml": {git.ReasonFileIsSubmodule, `vendor/lib/x.yaml lies in the git submodule vendor/lib, which is not fetched; set recurseSubmodules of the source, or commit the files themselves`},
		"big.yaml":          {git.ReasonFileIsLFSPointer, `big.yaml is stored with Git LFS, which is not read; commit the file itself`},
	}
	for path, tc := range cases {
		_, err := tree.ReadFile(path)
		requireFailure(t, err, tc.reason, tc.message)
	}
	for _, path := range []string{"dangling", "nothing", "../../etc/passwd", "base"} {
		_, err := tree.ReadFile(path)
		require.ErrorIs(t, err, fs.ErrNotExist, path)
	}
}

func TestSubtreeHash(t *testing.T) {
	server, _ := repository(t, gitserver.Options{})
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
	_, before := read(t, source)
	_, err := server.Commit("fleet", map[string]string{"base/a.yaml": "a: 2\n"}, "second")
	require.NoError(t, err)
	_, after := read(t, source)
	require.NotEqual(t, before.Hash, after.Hash)
	hash := func(tree *git.Tree, dir string) string {
		h, ok := tree.SubtreeHash(dir)
		require.True(t, ok)
		return h
	}
	require.Equal(t, hash(before, "overlays/us"), hash(after, "./overlays/us/"))
	require.NotEqual(t, hash(before, "base"), hash(after, "base"))
	require.Equal(t, after.Hash, hash(after, "."))
	_, ok := after.SubtreeHash("nope")
	require.False(t, ok)
}
