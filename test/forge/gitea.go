package forge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fleetwright/fleetwright/test/foreign"
)

// giteaVersion is the version in the module's go.mod; a test compares them.
const giteaVersion = "v1.26.0"

var program = foreign.Program{
	Name: "gitea", Module: "test/forge/gitea", Package: "code.gitea.io/gitea", What: "Gitea for tests", Version: giteaVersion,
	Cost: "about 12 CPU minutes, 3 GB of downloads and Go build cache; it needs a C compiler",
	Tags: "sqlite,sqlite_unlock_notify", LDFlags: " -X main.Version=" + strings.TrimPrefix(giteaVersion, "v"), Cgo: true,
	Inputs: []string{"go.mod", "go.sum"},
}

// ErrNoCompiler says that Gitea cannot be built on this machine.
var ErrNoCompiler = errors.New("no C compiler: Gitea's SQLite needs one (on Debian: apt-get install gcc libc6-dev)")

// Build makes sure that Gitea's program exists and returns its path. The first call compiles it, which log then says.
func Build(ctx context.Context, log io.Writer) (string, error) {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	path, err := program.Build(ctx, log)
	if err != nil && ctx.Err() == nil {
		if _, missing := exec.LookPath(compiler); missing != nil {
			if _, missing = exec.LookPath("gcc"); missing != nil {
				return "", ErrNoCompiler
			}
		}
	}
	return path, err
}

// static is the directory with Gitea's templates and translations: its module, as Go's module cache holds it.
func static(ctx context.Context) (string, error) {
	source, err := program.Source()
	if err != nil {
		return "", err
	}
	module := "code.gitea.io/gitea"
	for _, args := range [][]string{{"mod", "download", module}, {"list", "-m", "-f", "{{.Dir}}", module}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = source, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("find gitea's files: go %s: %w", strings.Join(args, " "), err)
		}
		if dir := strings.TrimSpace(string(out)); filepath.IsAbs(dir) {
			return dir, nil
		}
	}
	return "", errors.New("find gitea's files: the module is not in Go's module cache")
}
