package lab

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ReadRepository reads every file of a directory, by its path below it with slashes.
func ReadRepository(dir string) (map[string]string, error) {
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
		return nil, fmt.Errorf("read repository: %w", err)
	}
	return files, nil
}

// Edit replaces a piece of a file, and fails if the piece is not there: stories depend on it.
func Edit(files map[string]string, path, old, replacement string) (map[string]string, error) {
	if !strings.Contains(files[path], old) {
		return nil, fmt.Errorf("edit %s: it does not contain %q", path, old)
	}
	return map[string]string{path: strings.Replace(files[path], old, replacement, 1)}, nil
}
