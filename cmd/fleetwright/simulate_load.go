package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// load builds and validates PATH as `fleetwright validate` does. Errors among the findings are printed as there and end the
// program; warnings go to the error output.
func (o *simulateOptions) load(ctx context.Context, nodes []map[string]string) (manifest.Set, error) {
	files, dir, err := o.files()
	if err != nil {
		return manifest.Set{}, err
	}
	validator, err := manifest.New()
	if err != nil {
		return manifest.Set{}, err
	}
	if err := ctx.Err(); err != nil {
		return manifest.Set{}, err
	}
	result := render.Overlay(validator, files, dir, manifest.Options{Nodes: nodes})
	v := &validateOptions{Streams: o.Streams, Output: finding.Text}
	if slices.ContainsFunc(result.Findings, func(f finding.Finding) bool { return f.Severity == finding.Error }) {
		return manifest.Set{}, v.report(result.Findings, 1, len(result.Objects))
	}
	if len(result.Findings) > 0 {
		v.Out = o.ErrOut // the result alone goes to the output
		return result.Set, v.report(result.Findings, 1, len(result.Objects))
	}
	return result.Set, nil
}

// files finds what PATH stands for: the tree and the directory to build in it.
func (o *simulateOptions) files() (overlay.Files, string, error) {
	at, err := findPath(o.Path)
	if err != nil {
		return nil, "", err
	}
	tree, err := git.Worktree(at.root)
	if err != nil {
		return nil, "", err
	}
	files, ok := at.in(tree)
	if !ok {
		return nil, "", nothingHere(o.Path)
	}
	return files, at.dir, nil
}

// place is where a PATH leads: an overlay, a directory of manifests, or a file of a repository.
type place struct {
	// root of the repository, dir below it.
	root, dir string
	// file is the one manifest that is meant; empty: all of dir.
	file string
}

func findPath(path string) (place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return place{}, fmt.Errorf("%s is neither a directory nor a file", path)
	}
	dir, file := path, ""
	if !info.IsDir() {
		dir = filepath.Dir(path)
		if !isKustomization(path) {
			file = filepath.Base(path)
		}
	}
	v := &validateOptions{Directory: dir, Paths: []string{"."}}
	root, dirs, err := v.locate()
	if err != nil {
		return place{}, err
	}
	return place{root: root, dir: dirs[0], file: file}, nil
}

// in is what there is to build in a tree; false if there is nothing.
func (p place) in(tree overlay.Files) (overlay.Files, bool) {
	switch {
	case p.file != "":
		return newPlainManifests(tree, p.dir, []string{p.file}), slices.Contains(tree.Paths(), path.Join(p.dir, p.file))
	case hasKustomization(tree, p.dir):
		return tree, true
	}
	names := manifestsIn(tree, p.dir)
	return newPlainManifests(tree, p.dir, names), len(names) > 0
}

// nothingHere says what could have been meant.
func nothingHere(path string) error {
	var overlays []string
	for _, p := range defaultPaths(path) {
		if p != "." {
			overlays = append(overlays, filepath.Join(path, p))
		}
	}
	if len(overlays) > 0 {
		return fmt.Errorf("%s holds several overlays; name one of them (allowed: %s)", path, strings.Join(overlays, ", "))
	}
	return fmt.Errorf("%s holds neither a kustomization.yaml nor manifests (*.yaml, *.yml)", path)
}

func isKustomization(name string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, path.Base(filepath.ToSlash(name)))
}

func hasKustomization(files overlay.Files, dir string) bool {
	return slices.ContainsFunc(files.Paths(), func(p string) bool { return path.Dir(p) == dir && isKustomization(p) })
}

// manifestsIn are the names of the YAML files of a directory, without those below it.
func manifestsIn(files overlay.Files, dir string) []string {
	var out []string
	for _, p := range files.Paths() {
		if ext := path.Ext(p); path.Dir(p) == dir && (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(path.Base(p), ".") {
			out = append(out, path.Base(p))
		}
	}
	return out
}

// plainManifests are files with a kustomization beside them that lists some and exists only here: so that manifests without
// one are built and checked by the same code.
type plainManifests struct {
	overlay.Files
	at   string
	text []byte
}

func newPlainManifests(files overlay.Files, dir string, names []string) plainManifests {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names,
	})
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("write kustomization: %v", err))
	}
	return plainManifests{Files: files, at: path.Join(dir, "kustomization.yaml"), text: text}
}

// Paths are the files' without other kustomizations in the directory.
func (p plainManifests) Paths() []string {
	paths := slices.DeleteFunc(slices.Clone(p.Files.Paths()), func(name string) bool {
		return path.Dir(name) == path.Dir(p.at) && isKustomization(name)
	})
	paths = append(paths, p.at)
	slices.Sort(paths)
	return paths
}

// ReadFile reads the kustomization from memory and everything else from the files.
func (p plainManifests) ReadFile(name string) ([]byte, error) {
	switch {
	case name == p.at:
		return p.text, nil
	case path.Dir(name) == path.Dir(p.at) && isKustomization(name):
		return nil, fs.ErrNotExist
	}
	return p.Files.ReadFile(name)
}
