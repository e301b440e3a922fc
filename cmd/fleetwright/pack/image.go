package pack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fleetwright/fleetwright/pkg/adapter/oci"
	"github.com/fleetwright/fleetwright/pkg/agent"
)

// imageDir is where a package lies in its image.
const imageDir = "/skyhook-package"

// DefaultBase has what the pod of a rollout needs in a package's image: sh, mkdir and cp.
const DefaultBase = "busybox:stable"

// buildImage makes the image: one layer with the package on top of the base.
func buildImage(s *source, cfg *agent.Config, base v1.Image) (v1.Image, error) {
	files := map[string]oci.File{}
	for _, n := range s.names() {
		mode := int64(0o644)
		if s.files[n].mode&0o111 != 0 || within(n, stepsDir) {
			mode = 0o755
		}
		files[path.Join(imageDir, n)] = oci.File{Data: s.files[n].data, Mode: mode}
	}
	return oci.Extend(base, oci.Layer{
		Files: files,
		Labels: map[string]string{
			"org.opencontainers.image.title": cfg.Name, "org.opencontainers.image.version": cfg.Version,
		},
	})
}

// baseImage reads the base: a directory with an OCI image layout, or a reference in a registry.
func baseImage(ctx context.Context, base, arch string) (v1.Image, error) {
	platform := v1.Platform{OS: "linux", Architecture: arch}
	if _, err := os.Stat(filepath.Join(base, "oci-layout")); err == nil {
		return fromLayout(base, platform)
	}
	ref, err := name.ParseReference(base)
	if err != nil {
		return nil, fmt.Errorf("read base image: %w (allowed: a reference, or a directory with an OCI image layout)", err)
	}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(platform), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return nil, fmt.Errorf("read base image: %w", err)
	}
	return img, nil
}

func fromLayout(dir string, platform v1.Platform) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read base image: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read base image: %w", err)
	}
	for _, m := range manifest.Manifests {
		if m.MediaType.IsImage() && (m.Platform == nil || m.Platform.Satisfies(platform)) {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("read base image: %s has no image for linux/%s", dir, platform.Architecture)
}

// pushImage puts the image into the registry of its reference and returns its digest.
func pushImage(ctx context.Context, img v1.Image, reference string) (digest string, err error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	if err := remote.Write(ref, img, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	hash, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	return hash.String(), nil
}

// checkReference makes sure that the tag says which version it is: a NodeWright's version becomes the tag.
func checkReference(reference, version string) (string, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("tag: %w", err)
	}
	tag, ok := ref.(name.Tag)
	switch {
	case !ok:
		return "", errors.New("tag: a digest cannot be chosen, it comes out (example: registry.example.com/tuning:1.2.3)")
	case !strings.HasSuffix(reference, ":"+tag.TagStr()):
		return reference + ":" + version, nil
	case tag.TagStr() != version:
		return "", fmt.Errorf("tag: %s has tag %s, but config.json says version %s: a NodeWright pulls the image by its version",
			reference, tag.TagStr(), version)
	}
	return reference, nil
}
