package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// validateOptions are what `fleetwright validate` is asked for.
type validateOptions struct {
	Streams
	// Directory is a repository, or a directory in one.
	Directory string
	// Paths are overlays relative to Directory; none means each directory of Directory/overlays, or Directory itself.
	Paths []string
	// Output is the format of the findings.
	Output finding.Format
}

func newValidate(streams Streams) *cobra.Command {
	o := &validateOptions{Streams: streams, Output: finding.Text}
	output := string(o.Output)
	cmd := &cobra.Command{
		Use:   "validate DIRECTORY [--path OVERLAY ...] [-o text|json|sarif|github]",
		Short: "Build overlays and check every manifest, offline",
		Long: `Build overlays and check every manifest, offline, exactly as the reconciler does.

DIRECTORY is a fleet repository or one overlay in it. Without --path, every directory below DIRECTORY/overlays is
checked, or DIRECTORY itself if there is none. Files are read as they are on disk; bases are found up to the root of the
git repository. The exit code is 1 if there is an error; warnings leave it 0.`,
		Example: `  # every overlay of a repository
  fleetwright validate .

  # one overlay, with annotations on the lines of a pull request
  fleetwright validate . --path overlays/us-east-1 -o github`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Directory, o.Output = args[0], finding.Format(output)
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringArrayVar(&o.Paths, "path", nil, "overlay to check, relative to DIRECTORY; may be repeated")
	cmd.Flags().StringVarP(&output, "output", "o", output, "format of the findings: text, json, sarif or github")
	return cmd
}

// Run prints the findings. Errors among them end the program with code 1.
func (o *validateOptions) Run(ctx context.Context) error {
	if !slices.Contains(finding.Formats(), o.Output) {
		return fmt.Errorf("unknown output format %q (allowed: text, json, sarif, github)", o.Output)
	}
	root, overlays, err := o.locate()
	if err != nil {
		return err
	}
	tree, err := git.Worktree(root)
	if err != nil {
		return err
	}
	validator, err := manifest.New()
	if err != nil {
		return err
	}
	var findings []finding.Finding
	objects := 0
	for _, dir := range overlays {
		if err := ctx.Err(); err != nil {
			return err
		}
		result := render.Overlay(validator, tree, dir, manifest.Options{})
		findings = append(findings, result.Findings...)
		objects += len(result.Objects)
	}
	return o.report(findings, len(overlays), objects)
}

// report prints; what several overlays share (a mistake in a base) is printed once.
func (o *validateOptions) report(findings []finding.Finding, overlays, objects int) error {
	finding.Sort(findings)
	findings = slices.Compact(findings)
	text, err := finding.Render(findings, o.Output)
	if err != nil {
		return err
	}
	if _, err := o.Out.Write(text); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	errors := 0
	for _, f := range findings {
		if f.Severity == finding.Error {
			errors++
		}
	}
	summary := fmt.Sprintf("%s, %s: %s, %s", count(overlays, "overlay"), count(objects, "object"),
		count(errors, "error"), count(len(findings)-errors, "warning"))
	fmt.Fprintln(o.ErrOut, summary)
	if errors > 0 {
		return &exitError{code: 1, reason: summary}
	}
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// locate finds the root of the repository, and the overlays relative to it.
func (o *validateOptions) locate() (root string, overlays []string, err error) {
	dir, err := filepath.Abs(o.Directory)
	if err != nil {
		return "", nil, fmt.Errorf("find %s: %w", o.Directory, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", nil, fmt.Errorf("%s is not a directory", o.Directory)
	}
	root = repositoryRoot(dir)
	inside, err := filepath.Rel(root, dir)
	if err != nil {
		return "", nil, fmt.Errorf("find %s: %w", o.Directory, err)
	}
	paths := o.Paths
	if len(paths) == 0 {
		paths = defaultPaths(dir)
	}
	for _, p := range paths {
		overlays = append(overlays, filepath.ToSlash(filepath.Join(inside, p)))
	}
	return root, overlays, nil
}

// repositoryRoot is the nearest directory upwards that git calls a work tree, or dir itself.
func repositoryRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

func defaultPaths(dir string) []string {
	entries, err := os.ReadDir(filepath.Join(dir, "overlays"))
	if err != nil {
		return []string{"."}
	}
	var paths []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			paths = append(paths, filepath.Join("overlays", e.Name()))
		}
	}
	if len(paths) == 0 {
		return []string{"."}
	}
	return paths
}
