package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

func spec() Spec {
	return Spec{
		Architecture: "arm64", User: "65532:65532", Entrypoint: []string{"/agent"}, Env: []string{"PATH=/bin"},
		Files: map[string]File{"/agent": {[]byte("binary"), 0o755}, "/etc/ssl/certs/ca.crt": {[]byte("pem"), 0o644}},
		Dirs:  map[string]int64{"/tmp": 0o1777},
	}
}

func TestBuildIsReproducible(t *testing.T) {
	var digests []string
	for range 3 {
		img, err := Build(spec())
		require.NoError(t, err)
		digest, err := img.Digest()
		require.NoError(t, err)
		digests = append(digests, digest.String())
	}
	require.Equal(t, digests[0], digests[1])
	require.Equal(t, digests[0], digests[2])
	other := spec()
	other.Files["/agent"] = File{[]byte("other"), 0o755}
	img, err := Build(other)
	require.NoError(t, err)
	digest, err := img.Digest()
	require.NoError(t, err)
	require.NotEqual(t, digests[0], digest.String())
}

func TestLayoutHoldsWhatWasAskedFor(t *testing.T) {
	img, err := Build(spec())
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "agent")
	for range 2 { // the second replaces the first
		digest, err := WriteLayout(dir, img, "ghcr.io/fleetwright/agent:dev")
		require.NoError(t, err)
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", digest)
	}
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	require.Equal(t, "linux/arm64", manifest.Manifests[0].Platform.String())
	require.Equal(t, "ghcr.io/fleetwright/agent:dev", manifest.Manifests[0].Annotations["io.containerd.image.name"])

	read, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	require.NoError(t, validate.Image(read))
	config, err := read.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "65532:65532 [/agent] [PATH=/bin] 0", fmt.Sprint(config.Config.User, " ", config.Config.Entrypoint, " ", config.Config.Env, " ", config.Created.Unix()))
	layers, err := read.Layers()
	require.NoError(t, err)
	content, err := layers[0].Uncompressed()
	require.NoError(t, err)
	require.Equal(t, []string{
		"etc/ 755", "etc/ssl/ 755", "etc/ssl/certs/ 755", "tmp/ 1777", "agent 755", "etc/ssl/certs/ca.crt 644",
	}, list(t, content))
}

func list(t *testing.T, r io.Reader) (names []string) {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		require.Zero(t, h.ModTime.Unix())
		require.Zero(t, h.Uid)
		names = append(names, fmt.Sprintf("%s %o", h.Name, h.Mode))
	}
}

func TestRefusals(t *testing.T) {
	_, err := Build(Spec{})
	require.EqualError(t, err, "build image: no architecture (example: amd64)")
	_, err = Build(Spec{Architecture: "amd64", Files: map[string]File{"../x": {}}})
	require.EqualError(t, err, `build image: path "../x" must be absolute and clean (example: /etc/passwd)`)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600))
	img, err := Build(spec())
	require.NoError(t, err)
	_, err = WriteLayout(dir, img, "x:y")
	require.EqualError(t, err, "write layout: "+dir+" holds other files than an image layout")
	require.FileExists(t, filepath.Join(dir, "thesis.tex"))
}
