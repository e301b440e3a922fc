package git_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// TestDeliveryReport_GF01_MemoryOfAFetchIsBounded: much history costs nothing, and what is too large is refused by name. The bound of
// 100 MiB with 1 GiB of history is BenchmarkFetch.
func TestDeliveryReport_GF01_MemoryOfAFetchIsBounded(t *testing.T) {
	dir := t.TempDir()
	makeHistory(t, dir, archive{commits: 40, files: 2, size: 1 << 20})
	server, err := gitserver.New(dir, gitserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	said, most := child(t, server.URL("fleet"))
	require.Contains(t, said, "bytes read: 52")
	require.Less(t, most, 80<<20, "80 MiB of history are not read")
	said, _ = child(t, server.URL("fleet"), childLimit+"=1048576")
	require.Contains(t, said, server.URL("fleet")+" sent more than 1 MiB for one commit; split the repository or raise the limit")
}

// TestDeliveryReport_GF03_ServerThatWantsMultiACK: Azure DevOps answers no client that does not announce it, and go-git cannot read
// the acknowledgements that "have" lines lead to. The first commit and the next are both read.
func TestDeliveryReport_GF03_ServerThatWantsMultiACK(t *testing.T) {
	asked := 0
	picky := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				body, err := io.ReadAll(r.Body)
				if err != nil || !bytes.Contains(body, []byte("multi_ack")) || bytes.Contains(body, []byte("have ")) {
					http.Error(w, "bad request", http.StatusBadRequest)
					return
				}
				asked++
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
			next.ServeHTTP(w, r)
		})
	}
	server, _ := repository(t, gitserver.Options{Wrap: picky})
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
	read(t, source)
	second, err := server.Commit("fleet", map[string]string{"base/a.yaml": "a: 2\n"}, "second")
	require.NoError(t, err)
	revision, _ := read(t, source)
	require.Equal(t, second, revision.Commit)
	require.Equal(t, 2, asked)
}

// slowly lets bytes through in small pieces.
func slowly(pause time.Duration, started func()) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w = &slowWriter{ResponseWriter: w, pause: pause, started: started}
			}
			next.ServeHTTP(w, r)
		})
	}
}

type slowWriter struct {
	http.ResponseWriter
	pause   time.Duration
	started func()
}

func (s *slowWriter) Write(p []byte) (int, error) {
	for begin := 0; begin < len(p); begin += 1024 {
		if _, err := s.ResponseWriter.Write(p[begin:min(begin+1024, len(p))]); err != nil {
			return begin, err
		}
		_ = http.NewResponseController(s.ResponseWriter).Flush()
		if begin > 0 {
			s.started()
		}
		time.Sleep(s.pause)
	}
	return len(p), nil
}

