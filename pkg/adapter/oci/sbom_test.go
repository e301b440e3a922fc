package oci

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSBOMNamesEveryModule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program") // a test's own binary does not name its modules
	out, err := exec.Command("go", "build", "-o", file, "../../../schema/gen").CombinedOutput()
	require.NoError(t, err, string(out))
	binary, err := os.ReadFile(file)
	require.NoError(t, err)
	text, err := SBOM("agent", "1.2.3", binary)
	require.NoError(t, err)
	again, err := SBOM("agent", "1.2.3", binary)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))

	var doc spdxDocument
	require.NoError(t, json.Unmarshal(text, &doc))
	require.Equal(t, "agent", doc.Packages[0].Name)
	require.Len(t, doc.Packages[0].Checksums, 1)
	urls := map[string]string{}
	for _, p := range doc.Packages {
		require.NotEmpty(t, p.VersionInfo, p.Name)
		urls[p.Name] = p.ExternalRefs[0].Locator
	}
	require.Regexp(t, `^pkg:golang/stdlib@1\.\d+`, urls["stdlib"])
	require.Regexp(t, `^pkg:golang/k8s\.io/apiextensions-apiserver@v`, urls["k8s.io/apiextensions-apiserver"])
	require.Len(t, doc.Relationships, len(doc.Packages))

	_, err = SBOM("agent", "1.2.3", []byte("no program"))
	require.ErrorContains(t, err, "list modules of agent: ")
}
