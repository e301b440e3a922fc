package foreign

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// Program is what is built: one main package, seen from a module below the root of this repository.
type Program struct {
	// Name of the program in the cache. Required.
	Name string
	// Module is the directory of the module, below the root of this repository. Required.
	Module string
	// Package to build, as the go command takes it there. Default the module's root.
	Package string
	// What it is, as users read it. Required.
	What string
	// Cost of the first build, as users read it. Required.
	Cost string
	// Version is part of the cache's key. Required.
	Version string
	// Tags and LDFlags of the build. Default none.
	Tags, LDFlags string
	// Cgo builds with a C compiler.
	Cgo bool
	// Inputs are the files and directories, below the module, that decide what is built beside its dependencies. Default the
	// module's root.
	Inputs []string
}

// Build makes sure that the program exists and returns its path. The first call compiles, and log then says so. Later calls return
// at once, until the program's sources, its dependencies or the Go version change. Two processes that call it at the same
// time build once.
func (p Program) Build(ctx context.Context, log io.Writer) (string, error) {
	source, err := p.Source()
	if err != nil {
		return "", err
	}
	key, err := p.key(ctx, source)
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(cache, p.Name+"-"+key, p.Name)
	if isFile(binary) {
		return binary, nil
	}
	fmt.Fprintf(log, "The %s is not in the cache. Building it once into\n  %s\nFirst time: %s. Choose another place with %s.\n",
		p.What, binary, p.Cost, CacheEnv)
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
	fmt.Fprintf(log, "Built the %s in %s.\n", p.What, time.Since(begin).Round(time.Second))
	return binary, nil
}

// compile builds beside the final name and renames, so that an interrupted build leaves no half program.
func (p Program) compile(ctx context.Context, source, binary string, log io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return fmt.Errorf("make cache directory: %w", err)
	}
	partial := binary + ".partial"
	// Each flag that decides what is built is said here, so that the user's GOFLAGS (-mod=vendor, -race, -tags) do not
	// apply to this foreign module.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-mod=readonly", "-race=false", "-tags="+p.Tags,
		"-buildvcs=false", "-ldflags=-s -w"+p.LDFlags, "-o", partial, p.target())
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+source)
	if p.Cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build %s: stopped before it was done (%w); finished packages stay in Go's build cache, so run it again", p.Name, ctx.Err())
		}
		return fmt.Errorf("build %s in %s: %w", p.Name, source, err)
	}
	if err := os.Rename(partial, binary); err != nil {
		return fmt.Errorf("keep %s: %w", p.Name, err)
	}
	return nil
}

func (p Program) target() string {
	if p.Package == "" {
		return "."
	}
	return p.Package
}

// Source looks for the program's module in this directory and those above it. The path that the compiler recorded for this file
// is the second choice: builds with -trimpath do not have it.
func (p Program) Source() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find sources of %s: %w", p.Name, err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		if at := filepath.Join(d, p.Module); isFile(filepath.Join(at, "go.mod")) {
			return at, nil
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if at := filepath.Join(filepath.Dir(file), "..", "..", p.Module); isFile(filepath.Join(at, "go.mod")) {
			return at, nil
		}
	}
	return "", fmt.Errorf("find sources of %s: no %s in or above %s: run this inside a checkout of the repository", p.Name, p.Module, dir)
}
