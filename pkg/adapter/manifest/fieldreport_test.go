package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
)

// TestFieldReport_CU09_ReferencesOfImages: the name, the tag and the digest of an image have a field each; what no registry can
// serve is refused with a word on what to write instead. The same holds for a NodeWright's packages and for the catalogue.
func TestFieldReport_CU09_ReferencesOfImages(t *testing.T) {
	const (
		fields = "must be an image name without tag and digest; the tag is the field version, a digest goes into containerSHA"
		name   = "must be [host[:port]/]path, the path in lower-case letters and digits, with . _ or - between them"
	)
	v := newValidator(t)
	sha := "sha256:" + strings.Repeat("0a", 32)
	for image, want := range map[string]string{
		"tuning": "", "library/tuning": "", "ghcr.io/nvidia/nodewright-packages/nvidia-tuned": "", "localhost:5000/tuning": "",
		"registry.example.com:5000/a/b_c/d__e/f--g.h": "", "Registry.Example.com/tuning": "", "10.0.0.1:5000/tuning": "", "[fd00::1]:5000/tuning": "",

		"tuning:1.0.0": fields, "ghcr.io/x/tuning:1.0.0": fields, "localhost:5000/tuning:1.0.0": fields, "tuning@" + sha: fields,
		"ghcr.io/x/tuning@" + sha: fields, "ghcr.io/x/tuning:1.0.0@" + sha: fields, "localhost:5000": fields, "ghcr.io/x/": fields,
		"/tuning": fields, "ghcr.io//tuning": fields, "two words": fields, "https://ghcr.io/x/tuning": fields,

		"Tuning": name, "ghcr.io/NVIDIA/tuning": name, "ghcr.io/x/Tuning": name, "host:port/tuning": name, "ghcr.io/x/-tuning": name,
		"ghcr.io/x/tuning.": name, "ghcr.io/x/a..b": name, "ghcr.io/x/a___b": name, "-host/tuning": name, "ghcr.io/x/tüning": name,
	} {
		t.Run(image, func(t *testing.T) {
			require.Equal(t, want, verdictOn(t, v, "spec.packages.tuning.image", fmt.Sprintf(`
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: x}
spec: {packages: {tuning: {version: 1.0.0, image: %q}}}
`, image)))
			require.Equal(t, want, verdictOn(t, v, "spec.image", fmt.Sprintf(`
apiVersion: fleetwright.dev/v1alpha1
kind: Package
metadata: {name: x}
spec: {version: 1.0.0, image: %q}
`, image)))
		})
	}
	for digest, accepted := range map[string]bool{
		sha: true, strings.TrimPrefix(sha, "sha256:"): false, "sha256:00": false, strings.ToUpper(sha): false, "sha512:" + strings.Repeat("0a", 32): false,
		"@" + sha[:70]: false,
	} {
		message := verdictOn(t, v, "spec.packages.tuning.containerSHA", fmt.Sprintf(`
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: x}
spec: {packages: {tuning: {version: 1.0.0, image: tuning, containerSHA: %q}}}
`, digest))
		require.Equal(t, accepted, message == "", "%s: %s", digest, message)
	}
}

// verdictOn is what is found on a field of a manifest; empty if nothing is. There is no finding on another field.
func verdictOn(t *testing.T, v *manifest.Validator, field, text string) string {
	t.Helper()
	findings := texts(v.Check(object(t, text, ""), nil))
	if len(findings) == 0 {
		return ""
	}
	require.Len(t, findings, 1)
	_, message, found := strings.Cut(findings[0], ": "+field+": ")
	require.True(t, found, findings[0])
	return message
}