// TestDeliveryReport_GF16_GF25_KilledFetchLeavesNothingBehind: neither a process that is killed in the middle of a fetch nor one that
// fails leaves a file, so that there is nothing to clean up, to fill a disk, or to stumble over at the next start.
func TestDeliveryReport_GF16_GF25_KilledFetchLeavesNothingBehind(t *testing.T) {
	var slow atomic.Bool
	begun := make(chan struct{}, 1000)
	throttle := slowly(time.Second, func() { begun <- struct{}{} })
	wrap := func(next http.Handler) http.Handler {
		throttled := throttle(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slow.Load() {
				throttled.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	server := start(t, gitserver.Options{Wrap: wrap})
	require.NoError(t, server.Import("fleet", archive{commits: 1, files: 1, size: 1024}.stream()))
	home, temp := t.TempDir(), t.TempDir()
	env := []string{"HOME=" + home, "TMPDIR=" + temp}
	empty := func() {
		for _, dir := range []string{home, temp} {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, entries)
		}
	}
	slow.Store(true)
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(env, childURL+"="+server.URL("fleet"))
		require.NoError(t, cmd.Start())
		<-begun
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it was killed")
		empty()
	}
	slow.Store(false)
	_, _ = child(t, server.URL("fleet"), append(env, childLimit+"=1000")...) // fails
	empty()
	said, _ := child(t, server.URL("fleet"), env...)
	require.Contains(t, said, "bytes read: 52")
	empty()
	_, err := os.Stat(filepath.Join(temp, "x"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestDeliveryReport_GF18_TreesOfTwoRevisionsDoNotMix: each tree is immutable, whoever reads another at the same time.
func TestDeliveryReport_GF18_TreesOfTwoRevisionsDoNotMix(t *testing.T) {
	server := start(t, gitserver.Options{})
	var trees []*git.Tree
	for i := range 2 {
		files := map[string]string{}
		for f := range 20 {
			files[fmt.Sprintf("f%d.yaml", f)] = fmt.Sprintf("revision: %d\n", i)
		}
		_, err := server.Commit("fleet", files, "next")
		require.NoError(t, err)
		_, tree := read(t, git.Source{URL: server.URL("fleet")})
		trees = append(trees, tree)
	}
	var wait sync.WaitGroup
	var mixed atomic.Int64
	for round := range 200 {
		wait.Go(func() {
			want := fmt.Sprintf("revision: %d\n", round%2)
			for _, path := range trees[round%2].Paths() {
				if content, err := trees[round%2].ReadFile(path); err != nil || string(content) != want {
					mixed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	require.Zero(t, mixed.Load())
}

// TestDeliveryReport_GF19_ContentOfAnotherCommitIsNoAnswer: a server that names one commit and sends another is not believed.
func TestDeliveryReport_GF19_ContentOfAnotherCommitIsNoAnswer(t *testing.T) {
	var first, second string
	lie := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && second != "" {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				body = bytes.ReplaceAll(body, []byte(second), []byte(first))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
			next.ServeHTTP(w, r)
		})
	}
	server, sha := repository(t, gitserver.Options{Wrap: lie})
	next, err := server.Commit("fleet", map[string]string{"base/a.yaml": "a: 2\n"}, "second")
	require.NoError(t, err)
	first, second = sha, next
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
	revision, err := git.Resolve(t.Context(), source)
	require.NoError(t, err)
	require.Equal(t, second, revision.Commit)
	_, err = git.Fetch(t.Context(), source, revision)
	requireFailure(t, err, git.ReasonRefMoved,
		"main of "+source.URL+" moved away from "+second+" while it was read; the next attempt takes the new commit")
}

// TestDeliveryReport_GF21_NamesOfRefsAreNoPaths: what a server calls its refs reaches no file system.
func TestDeliveryReport_GF21_NamesOfRefsAreNoPaths(t *testing.T) {
	evil := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				next.ServeHTTP(w, r)
				return
			}
			recorded := &recorder{header: http.Header{}}
			next.ServeHTTP(recorded, r)
			text := recorded.body.String()
			i := strings.LastIndex(text, " refs/heads/main\n")
			sha := text[i-40 : i]
			line := sha + " refs/heads/../../../../evil\n"
			text = strings.TrimSuffix(text, "0000") + fmt.Sprintf("%04x%s0000", len(line)+4, line)
			w.Header().Set("Content-Type", recorded.header.Get("Content-Type"))
			_, _ = io.WriteString(w, text)
		})
	}
	t.Chdir(t.TempDir())
	server, _ := repository(t, gitserver.Options{Wrap: evil})
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
	_, tree := read(t, source)
	require.Contains(t, tree.Paths(), "base/a.yaml")
	require.NoFileExists(t, "evil")
	require.NoFileExists(t, "../../../../evil")
}

// TestDeliveryReport_GF22_TreeThatGitWouldNotCheckOut: names that other programs take for .git, or for a way out.
func TestDeliveryReport_GF22_TreeThatGitWouldNotCheckOut(t *testing.T) {
	v := newVault(t)
	blob, err := v.server.HashObject("fleet", "blob", []byte("[core]\n"))
	require.NoError(t, err)
	raw, err := hex.DecodeString(blob)
	require.NoError(t, err)
	for _, name := range []string{".GIT", "git~1", "..", "a/../../b"} {
		tree, err := v.server.HashObject("fleet", "tree", append([]byte("100644 "+name+"\x00"), raw...))
		require.NoError(t, err)
		v.put("commit", commitText(tree), "refs/heads/main")
		source := git.Source{URL: v.server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
		revision, err := git.Resolve(t.Context(), source)
		require.NoError(t, err)
		_, err = git.Fetch(t.Context(), source, revision)
		requireReason(t, err, git.ReasonInvalidTree, name)
	}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// TestDeliveryReport_GF24_EveryStageIsNamed: who reads the message knows how far the conversation came, with whom, and how long it
// was given.
func TestDeliveryReport_GF24_EveryStageIsNamed(t *testing.T) {
	const limit = 300 * time.Millisecond
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	hang := func(method string) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == method {
					select {
					case <-release:
					case <-r.Context().Done():
					}
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	listing, _ := repository(t, gitserver.Options{Username: "robot", Password: password, Wrap: hang(http.MethodGet)})
	fetching, sha := repository(t, gitserver.Options{Username: "robot", Password: password, Wrap: hang(http.MethodPost)})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	address, hostKey := sshThatNeverDecides(t, release)
	_, identity, err := gitserver.NewKey("")
	require.NoError(t, err)
	basic := map[string]string{"username": "robot", "password": password}
	login := map[string]string{"identity": string(identity), "known_hosts": knownHost(address, hostKey)}
	cases := map[string]struct {
		url, message string
		data         map[string]string
	}{
		"dns":       {"https://nowhere.invalid/fleet.git", "cannot reach https://nowhere.invalid/fleet.git, while looking up the host: ", basic},
		"tls":       {"https://" + silent.Addr().String() + "/fleet.git", " did not finish within 300ms, while agreeing on TLS", basic},
		"auth":      {"ssh://git@" + address + "/fleet.git", " did not finish within 300ms, while logging in", login},
		"ls-remote": {listing.URL("fleet"), " did not finish within 300ms, while listing the refs", basic},
		"fetch":     {fetching.URL("fleet"), " did not finish within 300ms, while fetching the commit; is the timeout long enough for this repository?", basic},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			source := git.Source{URL: tc.url, AllowInsecureHTTP: true, Timeout: limit, Auth: secret(t, tc.url, tc.data)}
			_, err := git.Fetch(t.Context(), source, git.Revision{Ref: "main", FullName: "refs/heads/main", Commit: sha})
			var failure *git.Error
			require.ErrorAs(t, err, &failure)
			require.Contains(t, failure.Message, tc.message)
			require.Contains(t, failure.Message, strings.Split(strings.TrimPrefix(tc.url, "ssh://git@"), "/fleet")[0])
			require.NotContains(t, failure.Message, password)
		})
	}
}

// sshThatNeverDecides agrees on a connection and leaves the login open.
func sshThatNeverDecides(t *testing.T, release <-chan struct{}) (string, ssh.PublicKey) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	key := newEd25519(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		<-release
		return nil, io.EOF
	}}
	config.AddHostKey(key)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _, _, _ = ssh.NewServerConn(conn, config) }() // ends with release
		}
	}()
	return listener.Addr().String(), key.PublicKey()
}

