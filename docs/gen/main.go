// Command gen writes docs/reference from the CustomResourceDefinitions of the chart: every field with its type, default,
// meaning and constraints. Run it from the repository's root: go run ./docs/gen
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fleetwright/fleetwright/charts/fleetwright/crds"
)

func main() {
	if err := run(filepath.Join("docs", "reference")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run writes one page per kind, and an index, into dir.
func run(dir string) error {
	pages, err := Pages()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			return fmt.Errorf("write page: %w", err)
		}
	}
	return nil
}

// Pages renders the reference: the content of each page by its file name.
func Pages() (map[string][]byte, error) {
	all, err := crds.All()
	if err != nil {
		return nil, err
	}
	pages := map[string][]byte{}
	var index bytes.Buffer
	index.WriteString("# Reference\n\nGenerated from the CustomResourceDefinitions by `go run ./docs/gen`; do not edit.\n\n")
	index.WriteString("| kind | group | scope | for |\n|---|---|---|---|\n")
	for _, crd := range all {
		p, err := newPage(crd)
		if err != nil {
			return nil, err
		}
		pages[p.fileName()] = p.render()
		fmt.Fprintf(&index, "| [%s](%s) | `%s` | %s | %s |\n",
			p.kind, p.fileName(), p.group, p.scope, cell(firstSentence(p.schema.Description)))
	}
	pages["README.md"] = index.Bytes()
	return pages, nil
}
