package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fleetwright/fleetwright/pkg/adapter/host"
)

const (
	// uninstalled stands for the version after an uninstall.
	uninstalled = "uninstalled"
	// unknownVersion stands for the version before anything was recorded.
	unknownVersion = "unknown"
	// maxHistory bounds the list: a host that changes daily keeps half a year.
	maxHistory = 200
)

// history is <state>/history/<package>.json: which versions of a package this host had, newest first.
type history struct {
	Current string         `json:"current-version"`
	Entries []historyEntry `json:"history"`
}

type historyEntry struct {
	Version string `json:"version"`
	Time    string `json:"time"`
}

type historyFile struct {
	root host.Root
	path string
}

func (a *Agent) history(c *Config) historyFile {
	return historyFile{a.Root, path.Join(a.Settings.StateDir, "history", c.Name+".json")}
}

// read returns the history; an unreadable one is put aside as .backup, because the host's state is what counts.
func (f historyFile) read() (history, error) {
	data, err := f.root.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return history{}, nil
	}
	if err != nil {
		return history{}, fmt.Errorf("read history: %w", err)
	}
	h, ok := parseHistory(data)
	if !ok {
		if err := f.root.Rename(f.path, f.path+".backup"); err != nil {
			return history{}, fmt.Errorf("put unreadable history aside: %w", err)
		}
		return history{}, nil
	}
	return h, nil
}

// maxVersion is the longest version that is believed: it becomes an argument and a variable of upgrade steps.
const maxVersion = 256

// parseHistory reads the file. One that is no JSON, or whose versions are no words that a program could be given, is unreadable.
func parseHistory(data []byte) (h history, ok bool) {
	if err := json.Unmarshal(data, &h); err != nil || !word(h.Current) {
		return history{}, false
	}
	for _, e := range h.Entries {
		if !word(e.Version) || !word(e.Time) {
			return history{}, false
		}
	}
	return h, true
}

// word: the kernel refuses arguments with zero bytes, and line ends would add variables to files that scripts write. Empty is fine.
func word(s string) bool {
	return len(s) <= maxVersion && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// current is the version that this host has: a version, "unknown" or "uninstalled".
func (f historyFile) current() (string, error) {
	h, err := f.read()
	if err != nil || h.Current == "" {
		return unknownVersion, err
	}
	return h.Current, nil
}

func (f historyFile) record(version string, now time.Time) error {
	h, err := f.read()
	if err != nil {
		return err
	}
	data, err := h.with(version, now)
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	if err := f.root.WriteFile(f.path, data, 0o644); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// with is the file's text once the host has a further version.
func (h history) with(version string, now time.Time) ([]byte, error) {
	h.Current = version
	h.Entries = append([]historyEntry{{Version: version, Time: now.UTC().Format(time.RFC3339)}}, h.Entries...)
	h.Entries = h.Entries[:min(len(h.Entries), maxHistory)]
	data, err := json.Marshal(h)
	return append(data, '\n'), err
}
