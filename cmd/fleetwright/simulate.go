package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// simulateOptions are what `fleetwright simulate` is asked for. Values are as they were typed; see simulate_flags.go.
type simulateOptions struct {
	Streams
	// Path is an overlay, a directory of manifests, or a file.
	Path string
	// Nodes is how many nodes to imagine; NodesFrom a file with real ones, `-` for standard input.
	Nodes, NodesFrom string
	// NodeWrights to simulate; none means all.
	NodeWrights []string
	// Fail, Flaky are percentages; FailNodes names; FailStage a stage.
	Fail, Flaky, FailStage string
	FailNodes              []string
	// Durations are STEP=DURATION.
	Durations []string
	// MaxNodes is the Fleet's disruption.maxNodes.
	MaxNodes string
	Seed     string
	Start    string
	// Output is text, json or svg.
	Output string
}

func newSimulate(streams Streams) *cobra.Command {
	o := &simulateOptions{Streams: streams}
	cmd := &cobra.Command{
		Use:   "simulate PATH [--nodes 500 | --nodes-from FILE] [--fail 2%] [--duration STEP=DURATION,...] [-o text|json|svg]",
		Short: "Show what a rollout will do, before anything happens",
		Long: `Show what a rollout will do, before anything happens: batches, halts, the time to finish, and the nodes out of service.

PATH is an overlay (a directory with a kustomization.yaml), a directory of manifests, or a file. It is built and checked as
by "fleetwright validate"; errors are printed and nothing is simulated. The reconciler's own planner then decides, over an
imagined cluster in virtual time. Nothing outside of PATH and FILE is read, and no cluster is asked.

Durations are per node. A rollout that halts or does not finish is a result, not an error: the exit code is 0. It is 1 if
there are findings, or if a flag or a file cannot be read.`,
		Example: `  # how long will it take on 500 nodes?
  fleetwright simulate overlays/us-east-1 --nodes 500

  # on the nodes of a cluster, as they are now, if 2 % of them fail
  kubectl get nodes,ledgers -o yaml | fleetwright simulate overlays/us-east-1 --nodes-from - --fail 2%

  # as a chart
  fleetwright simulate overlays/us-east-1 --nodes canary=2,serving=40,training=400 -o svg > rollout.svg`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Path = args[0]
			return o.Run(cmd.Context())
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *simulateOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Nodes, "nodes", "", "imagine so many nodes, spread evenly over all compartments, or COMPARTMENT=COUNT,... (default 100)")
	f.StringVar(&o.NodesFrom, "nodes-from", "", "start from the nodes, and the ledger, in this file, as kubectl get -o yaml or json prints them; - for standard input")
	f.StringSliceVar(&o.NodeWrights, "nodewright", nil, "NodeWright to simulate; may be repeated (default all)")
	f.StringVar(&o.Fail, "fail", "0%", "share of nodes that fail under each NodeWright, by chance")
	f.StringSliceVar(&o.FailNodes, "fail-nodes", nil, "names of nodes that fail")
	f.StringVar(&o.FailStage, "fail-stage", "", "stage in which nodes fail: apply, upgrade, config, interrupt, post-interrupt or uninstall (default the first that runs)")
	f.StringVar(&o.Flaky, "flaky", "0%", "share of executions that fail on good nodes, and are tried again")
	f.StringSliceVar(&o.Durations, "duration", nil, "how long steps take on a node, as STEP=DURATION,... (default "+defaultDurations()+")")
	f.StringVar(&o.MaxNodes, "max-nodes", "", "the Fleet's disruption.maxNodes, such as 5 or 10% (default none)")
	f.StringVar(&o.Seed, "seed", "1", "number that decides what is left to chance")
	f.StringVar(&o.Start, "start", "", "when the rollout begins, such as 2026-01-05T09:00:00Z; it matters to maintenance windows (default now)")
	f.StringVarP(&o.Output, "output", "o", "text", "format of the result: text, json or svg")
}

// Run prints what the simulation comes to.
func (o *simulateOptions) Run(ctx context.Context) error {
	if !slices.Contains([]string{"text", "json", "svg"}, o.Output) {
		return fmt.Errorf("unknown output format %q (allowed: text, json, svg)", o.Output)
	}
	scenario, err := o.scenario()
	if err != nil {
		return err
	}
	state, err := o.readState()
	if err != nil {
		return err
	}
	set, err := o.load(ctx, state.labels())
	if err != nil {
		return err
	}
	if err := o.fill(&scenario, set, state); err != nil {
		return err
	}
	return o.print(simulate.Run(scenario))
}

// fill puts objects and nodes into a scenario.
func (o *simulateOptions) fill(sc *simulate.Scenario, set manifest.Set, state clusterState) error {
	objects := simulate.Objects{NodeWrights: set.NodeWrights, Policies: set.DeploymentPolicies, Packages: set.Packages}
	all := simulate.NodeWrights(objects, state.ledger, state.nodes)
	chosen, err := o.choose(all)
	if err != nil {
		return err
	}
	sc.NodeWrights, sc.Nodes, sc.Ledger = chosen, state.nodes, state.ledger
	if !state.known {
		sizes, err := sizesOf(o.Nodes)
		if err != nil {
			return err
		}
		if sc.Nodes, sc.Imagined, err = simulate.Imagine(chosen, sizes); err != nil {
			return fmt.Errorf("imagine nodes: %w", err)
		}
	}
	for _, name := range o.FailNodes {
		if !slices.ContainsFunc(sc.Nodes, func(n plan.Node) bool { return n.Name == name }) {
			return fmt.Errorf("--fail-nodes: node %q does not exist (allowed: %s)", name, someNames(sc.Nodes))
		}
	}
	return nil
}

// choose picks the NodeWrights that are asked for.
func (o *simulateOptions) choose(all []plan.NodeWright) ([]plan.NodeWright, error) {
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no NodeWright", o.Path)
	}
	if len(o.NodeWrights) == 0 {
		return all, nil
	}
	var names []string
	for _, nw := range all {
		names = append(names, nw.Name)
	}
	for _, name := range o.NodeWrights {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--nodewright: %q does not exist (allowed: %s)", name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(all, func(nw plan.NodeWright) bool { return !slices.Contains(o.NodeWrights, nw.Name) }), nil
}

func someNames(nodes []plan.Node) string {
	const most = 3
	var names []string
	for _, n := range nodes {
		if len(names) == most {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(nodes)-most)
		}
		names = append(names, n.Name)
	}
	return strings.Join(names, ", ")
}

func (o *simulateOptions) print(r simulate.Result) error {
	var text string
	switch o.Output {
	case "json":
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("write result: %w", err)
		}
		text = string(data) + "\n"
	case "svg":
		text = simulate.Chart(r)
	default:
		text = count(r.Nodes, "node") + " of " + o.NodesFrom + "\n"
		if r.Imagined != nil {
			text = simulate.TextOfGroups(r.Nodes, r.Imagined)
		}
		text += "\n" + simulate.Text(r)
	}
	if _, err := fmt.Fprint(o.Out, text); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
