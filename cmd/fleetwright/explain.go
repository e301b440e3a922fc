package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// explainOptions are what `fleetwright explain` is asked for.
type explainOptions struct {
	Streams
	// Target is the object to explain.
	Target explain.Target
	// Namespace of the reconciler.
	Namespace string
	// Output is text or json.
	Output string
	// Kubeconfig finds the cluster.
	Kubeconfig *kubeconfig
}

func newExplain(streams Streams) *cobra.Command {
	o := &explainOptions{Streams: streams, Kubeconfig: newKubeconfig()}
	cmd := &cobra.Command{
		Use:   "explain (node/NAME | nodewright/NAME) [-o text|json]",
		Short: "Say why a node or a rollout of a live cluster stands where it stands",
		Long: `Say why a node or a rollout of a live cluster stands where it stands, and what it waits for.

The cluster is read as the reconciler reads it, and the reconciler's own planner decides; nothing is written. The cluster is
found as kubectl finds it: --kubeconfig, the files of KUBECONFIG, or ~/.kube/config, and the current context or --context.`,
		Example: `  # why does nothing happen on this node?
  fleetwright explain node/gpu-17

  # as a plugin of kubectl, in another context
  kubectl fleetwright explain nodewright/base --context us-east-1

  # for a script
  fleetwright explain nodewright base -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Target, err = readTarget(args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Namespace, "namespace", "n", fleetv1.DefaultNamespace, "namespace of the reconciler and its executions")
	f.StringVarP(&o.Output, "output", "o", "text", "format of the result: text or json")
	o.Kubeconfig.bind(cmd)
	return cmd
}

// kinds are the words for what can be explained, as kubectl knows them.
var kinds = map[explain.Kind][]string{
	explain.Node:       {"node", "nodes", "no"},
	explain.NodeWright: {"nodewright", "nodewrights", "nw", "nodewright.nodewright.nvidia.com", "nodewrights.nodewright.nvidia.com"},
}

// readTarget reads KIND/NAME or KIND NAME.
func readTarget(args []string) (explain.Target, error) {
	typed := strings.Join(args, "/")
	word, name, ok := strings.Cut(typed, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return explain.Target{}, fmt.Errorf("%q names no object (allowed: node/NAME, nodewright/NAME)", strings.Join(args, " "))
	}
	for kind, words := range kinds {
		if slices.Contains(words, strings.ToLower(word)) {
			return explain.Target{Kind: kind, Name: name}, nil
		}
	}
	return explain.Target{}, fmt.Errorf("%q cannot be explained (allowed: node, nodewright)", word)
}

// Run prints the explanation.
func (o *explainOptions) Run(ctx context.Context) error {
	if o.Output != "text" && o.Output != "json" {
		return fmt.Errorf("unknown output format %q (allowed: text, json)", o.Output)
	}
	config, err := o.Kubeconfig.config()
	if err != nil {
		return err
	}
	source, err := explain.NewSource(config, o.Namespace, time.Now)
	if err != nil {
		return o.Kubeconfig.unreachable(err)
	}
	picture, err := source.Gather(ctx, o.Target)
	if err != nil {
		return o.Kubeconfig.unreachable(explain.Word(err))
	}
	if o.Target.Kind == explain.Node {
		return o.print(picture.Node(o.Target.Name))
	}
	return o.print(picture.NodeWright(o.Target.Name))
}

func (o *explainOptions) print(e interface{ Text(now time.Time) string }) error {
	text := []byte(e.Text(time.Now()))
	if o.Output == "json" {
		var err error
		if text, err = json.MarshalIndent(e, "", "  "); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		text = append(text, '\n')
	}
	if _, err := o.Out.Write(text); err != nil {
		return fmt.Errorf("write explanation: %w", err)
	}
	return nil
}
