// Package static compiles Fleetwright's programs as their images hold them: static, stripped, and without a path of the machine.
package static

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Compile builds cmd/fleetwright-<name> of the module at dir for Linux. The architecture is as in GOARCH.
func Compile(dir, name, arch string) ([]byte, error) {
	temporary, err := os.MkdirTemp("", "fleetwright-images-")
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(temporary) }() // a temporary directory
	file := filepath.Join(temporary, name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -buildid=", "-o", file, "./cmd/fleetwright-"+name)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("compile %s: %w", name, err)
	}
	return os.ReadFile(file)
}
