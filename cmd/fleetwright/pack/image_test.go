package pack

import (
	"archive/tar"
	"errors"
	"io"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/oci"
)

// baseLayout is an image with a shell, as a directory.
func baseLayout(t *testing.T) string {
	t.Helper()
	img, err := oci.Build(oci.Spec{Architecture: "amd64", Files: map[string]oci.File{"/bin/sh": {Data: []byte("shell"), Mode: 0o755}}})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "base")
	_, err = oci.WriteLayout(dir, img, "base:1")
	require.NoError(t, err)
	return dir
}

func TestBuildPushesAReproducibleImage(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	dir, base := newPackage(t), baseLayout(t)
	reference := strings.TrimPrefix(server.URL, "http://") + "/acme/greeting"
	pushed, err := command(t, "build", dir, "-t", reference, "--push", "--base", base, "--arch", "amd64")
	require.NoError(t, err)
	require.Regexp(t, "^"+reference+":0.1.0@sha256:[0-9a-f]{64}\n$", pushed)

	layout := filepath.Join(t.TempDir(), "out")
	written, err := command(t, "build", dir, "-t", reference+":0.1.0", "-o", layout, "--base", base, "--arch", "amd64")
	require.NoError(t, err)
	require.Equal(t, pushed, written, "equal files on an equal base give an equal digest")

	ref, err := name.ParseReference(strings.TrimSpace(strings.SplitN(pushed, "@", 2)[0]))
	require.NoError(t, err)
	img, err := remote.Image(ref)
	require.NoError(t, err)
	require.NoError(t, validate.Image(img))
	require.Equal(t, []string{
		"bin/ 755", "bin/sh 755",
		"skyhook-package/ 755", "skyhook-package/skyhook_dir/ 755", "skyhook-package/config.json 644",
		"skyhook-package/skyhook_dir/config.sh 755", "skyhook-package/skyhook_dir/config_check.sh 755",
		"skyhook-package/skyhook_dir/uninstall.sh 755", "skyhook-package/skyhook_dir/uninstall_check.sh 755",
	}, files(t, img))

	// An image in a registry is a base, too.
	_, err = command(t, "build", dir, "-t", "greeting", "-o", filepath.Join(t.TempDir(), "x"), "--base", reference+":0.1.0", "--arch", "amd64")
	require.NoError(t, err)
}

func files(t *testing.T, img v1.Image) (names []string) {
	t.Helper()
	layers, err := img.Layers()
	require.NoError(t, err)
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		require.NoError(t, err)
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			names = append(names, h.Name+" "+mode(h.Mode))
		}
	}
	return names
}

func mode(m int64) string {
	if m&0o111 != 0 {
		return "755"
	}
	return "644"
}

func TestBuildRefuses(t *testing.T) {
	dir, base := newPackage(t), baseLayout(t)
	out := filepath.Join(t.TempDir(), "out")
	for want, args := range map[string][]string{
		"say where the image goes: -o DIRECTORY or --push, not both": {"build", dir, "-t", "greeting", "--base", base},
		"tag: greeting:2 has tag 2, but config.json says version 0.1.0: a NodeWright pulls the image by its version": {
			"build", dir, "-t", "greeting:2", "-o", out, "--base", base},
		"tag: a digest cannot be chosen, it comes out (example: registry.example.com/tuning:1.2.3)": {
			"build", dir, "-t", "greeting@sha256:" + strings.Repeat("0", 64), "-o", out, "--base", base},
		"read base image: " + base + " has no image for linux/riscv64": {
			"build", dir, "-t", "greeting", "-o", out, "--base", base, "--arch", "riscv64"},
		"write layout: " + dir + " holds other files than an image layout": {
			"build", dir, "-t", "greeting", "-o", dir, "--base", base, "--arch", "amd64"},
	} {
		_, err := command(t, args...)
		require.EqualError(t, err, want)
	}
}
