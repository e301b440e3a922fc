package overlay

import (
	"io/fs"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

type smallTree map[string]string

func (t smallTree) Paths() []string { return slices.Sorted(maps.Keys(t)) }

func (t smallTree) ReadFile(path string) ([]byte, error) {
	if text, ok := t[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

// witness is a lock that counts how many hold it.
type witness struct {
	sync.Mutex
	taken, holders, most int
}

func (w *witness) Lock() {
	w.Mutex.Lock()
	w.taken, w.holders = w.taken+1, w.holders+1
	w.most = max(w.most, w.holders)
}

func (w *witness) Unlock() {
	w.holders--
	w.Mutex.Unlock()
}

// TestDeliveryReport_KB01_EveryRunOfKustomizeIsAlone: the race that others met shows rarely; that no run of kustomize goes without the lock
// shows every time.
func TestDeliveryReport_KB01_EveryRunOfKustomizeIsAlone(t *testing.T) {
	saved, w := oneBuild, &witness{}
	oneBuild = w
	t.Cleanup(func() { oneBuild = saved })
	files := smallTree{
		"kustomization.yaml": "resources: [a.yaml]\npatches:\n  - target: {kind: X}\n    patch: |\n      - {op: add, path: /spec, value: 1}\n",
		"a.yaml":             "{kind: X, apiVersion: v1, metadata: {name: a}}\n",
	}
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			if result, findings := Build(files, "."); result == nil {
				t.Error(findings)
			}
			if _, err := Locate(files, "."); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	require.Equal(t, 16*3, w.taken, "the build, the look for patches that match nothing, and the places")
	require.Equal(t, 1, w.most)
}
