package git_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// Environment of a process that does nothing but fetch.
const (
	childURL   = "FLEETWRIGHT_FETCH_URL"
	childLimit = "FLEETWRIGHT_FETCH_TRANSFER"
)

// TestMain lets this binary be the process that is measured, or killed.
func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		os.Exit(fetchAsChild(url))
	}
	os.Exit(m.Run())
}

// fetchAsChild fetches, reads every file, and prints the most memory that it ever had.
func fetchAsChild(url string) int {
	transfer, _ := strconv.ParseInt(os.Getenv(childLimit), 10, 64)
	source := git.Source{URL: url, Ref: git.Ref{Branch: "main"}, Limits: git.Limits{Transfer: transfer}}
	revision, err := git.Resolve(context.Background(), source)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	tree, err := git.Fetch(context.Background(), source, revision)
	if err != nil {
		fmt.Println(err)
	} else {
		total := 0
		for _, path := range tree.Paths() {
			content, err := tree.ReadFile(path)
			if err != nil {
				fmt.Println(err)
				return 1
			}
			total += len(content)
		}
		fmt.Println("bytes read:", total)
	}
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Println(string(status))
	return 0
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// child runs this binary as a process that fetches; its peak is in bytes.
func child(tb testing.TB, url string, env ...string) (said string, bytes int) {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"), childURL+"="+url)
	out, err := cmd.CombinedOutput()
	require.NoError(tb, err, "%s", out)
	found := peak.FindSubmatch(out)
	require.NotNil(tb, found, "%s", out)
	kib, err := strconv.Atoi(string(found[1]))
	require.NoError(tb, err)
	return string(out), kib << 10
}

// archive is how much a generated repository carries: commits that each replace files of random bytes, and a last one that takes
// them away again.
type archive struct {
	commits, files, size int
	zeros                int // files of 1 MiB that compress well, in the last tree
	keep                 bool
}

// stream is the history in the language of git fast-import, with small manifests of about 5 MiB as the last tree.
func (h archive) stream() io.Reader {
	random := rand.NewChaCha8([32]byte{1})
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(h.write(writer, random)) }() //nolint:errcheck // always nil
	return reader
}

func (h archive) write(w io.Writer, random *rand.ChaCha8) error {
	file := make([]byte, h.size+1) // with the line break that ends it
	content := file[:h.size]
	file[h.size] = '\n'
	for i := range h.commits {
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nx\n", 1700000000+i)
		for f := range h.files {
			_, _ = random.Read(content) // never fails
			fmt.Fprintf(w, "M 100644 inline data/%d\ndata %d\n", f, len(content))
			if _, err := w.Write(file); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@b> 1800000000 +0000\ndata 1\nx\n")
	if !h.keep {
		fmt.Fprintf(w, "D data\n")
	}
	for i := range h.zeros {
		fmt.Fprintf(w, "M 100644 inline zeros/%d\ndata %d\n%s\n", i, 1<<20, strings.Repeat(fmt.Sprintf("%08d", i), 1<<17))
	}
	line := make([]byte, 24)
	for f := range 512 {
		var text strings.Builder
		for text.Len() < 10<<10 {
			_, _ = random.Read(line)
			fmt.Fprintf(&text, "  key: %x\n", line)
		}
		fmt.Fprintf(w, "M 100644 inline fleet/%d/%d.yaml\ndata %d\n%s\n", f%16, f, text.Len(), text.String())
	}
	_, err := fmt.Fprintln(w, "done")
	return err
}

// withHistory is a server over a repository that is made once and kept in the cache of tests.
func withHistory(tb testing.TB, h archive) *gitserver.Server {
	tb.Helper()
	cache := os.Getenv("FLEETWRIGHT_TEST_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		require.NoError(tb, err)
		cache = filepath.Join(user, "fleetwright-test")
	}
	name := fmt.Sprintf("git-history-%d-%d-%d-%d", h.commits, h.files, h.size, h.zeros)
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err != nil {
		require.NoError(tb, os.MkdirAll(cache, 0o755))
		fresh, err := os.MkdirTemp(cache, name+"-*")
		require.NoError(tb, err)
		begin := time.Now()
		makeHistory(tb, fresh, h)
		tb.Logf("made %s in %s", name, time.Since(begin).Round(time.Second))
		if os.Rename(fresh, dir) != nil { // another process was faster
			require.NoError(tb, os.RemoveAll(fresh))
		}
	}
	server, err := gitserver.New(dir, gitserver.Options{})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, server.Close()) })
	return server
}

func makeHistory(tb testing.TB, dir string, h archive) {
	tb.Helper()
	server, err := gitserver.New(dir, gitserver.Options{})
	require.NoError(tb, err)
	require.NoError(tb, server.CreateRepo("fleet"))
	require.NoError(tb, server.Import("fleet", h.stream()))
	if h.keep {
		_, err = server.Git("fleet", "repack", "-adqF") // compressed, as a server would send it
		require.NoError(tb, err)
	}
	require.NoError(tb, server.Close())
}

// BenchmarkFetch fetches a tree of 5 MiB out of 1 GiB of history, and one as large as the limits allow, in processes of their own; the
// ratio is the most memory that each had.
func BenchmarkFetch(b *testing.B) {
	cases := map[string]struct {
		made archive
		read string
		most int // bytes
	}{
		"memory/100MiB": {archive{commits: 128, files: 8, size: 1 << 20}, "bytes read: 52", 100 << 20},
		"limits/300MiB": {archive{commits: 1, files: 25, size: 2 << 20, zeros: 170, keep: true}, "bytes read: 23", 300 << 20},
	}
	for name, tc := range cases {
		b.Run(name, func(b *testing.B) {
			server := withHistory(b, tc.made)
			most := 0
			for b.Loop() {
				said, bytes := child(b, server.URL("fleet"))
				require.Contains(b, said, tc.read)
				most = max(most, bytes)
			}
			ratio := float64(most) / float64(tc.most)
			b.ReportMetric(ratio, name)
			b.Logf("%s: %.2f", name, ratio)
			if ratio > 1 {
				b.Errorf("%s: %.2f times the bound", name, ratio)
			}
		})
	}
}
