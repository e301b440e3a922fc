// Package render joins the overlay build and the manifest validation, for the command line and the reconciler alike: one
// directory of a tree in, typed objects or located findings out. It only wires.
package render

import (
	"slices"
	"sync"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Result is what one directory yields.
type Result struct {
	// Objects as kustomize built them, to be applied. Nil if the build failed.
	Objects []overlay.Object
	// Set is the same, typed and defaulted, to plan with. It lacks objects in error.
	Set manifest.Set
	// Files are the paths that the build read, sorted. Nil if it failed.
	Files []string
	// Findings sorted by place; with an error among them nothing may be applied.
	Findings []finding.Finding
}

// Overlay builds and validates the directory dir of files.
func Overlay(v *manifest.Validator, files overlay.Files, dir string, opts manifest.Options) Result {
	built, findings := overlay.Build(files, dir)
	if built == nil {
		return Result{Findings: findings}
	}
	objects, keys := documents(built.Objects)
	set, more := v.Validate(objects, newLocator(files, dir, keys), opts)
	findings = slices.Concat(findings, more)
	finding.Sort(findings)
	return Result{Objects: built.Objects, Set: set, Files: built.Files, Findings: slices.Compact(findings)}
}

// documents are a build's objects as the validation wants them, with the overlay's key behind each document's.
func documents(built []overlay.Object) ([]manifest.Object, map[string]overlay.ObjectKey) {
	objects, keys := []manifest.Object{}, map[string]overlay.ObjectKey{}
	for _, o := range built {
		key := o.Kind + "/" + o.Namespace + "/" + o.Name
		keys[key] = o.Key()
		objects = append(objects, manifest.Object{
			Key: key, APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, JSON: o.JSON, File: o.Origin,
		})
	}
	return objects, keys
}

// locator asks the overlay for places. It builds once more when the first question comes, so that a build without findings
// costs nothing.
type locator struct {
	keys map[string]overlay.ObjectKey
	open func() *overlay.Locator
}

func newLocator(files overlay.Files, dir string, keys map[string]overlay.ObjectKey) locator {
	return locator{keys: keys, open: sync.OnceValue(func() *overlay.Locator {
		l, err := overlay.Locate(files, dir)
		if err != nil {
			return nil // findings then name the object's file only
		}
		return l
	})}
}

func (l locator) At(key, pointer string) (manifest.Position, bool) {
	return l.find((*overlay.Locator).At, key, pointer)
}

func (l locator) AtKey(key, pointer string) (manifest.Position, bool) {
	return l.find((*overlay.Locator).AtKey, key, pointer)
}

type finder func(*overlay.Locator, overlay.ObjectKey, string) (overlay.Position, bool)

func (l locator) find(find finder, key, pointer string) (manifest.Position, bool) {
	places := l.open()
	if places == nil {
		return manifest.Position{}, false
	}
	p, ok := find(places, l.keys[key], pointer)
	return manifest.Position{File: p.File, Line: p.Line, Column: p.Column, Approximate: p.Approximate}, ok
}
