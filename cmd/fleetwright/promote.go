package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/ask"
	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// promoteOptions are what a promotion by hand is asked with.
type promoteOptions struct {
	Streams
	// Namespace and Name of the Fleet.
	Namespace, Name string
	// Commit that is let through, in full or its first digits.
	Commit string
	// DryRun prints the patch and writes nothing.
	DryRun     bool
	Kubeconfig *kubeconfig
	// Now is the clock, for the words about a soak.
	Now func() time.Time
}

func newPromote(streams Streams) *cobra.Command {
	o := &promoteOptions{Streams: streams, Kubeconfig: newKubeconfig(), Now: time.Now}
	cmd := &cobra.Command{
		Use: "promote FLEET --commit SHA [--dry-run]", Short: "Let one commit through that a Fleet holds back for other statuses",
		Example: "  fleetwright promote us-east-1 --commit 3f1bdf1a",
		Long: "Let one commit through that a Fleet holds back for other statuses (spec.promotion).\n\nOne annotation is set on the Fleet; the " +
			"reconciler applies the commit at once, and says that it was let through by hand.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			return o.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Commit, "commit", "", "the commit that is let through, at least its first seven digits (required)")
	f.BoolVar(&o.DryRun, "dry-run", false, "print the patch and what would follow, and write nothing")
	f.StringVarP(&o.Namespace, "namespace", "n", fleetv1.DefaultNamespace, "namespace of the Fleet")
	o.Kubeconfig.bind(cmd)
	return cmd
}

// Run looks at the Fleet, says what will follow, and writes the one patch.
func (o *promoteOptions) Run(ctx context.Context) error {
	config, err := o.Kubeconfig.config()
	if err != nil {
		return err
	}
	scheme, err := adapter.Scheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return o.Kubeconfig.unreachable(err)
	}
	fleet := &fleetv1.Fleet{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, fleet); err != nil {
		return o.Kubeconfig.unreachable(explain.Word(err))
	}
	wish, err := ask.Promote(fleet, o.Commit, o.Now())
	if err != nil {
		return err
	}
	if !o.DryRun {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{fleetv1.PromoteAnnotation: wish.Commit}}})
		if err != nil {
			return fmt.Errorf("encode patch: %w", err)
		}
		if err := c.Patch(ctx, fleet, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(verbManager)); err != nil {
			return fmt.Errorf("patch fleet %s: %w", o.Name, explain.Word(err))
		}
	}
	if _, err := fmt.Fprint(o.Out, wish.Text(!o.DryRun)); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}