// TestDeliveryReport_GF30_HistoryIsNotTransferred: over a slow line, and an unchanged repository costs a list of refs.
func TestDeliveryReport_GF30_HistoryIsNotTransferred(t *testing.T) {
	server := start(t, gitserver.Options{})
	require.NoError(t, server.Import("fleet", archive{commits: 20, files: 1, size: 1 << 20}.stream()))
	_, err := server.Git("fleet", "repack", "-adq")
	require.NoError(t, err)
	source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}, Limits: git.Limits{Transfer: 8 << 20}} // of 25 MiB
	_, tree := read(t, source)
	require.Len(t, tree.Paths(), 512)
	server.ResetRequests()
	_, err = git.Resolve(t.Context(), source)
	require.NoError(t, err)
	require.Len(t, server.Requests(), 1)
	require.Equal(t, "GET", server.Requests()[0].Method)
}

// TestDamagedPacks: cut off, and changed on the way.
func TestDamagedPacks(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"cut off": func(b []byte) []byte { return b[:len(b)-200] },
		"changed": func(b []byte) []byte { b[len(b)-100] ^= 0xff; return b },
	} {
		t.Run(name, func(t *testing.T) {
			wrap := func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodPost {
						next.ServeHTTP(w, r)
						return
					}
					recorded := &recorder{header: http.Header{}}
					next.ServeHTTP(recorded, r)
					w.Header().Set("Content-Type", recorded.header.Get("Content-Type"))
					_, _ = w.Write(damage(recorded.body.Bytes()))
				})
			}
			server := start(t, gitserver.Options{Wrap: wrap})
			require.NoError(t, server.Import("fleet", archive{}.stream()))
			source := git.Source{URL: server.URL("fleet"), Ref: git.Ref{Branch: "main"}}
			revision, err := git.Resolve(t.Context(), source)
			require.NoError(t, err)
			_, err = git.Fetch(t.Context(), source, revision)
			requireFailure(t, err, git.ReasonPackDamaged, "what "+source.URL+" sent is cut off or damaged; it is fetched again")
		})
	}
}
