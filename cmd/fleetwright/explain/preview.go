package explain

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
)

// NewSourceFrom asks through clients that are there already; one with a cache as the reconciler's serves it too.
func NewSourceFrom(reader client.Client, kube kubernetes.Interface, namespace string, now func() time.Time) *Source {
	return &Source{reader: reader, kube: kube, namespace: namespace, now: now}
}

// FillPreview puts all of the cluster but its pods into the input of a plan.
func (s *Source) FillPreview(ctx context.Context, in *preview.Input) error {
	seen, notes, err := s.Observe(ctx)
	if err != nil {
		return err
	}
	seen.Settings.Namespace = s.namespace
	in.Source, in.Nodes, in.Ledger, in.Snapshots = preview.Cluster, seen.Nodes, seen.Ledger, seen.Snapshots
	in.Budgets, in.Settings, in.Notes, in.Live = seen.Budgets, seen.Settings, notes, map[string]plan.NodeWright{}
	for _, nw := range seen.NodeWrights {
		in.Live[nw.Name] = nw
	}
	return nil
}
