package confined_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/confined"
	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
)

// TestMain is also the child.
func TestMain(m *testing.M) {
	if confined.IsChild(os.Args) {
		os.Exit(confined.Child(os.Args))
	}
	os.Exit(m.Run())
}

// tree is a repository in memory. A text that begins with ! is an error.
type tree map[string]string

func (t tree) Paths() []string { return slices.Sorted(maps.Keys(t)) }

func (t tree) ReadFile(path string) ([]byte, error) {
	text, ok := t[path]
	switch message, bad := strings.CutPrefix(text, "!"); {
	case !ok:
		return nil, fs.ErrNotExist
	case bad:
		return nil, errors.New(message)
	}
	return []byte(text), nil
}

func builder(t *testing.T, limits sandbox.Limits) *confined.Builder {
	t.Helper()
	b, err := confined.NewBuilder(limits)
	require.NoError(t, err)
	return b
}

func TestChildBuildsWhatADeliveryBuilds(t *testing.T) {
	v, err := manifest.New()
	require.NoError(t, err)
	files, err := git.Worktree("../../../fleet-example")
	require.NoError(t, err)
	options := manifest.Options{Nodes: []map[string]string{{"pool": "gpu"}}}
	want := render.Overlay(v, files, "overlays/us-east-1", options)
	got, err := builder(t, sandbox.Limits{}).Build(t.Context(), files, confined.Request{Dir: "overlays/us-east-1", Options: options})
	require.NoError(t, err)
	require.True(t, got.Built)
	require.True(t, got.Confined, "this kernel takes the filter")
	require.Equal(t, want.Set, got.Set)
	require.Equal(t, want.Files, got.Files)
	require.ElementsMatch(t, want.Findings, got.Findings)
	require.NotZero(t, got.Set.Len())
}

func TestChildSaysWhatTheParentSaysAboutAFile(t *testing.T) {
	files := tree{"a/kustomization.yaml": "resources: [link.yaml, ../gone.yaml]\n", "a/link.yaml": "!a/link.yaml is a symbolic link out of the repository"}
	got, err := builder(t, sandbox.Limits{}).Build(t.Context(), files, confined.Request{Dir: "a"})
	require.NoError(t, err)
	require.False(t, got.Built)
	v, err := manifest.New()
	require.NoError(t, err)
	require.Equal(t, render.Overlay(v, files, "a", manifest.Options{}).Findings, got.Findings)
	require.Contains(t, got.Findings[0].Message+got.Findings[1].Message, "symbolic link out of the repository")
}

// TestDeliveryReport_PP10_AMemoryBombEndsTheChildAlone: a file within all limits on its text is more than the process may hold once it
// is read as YAML.
func TestDeliveryReport_PP10_AMemoryBombEndsTheChildAlone(t *testing.T) {
	bomb := "a: [" + strings.Repeat("[],", 1_300_000) + "[]]\n"
	files := tree{"a/kustomization.yaml": "resources: [bomb.yaml]\n", "a/bomb.yaml": bomb}
	b := builder(t, sandbox.Limits{Memory: 192 << 20, CPU: 20 * time.Second})
	_, err := b.Build(t.Context(), files, confined.Request{Dir: "a"})
	var ended *sandbox.Error
	require.ErrorAs(t, err, &ended)
	require.Equal(t, sandbox.OutOfMemory, ended.Kind, ended.Message)
	require.Equal(t, "it needs more than the 192 MiB of memory that it may have", ended.Message)

	_, err = b.Build(t.Context(), tree{"a/kustomization.yaml": "resources: []\n"}, confined.Request{Dir: "a"})
	require.NoError(t, err, "the next one is built")
}
