package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// overlayPath is the overlay that the demo's cluster follows.
const overlayPath = "overlays/us-east-1"

// readRepository reads every file of the example repository.
func readRepository(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)] = string(data)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the example repository: %w", err)
	}
	return files, nil
}

// edit replaces a piece of a file; that the piece is there is part of the story.
func edit(files map[string]string, path, old, replacement string) (map[string]string, error) {
	if !strings.Contains(files[path], old) {
		return nil, fmt.Errorf("edit %s: it does not contain %q", path, old)
	}
	return map[string]string{path: strings.Replace(files[path], old, replacement, 1)}, nil
}
