package pack

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// template is a package that puts one file in place; NAME stands for its name.
//
//go:embed template
var template embed.FS

// packageName is what a NodeWright accepts as a package's name (see nwv1.NodeWrightSpec).
var packageName = regexp.MustCompile(`^[a-z][-a-z0-9]{0,41}[a-z]$`)

// scaffold writes a new package into a directory that does not exist or is empty. It returns the files that it wrote.
func scaffold(dir, name string) ([]string, error) {
	if !packageName.MatchString(name) {
		return nil, fmt.Errorf("package name %q (allowed: 2 to 43 lower-case letters, digits or hyphens, with a letter at the start and at the end)", name)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty", dir)
	}
	var written []string
	err := fs.WalkDir(template, "template", func(from string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := template.ReadFile(from)
		if err != nil {
			return err
		}
		inside := strings.TrimPrefix(from, "template/")
		to, mode := filepath.Join(dir, filepath.FromSlash(inside)), fs.FileMode(0o644)
		if strings.HasSuffix(inside, ".sh") {
			mode = 0o755
		}
		written = append(written, inside)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, bytes.ReplaceAll(data, []byte("NAME"), []byte(name)), mode)
	})
	if err != nil {
		return nil, fmt.Errorf("write package: %w", err)
	}
	return written, nil
}
