package cluster

import (
	"bytes"
	"sync"
)

// lineWatcher is a writer that remembers whether a line with a given beginning went through it.
type lineWatcher struct {
	prefix []byte

	mu    sync.Mutex
	rest  []byte
	found bool
}

func newLineWatcher(prefix string) *lineWatcher { return &lineWatcher{prefix: []byte(prefix)} }

func (w *lineWatcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, b...)
	for {
		line, rest, complete := bytes.Cut(w.rest, []byte("\n"))
		if !complete {
			return len(b), nil
		}
		w.found = w.found || bytes.HasPrefix(line, w.prefix)
		w.rest = rest
	}
}

func (w *lineWatcher) seen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found
}
