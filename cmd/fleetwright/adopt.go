package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/adoption"
	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// adoptOptions are what `fleetwright adopt` is asked for.
type adoptOptions struct {
	Streams
	DryRun, Confirm, TrustSpec, SkipObjects bool
	Namespace, Output                       string
	Kubeconfig                              *kubeconfig
}

func newAdopt(streams Streams) *cobra.Command {
	o := &adoptOptions{Streams: streams, Kubeconfig: newKubeconfig()}
	cmd := &cobra.Command{
		Use:   "adopt (--dry-run | --confirm) [-o text|json|yaml]",
		Short: "Take a cluster over from NVIDIA's operator without running anything again",
		Long: `Take a cluster over from NVIDIA's operator without running anything again.

Its objects of the old group become objects of the new one, and what it wrote on the nodes becomes our records. Nothing that it wrote
is removed. It is refused while that operator is active, and can be repeated.`,
		Example: `  # what would happen, node by node
  fleetwright adopt --dry-run

  # the converted objects, for the fleet repository
  fleetwright adopt --dry-run -o yaml > nodewrights.yaml

  # the objects come from git; only the records are written
  fleetwright adopt --confirm --skip-objects`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and write nothing")
	f.BoolVar(&o.Confirm, "confirm", false, "do it")
	f.BoolVar(&o.TrustSpec, "trust-spec", false, "where the operator's ConfigMap of a package is gone, the nodes have the configuration of the spec")
	f.BoolVar(&o.SkipObjects, "skip-objects", false, "create no objects: they come from git")
	f.StringVarP(&o.Namespace, "namespace", "n", fleetv1.DefaultNamespace, "namespace of the reconciler")
	f.StringVarP(&o.Output, "output", "o", "text", "format of the result: text, json, or yaml (the converted objects alone)")
	o.Kubeconfig.bind(cmd)
	return cmd
}

// Run adopts, or says what would be done. What is not clear is an error after everything else is done.
func (o *adoptOptions) Run(ctx context.Context) error {
	switch {
	case o.DryRun == o.Confirm:
		return errors.New("exactly one of --dry-run and --confirm is needed")
	case o.Output != "text" && o.Output != "json" && o.Output != "yaml":
		return fmt.Errorf("unknown output format %q (allowed: text, json, yaml)", o.Output)
	}
	config, err := o.Kubeconfig.config()
	if err != nil {
		return err
	}
	source, err := adoption.NewSource(config, o.Namespace, time.Now)
	if err != nil {
		return o.Kubeconfig.unreachable(err)
	}
	source.TrustSpec = o.TrustSpec
	takeover, err := source.Gather(ctx)
	if err != nil {
		return o.Kubeconfig.unreachable(explain.Word(err))
	}
	if o.Confirm {
		err = o.write(ctx, source, takeover)
	}
	if printed := o.print(takeover); printed != nil {
		return errors.Join(err, printed)
	}
	if n := takeover.Unclear(); n > 0 && o.Output != "yaml" {
		err = errors.Join(err, fmt.Errorf("%d things are not clear: see docs/adopt.md", n))
	}
	return err
}

func (o *adoptOptions) write(ctx context.Context, source *adoption.Source, t *adoption.Takeover) error {
	if !o.SkipObjects {
		if err := source.Create(ctx, t); err != nil {
			return explain.Word(err)
		}
	}
	return source.Write(ctx, t)
}

func (o *adoptOptions) print(t *adoption.Takeover) error {
	var text []byte
	switch o.Output {
	case "text":
		text = []byte(t.Text(o.Confirm))
	case "json":
		data, err := json.MarshalIndent(t.Entries, "", "  ")
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		text = append(data, '\n')
	case "yaml":
		for _, object := range t.Objects {
			data, err := yaml.Marshal(adoption.Manifest(object))
			if err != nil {
				return fmt.Errorf("write YAML: %w", err)
			}
			text = append(append(text, "---\n"...), data...)
		}
	}
	if _, err := o.Out.Write(text); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}
