package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
)

// pullCluster reads the cluster as `fleetwright plan` does.
type pullCluster struct {
	source *explain.Source
	tool   string
	now    func() time.Time
}

// visits bounds the prediction of a plan: a fifth of what the command line takes, as here nobody waits for one plan alone.
const visits = 4_000_000

// Look reads everything but pods.
func (c pullCluster) Look(ctx context.Context, fleet *fleetv1.Fleet) (preview.Input, string, error) {
	in := preview.Input{Tool: c.tool, Visits: visits, Start: c.now().UTC().Truncate(time.Second)}
	if err := c.source.FillPreview(ctx, &in); err != nil {
		return in, "", explain.Word(err)
	}
	in.Fleet, in.Limits = client.ObjectKeyFromObject(fleet).String(), fleet.Spec.Scope
	digest, err := digestOf(in)
	return in, digest, err
}

// AddPods reads the pods of some nodes.
func (c pullCluster) AddPods(ctx context.Context, in *preview.Input, nodes []string) error {
	in.PodsKnown = true
	if len(nodes) == 0 {
		return nil // none matters
	}
	if err := c.source.AddPods(ctx, in.Nodes, nodes); err != nil {
		return explain.Word(err)
	}
	return nil
}

// digestOf is a hash of what a plan depends on, without what changes all the time and decides nothing.
func digestOf(in preview.Input) (string, error) {
	h := sha256.New()
	for i := range in.Nodes {
		if err := addNode(h, &in.Nodes[i]); err != nil {
			return "", err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Live)) {
		nw := in.Live[name]
		fmt.Fprintln(h, nw.Name, nw.UID, nw.Generation, nw.Paused, nw.Disabled, nw.Scope)
	}
	for _, b := range in.Budgets {
		fmt.Fprintln(h, b.Name, b.Scope)
		if err := json.NewEncoder(h).Encode([]*int32{b.Count, b.Percent}); err != nil {
			return "", fmt.Errorf("hash budget: %w", err)
		}
	}
	if err := json.NewEncoder(h).Encode(in.Ledger); err != nil {
		return "", fmt.Errorf("hash ledger: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func addNode(h hash.Hash, n *plan.Node) error {
	fmt.Fprintln(h, n.Name, n.UID, n.Labels, n.Taints, n.Unschedulable, n.Ready, n.CordonOwners)
	for _, name := range slices.Sorted(maps.Keys(n.Records)) {
		record := n.Records[name]
		fmt.Fprintln(h, name, record.Round, record.Batch, record.Started, record.Outcome)
		if err := json.NewEncoder(h).Encode(record.Packages); err != nil {
			return fmt.Errorf("hash record: %w", err)
		}
	}
	return nil
}
