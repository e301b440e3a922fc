package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/ask"
	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/verb"
)

// verbManager is the field manager of what the CLI writes: it is a person's, not the reconciler's.
const verbManager = "fleetwright-cli"

// verbOptions are what an operator's verb is asked with.
type verbOptions struct {
	Streams
	Wish ask.Wish
	// Stage to run again from, as typed.
	Stage string
	// DryRun prints the patch and writes nothing.
	DryRun bool
	// Namespace of the reconciler.
	Namespace  string
	Kubeconfig *kubeconfig
	// Now is the clock, for tokens.
	Now func() time.Time
}

// verbCommand is one verb in the help.
type verbCommand struct {
	name, short, example string
	// scoped: the request may name packages, nodes or NodeWrights; staged: also a stage; under: NodeWrights only.
	scoped, staged, under bool
}

var verbCommands = []verbCommand{
	{fleetv1.VerbRetry, "Let failed nodes try again", "fleetwright retry nodewright/base\n  fleetwright retry node/gpu-17 --package tuning", true, false, false},
	{fleetv1.VerbReset, "Forget what is recorded, so that everything runs again; of a whole NodeWright it ends halts",
		"fleetwright reset nodewright/base --dry-run\n  fleetwright reset node/gpu-17 --nodewright base", true, false, false},
	{fleetv1.VerbRerun, "Let packages that are done run again, from a stage on",
		"fleetwright rerun nodewright/base --package tuning --stage config\n  fleetwright rerun nodewright/base --node gpu-17,gpu-18", true, true, false},
	{fleetv1.VerbRegate, "Put the runtime-required taint back on a node, and let everything run again behind it",
		"fleetwright regate node/gpu-17 --dry-run\n  fleetwright regate node/gpu-17 --nodewright base", false, false, true},
	{fleetv1.VerbResume, "Take a pause off, and end halts", "fleetwright resume nodewright/base", false, false, false},
	{ask.Pause, "Stop a NodeWright and those behind it; what runs is suspended", "fleetwright pause nodewright/base", false, false, false},
	{ask.Disable, "Start nothing new for a NodeWright; those behind it go on", "fleetwright disable nodewright/base", false, false, false},
	{ask.Enable, "Enable a NodeWright again", "fleetwright enable nodewright/base", false, false, false},
	{ask.Ignore, "Keep every NodeWright off a node", "fleetwright ignore node/gpu-17", false, false, false},
	{ask.Unignore, "Let NodeWrights work on a node again", "fleetwright unignore node/gpu-17", false, false, false},
	{fleetv1.VerbAbandonUninstall, "Give up an uninstall that fails: the record goes, the files stay",
		"fleetwright abandon-uninstall nodewright/base", false, false, false},
}

func newVerbs(streams Streams) []*cobra.Command {
	out := make([]*cobra.Command, 0, len(verbCommands))
	for _, c := range verbCommands {
		out = append(out, newVerb(streams, c))
	}
	return out
}

func newVerb(streams Streams, c verbCommand) *cobra.Command {
	o := &verbOptions{Streams: streams, Kubeconfig: newKubeconfig(), Now: time.Now}
	o.Wish.Name = c.name
	cmd := &cobra.Command{
		Use: c.name + " (node/NAME | nodewright/NAME) [--dry-run]", Short: c.short, Example: "  " + c.example,
		Long: c.short + ".\n\nOne annotation or label is set on the object, and what will follow is said; the reconciler does the rest. In git the same\n" +
			"annotation does the same.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Wish.Target, err = readTarget(args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	f, r := cmd.Flags(), &o.Wish.Request
	f.BoolVar(&o.DryRun, "dry-run", false, "print the patch and what would follow, and write nothing")
	f.StringVarP(&o.Namespace, "namespace", "n", fleetv1.DefaultNamespace, "namespace of the reconciler and its executions")
	if c.scoped || c.under || c.name == fleetv1.VerbResume || c.name == fleetv1.VerbAbandonUninstall {
		f.StringVar(&r.Token, "id", "", "token that identifies the request: the same one again does nothing (default: the time)")
	}
	if c.scoped {
		f.StringSliceVar(&r.Packages, "package", nil, "only these packages")
		f.StringSliceVar(&r.Nodes, "node", nil, "only these nodes (of a NodeWright)")
	}
	if c.scoped || c.under {
		f.StringSliceVar(&r.NodeWrights, "nodewright", nil, "only under these NodeWrights (of a node)")
	}
	if c.staged {
		f.StringVar(&o.Stage, "stage", "", "the stage to run again from: "+verb.StageNames()+" (default: apply)")
	}
	o.Kubeconfig.bind(cmd)
	return cmd
}

// Run looks at the cluster, says what will follow, and writes the one patch.
func (o *verbOptions) Run(ctx context.Context) error {
	if err := o.Wish.Check(); err != nil {
		return err
	}
	o.Wish.Request.Verb, o.Wish.Request.Stage = o.Wish.Name, nwv1.Stage(o.Stage)
	if o.Wish.Request.Token == "" {
		o.Wish.Request.Token = strconv.FormatInt(o.Now().Unix(), 10)
	}
	config, err := o.Kubeconfig.config()
	if err != nil {
		return err
	}
	change, err := o.plan(ctx, config)
	if err != nil {
		return o.Kubeconfig.unreachable(explain.Word(err))
	}
	if !o.DryRun && !change.Empty() {
		if err := patchTarget(ctx, config, change); err != nil {
			return explain.Word(err)
		}
	}
	if _, err := fmt.Fprint(o.Out, change.Text(!o.DryRun)); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

func (o *verbOptions) plan(ctx context.Context, config *rest.Config) (ask.Change, error) {
	source, err := explain.NewSource(config, o.Namespace, o.Now)
	if err != nil {
		return ask.Change{}, err
	}
	picture, err := source.Gather(ctx, o.Wish.Target)
	if err != nil {
		return ask.Change{}, err
	}
	return ask.Plan(picture.Input(), o.Wish)
}

// patchTarget writes the change.
func patchTarget(ctx context.Context, config *rest.Config, c ask.Change) error {
	if c.Target.Kind == explain.Node {
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("make client: %w", err)
		}
		_, err = kube.CoreV1().Nodes().Patch(ctx, c.Target.Name, types.MergePatchType, c.Patch(), metav1.PatchOptions{FieldManager: verbManager})
		return wrapPatch(err, c)
	}
	scheme, err := adapter.Scheme()
	if err != nil {
		return err
	}
	cl, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	nw := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: c.Target.Name}}
	return wrapPatch(cl.Patch(ctx, nw, client.RawPatch(types.MergePatchType, c.Patch()), client.FieldOwner(verbManager)), c)
}

func wrapPatch(err error, c ask.Change) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("patch %s %s: %w", c.Target.Kind, c.Target.Name, err)
}
