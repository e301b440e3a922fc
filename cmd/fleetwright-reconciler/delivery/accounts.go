package delivery

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// accounts applies and prunes with the rights of the Fleet's service account. Everything else that is written about a Fleet is the
// reconciler's own.
type accounts struct {
	manager manager.Manager
	own     *cluster.Applier
	// fallback is the account of Fleets that name none; empty: the reconciler's own.
	fallback string

	mu sync.Mutex
	as map[types.NamespacedName]*cluster.Applier
}

func newAccounts(m manager.Manager, fallback string) *accounts {
	return &accounts{
		manager: m, own: cluster.NewApplier(m.GetAPIReader(), m.GetClient()), fallback: fallback, as: map[types.NamespacedName]*cluster.Applier{},
	}
}

// Apply writes the objects as the Fleet's account.
func (a *accounts) Apply(ctx context.Context, fleet *fleetv1.Fleet, revision string, objects []*unstructured.Unstructured) (report.Applied, error) {
	applier, err := a.of(fleet)
	if err != nil {
		return report.Applied{}, err
	}
	return applier.Apply(ctx, fleet, revision, objects)
}

// Prune deletes the objects as the Fleet's account.
func (a *accounts) Prune(ctx context.Context, fleet *fleetv1.Fleet, entries []fleetv1.InventoryEntry) ([]report.Change, error) {
	applier, err := a.of(fleet)
	if err != nil {
		return nil, err
	}
	return applier.Prune(ctx, fleet, entries)
}

func (a *accounts) of(fleet *fleetv1.Fleet) (*cluster.Applier, error) {
	account := types.NamespacedName{Namespace: fleet.Namespace, Name: cmp.Or(fleet.Spec.ServiceAccountName, a.fallback)}
	if account.Name == "" {
		return a.own, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if applier := a.as[account]; applier != nil {
		return applier, nil
	}
	config := rest.CopyConfig(a.manager.GetConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name}
	writer, err := client.New(config, client.Options{Scheme: a.manager.GetScheme(), Mapper: a.manager.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("make client of service account %s: %w", account, err)
	}
	a.as[account] = a.own.As(account, writer)
	return a.as[account], nil
}
