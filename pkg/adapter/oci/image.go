package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is one regular file of an image. Its directories are made with mode 0755.
type File struct {
	Data []byte
	// Mode is the permission bits, for example 0o755.
	Mode int64
}

// Spec describes an image with one layer on an empty base.
type Spec struct {
	// Files by absolute path.
	Files map[string]File
	// Dirs by absolute path, with their permission bits (and sticky bit), beside those that files need.
	Dirs map[string]int64
	// Architecture as in GOARCH. Required. The system is linux.
	Architecture string
	// User as uid:gid. Empty: root.
	User       string
	Entrypoint []string
	// Env as NAME=value.
	Env    []string
	Labels map[string]string
}

// epoch is the time of everything in an image: 1970, so that a build at another time gives the same digest.
var epoch = time.Unix(0, 0).UTC()

// Build makes the image in memory.
func Build(s Spec) (v1.Image, error) {
	if s.Architecture == "" {
		return nil, errors.New("build image: no architecture (example: amd64)")
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := appendLayer(base, s.Files, s.Dirs)
	if err != nil {
		return nil, err
	}
	return configure(img, func(file *v1.ConfigFile) {
		file.OS, file.Architecture = "linux", s.Architecture
		file.Config = v1.Config{User: s.User, Entrypoint: s.Entrypoint, Env: s.Env, Labels: s.Labels}
	})
}

// Layer is what is put on top of an image.
type Layer struct {
	// Files by absolute path.
	Files map[string]File
	// Labels are added to the base's.
	Labels map[string]string
}

// Extend puts a layer on top of a base. Everything else of the base stays, but the time when it was made.
func Extend(base v1.Image, l Layer) (v1.Image, error) {
	img, err := appendLayer(base, l.Files, nil)
	if err != nil {
		return nil, err
	}
	return configure(img, func(file *v1.ConfigFile) {
		labels := maps.Clone(file.Config.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, l.Labels)
		file.Config.Labels = labels
	})
}

func appendLayer(base v1.Image, files map[string]File, extra map[string]int64) (v1.Image, error) {
	data, err := layerOf(files, extra)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "fleetwright", Created: v1.Time{Time: epoch}}})
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	return img, nil
}

func configure(img v1.Image, change func(*v1.ConfigFile)) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	file = file.DeepCopy()
	file.Created = v1.Time{Time: epoch}
	change(file)
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	return img, nil
}

// layerOf is the tar of all directories and files, parents first.
func layerOf(files map[string]File, extra map[string]int64) ([]byte, error) {
	dirs, err := allDirs(files, extra)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: dirs[dir], ModTime: epoch}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("add %s: %w", dir, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(w, name, files[name]); err != nil {
			return nil, fmt.Errorf("add %s: %w", name, err)
		}
	}
	return b.Bytes(), w.Close()
}

func addFile(w *tar.Writer, name string, f File) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name[1:], Mode: f.Mode, Size: int64(len(f.Data)), ModTime: epoch}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(f.Data)
	return err
}

func allDirs(files map[string]File, extra map[string]int64) (map[string]int64, error) {
	dirs := map[string]int64{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(files)), slices.Collect(maps.Keys(extra))) {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
			return nil, fmt.Errorf("path %q must be absolute and clean (example: /etc/passwd)", name)
		}
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			dirs[dir] = 0o755
		}
	}
	maps.Copy(dirs, extra)
	return dirs, nil
}

// WriteLayout replaces dir by an OCI image layout that holds the image under the reference (example:
// ghcr.io/fleetwright/agent:dev), and returns the manifest's digest. `tar -C dir -c . | ctr images import -` loads it.
func WriteLayout(dir string, img v1.Image, reference string) (digest string, err error) {
	if err := removeLayout(dir); err != nil {
		return "", err
	}
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", fmt.Errorf("write layout: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return "", fmt.Errorf("write layout: %w", err)
	}
	tag := reference[strings.LastIndex(reference, ":")+1:]
	err = out.AppendImage(img, layout.WithPlatform(v1.Platform{OS: file.OS, Architecture: file.Architecture}), layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": reference,
	}))
	if err != nil {
		return "", fmt.Errorf("write layout: %w", err)
	}
	hash, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("write layout: %w", err)
	}
	return hash.String(), nil
}

// removeLayout makes room, but only where a layout was before: a wrong path must not empty somebody's directory.
func removeLayout(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("write layout: %s holds other files than an image layout", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	return nil
}
