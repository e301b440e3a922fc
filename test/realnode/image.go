//go:build linux

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/fleetwright/fleetwright/pkg/adapter/oci"
)

// baseImage is what package images are built on, and what holds a pod's sandbox open.
const baseImage = "base:1"

// Base is the reference by which programs on the machine below find the base image: busybox as sh, cp and mkdir.
func (l *Lab) Base() string { return l.push + "/" + baseImage }

func (l *Lab) pushBase() error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("make base image: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("make base image: %w", err)
	}
	files := map[string]oci.File{}
	for _, applet := range []string{"sh", "cp", "mkdir", "sleep"} {
		files["/bin/"+applet] = oci.File{Data: data, Mode: 0o755}
	}
	img, err := oci.Build(oci.Spec{
		Architecture: runtime.GOARCH, Files: files, Entrypoint: []string{"/bin/sleep", "2147483647"}, Env: []string{"PATH=/bin"},
	})
	if err != nil {
		return fmt.Errorf("make base image: %w", err)
	}
	_, err = l.Push(img, baseImage)
	return err
}
