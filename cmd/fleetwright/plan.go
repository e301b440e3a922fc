package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// planOptions are what `fleetwright plan` is asked for.
type planOptions struct {
	Streams
	// Path is an overlay, a directory of manifests, or a file.
	Path string
	// Against is the revision to compare with; empty: where the branch began.
	Against string
	// NodesFrom is a file with nodes, `-` for standard input.
	NodesFrom string
	// Kubeconfig finds a cluster, which is asked only if one of its flags is given.
	Kubeconfig *kubeconfig
	FromLive   bool
	// Namespace of the reconciler.
	Namespace string
	// Start is when the rollout would begin.
	Start string
	// Output is markdown, text or json.
	Output string
}

func newPlan(streams Streams) *cobra.Command {
	o := &planOptions{Streams: streams, Kubeconfig: newKubeconfig()}
	cmd := &cobra.Command{
		Use:   "plan PATH [--against REF] [--kubeconfig FILE | --nodes-from FILE] [-o markdown|text|json]",
		Short: "Show what a change does to the fleet, before it is merged",
		Long: `Show what a change does to the fleet, before it is merged: packages old and new, nodes that reboot, batches, what is in the way,
and what will not happen.

PATH is an overlay (a directory with a kustomization.yaml), a directory of manifests, or a file, as it is on disk. It is compared with
the same path at the commit where HEAD left the branch that changes are merged into; on that branch itself with HEAD, or, where
nothing is edited, with its parent. --against names another branch, tag or commit.

Nodes come from a cluster (--kubeconfig or --context; it is read and never written) or from a saved list. Without either the plan
is for no nodes, and says so; nothing outside of the repository is read.

The exit code is 0 without changes, 1 for findings or an error, 2 if there are changes.`,
		Example: `  # what does my branch change?
  fleetwright plan overlays/us-east-1

  # for the nodes of a cluster, as a comment
  fleetwright plan overlays/us-east-1 --context us-east-1 > comment.md

  # with a saved list of nodes, pods and budgets
  kubectl get nodes,ledgers,pods,poddisruptionbudgets -A -o yaml | fleetwright plan overlays/us-east-1 --nodes-from - -o text`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Path = args[0]
			o.FromLive = slices.ContainsFunc([]string{"kubeconfig", "context", "server"}, cmd.Flags().Changed)
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Against, "against", "", "branch (from where HEAD left it), tag or commit to compare with (default: the branch that changes are merged into)")
	f.StringVar(&o.NodesFrom, "nodes-from", "", "plan for the nodes, with ledger, pods and budgets, in this file, as kubectl get -o yaml or json prints them; - for standard input")
	f.StringVar(&o.Start, "start", "", "when the rollout begins, such as 2026-01-05T09:00:00Z; it matters to maintenance windows (default now)")
	f.StringVarP(&o.Namespace, "namespace", "n", fleetv1.DefaultNamespace, "namespace of the reconciler")
	f.StringVarP(&o.Output, "output", "o", "markdown", "format of the result: markdown, text or json")
	o.Kubeconfig.bind(cmd)
	return cmd
}

// Run prints the plan.
func (o *planOptions) Run(ctx context.Context) error {
	if !slices.Contains([]string{"markdown", "text", "json"}, o.Output) {
		return fmt.Errorf("unknown output format %q (allowed: markdown, text, json)", o.Output)
	}
	if o.FromLive && o.NodesFrom != "" {
		return fmt.Errorf("--nodes-from and a cluster exclude each other; leave one out")
	}
	in := preview.Input{Path: o.Path, Tool: toolVersion()}
	var err error
	if in.Start, err = startOf(o.Start); err != nil {
		return err
	}
	source, err := o.gather(ctx, &in)
	if err != nil {
		return err
	}
	if err := o.load(ctx, &in); err != nil {
		return err
	}
	if source != nil {
		o.addPods(ctx, source, &in)
	}
	return o.print(preview.Make(in))
}

func startOf(text string) (time.Time, error) {
	if text == "" {
		return time.Now().UTC().Truncate(time.Second), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("--start: %q is not a time (allowed: RFC 3339, such as 2026-01-05T09:00:00Z)", text)
	}
	return at, nil
}

func (o *planOptions) print(p preview.Plan) error {
	var text string
	switch o.Output {
	case "json":
		data, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return fmt.Errorf("write plan: %w", err)
		}
		text = string(data) + "\n"
	case "text":
		text = report.PlanText(p)
	default:
		text = report.PlanComment(p)
	}
	if _, err := fmt.Fprint(o.Out, text); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	switch p.Result {
	case preview.Errors:
		return &exitError{code: 1, reason: "the change has errors"}
	case preview.Changes:
		return &exitError{code: 2, reason: "there are changes"}
	case preview.None:
	}
	return nil
}
