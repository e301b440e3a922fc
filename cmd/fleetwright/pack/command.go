package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/pkg/adapter/oci"
	"github.com/fleetwright/fleetwright/pkg/agent"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// Streams are where the commands write.
type Streams struct{ Out, ErrOut io.Writer }

// Reported is a failure whose report was printed.
type Reported struct{ Reason string }

func (e *Reported) Error() string { return e.Reason }

// ExitCode of the program.
func (e *Reported) ExitCode() int { return 1 }

// New is `fleetwright package` with its four commands.
func New(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "package",
		Short: "Scaffold, check, try out and build packages",
		Long: `Scaffold, check, try out and build packages, the units of host work that a NodeWright lists.

A package is a directory with config.json, which lists the steps of each mode (apply, config, post-interrupt, upgrade,
uninstall, and a check of each), skyhook_dir with the steps' programs, and root_dir with files to be put on the host.`,
	}
	cmd.AddCommand(newInit(streams), newLint(streams), newTest(streams), newBuild(streams))
	return cmd
}

func newInit(streams Streams) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "init DIRECTORY [--name NAME]",
		Short: "Write a new package to start from",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if name == "" {
				abs, err := filepath.Abs(args[0])
				if err != nil {
					return fmt.Errorf("find %s: %w", args[0], err)
				}
				name = filepath.Base(abs)
			}
			files, err := scaffold(args[0], name)
			if err != nil {
				return err
			}
			for _, f := range files {
				fmt.Fprintln(streams.Out, filepath.ToSlash(filepath.Join(args[0], f)))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the package (default: that of the directory)")
	return cmd
}

func newLint(streams Streams) *cobra.Command {
	output := string(finding.Text)
	cmd := &cobra.Command{
		Use:   "lint DIRECTORY [-o text|json|sarif|github]",
		Short: "Find everything that is wrong in a package, without running it",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, _, err := checked(streams, args[0], finding.Format(output))
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "format of the findings: text, json, sarif or github")
	return cmd
}

// checked reads and lints a package, prints what was found, and fails if there is an error among it.
func checked(streams Streams, dir string, format finding.Format) (*source, *agent.Config, error) {
	s, err := readSource(dir)
	if err != nil {
		return nil, nil, err
	}
	findings, cfg := lint(s)
	text, err := finding.Render(findings, format)
	if err != nil {
		return nil, nil, err
	}
	if _, err := streams.Out.Write(text); err != nil {
		return nil, nil, fmt.Errorf("write findings: %w", err)
	}
	if finding.HasErrors(findings) {
		return nil, nil, &Reported{fmt.Sprintf("%s has errors", dir)}
	}
	return s, cfg, nil
}

type buildOptions struct {
	Streams
	// tag is the reference of the image, out the directory for a layout.
	tag, out, base, arch string
	push                 bool
}

func newBuild(streams Streams) *cobra.Command {
	o := buildOptions{Streams: streams, base: DefaultBase, arch: runtime.GOARCH}
	cmd := &cobra.Command{
		Use:   "build DIRECTORY -t REFERENCE [-o DIRECTORY | --push] [--base IMAGE] [--arch ARCH]",
		Short: "Build the image of a package, without Docker",
		Long: `Build the image of a package, without Docker, into a directory (an OCI image layout) or into a registry. Equal
files on an equal base give an equal digest, which is printed: write it into containerSHA.

The base has to have sh, mkdir and cp: with them the package is copied to the host.`,
		Example: `  fleetwright package build packages/tuning -t registry.example.com/acme/tuning --push`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.tag, "tag", "t", "", "reference of the image; its tag has to be the package's version, and is added if it is left out")
	f.StringVarP(&o.out, "output", "o", "", "directory to write an OCI image layout to")
	f.BoolVar(&o.push, "push", false, "push the image to the registry of its reference, with the credentials of the Docker configuration")
	f.StringVar(&o.base, "base", o.base, "image to build on: a reference, or a directory with an OCI image layout")
	f.StringVar(&o.arch, "arch", o.arch, "architecture, as in GOARCH")
	cobra.CheckErr(cmd.MarkFlagRequired("tag"))
	return cmd
}

func (o *buildOptions) run(ctx context.Context, dir string) error {
	if o.push == (o.out != "") {
		return errors.New("say where the image goes: -o DIRECTORY or --push, not both")
	}
	s, cfg, err := checked(o.Streams, dir, finding.Text)
	if err != nil {
		return err
	}
	reference, err := checkReference(o.tag, cfg.Version)
	if err != nil {
		return err
	}
	base, err := baseImage(ctx, o.base, o.arch)
	if err != nil {
		return err
	}
	img, err := buildImage(s, cfg, base)
	if err != nil {
		return err
	}
	digest := ""
	if o.push {
		digest, err = pushImage(ctx, img, reference)
	} else {
		digest, err = oci.WriteLayout(o.out, img, reference)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s@%s\n", reference, digest)
	return nil
}

func modesOf(runs []run) []agent.Mode {
	var out []agent.Mode
	for _, r := range runs {
		if !slices.Contains(out, r.Mode) {
			out = append(out, r.Mode)
		}
	}
	return out
}
