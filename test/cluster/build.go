package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// CacheEnv names the directory for built control planes; unset, it is "fleetwright-test" in os.UserCacheDir.
const CacheEnv = "FLEETWRIGHT_TEST_CACHE"

// kubernetesVersion is what the program says it is; it must be the version of k8s.io/kubernetes in its go.mod, which a
// test checks. Without it the program would say v0.0.0-master, which clients cannot parse.
const kubernetesVersion = "v1.36.3"

// moduleDir is where the program's sources are, below the root of this repository.
const moduleDir = "test/cluster/controlplane"

// program is one of the programs that are built from the module of Kubernetes.
type program struct {
	file string // its name in the cache
	dir  string // of its main package, below the module
	what string // as users read it
	cost string // of the first build
}

var (
	controlPlane = program{
		file: "controlplane", dir: ".", what: "Kubernetes control plane for tests",
		cost: "about 20 CPU minutes, 80 MB of downloads, 2-3 GB of Go build cache",
	}
	kubelet = program{
		file: "kubelet", dir: "kubelet", what: "kubelet for tests",
		cost: "about 4 CPU minutes where the control plane is built already, 20 more where it is not",
	}
)

// Build makes sure that the control plane's program exists and returns its path. The first call compiles Kubernetes:
// about 20 minutes of CPU time, 80 MB of downloads and 2 to 3 GB in Go's build cache, once; log then says so. Later
// calls return at once, until the program's sources, its dependencies or the Go version change. Two processes that
// call it at the same time build once. It needs the go command and a checkout of this repository around the working
// directory.
func Build(ctx context.Context, log io.Writer) (string, error) { return controlPlane.build(ctx, log) }

// BuildKubelet is like Build, for the kubelet of the same version. It shares most of the control plane's compiled packages.
func BuildKubelet(ctx context.Context, log io.Writer) (string, error) { return kubelet.build(ctx, log) }

func (p program) build(ctx context.Context, log io.Writer) (string, error) {
	source, err := findSource()
	if err != nil {
		return "", err
	}
	key, err := p.sourceKey(ctx, source)
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(cache, p.file+"-"+key, p.file)
	if isFile(binary) {
		return binary, nil
	}
	fmt.Fprintf(log, "The %s is not in the cache. Building it once into\n  %s\nFirst time: %s. Choose another place with %s.\n",
		p.what, binary, p.cost, CacheEnv)
	unlock, err := lockFile(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isFile(binary) { // another process was first
		return binary, nil
	}
	begin := time.Now()
	if err := p.compile(ctx, source, binary, log); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "Built the %s in %s.\n", p.what, time.Since(begin).Round(time.Second))
	return binary, nil
}

// compile builds beside the final name and renames, so that an interrupted build leaves no half program.
func (p program) compile(ctx context.Context, source, binary string, log io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return fmt.Errorf("make cache directory: %w", err)
	}
	partial := binary + ".partial"
	major, minor := versionParts()
	pkg := " -X k8s.io/component-base/version."
	// Each flag that decides what is built is said here, so that the user's GOFLAGS (-mod=vendor, -race, -tags) do not
	// apply to this foreign module.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-mod=readonly", "-race=false", "-tags=",
		"-buildvcs=false", "-ldflags=-s -w"+pkg+"gitVersion="+kubernetesVersion+pkg+"gitMajor="+major+pkg+"gitMinor="+minor,
		"-o", partial, "./"+p.dir)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+source)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build %s: stopped before it was done (%w); finished packages stay in Go's build cache, so run it again", p.file, ctx.Err())
		}
		return fmt.Errorf("build %s in %s: %w", p.file, source, err)
	}
	if err := os.Rename(partial, binary); err != nil {
		return fmt.Errorf("keep %s: %w", p.file, err)
	}
	return nil
}

func versionParts() (major, minor string) {
	parts := strings.Split(strings.TrimPrefix(kubernetesVersion, "v"), ".")
	return parts[0], parts[1]
}

// findSource looks for the program's module in this directory and those above it. The path that the compiler recorded
// for this file is the second choice: builds with -trimpath do not have it.
func findSource() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find control plane sources: %w", err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		if p := filepath.Join(d, moduleDir); isFile(filepath.Join(p, "go.mod")) {
			return p, nil
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if p := filepath.Join(filepath.Dir(file), "controlplane"); isFile(filepath.Join(p, "go.mod")) {
			return p, nil
		}
	}
	return "", fmt.Errorf("find control plane sources: no %s in or above %s: run this inside a checkout of the repository", moduleDir, dir)
}

// sourceKey names a build by everything that decides its result: sources, go.mod, go.sum, Go version and platform.
func (p program) sourceKey(ctx context.Context, source string) (string, error) {
	h := sha256.New()
	// The go command reads the toolchain line of the module, so ask it there.
	version := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	version.Dir = source
	out, err := version.Output()
	if err != nil {
		return "", fmt.Errorf("ask go for its version: %w", err)
	}
	fmt.Fprintf(h, "%s%s\n", out, kubernetesVersion)
	inputs := []string{source}
	if p.dir != "." { // it shares nothing with the main package above it but the dependencies
		inputs = []string{filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum"), filepath.Join(source, p.dir)}
	}
	for _, input := range inputs {
		if err := addInput(h, input); err != nil {
			return "", fmt.Errorf("read sources of %s: %w", p.file, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// addInput hashes a file, or the files of a directory that decide what is built.
func addInput(h io.Writer, path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return addFile(h, path)
	}
	for _, e := range entries {
		if e.IsDir() || !isBuildInput(e.Name()) {
			continue
		}
		if err := addFile(h, filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func addFile(h io.Writer, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%s %d\n%s", filepath.Base(path), len(b), b)
	return nil
}

func isBuildInput(name string) bool {
	if strings.HasSuffix(name, "_test.go") {
		return false
	}
	switch filepath.Ext(name) {
	case ".go", ".mod", ".sum", ".yaml":
		return true
	}
	return false
}

// CacheDir is where built programs are kept: see CacheEnv. It is made if it is missing.
func CacheDir() (string, error) {
	dir := os.Getenv(CacheEnv)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find cache directory (set %s): %w", CacheEnv, err)
		}
		dir = filepath.Join(base, "fleetwright-test")
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("make cache directory: %w", err)
	}
	return dir, nil
}

func isFile(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.Mode().IsRegular()
}

// errLocked says that another process holds the lock.
var errLocked = errors.New("locked by another process")

// lockFile waits for an exclusive lock that ends with the process at the latest.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err := tryLock(f)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, errLocked) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for another process that builds the control plane: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
