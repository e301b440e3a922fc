package confined

import (
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Argument is the first argument of the program that makes it the child.
const Argument = "build-confined"

// order is the parent's first line.
type order struct {
	Dir     string           `json:"dir"`
	Paths   []string         `json:"paths"`
	Options manifest.Options `json:"options"`
	Strict  bool             `json:"strict,omitempty"`
}

// wish is a line of the child: a file that it wants to read, or its result.
type wish struct {
	Read   string  `json:"read,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// file is the answer to a wish to read. At most one field is set; none for an empty file.
type file struct {
	Data    []byte `json:"data,omitempty"`
	Missing bool   `json:"missing,omitempty"`
	// Error is shown to people.
	Error string `json:"error,omitempty"`
}

// Result is what one directory yields.
type Result struct {
	// Confined says that the process could open nothing: no file, no connection.
	Confined bool `json:"confined"`
	// Built says that the overlay builds.
	Built bool `json:"built"`
	// Set is what it builds, typed and defaulted. It lacks objects in error.
	Set manifest.Set `json:"set"`
	// Files that the build read, sorted.
	Files []string `json:"files"`
	// Findings sorted by place.
	Findings []finding.Finding `json:"findings"`
}

// Request is one build.
type Request struct {
	// Dir of the tree.
	Dir string
	// Options of the validation.
	Options manifest.Options
	// Strict: nothing is built in a process that could open a file or a connection.
	Strict bool
}
