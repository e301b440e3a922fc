package foreign

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
	"strings"
	"time"
)

// CacheEnv names the directory for built programs; unset, it is "fleetwright-test" in os.UserCacheDir.
const CacheEnv = "FLEETWRIGHT_TEST_CACHE"

// key names a build by everything that decides its result: sources, go.mod, go.sum, Go version and platform.
func (p Program) key(ctx context.Context, source string) (string, error) {
	h := sha256.New()
	// The go command reads the toolchain line of the module, so ask it there.
	version := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	version.Dir = source
	out, err := version.Output()
	if err != nil {
		return "", fmt.Errorf("ask go for its version: %w", err)
	}
	fmt.Fprintf(h, "%s%s\n", out, p.Version)
	inputs := []string{source}
	if len(p.Inputs) > 0 {
		inputs = nil
		for _, input := range p.Inputs {
			inputs = append(inputs, filepath.Join(source, input))
		}
	}
	for _, input := range inputs {
		if err := addInput(h, input); err != nil {
			return "", fmt.Errorf("read sources of %s: %w", p.Name, err)
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
			return nil, fmt.Errorf("wait for another process that builds a program: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
